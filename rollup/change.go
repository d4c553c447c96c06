package rollup

import (
	"context"
	"fmt"
	"time"

	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// Change is what an event brings: what a shard's document holds now, or that a document has changed
// in a collection that a query counts.
type Change struct {
	// id of the counter; empty of a document that names its counter itself, and did not come along
	Counter string
	Shard   string // id of the shard; empty of another document

	// which documents the query counts, as FIELDS has it: comments, or /comments where
	// post=={post}; empty for a shard
	Collection string
	Document   string // id of that document; its path where it names its counter itself

	// AsOf is the document's update time, in microseconds, and the zero time where it isn't known
	// what became of the document: see [Client.Named].
	//
	// That of a deletion is a microsecond after the old version's. The platform doesn't say whether
	// that one's time is the version's before or the deletion's own, and examples of both are about;
	// either way a deleted shard's state sorts after everything the document held before, and before
	// whatever is made under its name later. Neither our clock nor the event's is asked.
	AsOf   time.Time
	Made   time.Time        // a shard's create time, where it is known
	Counts map[string]int64 // what a shard holds: its integer fields, by their names, without zeros
	Odd    []string         // its fields that are numbers and no integers, which no event can count
	Blank  []string         // its fields that are no numbers: what was counted of them is kept
	Was    map[string]int64 // what fields of Odd and Blank held just before, of those that held integers, where it is known
	WasOdd bool             // one of Blank was in Odd just before
	// Gone: the document was deleted; or it names its counter itself, and that is another now
	Gone bool
}

// state is what the shard holds after the change.
func (c Change) state() ledger.State {
	return ledger.State{Shard: c.Shard, AsOf: c.AsOf, Made: c.Made, Counts: c.Counts, Odd: c.Odd, Blank: c.Blank, Was: c.Was, WasOdd: c.WasOdd, Gone: c.Gone}
}

// lookFor reads the document of a change of which it isn't known whom it concerns: the counter that
// it names now, if any. Which one it named before, only a reconcile of that one finds out.
func (c *Client) lookFor(ctx context.Context, change Change) (Change, error) {
	name := c.db.Document(change.Document)
	for _, counted := range c.db.ParseCounted(name) {
		if counted.Documents != change.Collection {
			continue
		}
		docs, _, err := c.db.Get(ctx, name)
		if err != nil {
			return change, fmt.Errorf("read %q: %w", change.Document, err)
		}
		if docs[0] == nil {
			break
		}
		if counter, ok := store.CounterIn(c.db.Layout, docs[0], counted.References); ok {
			change.Counter = counter
			return change, nil
		}
	}
	c.log.WarnContext(ctx, logProblem, "document", change.Document, "collection", change.Collection,
		"problem", "its event came without its data, and it names no counter now: if it did, reconcile that one by name")
	return change, nil
}

// look reads the shard of a change that doesn't say what it did. A shard that is missing holds
// nothing as of the time of the read.
func (c *Client) look(ctx context.Context, change Change) (Change, error) {
	docs, at, err := c.db.Get(ctx, c.db.Shard(change.Counter, change.Shard))
	if err != nil {
		return change, fmt.Errorf("read shard %q of counter %q: %w", change.Shard, change.Counter, err)
	}
	if docs[0] == nil {
		change.AsOf, change.Gone = at, true
		return change, nil
	}
	return change.holds(docs[0], false), nil
}
