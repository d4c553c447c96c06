// Package shards is the write side of distributed counters on Firestore: it makes counters, adds to
// them, and reads them.
//
// A document takes about one write a second, so a counter's value is spread over shard documents.
// The layout is the one of Google's public "distributed counters" page, so its clients and this
// package may share counters.
//
// Increments that are made at the same time share a commit, which goes to one random shard. A call
// returns only after its commit, and one that finds no other in flight is committed at once. A
// counter that is contended or missing is no trouble for others.
//
// Every commit creates a marker document beside the increment. When its answer is lost, the marker
// is created alone: that fails where the commit was applied, and where it succeeds, the commit
// never will be, and the increment goes into another. Callers who may repeat a request themselves
// give it a [Key].
//
// [Counter.Join] counts a member once, ever, until [Counter.Leave] takes it off: a membership
// document is made or deleted in the commit that counts. Both may be repeated.
//
// [Counter.Get] reads the total that package rollup keeps, in one document read; it lags by about
// a second. [Counter.Cached] has it from memory for a second more. [Counter.Sum] adds up the
// shards, and is exact.
package shards
