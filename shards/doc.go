// Package shards is the write side of distributed counters on Firestore: it makes counters, adds to
// them, and reads them.
//
// A document takes about one write a second, so a counter's value is spread over shard documents.
// The documents are those of Google's public "distributed counters" page, so its clients and this
// package can share counters.
//
// Increments that come at the same time share a commit, which goes to one random shard. A call
// returns after its commit. If no commit of the counter is in flight, the next begins at once. A
// busy or missing counter doesn't slow others down.
//
// Every commit creates a marker document beside the increment. If the commit's answer is lost, this
// package creates the marker alone. If that fails because the marker exists, the commit was
// applied. If it succeeds, the commit can never be applied, and the increment goes into another. If
// you repeat a request yourself, give it a [Key].
//
// [Counter.Join] counts a member once, until [Counter.Leave] takes that back: the commit that counts
// also makes or deletes a membership document. You may repeat both.
//
// [Counter.Get] reads the total that package rollup keeps, in one document read; it is about a
// second old. [Counter.Cached] reads it from memory, for another second. [Counter.Sum] adds up the
// shards, and is exact.
package shards
