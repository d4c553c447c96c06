// Package ledger is the idea of the project: what a counter's totals are made of.
//
// Beside each counter lies a ledger. It holds, per counted field and shard, the newest state that is already counted in the
// field's total: what the shard held, as of the document's own update time. An event brings a state too. Counting it adds
// the difference between the two to the total, and enters the newer one:
//
//	known = ledger[field][shard], or (0, the floor)
//	state is newer than known:  total += state.count - known.count;  ledger[field][shard] = state
//
// So an event that comes twice, late or out of order changes nothing, and the next state of its shard makes up for one that
// never came. A ledger is a last-writer-wins map: merging states is idempotent, commutative and associative.
//
// Each field of a shard has its own time. With one for the whole shard, a revision of the functions that doesn't know a field
// yet would move it on, and what the field held by then would be passed over for good.
//
// What events can't bring, a [Snapshot] of all shards does: [Ledger.Correct].
//
// Everything here is pure: no client, no clock, no logger. Package rollup reads ledgers, merges states into them and
// commits both with the totals; package shards writes them when it creates, resets or imports.
//
// ledger.go is the idea: states, sums and how they merge. snapshot.go is what all shards at one time correct, diff.go what
// either changes, counted.go the fields that count documents, wide.go sums that saturate, codec.go the document.
package ledger
