package shards

import (
	"context"
	"fmt"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/store"
)

// Snapshot is a counter's document.
type Snapshot struct {
	Counter   string    `json:"counter"`
	Total     int64     `json:"total"` // as the roll-up has it, about a second old
	NumShards int       `json:"num_shards"`
	UpdatedAt time.Time `json:"updated_at"` // when the total was last written
}

// Add adds to the counter and returns when that is committed. Errors: [ErrNotFound], [ErrBusy], [ErrUnknown],
// [ErrInvalidIncrement] when by is 0, [ErrClosed], or one of Firestore's, after which nothing was counted. A sum beyond
// an int64 stays at the largest or smallest one.
//
// When ctx ends while the increment waits for its commit, nothing is counted; once its commit has begun it goes on, and
// Add returns [ErrUnknown].
func (c Counter) Add(ctx context.Context, by int64) error {
	_, err := c.AddOnce(ctx, by, Key{})
	return err
}

// AddOnce is [Counter.Add] that may be repeated: of all calls with the same key one is counted, and the others report
// that they are replays. [ErrKeyReused] says that the key came with another increment before.
func (c Counter) AddOnce(ctx context.Context, by int64, key Key) (replayed bool, err error) {
	a, err := newAddition(c.client.db.Path, []Increment{{Counter: c.id, By: by}}, key, c.client.db.Counter(c.id))
	if err != nil {
		return false, err
	}
	out := c.client.batches.add(ctx, c.id, a)
	if out.err != nil {
		return false, fmt.Errorf("add to counter %q: %w", c.id, out.err)
	}
	return out.replayed, nil
}

// AddAll applies up to [MaxIncrements] increments in one commit: all or none. Those of the same counter are taken
// together. The zero [Key] is no key. Errors are those of [Counter.Add] and [Counter.AddOnce], and [ErrInvalidID].
func (c *Client) AddAll(ctx context.Context, increments []Increment, key Key) (replayed bool, err error) {
	a, err := newAddition(c.db.Path, increments, key, c.db.Counter(manyCounters))
	if err != nil {
		return false, err
	}
	out := c.batches.add(ctx, manyCounters, a)
	if out.err != nil {
		return false, fmt.Errorf("add to %d counters: %w", len(a.increments), out.err)
	}
	return out.replayed, nil
}

// Get reads the counter's document. Errors: [ErrNotFound], or the client library's.
func (c Counter) Get(ctx context.Context) (Snapshot, error) {
	snapshots, err := c.client.read(ctx, c.id)
	if err != nil {
		return Snapshot{}, fmt.Errorf("read counter %q: %w", c.id, err)
	}
	if snapshots[0] == nil {
		return Snapshot{}, fmt.Errorf("read counter %q: %w", c.id, ErrNotFound)
	}
	return *snapshots[0], nil
}

// Total is [Counter.Get] from memory, where this client has read the counter within Config.TotalTTL and not added to it
// since.
func (c Counter) Total(ctx context.Context) (Snapshot, error) {
	if s, ok := c.client.known.total(c.id); ok {
		return s, nil
	}
	return c.Get(ctx)
}

// read reads counters' documents, and remembers them; nil is one that doesn't exist, or is being deleted.
func (c *Client) read(ctx context.Context, counters ...string) ([]*Snapshot, error) {
	names := make([]string, len(counters))
	for i, id := range counters {
		names[i] = c.db.Counter(id)
	}
	docs, _, err := c.db.Get(ctx, names...)
	if err != nil {
		return nil, err
	}
	snapshots := make([]*Snapshot, len(counters))
	for i, doc := range docs {
		s, ok := snapshotOf(counters[i], doc)
		if !ok {
			c.known.forget(counters[i])
			continue
		}
		c.known.put(s)
		snapshots[i] = &s
	}
	return snapshots, nil
}

// snapshotOf reads a counter's document, which may be a public snippet's. It reports false for a counter that doesn't
// exist, or is being deleted.
func snapshotOf(counter string, doc *firestorepb.Document) (Snapshot, bool) {
	fields := doc.GetFields()
	if doc == nil || fields[store.Deleting].GetBooleanValue() {
		return Snapshot{}, false
	}
	s := Snapshot{Counter: counter, NumShards: shardsOf(doc), UpdatedAt: doc.GetUpdateTime().AsTime()}
	s.Total, _ = store.Integer(fields[store.Total])
	if at := fields[store.UpdatedAt].GetTimestampValue(); at != nil {
		s.UpdatedAt = at.AsTime()
	}
	return s, true
}

// numShards keeps what is in a counter's document within bounds. A counter of which nobody says how many shards it has
// gets all its increments on one.
func numShards(n int64) int { return int(min(max(n, 1), MaxShards)) }
