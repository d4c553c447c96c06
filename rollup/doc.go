// Package rollup keeps the total of a sharded counter, the sum of its shards in one field, exact whatever happens to the events
// that tell of them.
//
// An event is read as a state: what a shard holds, as of the document's own update time. A ledger beside the counter keeps,
// per shard, the newest state that the total holds already. To roll up a newer one is to add the difference between the two
// to the total and to enter the newer in the ledger, in one commit, on condition that the ledger is still as it was read. So an
// event that comes twice or late changes nothing, and the next state of a shard makes up for one that never came.
//
// [Roller] gathers the states of a counter and flushes them in one commit, at once where the counter was quiet and otherwise
// at most once per interval. A newer state supersedes those of its shard that wait, whose events are done at once: its own is
// acknowledged only after its flush, and comes again where the process dies before.
//
// [Client.Reconcile] compares a total with the sum of the shards and corrects it, where events never came or something else
// wrote the total. A counter without a ledger, which other code has made, gets one with its first event or reconcile.
//
// A field may count documents instead, such as comments=count(comments). Then an event only says that something has changed:
// the value is what a query says that has begun after the event came, and the newest read time wins.
package rollup
