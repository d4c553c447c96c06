package shards

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// CreateOptions are the choices in making a counter.
type CreateOptions struct {
	Shards int   // 1 to [MaxShards]; 0 is the client's Config.NumShards
	Total  int64 // to start from

	// keep what is counted in shards and not in a total: they are no leftovers, but the shards of a counter that has no
	// document of its own, or of one that was deleted by hand and is still being added to. Where there are members, all that
	// is counted is kept, theirs and else: it is not known what of it is whose.
	keep bool
}

// Create makes the counter, with all its shards and its ledger, in one commit. What an earlier counter of that id has
// left behind is deleted first: Firestore keeps everything below a document that was deleted by hand. Errors:
// [ErrExists], [ErrHosted], [ErrInvalidShards], [ErrBusy], [ErrUnknown], or the client library's.
func (c Counter) Create(ctx context.Context, opts CreateOptions) error {
	opts.Shards = cmp.Or(opts.Shards, c.client.cfg.NumShards)
	err := validShards(opts.Shards)
	if c.client.db.Hosted {
		err = ErrHosted
	}
	if err == nil {
		op := newID() // tells this call's counter from another's, made at the same moment
		err = c.client.carryOut(ctx, func(ctx context.Context) ([]*firestorepb.Write, bool, error) {
			return c.planCreation(ctx, opts, op)
		})
	}
	if err != nil {
		return fmt.Errorf("create counter %q: %w", c.id, err)
	}
	c.client.known.forget(c.id)
	return nil
}

func (c Counter) planCreation(ctx context.Context, opts CreateOptions, op string) (writes []*firestorepb.Write, final bool, err error) {
	// Shards first: where there is no counter afterwards, they are an earlier one's. The other way round they might be
	// of one that someone else made in between.
	leftovers, err := c.shards(ctx)
	if err != nil {
		return nil, false, err
	}
	docs, at, err := c.client.db.Get(ctx, c.client.db.Counter(c.id), c.client.db.LedgerOf(c.id))
	if err != nil {
		return nil, false, fmt.Errorf("read counter and ledger: %w", err)
	}
	counter, earlier := docs[0], docs[1]
	switch {
	case counter == nil:
	case c.client.isDeleting(counter):
		return nil, false, fmt.Errorf("%w: it is being deleted; delete it again to finish that", ErrExists)
	case counter.GetFields()[store.LedgerID].GetStringValue() == op:
		return nil, true, nil // made by a commit whose answer was lost
	default:
		return nil, false, ErrExists
	}
	when := time.Time{}
	if opts.keep { // shards and members are to agree
		when = at
		if leftovers, err = c.shardsAt(ctx, at); err != nil {
			return nil, false, err
		}
	}
	members, err := c.someMembers(ctx, c.everCounted(earlier), maxWrites, when)
	if err != nil {
		return nil, false, err
	}
	if opts.keep && len(leftovers) > 0 && (earlier == nil || len(members) > 0) {
		return c.beside(leftovers, opts.Shards, op), true, nil
	}
	if opts.keep && earlier != nil && len(members) == 0 {
		switch l, err := ledger.Decode(earlier); {
		case err != nil:
		case len(leftovers) > 0 && c.lessThan(leftovers, l):
			return c.beside(leftovers, opts.Shards, op), true, nil
		default:
			return c.revival(l, leftovers, opts.Shards, op), true, nil
		}
	}
	// What is newer than what was read belongs to a counter that is being made at this moment.
	for _, s := range leftovers[:min(len(leftovers), maxWrites)] {
		writes = append(writes, deleteIf(c.shardName(s.id), s.updated))
	}
	if len(writes) == 0 { // after the shards: without one nobody joins
		for _, m := range members {
			writes = append(writes, store.Delete(m.GetName()))
		}
	}
	if earlier != nil && len(members) == 0 { // last, because it knows who may have been a member. Damaged or not: its counter is gone
		writes = append(writes, deleteIf(earlier.GetName(), earlier.GetUpdateTime().AsTime()))
	}
	if len(writes) > 0 {
		// The roll-up, or an increment with AUTO_CREATE, may make a counter of it at this moment: then it is none any more.
		return append(writes, none(c.client.db.Counter(c.id))), false, nil
	}
	return c.creation(opts, op), true, nil
}

// lessThan reports whether shards hold less of a field than was rolled up of them. Members may have left since, and what
// they had counted must not be taken off again.
func (c Counter) lessThan(there []shard, l *ledger.Ledger) bool {
	for _, field := range c.client.db.Fields {
		sum := l.Sums[field.Name]
		if sum == nil {
			continue
		}
		var holds, counted int64
		for _, s := range there {
			n, _ := store.Integer(s.fields[field.Shard])
			holds = ledger.Add(holds, n)
			counted = ledger.Add(counted, sum.Shards[ledger.Key(s.id)].Count)
		}
		if counted < 0 || holds < counted {
			return true
		}
	}
	return false
}

