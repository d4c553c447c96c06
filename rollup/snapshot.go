package rollup

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// snapshot is all shards of a counter as they were at one time.
type snapshot struct {
	ledger.Snapshot
	numbered int64  // the highest number of a shard, plus one
	problem  string // what is wrong with shards that hold no integer; empty when they all do
}

// snapshot reads every shard's state, at one time and without locks.
func (c *Client) snapshot(ctx context.Context, counter string, at time.Time) (snapshot, error) {
	docs, err := c.db.Documents(ctx, store.Query{Collection: c.db.ShardsOf(counter), At: at})
	if err != nil {
		return snapshot{}, fmt.Errorf("read shards: %w", err)
	}
	return snapshotOf(at, docs, c.db.CountField), nil
}

func snapshotOf(at time.Time, docs []*firestorepb.Document, countField string) snapshot {
	s := snapshot{Snapshot: ledger.Snapshot{At: at}}
	counted := 0                    // shards that have the field
	others := map[string]struct{}{} // fields that hold an integer where a shard has no count
	for _, doc := range docs {
		id := path.Base(doc.GetName())
		s.numbered = max(s.numbered, numberOf(id)+1)
		value := doc.GetFields()[countField]
		count, ok := store.Integer(value)
		if !ok {
			s.Odd = append(s.Odd, id)
			continue
		}
		s.States = append(s.States, ledger.State{Shard: id, Count: count, AsOf: doc.GetUpdateTime().AsTime()})
		if value != nil {
			counted++
			continue
		}
		for name, v := range doc.GetFields() {
			if _, ok := store.Integer(v); ok {
				others[name] = struct{}{}
			}
		}
	}
	switch {
	case len(s.Odd) > 0:
		s.problem = fmt.Sprintf("%q is not an integer in %s", countField, list("shard", s.Odd))
	case counted == 0 && len(others) == 1:
		for name := range others {
			s.problem = fmt.Sprintf("shards hold no integer %q, but %q: set COUNT_FIELD=%s", countField, name, name)
		}
	case counted == 0 && len(others) > 1:
		s.problem = fmt.Sprintf("shards hold no integer %q, but others, of which COUNT_FIELD may name one: %s",
			countField, strings.Join(slices.Sorted(maps.Keys(others)), ", "))
	case counted == 0 && len(docs) > 0:
		s.problem = fmt.Sprintf("shards hold no integer %q", countField)
	}
	return s
}

// ledger is a new ledger of what the snapshot holds.
func (s snapshot) ledger() *ledger.Ledger {
	l := &ledger.Ledger{Shards: make(map[string]ledger.Entry, len(s.States))}
	for _, state := range s.States {
		l.Shards[ledger.Key(state.Shard)] = ledger.Entry{Count: state.Count, AsOf: state.AsOf}
	}
	return l
}

// list names the first few of several.
func list(what string, ids []string) string {
	const few = 5
	quoted := make([]string, min(len(ids), few))
	for i := range quoted {
		quoted[i] = fmt.Sprintf("%.40q", ids[i])
	}
	text := strings.Join(quoted, ", ")
	if len(ids) > 1 {
		what += "s"
	}
	if more := len(ids) - len(quoted); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return what + " " + text
}
