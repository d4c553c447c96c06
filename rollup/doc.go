// Package rollup keeps the totals of sharded counters exact, no matter what happens to the events
// about their shards.
//
// An event is read as a state: what a shard holds, as of the document's own update time. A ledger
// beside the counter keeps the newest state of each shard, and a total is the sum of these. A flush
// writes newer states into the ledger, and adds the difference to the total in the counter's
// document, in one commit, on condition that the ledger is still as it was read. So an event that
// comes twice or late changes nothing, and the shard's next state covers one that never came. The
// commit's answer says what the document shows afterwards. If another program has written something
// else there, one more commit sets it. If the document is missing, the ledger counts alone.
//
// [Roller] gathers a counter's states, and flushes them in one commit: a quiet counter's first few at
// once, then one per interval. A newer state replaces a waiting one of its shard, whose event is
// acknowledged at once. The newer one's is acknowledged after its flush; if the process dies before, it
// comes again.
//
// Of the instances that share a counter one speaks for all: its flush counts a snapshot of the shards,
// and the others acknowledge what that covers. It does so, too, while events come late.
//
// [Client.Reconcile] compares the totals with the sums of the shards, and corrects them if events
// never came or something else wrote a total. A counter without a ledger, which other code has made,
// gets one with its first event or reconcile.
//
// A field may show the answer of a query instead, such as comments=count(comments). Then an event
// only says that something has changed, and a query that begins after the event gives the number.
// The answer goes into the ledger with the next flush. The answer with the newest read time counts.
package rollup

// The files in the order in which they are read: each uses what is declared below it.
//
//	roller.go         events wait here for a flush of their counter, or a recount
//	flush.go          states and answers are counted
//	speak.go          a flush speaks for other instances, or follows
//	reconcile_all.go  counters are reconciled: one, some, or all
//	notes.go          counters whose events can't be counted: a note, and its reconcile
//	reconcile.go      a ledger is corrected by its shards
//	adopt.go          a counter gets a ledger
//	ask.go            queries of fields that count documents
//	clock.go          what comes from the future
//	decode.go         an event is read
//	change.go         what it brings
//	problem.go        what is wrong with shards
//	report.go         what a reconcile is asked, and what it tells
//	client.go         the client, and the ledgers that it remembers
//	coalesce.go       which states are flushed together, and when
//	recounts.go       which queries are asked, and when
//	speaker.go        when a flush takes a snapshot, and who pays
//	schedule.go       what is due starts, so many at a time
//	batch.go          what a flush is handed, and what becomes of it
//	log.go            messages that metrics look for
//	errors.go         what a call returns
