package shards

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// CreateOptions are the choices in making a counter.
type CreateOptions struct {
	Shards int   // 1 to [MaxShards]; 0 is the client's Config.NumShards
	Total  int64 // to start from

	// keep what is counted in shards and not in a total: they are not leftovers, but the shards of a counter that has no
	// document of its own, or of one that was deleted by hand and is still being added to. Of a field that has members, all that
	// is counted is kept, theirs and else: it is not known what of it is whose.
	keep bool
}

// Create makes the counter, with all its shards and its ledger, in one commit. What an earlier counter of that id has
// left behind is deleted first: Firestore keeps everything below a document that was deleted by hand. Errors:
// [ErrExists], [ErrHosted], [ErrInvalidShards], [ErrBusy], [ErrUnknown], or the client library's.
func (c Counter) Create(ctx context.Context, opts CreateOptions) error {
	opts.Shards = cmp.Or(opts.Shards, c.client.cfg.NumShards)
	err := c.client.validShards(opts.Shards)
	if c.client.db.Hosted {
		err = ErrHosted
	}
	if err == nil {
		// They tell this call's counter from another's, made at the same moment. Each attempt has one of its own: the counter of an
		// earlier one may be deleted by now, and late commands know it by its id.
		var tried []string
		err = c.client.carryOut(ctx, func(ctx context.Context) ([]*firestorepb.Write, bool, error) {
			tried = append(tried, newID())
			return c.planCreation(ctx, opts, tried)
		})
	}
	if err != nil {
		return fmt.Errorf("create counter %q: %w", c.id, err)
	}
	c.client.known.forget(c.id)
	return nil
}

func (c Counter) planCreation(ctx context.Context, opts CreateOptions, tried []string) (writes []*firestorepb.Write, final bool, err error) {
	docs, at, err := c.client.db.Get(ctx, c.client.db.Counter(c.id), c.client.db.LedgerOf(c.id))
	if err != nil {
		return nil, false, fmt.Errorf("read counter and ledger: %w", err)
	}
	counter, earlier := docs[0], docs[1]
	op := tried[len(tried)-1]
	switch {
	case counter == nil:
	case c.client.isDeleting(counter):
		return nil, false, fmt.Errorf("%w: it is being deleted; delete it again to finish that", ErrExists)
	case slices.Contains(tried, counter.GetFields()[layout.LedgerID].GetStringValue()):
		return nil, true, nil // made by a commit whose answer was lost
	default:
		return nil, false, ErrExists
	}
	// All as of one time: then shards and members agree, and are an earlier counter's.
	leftovers, err := c.shardsAt(ctx, at)
	if err != nil {
		return nil, false, err
	}
	if opts.keep {
		if writes, revived, err := c.revive(ctx, earlier, leftovers, opts.Shards, op, at); err != nil || revived {
			return writes, true, err
		}
	}
	members, err := c.someMembers(ctx, c.everCounted(earlier), maxWrites, at)
	if err != nil {
		return nil, false, err
	}
	// What is newer than what was read belongs to a counter that is being made at this moment.
	for _, s := range leftovers[:min(len(leftovers), maxWrites)] {
		writes = append(writes, deleteIf(c.shardName(s.id), s.updated))
	}
	if len(writes) == 0 { // after the shards: without one no member joins
		for _, m := range members {
			writes = append(writes, deleteIf(m.GetName(), m.GetUpdateTime().AsTime()))
		}
	}
	if earlier != nil && len(members) == 0 && len(leftovers) <= maxWrites {
		// Last, because it knows who may have been a member, and without it shards would seem to be a snippet's. Damaged or not:
		// its counter is gone.
		writes = append(writes, deleteIf(earlier.GetName(), earlier.GetUpdateTime().AsTime()))
	}
	if len(writes) > 0 {
		// The roll-up, or an increment with AUTO_CREATE, may make a counter of it at this moment: then nothing of it may go.
		return append(writes, none(c.client.db.Counter(c.id))), false, nil
	}
	return c.creation(opts, op), true, nil
}

