// Package ledger is the idea of the project: what a counter's totals are made of.
//
// Beside each counter lies a ledger. It holds, of each shard, the newest state that is already in
// the totals: what the shard held, as of the document's own update time. Of each query that counts
// documents it holds the newest answer: a number, as of the query's read time. Both are a value
// with a time of Firestore's own, and one law governs them: the newer replaces the older, whole.
//
//	total(field) = base + the states' counts of the field, or the answer
//
// So an event that comes twice, late or out of order changes nothing, and the next state of its
// shard makes up for one that never came. Merging is idempotent, commutative and associative.
//
// A state holds every integer field of its shard, shown in the counter's document or not. So a
// field that is shown from today on is right with the next roll-up.
//
// What events can't bring, a [Snapshot] of all shards does: [Ledger.Correct].
//
// Everything here is pure: no client, no clock, no logger, and nothing of Firestore. Package book
// reads and writes the document that a ledger lies in, package rollup merges states and answers,
// package shards carries out commands.
//
// ledger.go is the idea: states, answers and how they merge. snapshot.go is what all shards at one
// time correct, diff.go what either changes, wide.go sums that saturate.
package ledger
