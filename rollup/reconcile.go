package rollup

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/googleapis/gax-go/v2"

	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// Report is what a reconcile found of one counter, and did about it.
type Report struct {
	Counter string `json:"counter"`
	Before  int64  `json:"before"` // its total before
	After   int64  `json:"after"`  // its total now, or what it would be

	// Late is how much of the difference was states that no event had brought yet: lost ones, and ones on their way.
	Late int64 `json:"late"`
	// Drift is the rest: what the total had that neither its shards nor its base account for, so that somebody else
	// must have written it. It was taken off.
	Drift int64 `json:"drift"`
	// Shards is how many of the ledger's entries were brought up to date.
	Shards int `json:"shards"`

	Adopted bool `json:"adopted,omitempty"` // it had no ledger
	Gone    bool `json:"gone,omitempty"`    // there is no such counter
}

// Repaired reports whether anything had to be done.
func (r Report) Repaired() bool { return r.Adopted || r.Late != 0 || r.Drift != 0 || r.Shards != 0 }

// Reconcile puts a counter right if its total is not what its shards and its base add up to. A counter that is right
// costs two reads and an aggregation (one read per 1,000 shards). With dryRun it only says what it would do. It is safe
// at any moment, beside increments, events, commands and another reconcile. Errors: [ErrContention]; anything else is
// the client library's, and the call may be repeated.
func (c *Client) Reconcile(ctx context.Context, counter string, dryRun bool) (Report, error) {
	r, err := c.reconcile(ctx, counter, dryRun)
	if err != nil {
		return r, fmt.Errorf("reconcile counter %q: %w", counter, err)
	}
	if r.Drift != 0 && !dryRun {
		c.log.WarnContext(ctx, LogDrift, "counter", counter, "drift", r.Drift)
	}
	return r, nil
}

func (c *Client) reconcile(ctx context.Context, counter string, dryRun bool) (Report, error) {
	r := Report{Counter: counter}
	docs, readTime, err := c.db.Get(ctx, c.db.LedgerOf(counter), c.db.Counter(counter))
	if err != nil {
		return r, err
	}
	total := docs[1].GetFields()[store.Total].GetIntegerValue()
	r.Before, r.After = total, total
	if docs[0] == nil {
		return c.reconcileUnadopted(ctx, r, dryRun)
	}
	if docs[1] == nil {
		r.Gone = true // deleted by hand: what is left below it counts for nothing
		return r, nil
	}
	if !ledger.Of(docs[0], docs[1]) {
		return c.reconcileUnadopted(ctx, r, dryRun)
	}
	l, err := ledger.Decode(docs[0])
	if err != nil {
		return r, err
	}
	value, err := c.db.Sum(ctx, c.db.ShardsOf(counter), c.db.CountField, time.Time{})
	if err != nil {
		return r, fmt.Errorf("sum shards: %w", err)
	}
	if sum, exact := value.GetIntegerValue(), isInteger(value); exact && total == l.Base+sum && isInteger(docs[1].GetFields()[store.Total]) {
		return r, nil
	}
	snap, err := c.snapshot(ctx, counter, readTime)
	if err != nil {
		return r, fmt.Errorf("read shards: %w", err)
	}
	var doubted Report // what a commit was to do whose answer was lost
	pause := store.Pauses()
	for range 2 * attempts {
		r, err = c.applySnapshot(ctx, counter, snap, dryRun)
		if err == nil {
			if !r.Repaired() && doubted.Repaired() {
				return doubted, nil // it was applied
			}
			return r, nil
		}
		if store.KindOf(err) == store.Doubtful {
			doubted = r
		}
		if errors.Is(err, ledger.ErrDamaged) {
			return r, err
		}
		switch store.KindOf(err) {
		case store.Conflict: // somebody else's commit came first: again at once
		case store.Contention, store.Doubtful:
			if err := gax.Sleep(ctx, pause.Pause()); err != nil {
				return r, err
			}
		default:
			return r, err
		}
	}
	return r, fmt.Errorf("%w: %w", ErrContention, err)
}