// revive is the commit that makes a counter of what lies where there is none, and is to be kept. It reports false where
// there is nothing, or nothing that can be gone on with.
func (c Counter) revive(ctx context.Context, earlier *firestorepb.Document, there []shard, n int, op string, at time.Time) (writes []*firestorepb.Write, revived bool, err error) {
	if earlier == nil {
		return c.beside(there, none(c.client.db.LedgerOf(c.id)), n, op), len(there) > 0, nil
	}
	joined := map[string]bool{} // :: field → whether it has members
	for _, field := range c.everCounted(earlier) {
		some, err := c.someMembers(ctx, []string{field}, 1, at)
		if err != nil {
			return nil, false, err
		}
		if len(some) > 0 {
			joined[field] = true
		}
	}
	l, err := ledger.Decode(earlier)
	switch {
	case len(joined) > 0 && len(there) == 0: // someone is removing them: the shards are gone, and the members are to follow
		return nil, false, nil
	case err == nil:
		return c.revival(l, there, joined, n, op), true, nil
	case len(joined) > 0:
		same := store.Update(earlier.GetName(), store.UpdatedAtTime(earlier.GetUpdateTime().AsTime()), nil, nil)
		return c.beside(there, same, n, op), true, nil
	}
	return nil, false, nil
}

// beside is the commit that makes a counter's document beside shards that go on to count: those of a public snippet, which
// may write no other, or of a counter with members whose ledger can't be read. It has n shards, or as many as are numbered;
// the snippet may go on to make more. Total and ledger come with the roll-up's adoption, which reads the shards. It is on
// condition that the ledger is as it was: one that comes late must not bring back what another counter has counted since.
func (c Counter) beside(there []shard, ledgerAsRead *firestorepb.Write, n int, op string) []*firestorepb.Write {
	if len(there) == 0 {
		return nil
	}
	return []*firestorepb.Write{store.Create(c.client.db.Counter(c.id), map[string]*firestorepb.Value{
		layout.NumShards:         store.Int(int64(numbered(there, n))),
		layout.NumShardsInferred: store.Bool(true),
		layout.LedgerID:          store.String(op), // of none: it tells this call's counter from another's
	}, store.ServerTime(layout.CreatedAt)), ledgerAsRead, c.stillThere(there[0])}
}

// stillThere is the write that changes nothing, and is there for its condition: whoever takes the shards away, this one with
// the first of them, has yet to take the members.
func (c Counter) stillThere(s shard) *firestorepb.Write {
	return store.Update(c.shardName(s.id), store.Exists(true), nil, nil)
}