// beside is the commit that makes a counter's document beside shards that go on to count: those of a public snippet, which
// may write no other, or of a counter with members that was deleted by hand. It has n shards, or as many as are numbered; the snippet may go on to make more. Total and ledger come with the roll-up's
// adoption, which reads the shards.
func (c Counter) beside(there []shard, n int, op string) []*firestorepb.Write {
	return []*firestorepb.Write{store.Create(c.client.db.Counter(c.id), map[string]*firestorepb.Value{
		store.NumShards:         store.Int(int64(numbered(there, n))),
		store.NumShardsInferred: store.Bool(true),
		store.LedgerID:          store.String(op), // of none: it tells this call's counter from another's
	}, store.ServerTime(store.CreatedAt)),
		// A write that changes nothing: whoever takes the shards away meanwhile has yet to take the members.
		store.Update(c.shardName(there[0].id), store.Exists(true), nil, nil)}
}

// revival is the commit that makes a counter anew, at zero, over what a counter that was deleted by hand left behind. Its
// shards stay: an instance that has not noticed yet may be adding to them at this moment, and what it has acknowledged must
// not go. What was rolled up of them before the deletion is taken off each; what was not counts, and so does what is added
// later. The ledger stays too, with shards that hold nothing: whatever deletes the counter may not be done yet, and a shard
// that goes with it, before or after this, must owe this one nothing.
func (c Counter) revival(l *ledger.Ledger, there []shard, n int, op string) []*firestorepb.Write {
	db := c.client.db
	n = numbered(there, n)
	none := ledger.Diff{Sums: map[string]ledger.SumDiff{}}
	takenOff := make(map[string][]*firestorepb.DocumentTransform_FieldTransform) // :: id of a shard → what is taken off it
	for _, field := range db.Fields {
		sum := l.Sums[field.Name]
		if sum == nil {
			continue // counted since then, from what the shards hold
		}
		entries := map[string]ledger.Entry{}
		for key, e := range sum.Shards {
			if e.Count != 0 {
				entries[key] = ledger.Entry{AsOf: e.AsOf.Add(time.Microsecond)}
			}
		}
		for _, s := range there {
			key := ledger.Key(s.id)
			counted := sum.Shards[key].Count
			if _, ok := store.Integer(s.fields[field.Shard]); !ok || counted == 0 {
				continue
			}
			// Late events of it, up to the version that was read, are older than this.
			entries[key] = ledger.Entry{AsOf: s.updated.Add(time.Microsecond)}
			takenOff[s.id] = append(takenOff[s.id], store.Increment(store.FieldPath(field.Shard), ledger.Sub(0, counted)))
		}
		none.Sums[field.Name] = ledger.SumDiff{Entries: entries}
	}
	var shards []*firestorepb.Write
	for id, transforms := range takenOff {
		shards = append(shards, store.Update(c.shardName(id), store.Exists(true), nil, nil, transforms...))
	}
	fields, mask := none.Fields()
	fields[ledger.FieldID] = store.String(op)
	mask = append(mask, ledger.FieldID, ledger.FieldImported)
	for name, sum := range l.Sums {
		base := int64(0)
		if _, known := none.Sums[name]; !known {
			// Only another revision counts this field, and knows what it is called in shards: what they hold of it stays, and
			// is made up for, so that it begins at zero too.
			base = ledger.Sub(sum.Base, sum.Total())
		}
		ledger.Set(fields, name, ledger.FieldBase, store.Int(base))
		mask = append(mask, ledger.PathOf(name, ledger.FieldBase), ledger.PathOf(name, ledger.FieldReplaced))
	}
	writes := append([]*firestorepb.Write{
		c.newCounter(n, nil, op),
		store.Update(db.LedgerOf(c.id), store.UpdatedAtTime(l.Updated), fields, mask),
	}, shards...)
	missing := map[int]bool{}
	for i := range n {
		missing[i] = true
	}
	for _, s := range there {
		if number, ok := shardNumber(s.id); ok {
			delete(missing, number)
		}
	}
	for i := range missing {
		writes = append(writes, store.Create(c.shardName(shardID(i)), db.NoCounts()))
	}
	return writes
}

// numbered is how many shards a counter has that is to have n, and has these already.
func numbered(there []shard, n int) int {
	for _, s := range there {
		if number, ok := shardNumber(s.id); ok && number < MaxShards {
			n = max(n, number+1)
		}
	}
	return n
}

// newCounter is the write that makes a counter's document, with the totals given and 0 for those that are not.
func (c Counter) newCounter(n int, totals ledger.Counts, op string) *firestorepb.Write {
	fields := map[string]*firestorepb.Value{store.NumShards: store.Int(int64(n)), store.LedgerID: store.String(op)}
	for _, name := range c.client.db.FieldNames() {
		fields[name] = store.Int(totals[name])
	}
	return store.Create(c.client.db.Counter(c.id), fields, store.ServerTime(store.CreatedAt), store.ServerTime(store.UpdatedAt))
}

// creation is the commit that makes a counter.
func (c Counter) creation(opts CreateOptions, op string) []*firestorepb.Write {
	db := c.client.db
	from := ledger.Counts{db.Fields[0].Name: opts.Total}
	l := ledger.Ledger{ID: op, Sums: map[string]*ledger.Sum{}, Ops: []string{op}}
	for _, name := range db.FieldNames() {
		l.Sums[name] = &ledger.Sum{Base: from[name]}
	}
	writes := []*firestorepb.Write{c.newCounter(opts.Shards, from, op), store.Create(db.LedgerOf(c.id), l.Fields())}
	for n := range opts.Shards {
		writes = append(writes, store.Create(c.shardName(shardID(n)), db.NoCounts()))
	}
	return writes
}
