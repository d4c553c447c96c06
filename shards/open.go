package shards

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/api/option"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/store"
)

// Open connects to a database; opts are the official client's, such as [option.WithGRPCConn] for a connection that
// exists already. It respects FIRESTORE_EMULATOR_HOST, and sends nothing yet. Errors: [ErrInvalidShards],
// [ErrHosted] with AutoCreate, a setting that must not be negative, or the client library's.
func Open(ctx context.Context, cfg Config, opts ...option.ClientOption) (*Client, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("shards: %w", err)
	}
	db, err := store.Open(ctx, cfg.Place, opts...)
	if err != nil {
		return nil, fmt.Errorf("shards: %w", err)
	}
	db.Budget = cfg.Budget
	c := &Client{
		cfg:      cfg,
		db:       db,
		books:    book.In(db),
		counters: newCache(),
		turns:    turns{last: map[string]chan struct{}{}, open: map[string]int{}},
		log:      cfg.Logger,
		places:   newPlaces(),
	}
	for _, n := range []int{cfg.NumShards, max(cfg.MaxShards, 1)} {
		if err := c.checkShards(n); err != nil && len(db.Layout.Sharded) > 0 {
			return nil, fmt.Errorf("shards: %w", errors.Join(err, db.Close()))
		}
	}
	c.waitTimer.after = cfg.Wait
	c.lookups = &lookups{read: c.lookUpCounters, budget: c.cfg.Budget, most: lookUpPages * c.lookUpPage()}
	c.queue = newQueue(bounds{batch: cfg.MaxBatch, waiting: cfg.MaxQueue, interval: cfg.CommitInterval, budget: cfg.Budget, fields: len(db.Layout.Shown())}, c.run)
	return c, nil
}

// Close waits until the increments that were accepted are committed, and closes the connection.
// Later ones return [ErrClosed].
func (c *Client) Close() error {
	c.queue.close()
	return c.db.Close()
}
