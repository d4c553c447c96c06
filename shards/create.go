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
	Shards int   // 1 to [MaxShards]; 0 is the client's Config.NumShards, or none where none are summed up
	Total  int64 // to start from; where its path has counts already and this is 0, it shows those
}

// Create makes the counter: its document, its shards and its ledger, whatever of them is missing.
// Counts belong to the path: where something was counted below it, and never deleted by
// [Counter.Delete], the counter shows it. Errors: [ErrExists], [ErrHosted], [ErrInvalidShards],
// [ErrInvalidField], [ErrBusy], [ErrUnknown], or the client library's.
func (c Counter) Create(ctx context.Context, opts CreateOptions) error {
	return c.call("create", func() error { return c.create(ctx, opts) })
}

// create is one transaction, so that what it finds missing is, and so is what the ledger says
// of the shards.
func (c Counter) create(ctx context.Context, opts CreateOptions) (err error) {
	db := c.client.db
	defer c.client.known.Remove(c.id)
	if len(db.Fields) > 0 {
		opts.Shards = cmp.Or(opts.Shards, c.client.cfg.NumShards)
	}
	if opts.Shards != 0 {
		err = c.client.mayHave(opts.Shards)
	}
	if opts.Total != 0 && err == nil {
		err = c.client.sums()
	}
	if db.Hosted {
		err = ErrHosted
	}
	if err != nil {
		return err
	}
	return c.client.once(ctx, func(ctx context.Context, tx *store.Tx, _ int) error {
		docs, _, err := tx.Get(ctx, db.Counter(c.id), db.LedgerOf(c.id))
		switch {
		case err != nil:
			return err
		case db.Deleting(docs[0]):
			return fmt.Errorf("%w: it is being deleted; delete it again to finish that", ErrExists)
		case docs[0] != nil:
			return ErrExists
		}
		shards, err := c.size(ctx, tx, nil, docs[1], opts.Shards, opts.Total, time.Time{})
		if err != nil {
			return err
		}
		return c.client.createMissing(ctx, tx, shards)
	})
}

// ledger is the counter's, from total on where that is not 0. The transaction makes it where there
// is none, as of a floor where that is not zero.
func (c Counter) ledger(ctx context.Context, tx *store.Tx, doc, itsLedger *firestorepb.Document, total int64, floor time.Time) (l *ledger.Ledger, err error) {
	if itsLedger == nil {
		l, _, err = tx.Adopt(ctx, c.id, doc)
	} else {
		l, err = store.DecodeLedger(c.client.db.Shards, itsLedger)
	}
	if err != nil {
		return nil, err
	}
	var diff ledger.Diff
	if total != 0 {
		if itsLedger != nil {
			_, at, err := tx.Get(ctx, itsLedger.GetName())
			if err != nil {
				return nil, err
			}
			shards, err := tx.Documents(ctx, store.Query{Collection: c.client.db.ShardsOf(c.id)})
			if err != nil {
				return nil, fmt.Errorf("read shards: %w", err)
			}
			if diff, err = enter(l, at, shards); err != nil {
				return nil, err
			}
		}
		first := c.client.db.Fields[0].Shard
		if diff.Base == nil {
			diff.Base = ledger.Counts{}
		}
		diff.Base[first] = l.BaseFor(first, total)
		l.Base[first] = diff.Base[first]
	}
	if itsLedger == nil {
		l.Floor = floor
		tx.CreateLedger(c.id, l)
	} else {
		l.Gone = time.Time{} // or its sums would not say that the document shows them
		fields, removed := store.LedgerDiff(diff)
		tx.Write(c.client.db.UpdateLedger(c.id, l, fields, append(removed, store.LedgerBack...)))
	}
	return l, nil
}
