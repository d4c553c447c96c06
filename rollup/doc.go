// Package rollup keeps the totals of sharded counters exact, no matter what happens to the events about their shards.
//
// A total is an answer: what Firestore says that the shards hold, all at one time. An event says one thing: fields of
// a counter have changed. A refresh asks what each of them holds, computes the delta, before (what the document shows)
// and after (the base and the answer), and applies it as an increment, with the time of the answer beside it, in one
// commit, on condition that the document is still the version that was read. So an event that comes twice or late
// changes nothing, and any later event of the field brings what one that never came would have.
//
// An event is done once its fields are shown as of its write or later, or were asked for since it came. [Roller]
// gathers events: a quiet counter is refreshed at once, a hot one once per interval, from memory. The document says
// from when on it may be refreshed again, so that all instances together write it about once per interval: one goes on,
// the others look, and find that their events are shown.
//
// A field may show the answer of a query instead, such as comments=count(comments). It is asked as often as its events
// are worth its reads, and shown like a sum: as of its own time, on whatever version the document has by then.
//
// [Client.Reconcile] is a refresh without an event, and says what is wrong with the shards.
package rollup

// The files in the order in which they are read: each uses what is declared below it.
//
//	roller.go         events wait here for a refresh of their counter, or a recount; what is logged of these
//	reconcile_all.go  counters are reconciled: one, those that are noted because events can't be counted, some, or all
//	reconcile.go      a refresh without an event: what it is asked, and tells; what is wrong with shards
//	refresh.go        what is asked, and shown: sums of shards, also of a busy counter's, and queries of documents
//	pace.go           which events are refreshed together, when queries are asked, and what becomes of events
//	decode.go         an event is read, and what it says
//	client.go         the client, what it remembers, its errors and its log
