package shards

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// change is what a command does to a counter.
type change struct {
	bases   ledger.Counts                 // :: field → what its total holds beyond the shards from now on
	anew    bool                          // whatever the totals were before: no import is to bring back what adoption has replaced
	ledger  map[string]*firestorepb.Value // other fields of the ledger to set
	writes  []*firestorepb.Write          // of other documents
	applied func()                        // is called once this change is known to be the one that was applied; may be nil
}

// command carries out what decide makes of the ledger, in one commit on condition that the ledger is still the same. The
// commit puts an id of the attempt into the ledger, which tells after a lost answer whether it was applied, and which: most
// commands must not be applied twice, and the next attempt may have found something else. decide may be called several times; nil is nothing to do. Errors are decide's, [ErrNotFound],
// [ErrNoLedger], [ErrBusy], [ErrUnknown] or the client library's.
func (c Counter) command(ctx context.Context, decide func(context.Context, *ledger.Ledger) (*change, error)) error {
	op := newID()
	var tried []*change // by attempt
	var last *change
	var of string // id of the ledger that the call is about
	defer c.client.known.forget(c.id)
	err := c.client.carryOut(ctx, func(ctx context.Context) ([]*firestorepb.Write, bool, error) {
		counter, l, err := c.documents(ctx)
		if err != nil {
			return nil, false, err
		}
		for n, ch := range tried { // also where the counter is being deleted by now
			if l != nil && slices.Contains(l.Ops, attemptID(op, n)) {
				last = ch
				return nil, true, nil
			}
		}
		switch {
		case counter == nil || c.client.isDeleting(counter):
			return nil, false, ErrNotFound
		case l == nil:
			return nil, false, ErrNoLedger
		case of != "" && l.ID != of:
			return nil, false, ErrNotFound // deleted, and another was made, which a late command leaves alone
		}
		of = l.ID
		if last, err = decide(ctx, l); err != nil || last == nil {
			return nil, false, err
		}
		tried = append(tried, last)
		return c.writes(last, l, attemptID(op, len(tried)-1)), true, nil
	})
	if err == nil && last != nil && last.applied != nil {
		last.applied()
	}
	return err
}

// attemptID is the id of a command's nth attempt. No id has a dash in it but this.
func attemptID(op string, n int) string {
	if n == 0 {
		return op
	}
	return op + "-" + strconv.Itoa(n+1)
}

func (c Counter) writes(ch *change, l *ledger.Ledger, op string) []*firestorepb.Write {
	fields := map[string]*firestorepb.Value{ledger.FieldOps: l.OpsWith(op)}
	mask := []string{ledger.FieldOps}
	for name, value := range ch.ledger {
		fields[name] = value
		mask = append(mask, name)
	}
	db := c.client.db
	totals, totalsMask := map[string]*firestorepb.Value{}, []string(nil)
	for name, base := range ch.bases {
		ledger.Set(fields, name, ledger.FieldBase, store.Int(base))
		mask = append(mask, ledger.PathOf(name, ledger.FieldBase))
		if ch.anew {
			mask = append(mask, ledger.PathOf(name, ledger.FieldReplaced))
		}
		totals[name] = store.Int(l.Sums[name].Over(base).Total())
		totalsMask = append(totalsMask, layout.FieldPath(name))
	}
	writes := []*firestorepb.Write{
		store.Update(db.LedgerOf(c.id), store.UpdatedAtTime(l.Updated), fields, mask),
		// Set, on the ledger's condition: increments would leave a total wrong that has come to the end of an int64.
		store.Update(db.Counter(c.id), store.Exists(true), totals, totalsMask, store.ServerTime(db.OwnPath(layout.UpdatedAt))),
	}
	return append(writes, ch.writes...)
}

// ResetOptions are the choices in resetting a counter.
type ResetOptions struct {
	// RemoveMembers takes all members off first. Without it a counter that has any is not reset.
	RemoveMembers bool
}

// Reset sets the counter to zero: all its shards at once, and what it started from. Increments that are committed while
// it runs count before it or after it, and so do members. The total follows with the next roll-up. When it is cut short, it
// has taken off some members, and nothing else. Errors: [ErrNotFound], [ErrHasMembers], [ErrNoLedger], [ErrBusy],
// [ErrUnknown], or the client library's.
func (c Counter) Reset(ctx context.Context, opts ResetOptions) error {
	err := errManyMembers
	for tries := 0; errors.Is(err, errManyMembers) && tries < maxTries; tries++ {
		if opts.RemoveMembers {
			if err := c.removeMembers(ctx); err != nil {
				return fmt.Errorf("reset counter %q: %w", c.id, err)
			}
		}
		err = c.command(ctx, func(ctx context.Context, l *ledger.Ledger) (*change, error) { return c.decideReset(ctx, l, opts) })
	}
	if err != nil {
		return fmt.Errorf("reset counter %q: %w", c.id, err)
	}
	return nil
}

// fewMembers is how many members a reset takes off in its own commit, those who have just joined; more go before it.
const fewMembers = 200

var errManyMembers = fmt.Errorf("%w: members join faster than they can be taken off", ErrBusy)

