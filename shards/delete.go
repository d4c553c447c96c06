package shards

import (
	"context"
	"fmt"
	"slices"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// Delete deletes the counter, its members, its shards and its ledger. A counter without members and of up to about 500 shards
// goes in one commit, unless it is being added to. Any other is marked first, so that nothing is added to it and it isn't
// made again, and its own document goes last: when that is cut short, deleting it again finishes it, and so does
// [Counter.FinishDeletion]. Errors: [ErrNotFound], [ErrBusy], [ErrUnknown], or the client library's.
func (c Counter) Delete(ctx context.Context) error {
	if err := c.delete(ctx, false); err != nil {
		return fmt.Errorf("delete counter %q: %w", c.id, err)
	}
	return nil
}

// FinishDeletion is [Counter.Delete] for a counter whose deletion was cut short. Any other counter is left as it is, and
// [ErrNotFound] returned.
func (c Counter) FinishDeletion(ctx context.Context) error {
	if err := c.delete(ctx, true); err != nil {
		return fmt.Errorf("finish the deletion of counter %q: %w", c.id, err)
	}
	return nil
}

func (c Counter) delete(ctx context.Context, begun bool) error {
	if c.client.db.Hosted {
		return ErrHosted
	}
	defer c.client.known.forget(c.id)
	var made time.Time // when the counter that is to go was made
	atOnce := true
	return c.client.carryOut(ctx, func(ctx context.Context) ([]*firestorepb.Write, bool, error) {
		docs, _, err := c.client.db.Get(ctx, c.client.db.Counter(c.id), c.client.db.LedgerOf(c.id))
		if err != nil {
			return nil, false, err
		}
		counter := docs[0]
		switch created := counter.GetCreateTime().AsTime(); {
		case made.IsZero() && (counter == nil || begun && !c.client.isDeleting(counter)):
			return nil, false, ErrNotFound
		case made.IsZero():
			made = created
		case counter == nil || !created.Equal(made):
			return nil, true, nil // gone by a commit whose answer was lost, and maybe made again by someone else
		}
		writes, final, err := c.planDeletion(ctx, counter, docs[1], atOnce)
		atOnce = atOnce && err != nil // where that failed, the counter is being added to
		return writes, final, err
	})
}

// planDeletion plans the next commit of a deletion. Each of them, and not only the last, is on condition that the counter
// is still the version that was read: one that arrives late, when the counter is gone and another one was made under its
// id, must not take that one's shards.
func (c Counter) planDeletion(ctx context.Context, counter, itsLedger *firestorepb.Document, atOnce bool) (writes []*firestorepb.Write, final bool, err error) {
	db := c.client.db
	unchanged := store.UpdatedAtTime(counter.GetUpdateTime().AsTime())
	listed, err := c.shards(ctx)
	if err != nil {
		return nil, false, err
	}
	members, err := c.someMembers(ctx, c.everCounted(itsLedger), maxWrites, time.Time{}) // after the shards
	if err != nil {
		return nil, false, err
	}
	last := []*firestorepb.Write{store.Delete(db.LedgerOf(c.id)), deleteIf(db.Counter(c.id), counter.GetUpdateTime().AsTime())}
	if !c.client.isDeleting(counter) {
		// Where the number of shards is only inferred, instances write to more, each to as many as its settings say.
		if s, _ := c.client.snapshotOf(c.id, counter); atOnce && len(members) == 0 && !s.inferred {
			writes = c.deleteUnchanged(counter, listed)
		}
		if len(writes) > 0 && len(writes) <= maxWrites {
			return append(writes, last...), true, nil
		}
		return []*firestorepb.Write{store.Update(db.Counter(c.id), unchanged,
			map[string]*firestorepb.Value{layout.Deleting: store.Bool(true)}, []string{layout.Deleting})}, false, nil
	}
	// Shards go first. Without one, and none is made any more, no member joins: the members that are left then are all.
	for _, s := range listed[:min(len(listed), maxWrites)] {
		writes = append(writes, store.Delete(c.shardName(s.id)))
	}
	if len(listed) == 0 {
		for _, m := range members {
			writes = append(writes, store.Delete(m.GetName()))
		}
	}
	if len(writes) > 0 {
		// A write that changes nothing: it is there for its condition.
		return append(writes, store.Update(db.Counter(c.id), unchanged, nil, nil)), false, nil
	}
	return last, true, nil
}

// deleteUnchanged deletes all shards of a counter in one commit, on condition that they are as they were listed, and that
// those that were missing are: whoever joins at this moment changes one of them, and would stay behind.
func (c Counter) deleteUnchanged(counter *firestorepb.Document, listed []shard) (writes []*firestorepb.Write) {
	there := map[string]bool{}
	for _, s := range listed {
		there[s.id] = true
		writes = append(writes, deleteIf(c.shardName(s.id), s.updated))
	}
	for n := range c.client.db.ShardCount(counter).N {
		if id := layout.ShardID(n); !there[id] {
			writes = append(writes, none(c.shardName(id)))
		}
	}
	return writes
}

// everCounted are the fields that may have members: those that are counted, and those that the counter's ledger knows, which
// another revision counts, or an earlier one did. Memberships that stay behind would be in the way of a successor's members.
func (c Counter) everCounted(itsLedger *firestorepb.Document) []string {
	names := c.client.db.FieldNames()
	if itsLedger == nil {
		return names
	}
	l, err := ledger.Decode(itsLedger)
	if err != nil {
		return names // damaged: nothing is known
	}
	for name := range l.Sums {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// someMembers reads memberships of the counter's fields, at most that many, as they were at a time; the zero time is now.
func (c Counter) someMembers(ctx context.Context, fields []string, most int, at time.Time) (docs []*firestorepb.Document, err error) {
	for _, field := range fields {
		if len(docs) == most {
			break
		}
		of, err := c.client.db.Documents(ctx, store.Query{Collection: c.client.db.MembersOf(c.id, field), Limit: most - len(docs), At: at})
		if err != nil {
			return nil, fmt.Errorf("read members: %w", err)
		}
		docs = append(docs, of...)
	}
	return docs, nil
}

// isDeleting reports whether a counter's deletion is under way, or was cut short.
func (c *Client) isDeleting(counter *firestorepb.Document) bool {
	return c.db.Own(counter)[layout.Deleting].GetBooleanValue()
}
