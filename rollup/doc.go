// Package rollup keeps the totals of a sharded counter exact, whatever happens to the events that
// tell of its shards.
//
// An event is read as a state: what a shard holds, as of the document's own update time. A ledger
// beside the counter keeps the newest state of each shard, and a total is what these add up to. A
// flush writes newer states into the ledger, and adds the difference to the total that the
// counter's document shows, in one commit, on condition that the ledger is still as it was read. So
// an event that comes twice or late changes nothing, and the next state of a shard makes up for one
// that never came. The commit's answer says what the document shows afterwards: where that is
// something else, because another program wrote it, one more commit sets it. Where the document is
// missing, the ledger counts alone.
//
// [Roller] gathers the states of a counter and flushes them in one commit: the first few at once
// where the counter was quiet, and otherwise once per interval. A newer state supersedes those of
// its shard that wait, whose events are acknowledged at once: its own event is acknowledged only
// after its flush, and comes again where the process dies before.
//
// [Client.Reconcile] compares the totals with the sums of the shards and corrects them, where
// events never came or something else wrote a total. A counter without a ledger, which other code
// has made, gets one with its first event or reconcile.
//
// A field may show the answer of a query instead, such as comments=count(comments). Then an event
// only says that something has changed, and a query is asked that begins after the event came. Its
// answer goes into the ledger with the next flush, and of several answers the one with the newest
// read time counts.
package rollup
