// Package shards is the write side of distributed counters on Firestore: it makes counters, adds to them, and reads
// them.
//
// A document takes about one write a second, so a counter's value is spread over shard documents, and each write goes to
// one of them at random. The layout is the one of Google's public "distributed counters" page, so its clients and this
// package may share counters.
//
// # Group commit
//
// Increments of one counter that are made at the same time share a commit. While one commit is in flight the next batch
// gathers; it goes to one random shard as one increment by their sum. A call returns only after its commit, and a call
// that finds nothing in flight is committed at once. A thousand increments a second at ten milliseconds a commit take
// a hundred commits a second, whatever the number of callers. Where so many wait that another commit costs next to
// nothing for each, up to four are in flight.
//
// Different counters share commits too, once a few are in flight: a request waits for one of those to end, and ten
// milliseconds at most. A counter that is contended, unknown or missing leaves such a commit and goes alone, so that no
// counter's trouble is another's.
//
// # Exactly once
//
// When a commit's answer is lost, it may have been applied or not, and sending a plain increment again may count it
// twice. Every commit therefore creates a marker document beside the increment. After a doubtful answer the same commit
// goes again, with the same marker: if the first one was applied, the second fails on the marker, and counts nothing.
// Before a call is told that nothing was counted, the marker is made alone: then no commit on its way can count any more.
// Callers who may repeat a request themselves give it a [Key], whose marker does the same for the whole request.
//
// # Members
//
// [Counter.Join] counts a member once, ever, until [Counter.Leave] takes it off: a membership document is made or deleted in
// the commit that counts. Both may be repeated. What a field's shards hold is the number of its members and what was
// incremented otherwise, at any moment; [Counter.Audit] compares the two.
//
// # Reading
//
// [Counter.Get] reads the total that the roll-up keeps (package rollup), in one document read; it lags by about a second.
// [Counter.Cached] has it from memory for a second more. [Counter.Sum] adds up the shards on the server, and is exact.
package shards
