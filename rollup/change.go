package rollup

import (
	"context"
	"fmt"
	"time"

	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// Change is one change of a shard's document, as an event brings it, or of a document in a
// collection that a query counts.
type Change struct {
	Counter string // id of the counter
	Shard   string // id of the shard; empty of another document

	// which documents the query counts, as FIELDS has it: comments, or /comments where
	// post=={post}; empty for a shard
	Collection string
	Document   string // id of that document; its path where it names its counter itself

	// Before is nil when the change created the document, and After when it deleted it: of one that
	// names its counter, when the document has come to this counter, and when it has left it. Where
	// both are nil, it isn't known what it did: see [Client.Named].
	Before, After *Version
}

// Version is one version of a document.
type Version struct {
	// what a shard holds: its integer fields, by their names, without zeros
	Counts  map[string]int64
	Odd     []string  // its fields that are no integers, which no event can count
	Updated time.Time // the document's update time, in microseconds
}

// state is what the shard holds after the change.
//
// A deleted shard holds nothing, a microsecond after the old version's update time. The platform
// doesn't say whether that time is the version's before or the deletion's own, and examples of both
// are about; either way the state sorts after everything the document held before, and before
// whatever is made under its name later. Neither our clock nor the event's is asked.
func (c Change) state() ledger.State {
	if c.After == nil {
		return ledger.State{Shard: c.Shard, AsOf: c.Before.Updated.Add(time.Microsecond), Gone: true}
	}
	return ledger.State{Shard: c.Shard, AsOf: c.After.Updated, Counts: c.After.Counts, Odd: c.After.Odd}
}

// known reports whether the change says what it did.
func (c Change) known() bool { return c.Before != nil || c.After != nil }

// updated is the newest update time in the change; the zero time where it isn't known.
func (c Change) updated() time.Time {
	switch {
	case c.After != nil:
		return c.After.Updated
	case c.Before != nil:
		return c.Before.Updated
	}
	return time.Time{}
}

// nobody reports whether it isn't known yet whom the change concerns: the document names its
// counter itself, and did not come along.
func (c Change) nobody() bool { return c.Counter == "" }

// lookFor reads the document of a change of which it isn't known whom it concerns: the counter that
// it names now. Which one it named before, only a reconcile of that one finds out.
func (c *Client) lookFor(ctx context.Context, change Change) ([]Change, error) {
	name := c.db.Document(change.Document)
	for _, counted := range c.db.ParseCounted(name) {
		if counted.Documents != change.Collection {
			continue
		}
		docs, at, err := c.db.Get(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("read %q: %w", change.Document, err)
		}
		c.clock.saw(at)
		if docs[0] == nil {
			break
		}
		counter, ok := c.db.CounterOf(counted.References, func(path string) (string, bool) {
			return c.db.NameIn(store.ValueAt(docs[0].GetFields(), path))
		})
		if ok {
			change.Counter = counter
			return []Change{change}, nil
		}
	}
	c.log.WarnContext(ctx, logProblem, "document", change.Document, "collection", change.Collection,
		"problem", "its event came without its data, and it names no counter now: if it did, reconcile that one by name")
	return nil, nil
}

// look reads the shard of a change that doesn't say what it did. A shard that is missing holds
// nothing as of the time of the read.
func (c *Client) look(ctx context.Context, change Change) (Change, error) {
	docs, at, err := c.db.Get(ctx, c.db.Shard(change.Counter, change.Shard))
	if err != nil {
		return change, fmt.Errorf("read shard %q of counter %q: %w", change.Shard, change.Counter, err)
	}
	c.clock.saw(at)
	if docs[0] == nil {
		change.Before = &Version{Updated: at.Add(-time.Microsecond)}
		return change, nil
	}
	s := store.ShardState(docs[0])
	change.After = &Version{Counts: s.Counts, Odd: s.Odd, Updated: s.AsOf}
	return change, nil
}