// revival is the commit that makes a counter anew over what a counter that was deleted by hand left behind. Its shards stay:
// an instance that has not noticed yet may be adding to them at this moment, and what it has acknowledged must not go. Fields
// that have members go on as they are: what of them is whose isn't known. Others begin at zero: what was rolled up of a shard
// before the deletion is taken off it. What was not counts, and so does what is added later.
//
// The ledger stays, so that this commit is on condition of it, and loses its sums: the next roll-up reads all shards. Whatever
// deletes the counter may not be done yet, and a shard that goes with it, before or after this, owes this one nothing.
func (c Counter) revival(l *ledger.Ledger, there []shard, joined map[string]bool, n int, op string) []*firestorepb.Write {
	db := c.client.db
	n = numbered(there, n)
	fields := map[string]*firestorepb.Value{ledger.FieldID: store.String(op)}
	mask := []string{ledger.FieldID, ledger.FieldImported}
	off := make(map[string][]*firestorepb.DocumentTransform_FieldTransform) // :: id of a shard → what is taken off it
	for name, sum := range l.Sums {
		field, counted := db.Field(name)
		if !counted {
			field.Shard = sum.Field // which only another revision counts
		}
		if field.Shard == "" {
			// It isn't known what it is called in shards: what they hold of it stays, and is made up for.
			ledger.Set(fields, name, ledger.FieldBase, store.Int(sum.BaseFor(0)))
			mask = append(mask, ledger.PathOf(name, ledger.FieldBase), ledger.PathOf(name, ledger.FieldReplaced))
			continue
		}
		mask = append(mask, ledger.PathsOf(name)...)
		if joined[name] {
			continue
		}
		for id, count := range rolledUp(sum, there, field.Shard) {
			off[id] = append(off[id], store.Increment(layout.FieldPath(field.Shard), ledger.Sub(0, count)))
		}
	}
	writes := []*firestorepb.Write{
		c.newCounter(n, nil, op),
		store.Update(db.LedgerOf(c.id), store.UpdatedAtTime(l.Updated), fields, mask),
	}
	for id, transforms := range off {
		writes = append(writes, store.Update(c.shardName(id), store.Exists(true), nil, nil, transforms...))
	}
	if len(there) > 0 && off[there[0].id] == nil {
		writes = append(writes, c.stillThere(there[0]))
	}
	missing := map[int]bool{}
	for i := range n {
		missing[i] = true
	}
	for _, s := range there {
		if number, ok := layout.ShardNumber(s.id); ok {
			delete(missing, number)
		}
	}
	for i := range missing {
		writes = append(writes, store.Create(c.shardName(layout.ShardID(i)), db.NoCounts()))
	}
	return writes
}

// rolledUp is what each shard holds of a field that was rolled up, where the field has no members.
//
// It may have had some, whose -1s were not rolled up: then shards that only members were counted in hold nothing together by
// now, whatever each of them does, and all of that is taken off. A field with other increments besides isn't told from one
// without members: of members who left since the last roll-up, its -1s count.
func rolledUp(sum *ledger.Sum, there []shard, field string) map[string]int64 {
	holds, all := make(map[string]int64, len(there)), int64(0)
	for _, s := range there {
		if n, ok := store.Integer(s.fields[field]); ok {
			holds[s.id] = n
			all = ledger.Add(all, n)
		}
	}
	off := make(map[string]int64, len(holds))
	for id, n := range holds {
		if all != 0 {
			n = sum.Shards[ledger.Key(id)].Count
		}
		if n != 0 {
			off[id] = n
		}
	}
	return off
}

// numbered is how many shards a counter has that is to have n, and has these already.
func numbered(there []shard, n int) int {
	for _, s := range there {
		n = max(n, layout.Numbered(s.id))
	}
	return n
}

// newCounter is the write that makes a counter's document, with the totals given and 0 for those that are not.
func (c Counter) newCounter(n int, totals ledger.Counts, op string) *firestorepb.Write {
	fields := map[string]*firestorepb.Value{layout.NumShards: store.Int(int64(n)), layout.LedgerID: store.String(op)}
	for _, name := range c.client.db.FieldNames() {
		fields[name] = store.Int(totals[name])
	}
	return store.Create(c.client.db.Counter(c.id), fields, store.ServerTime(layout.CreatedAt), store.ServerTime(layout.UpdatedAt))
}

// creation is the commit that makes a counter.
func (c Counter) creation(opts CreateOptions, op string) []*firestorepb.Write {
	db := c.client.db
	from := ledger.Counts{db.Fields[0].Name: opts.Total}
	l := ledger.Ledger{ID: op, Sums: map[string]*ledger.Sum{}, Ops: []string{op}}
	for _, field := range db.Fields {
		l.Sums[field.Name] = &ledger.Sum{Base: from[field.Name], Field: field.Shard}
	}
	writes := []*firestorepb.Write{c.newCounter(opts.Shards, from, op), store.Create(db.LedgerOf(c.id), l.Fields())}
	for n := range opts.Shards {
		writes = append(writes, store.Create(c.shardName(layout.ShardID(n)), db.NoCounts()))
	}
	return writes
}
