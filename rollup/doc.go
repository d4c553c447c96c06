// Package rollup keeps the total of a sharded counter: it turns changes of shard documents into exactly one count each,
// whatever order and however often their events arrive.
//
// # States and the ledger
//
// A blind roll-up adds after minus before for every event, and drifts with every event that comes twice or never.
// Here an event is read as a [State]: what a shard held, and since when by the document's own update time. Beside each
// counter lies a ledger, which keeps the newest state of each shard that is already in the total. Applying a state adds
// what it holds beyond the ledger's and takes its place there, in one commit, on condition that nobody else has written
// the ledger since it was read. A state that is not newer than the ledger's adds nothing.
//
// The ledger is thus a last-writer-wins map: applying is idempotent, commutative and associative. A repeated event
// changes nothing, a late one is passed over, a lost one is made up for by the next state of the same shard, and a
// commit whose answer was lost is simply applied again.
//
// # Coalescing
//
// [Roller] gathers the states that arrive for a counter and flushes them together: at once where the counter was quiet,
// and otherwise at most once per interval, so that the counter's document takes about one write a second, however many
// shards are written. An event is acknowledged only after the flush that holds it has committed.
//
// # Reconcile
//
// [Client.Reconcile] compares a counter's total with the sum of its shards and puts it right, safely at any moment.
// It makes up for events that never came, and for totals that somebody else wrote.
package rollup