// reconcileUnadopted is for a counter without a ledger: adoption sets its total from its shards.
func (c *Client) reconcileUnadopted(ctx context.Context, r Report, dryRun bool) (Report, error) {
	if dryRun {
		snap, err := c.snapshot(ctx, r.Counter, time.Time{})
		if err != nil {
			return r, err
		}
		docs, _, err := c.db.Get(ctx, c.db.Counter(r.Counter))
		if err != nil {
			return r, err
		}
		r.Adopted = docs[0] != nil || len(snap.there) > 0
		r.After = 0
		for _, s := range snap.states {
			r.After += s.Count
		}
	} else {
		var err error
		if r.Adopted, err = c.adopt(ctx, r.Counter); err != nil {
			return r, fmt.Errorf("adopt: %w", err)
		}
		docs, _, err := c.db.Get(ctx, c.db.Counter(r.Counter))
		if err != nil {
			return r, err
		}
		r.After = docs[0].GetFields()[store.Total].GetIntegerValue()
	}
	r.Gone = !r.Adopted
	r.Late = r.After - r.Before
	return r, nil
}

// applySnapshot brings the ledger and the total in line with a snapshot, in one commit on condition that both documents
// are still what was read.
func (c *Client) applySnapshot(ctx context.Context, counter string, snap snapshot, dryRun bool) (Report, error) {
	r := Report{Counter: counter}
	docs, _, err := c.db.Get(ctx, c.db.LedgerOf(counter), c.db.Counter(counter))
	if err != nil {
		return r, err
	}
	if docs[0] == nil || docs[1] == nil {
		r.Gone = true // deleted meanwhile
		return r, nil
	}
	if !ledger.Of(docs[0], docs[1]) {
		return r, nil
	}
	l, err := ledger.Decode(docs[0])
	if err != nil {
		return r, err
	}
	value := docs[1].GetFields()[store.Total]
	r.Before = value.GetIntegerValue()
	r.After = r.Before
	if !snap.at.After(l.Created) {
		return r, nil // a snapshot of an earlier counter says nothing about this one
	}
	changed, delta := l.Merge(time.Time{}, snap.statesFor(l))
	r.After = l.Sum() + delta
	r.Late, r.Drift, r.Shards = delta, r.Before-l.Sum(), len(changed)
	if dryRun || len(changed) == 0 && r.Drift == 0 && isInteger(value) {
		return r, nil
	}
	fields, mask := ledger.EntryFields(changed)
	_, err = c.db.Commit(ctx, []*firestorepb.Write{
		store.Update(c.db.LedgerOf(counter), store.UpdatedAtTime(l.Updated), fields, mask),
		store.Update(c.db.Counter(counter), store.UpdatedAtTime(docs[1].GetUpdateTime().AsTime()),
			map[string]*firestorepb.Value{store.Total: store.Int(r.After)}, []string{store.Total}, store.ServerTime(store.UpdatedAt)),
	})
	return r, err
}

// snapshot is all shards of a counter as they were at one time.
type snapshot struct {
	at     time.Time
	states []State
	there  map[string]bool // :: ids of all shards, those whose count is not an integer included
}

// statesFor are the states of a snapshot, and those of shards that only the ledger has: at that time they were gone.
func (s snapshot) statesFor(l *ledger.Ledger) []State {
	states := s.states[:len(s.states):len(s.states)]
	for id := range l.Shards {
		if !s.there[id] {
			states = append(states, State{Shard: id, AsOf: s.at})
		}
	}
	return states
}

// snapshot reads every shard's state, at one time and without locks. The zero time is now.
func (c *Client) snapshot(ctx context.Context, counter string, at time.Time) (snapshot, error) {
	s := snapshot{at: at, there: map[string]bool{}}
	docs, err := c.db.Documents(ctx, store.Query{Collection: c.db.ShardsOf(counter), At: at})
	if err != nil {
		return s, err
	}
	for _, doc := range docs {
		s.there[path.Base(doc.GetName())] = true
		if state, ok := c.state(counter, doc); ok {
			s.states = append(s.states, state)
		}
	}
	return s, nil
}

func isInteger(v *firestorepb.Value) bool {
	_, ok := v.GetValueType().(*firestorepb.Value_IntegerValue)
	return ok
}
