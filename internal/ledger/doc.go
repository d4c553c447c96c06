// Package ledger is the idea of the project: what a counter's totals are made of.
//
// Each counter has a ledger. For each shard, the ledger holds the newest state that is already in
// the totals: what the shard held at the document's own update time. For each query that counts
// documents, it holds the newest answer: a number, and the query's read time. Both are a value with
// a time from Firestore, and both follow one rule: the newer replaces the whole older one.
//
//	total(field) = base + the states' counts of the field, or the answer
//
// So an event that comes twice, late or out of order changes nothing. If an event never comes, the
// next state of its shard covers it. Merging is idempotent, commutative and associative.
//
// A state holds every integer field of its shard, whether the counter's document shows it or not.
// So a field that FIELDS shows from today on is right with the next roll-up.
//
// If events are lost for good, a [Snapshot] of all shards corrects the ledger: [Ledger.Correct].
//
// Everything here is pure: no client, no clock, no logger, and nothing of Firestore. Package book
// reads and writes the ledger's document, package rollup merges states and answers, package shards
// carries out commands.
//
// Begin with ledger.go. The files in the order in which they are read; each uses what is declared below it:
//
//	snapshot.go  what all shards at one time correct
//	ledger.go    states, answers, and how they merge
//	diff.go      what either changes
//	wide.go      sums that saturate
package ledger
