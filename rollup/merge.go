package rollup

import (
	"time"

	"github.com/firestore-counters/counters/internal/schema"
)

// merge tells what states add to a total that the ledger accounts for, and which of the ledger's entries they replace.
// Of several states of a shard the newest counts. A shard that the ledger doesn't know counts as 0 since floor: the
// ledger's own create time for events, so that late ones of an earlier counter under the same id count nothing, and
// the zero time for a snapshot, which is no older than the ledger as a whole. The ledger itself is left as it is.
func merge(l *schema.LedgerDoc, floor time.Time, states []State) (changed map[string]schema.Entry, delta int64) {
	for _, s := range states {
		known, ok := changed[s.Shard]
		if !ok {
			if known, ok = l.Shards[s.Shard]; !ok {
				known.AsOf = floor
			}
		}
		if !s.AsOf.After(known.AsOf) {
			continue
		}
		if changed == nil {
			changed = make(map[string]schema.Entry, len(states))
		}
		delta += s.Count - known.Count
		changed[s.Shard] = schema.Entry{Count: s.Count, AsOf: s.AsOf}
	}
	return changed, delta
}
