package shards

import (
	"cmp"
	"context"
	"fmt"

	"github.com/firestore-counters/counters/internal/store"
)

// CreateOptions are the choices in making a counter.
type CreateOptions struct {
	Shards int   // 1 to [MaxShards]; 0 is the client's Config.NumShards, or none where none are summed up
	Total  int64 // to start from; where its path has counts already and this is 0, it shows those
}

// Create makes what is missing of the counter: document, shards and base. Counts belong to the path: what was
// counted below it, and not deleted by [Counter.Delete], is shown. Errors: [ErrExists], [ErrHosted],
// [ErrInvalidShards], [ErrInvalidField], [ErrBusy], [ErrUnknown], or the client library's.
func (c Counter) Create(ctx context.Context, opts CreateOptions) error {
	return c.call("create", func() error { return c.create(ctx, opts) })
}

// create is one transaction, so what it finds missing is.
func (c Counter) create(ctx context.Context, opts CreateOptions) (err error) {
	db := c.client.db
	defer c.client.known.Remove(c.id)
	if len(db.Layout.Fields) > 0 {
		opts.Shards = cmp.Or(opts.Shards, c.client.cfg.NumShards)
	}
	if opts.Shards != 0 {
		err = c.client.mayHave(opts.Shards)
	}
	if opts.Total != 0 && err == nil {
		err = c.client.checkPlain()
	}
	if db.Layout.Hosted {
		err = ErrHosted
	}
	if err != nil {
		return err
	}
	return c.client.once(ctx, func(ctx context.Context, tx *store.Tx, _ int) error {
		books, _, err := c.client.books.Get(ctx, tx, []string{c.id})
		if err != nil {
			return err
		}
		k := books[0]
		switch err := k.CheckSettings(); {
		case err != nil:
			return err
		case k.Deleting():
			return fmt.Errorf("%w: it is being deleted; delete it again to finish that", ErrExists)
		case k.Doc != nil:
			return ErrExists
		}
		shards, err := c.size(ctx, tx, k, opts.Shards, opts.Total)
		if err != nil {
			return err
		}
		return c.client.createMissing(ctx, tx, shards)
	})
}
