package rollup

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// snapshot is all shards of a counter as they were at one time.
type snapshot struct {
	ledger.Snapshot
	numbered int    // the highest number of a shard, plus one
	problem  string // what is wrong with shards that hold no integer; empty when they all do
}

// snapshot reads every shard's state, at one time and without locks.
func (c *Client) snapshot(ctx context.Context, counter string, at time.Time) (snapshot, error) {
	docs, err := c.db.Documents(ctx, store.Query{Collection: c.db.ShardsOf(counter), At: at})
	if err != nil {
		return snapshot{}, fmt.Errorf("read shards: %w", err)
	}
	return snapshotOf(at, docs, c.db.Fields), nil
}

func snapshotOf(at time.Time, docs []*firestorepb.Document, fields layout.Fields) snapshot {
	s := snapshot{Snapshot: ledger.Snapshot{At: at}}
	counted := 0                      // shards that have one of the fields
	integers := map[string]struct{}{} // fields that hold an integer where a shard has none of them
	var problems []string
	odd := make(map[string][]string) // :: field → ids of shards in which it is not an integer
	for _, doc := range docs {
		id := path.Base(doc.GetName())
		s.numbered = max(s.numbered, layout.Numbered(id))
		state := ledger.State{Shard: id, Counts: make(ledger.Counts, len(fields)), AsOf: doc.GetUpdateTime().AsTime()}
		has := false
		for _, field := range fields {
			value := doc.GetFields()[field.Shard]
			has = has || value != nil
			if count, ok := store.Integer(value); ok {
				state.Counts[field.Name] = count
			} else {
				odd[field.Shard] = append(odd[field.Shard], id)
			}
		}
		s.States = append(s.States, state)
		if has {
			counted++
			continue
		}
		for name, v := range doc.GetFields() {
			if _, ok := store.Integer(v); ok {
				integers[name] = struct{}{}
			}
		}
	}
	for _, field := range fields {
		if ids := odd[field.Shard]; len(ids) > 0 {
			problems = append(problems, fmt.Sprintf("%q is not an integer in %s", field.Shard, list("shard", ids)))
		}
	}
	if counted == 0 && len(docs) > 0 {
		problems = append(problems, uncounted(fields, slices.Sorted(maps.Keys(integers))))
	}
	s.problem = strings.Join(problems, "; ")
	return s
}

// uncounted says that no shard has any of the fields, and what they have instead.
func uncounted(fields layout.Fields, integers []string) string {
	var names []string
	for _, field := range fields {
		names = append(names, strconv.Quote(field.Shard))
	}
	problem := "shards hold no integer " + strings.Join(names, " or ")
	switch {
	case len(integers) == 1:
		problem += fmt.Sprintf(", but %q: set FIELDS=%s=%s", integers[0], fields[0].Name, integers[0])
	case len(integers) > 1:
		problem += ", but in other fields, which FIELDS may name: " + strings.Join(integers, ", ")
	}
	return problem
}

// ledger is a new ledger of what the snapshot holds.
func (s snapshot) ledger(fields layout.Fields) *ledger.Ledger {
	l := &ledger.Ledger{Sums: make(map[string]*ledger.Sum, len(fields))}
	for _, field := range fields {
		name := field.Name
		sum := &ledger.Sum{Field: field.Shard, Shards: make(map[string]ledger.Entry, len(s.States))}
		for _, state := range s.States {
			if count, ok := state.Counts[name]; ok {
				sum.Shards[ledger.Key(state.Shard)] = ledger.Entry{Count: count, AsOf: state.AsOf}
			}
		}
		l.Sums[name] = sum
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
