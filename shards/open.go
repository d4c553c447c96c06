package shards

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/api/option"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/groupcommit"
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
		cfg:    cfg,
		db:     db,
		books:  book.Of(db),
		known:  newCache(),
		turns:  turns{last: map[string]chan struct{}{}, open: map[string]int{}},
		log:    cfg.Logger,
		places: newPlaces(),
	}
	for _, n := range []int{cfg.NumShards, max(cfg.MaxShards, 1)} {
		if err := c.mayHave(n); err != nil && len(db.Layout.Fields) > 0 {
			return nil, fmt.Errorf("shards: %w", errors.Join(err, db.Close()))
		}
	}
	c.patience.lasts = cfg.Wait
	c.lookups = &lookups{read: c.lookUp}
	c.queue = newQueue(bounds{batch: cfg.MaxBatch, waiting: cfg.MaxQueue, interval: cfg.CommitInterval, budget: cfg.Budget, fields: len(db.Layout.Shown())}, c.run)
	return c, nil
}

// Close waits until the increments that were accepted are committed, and closes the connection.
// Later ones return [ErrClosed].
func (c *Client) Close() error {
	c.queue.close()
	return c.db.Close()
}

func (cfg Config) withDefaults() Config {
	cfg.NumShards = cmp.Or(cfg.NumShards, DefaultNumShards)
	cfg.CacheTTL = cmp.Or(cfg.CacheTTL, time.Minute)
	cfg.ReadCache = cmp.Or(cfg.ReadCache, time.Second)
	cfg.KeyTTL = cmp.Or(cfg.KeyTTL, 24*time.Hour)
	cfg.Timeout = cmp.Or(cfg.Timeout, 20*time.Second)
	cfg.MaxBatch = cmp.Or(cfg.MaxBatch, groupcommit.MaxRequests)
	cfg.MaxQueue = cmp.Or(cfg.MaxQueue, 10_000)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return cfg
}

// check says which settings can't be. Most would fail every call, long after the mistake was made.
func (cfg Config) check() error {
	if cfg.Hosted && cfg.AutoCreate {
		return fmt.Errorf("AutoCreate of Config is set, and Hosted: %w", ErrHosted)
	}
	for name, n := range map[string]int64{
		"MaxShards": int64(cfg.MaxShards), "CacheTTL": int64(cfg.CacheTTL), "KeyTTL": int64(cfg.KeyTTL), "Timeout": int64(cfg.Timeout),
		"Wait": int64(cfg.Wait), "MaxBatch": int64(cfg.MaxBatch), "MaxQueue": int64(cfg.MaxQueue),
		"CommitInterval": int64(cfg.CommitInterval),
	} {
		if n < 0 {
			return fmt.Errorf("%s of Config is below 0", name)
		}
	}
	return nil
}