func (c Counter) decideReset(ctx context.Context, l *ledger.Ledger, opts ResetOptions) (*change, error) {
	db := c.client.db
	_, at, err := db.Get(ctx, db.Counter(c.id))
	if err != nil {
		return nil, err
	}
	members, err := c.someMembers(ctx, db.FieldNames(), fewMembers+1, at)
	switch {
	case err != nil:
		return nil, err
	case len(members) > 0 && !opts.RemoveMembers:
		return nil, ErrHasMembers
	case len(members) > fewMembers:
		return nil, errManyMembers
	}
	docs, err := db.Documents(ctx, store.Query{Collection: db.ShardsOf(c.id), At: at})
	if err != nil {
		return nil, fmt.Errorf("read shards: %w", err)
	}
	ch := &change{bases: ledger.Counts{}, anew: true}
	for _, name := range db.FieldNames() {
		if l.Sums[name] != nil {
			ch.bases[name] = 0
		}
	}
	for _, doc := range docs {
		if w := c.toZero(doc); w != nil {
			ch.writes = append(ch.writes, w)
		}
	}
	for _, m := range members {
		ch.writes = append(ch.writes, deleteIf(m.GetName(), m.GetUpdateTime().AsTime()))
	}
	return ch, nil
}

// toZero is the write that takes off a shard what it held when it was read; nil where that is nothing. What is added in
// between stays, with the members that it is for.
func (c Counter) toZero(doc *firestorepb.Document) *firestorepb.Write {
	var transforms []*firestorepb.DocumentTransform_FieldTransform
	for _, field := range c.client.db.Fields {
		value := doc.GetFields()[field.Shard]
		_, whole := value.GetValueType().(*firestorepb.Value_IntegerValue)
		switch count := value.GetIntegerValue(); {
		case value == nil, whole && count == 0:
		case !whole || count == math.MinInt64:
			// It takes setting it, and nothing may come in between.
			return store.Update(doc.GetName(), store.UpdatedAtTime(doc.GetUpdateTime().AsTime()), c.client.db.NoCounts(), c.shardPaths())
		default:
			transforms = append(transforms, store.Increment(layout.FieldPath(field.Shard), -count))
		}
	}
	if len(transforms) == 0 {
		return nil
	}
	return store.Update(doc.GetName(), store.Exists(true), nil, nil, transforms...)
}

// shardPaths are the paths of the counted fields in a shard.
func (c Counter) shardPaths() (paths []string) {
	for _, field := range c.client.db.Fields {
		paths = append(paths, layout.FieldPath(field.Shard))
	}
	return paths
}

// removeMembers takes off the members there are but a few, page by page, each with the count of its field. A commit that
// comes late finds other versions of its memberships, or none.
func (c Counter) removeMembers(ctx context.Context) error {
	db := c.client.db
	return c.client.carryOut(ctx, func(ctx context.Context) ([]*firestorepb.Write, bool, error) {
		members, err := c.someMembers(ctx, db.FieldNames(), maxWrites, time.Time{})
		if err != nil || len(members) <= fewMembers {
			return nil, true, err
		}
		docs, _, err := db.Get(ctx, db.Counter(c.id))
		if err != nil {
			return nil, false, err
		}
		s, there := c.client.snapshotOf(c.id, docs[0])
		if !there {
			return nil, false, ErrNotFound
		}
		picked, _, err := c.client.makeShards(ctx, picks{c.id: rand.IntN(c.client.known.writable(s))})
		if err != nil {
			return nil, false, err
		}
		shard, there := picked[c.id]
		if !there {
			return nil, false, ErrNotFound
		}
		of := map[string]int64{} // :: collection of memberships → how many of it go
		var writes []*firestorepb.Write
		for _, m := range members {
			writes = append(writes, deleteIf(m.GetName(), m.GetUpdateTime().AsTime()))
			of[path.Dir(m.GetName())]++
		}
		var transforms []*firestorepb.DocumentTransform_FieldTransform
		for _, field := range db.Fields {
			if n := of[db.MembersOf(c.id, field.Name)]; n > 0 {
				transforms = append(transforms, store.Increment(layout.FieldPath(field.Shard), -n))
			}
		}
		return append(writes, store.Update(c.shardName(layout.ShardID(shard)), store.Exists(true), nil, nil, transforms...)), false, nil
	})
}

// Rebase sets the counter's total to what is given, and leaves its shards as they are: what the total holds beyond them
// is changed. Increments that were not rolled up before it come on top, so reconcile first where that matters. A total that
// would take a base beyond an int64 comes as close as one allows. Errors are those of [Counter.Reset].
func (c Counter) Rebase(ctx context.Context, total int64) error {
	return c.RebaseFields(ctx, map[string]int64{c.client.db.Fields[0].Name: total})
}

// RebaseFields is [Counter.Rebase] for counted fields by their names, in one commit. Others stay as they are. Errors are also
// [ErrInvalidField].
func (c Counter) RebaseFields(ctx context.Context, totals map[string]int64) error {
	var err error
	for name := range totals {
		if reason := c.client.db.CheckField(name); reason != nil {
			err = fmt.Errorf("%w: %w", ErrInvalidField, reason)
		}
	}
	if err == nil {
		err = c.command(ctx, func(_ context.Context, l *ledger.Ledger) (*change, error) {
			ch := &change{bases: ledger.Counts{}, anew: true}
			for name, total := range totals {
				sum := l.Sums[name]
				if sum == nil {
					return nil, ErrNoLedger
				}
				ch.bases[name] = sum.BaseFor(total)
			}
			return ch, nil
		})
	}
	if err != nil {
		return fmt.Errorf("rebase counter %q: %w", c.id, err)
	}
	return nil
}
