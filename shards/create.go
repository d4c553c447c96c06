package shards

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/command"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// CreateOptions are the choices in making a counter.
type CreateOptions struct {
	Shards int   // 1 to [MaxShards]; 0 is the client's Config.NumShards
	Total  int64 // to start from; where its path has counts already and this is 0, it shows those
}

// Create makes the counter: its document, its shards and its ledger, whatever of them is missing.
// Counts belong to the path: where something was counted below it, and never deleted by
// [Counter.Delete], the counter shows it. Errors: [ErrExists], [ErrHosted], [ErrInvalidShards],
// [ErrBusy], [ErrUnknown], or the client library's.
func (c Counter) Create(ctx context.Context, opts CreateOptions) error {
	if err := c.usable(); err != nil {
		return err
	}
	opts.Shards = cmp.Or(opts.Shards, c.client.cfg.NumShards)
	err := c.client.validShards(opts.Shards)
	if c.client.db.Hosted {
		err = ErrHosted
	}
	if err == nil {
		err = c.create(ctx, opts)
	}
	if err != nil {
		return fmt.Errorf("create counter %q: %w", c.id, err)
	}
	c.client.known.forget(c.id)
	return nil
}

// create is one transaction, so that what it finds missing is, and so is what the ledger
// says of the shards.
func (c Counter) create(ctx context.Context, opts CreateOptions) error {
	db, id := c.client.db, command.NewID()
	err := db.Transact(ctx, func(ctx context.Context, tx *store.Tx) error {
		docs, _, err := tx.Get(ctx, db.Counter(c.id), db.LedgerOf(c.id))
		switch {
		case err != nil:
			return err
		case command.WasApplied(docs[1], id):
			return nil // made by a commit whose answer was lost, whatever has become of it since
		case db.Deleting(docs[0]):
			return fmt.Errorf("%w: it is being deleted; delete it again to finish that", ErrExists)
		case docs[0] != nil:
			return ErrExists
		}
		l, err := c.ledger(ctx, tx, docs[1], opts.Total, id)
		if err != nil {
			return err
		}
		names := make([]string, opts.Shards)
		for n := range names {
			names[n] = c.shardName(layout.ShardID(n))
		}
		if err := c.client.createMissingShards(ctx, tx, names); err != nil {
			return err
		}
		fields, _ := db.View(l)
		fields[layout.NumShards] = store.Int(int64(opts.Shards))
		tx.Write(store.Create(db.Counter(c.id), fields, store.ServerTime(layout.CreatedAt), store.ServerTime(layout.UpdatedAt)))
		return nil
	})
	if err != nil && store.FromFirestore(err) && store.KindOf(err) == store.Doubtful && !errors.Is(err, ErrUnknown) {
		return c.client.plainly(fmt.Errorf("%w: %w", ErrBusy, err)) // of a read
	}
	return err
}

// ledger is the counter's, from total on where that is not 0. The transaction makes it where there
// is none, and notes in it the id of the attempt.
func (c Counter) ledger(ctx context.Context, tx *store.Tx, doc *firestorepb.Document, total int64, id string) (*ledger.Ledger, error) {
	db, first := c.client.db, c.client.db.Fields[0].Shard
	if doc == nil {
		l, _, err := tx.Adopt(ctx, c.id, nil)
		if err != nil {
			return nil, err
		}
		if total != 0 {
			l.Base[first] = l.BaseFor(first, total)
		}
		tx.CreateLedger(c.id, l, time.Time{}, command.Applied(id))
		return l, nil
	}
	l, err := store.DecodeLedger(doc)
	if err != nil {
		return nil, err
	}
	fields, mask := map[string]*firestorepb.Value{}, append(command.Settled(l), store.LedgerBack...)
	if total != 0 {
		l.Base[first] = l.BaseFor(first, total)
		fields[store.LedgerBase] = store.Map(map[string]*firestorepb.Value{first: store.Int(l.Base[first])})
		mask = append(mask, layout.FieldPath(store.LedgerBase, first))
	}
	tx.Write(store.Update(db.LedgerOf(c.id), store.Exists(true), fields, mask, command.Applied(id)))
	return l, nil
}
