package shards

import (
	"context"
	"fmt"
	"slices"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// CreateOptions are the choices in making a counter.
type CreateOptions struct {
	Shards int   // 1 to [MaxShards]; 0 is the client's Config.NumShards
	Total  int64 // to start from

	keep bool // shards that were never rolled up: they are no leftovers, but a counter without a document of its own
}

// Create makes the counter, with all its shards and its ledger, in one commit. What an earlier counter of that id has
// left behind is deleted first: Firestore keeps everything below a document that was deleted by hand. Errors:
// [ErrExists], [ErrInvalidShards], [ErrBusy], [ErrUnknown], or the client library's.
func (c Counter) Create(ctx context.Context, opts CreateOptions) error {
	orElse(&opts.Shards, c.client.cfg.NumShards)
	err := validShards(opts.Shards)
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
	// of one that somebody made in between.
	leftovers, err := c.shards(ctx)
	if err != nil {
		return nil, false, err
	}
	counter, ledger, err := c.documents(ctx)
	if err != nil {
		return nil, false, err
	}
	switch {
	case counter == nil:
	case counter.GetFields()[store.Deleting].GetBooleanValue():
		return nil, false, fmt.Errorf("%w: it is being deleted; delete it again to finish that", ErrExists)
	case ledger != nil && slices.Contains(ledger.Ops, op):
		return nil, true, nil // made by a commit whose answer was lost
	default:
		return nil, false, ErrExists
	}
	if opts.keep && ledger == nil && len(leftovers) > 0 {
		return c.beside(leftovers, opts.Shards), true, nil
	}
	// What is newer than what was read belongs to somebody who is making the counter at this moment.
	for _, s := range leftovers[:min(len(leftovers), maxWrites)] {
		writes = append(writes, deleteIf(c.shardName(s.id), s.updated))
	}
	if ledger != nil {
		writes = append(writes, deleteIf(c.client.db.LedgerOf(c.id), ledger.Updated))
	}
	if len(writes) > 0 {
		return writes, false, nil
	}
	return c.creation(opts, op), true, nil
}

// beside is the commit that makes a counter's document beside shards of a public snippet, which may write no other. It
// has n shards, or as many as are numbered. Total and ledger come with the roll-up's adoption, which reads the shards.
func (c Counter) beside(there []shard, n int) []*firestorepb.Write {
	for _, s := range there {
		if number, ok := shardNumber(s.id); ok && number < MaxShards {
			n = max(n, number+1)
		}
	}
	return []*firestorepb.Write{store.Create(c.client.db.Counter(c.id),
		map[string]*firestorepb.Value{store.NumShards: store.Int(int64(n))}, store.ServerTime(store.CreatedAt))}
}

// creation is the commit that makes a counter.
func (c Counter) creation(opts CreateOptions, op string) []*firestorepb.Write {
	db := c.client.db
	ledger := ledger.Ledger{ID: op, Base: opts.Total, Ops: []string{op}}
	writes := []*firestorepb.Write{
		store.Create(db.Counter(c.id), map[string]*firestorepb.Value{
			store.NumShards: store.Int(int64(opts.Shards)),
			store.Total:     store.Int(opts.Total),
			store.LedgerID:  store.String(op),
		}, store.ServerTime(store.CreatedAt), store.ServerTime(store.UpdatedAt)),
		store.Create(db.LedgerOf(c.id), ledger.Fields()),
	}
	for n := range opts.Shards {
		writes = append(writes, store.Create(c.shardName(shardID(n)), map[string]*firestorepb.Value{db.CountField: store.Int(0)}))
	}
	return writes
}
