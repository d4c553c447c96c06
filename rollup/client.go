package rollup

import (
	"context"
	"fmt"
	"log/slog"

	lru "github.com/hashicorp/golang-lru/v2"
	"google.golang.org/api/option"

	"github.com/firestore-counters/counters/internal/store"
)

// Config says where the counters are. Zero values mean the defaults.
type Config struct {
	Project    string // found from the credentials when empty
	Database   string // default "(default)"
	Collection string // of the counters; default "counters"
	CountField string // of a shard; default "count"

	// Ledgers is how many ledgers are kept in memory, default 1000. One takes about 100 bytes per shard.
	Ledgers int
	// Logger is told of drift, adoptions and shards whose count is not an integer; by default nobody is.
	Logger *slog.Logger
}

// Client applies states of shards to counters in a database. It is safe for concurrent use.
type Client struct {
	db    *store.DB
	log   *slog.Logger
	known *lru.Cache[string, *ledgerCopy] // :: counter id → the ledger as this client last wrote it
}

// Open connects to a database; opts are the official client's. Nothing is sent yet.
func Open(ctx context.Context, cfg Config, opts ...option.ClientOption) (*Client, error) {
	if cfg.Ledgers == 0 {
		cfg.Ledgers = 1000
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	known, err := lru.New[string, *ledgerCopy](cfg.Ledgers)
	if err != nil {
		return nil, fmt.Errorf("rollup: keep %d ledgers: %w", cfg.Ledgers, err)
	}
	db, err := store.Open(ctx, store.Config{
		Project: cfg.Project, Database: cfg.Database, Collection: cfg.Collection, CountField: cfg.CountField,
	}, opts...)
	if err != nil {
		return nil, fmt.Errorf("rollup: %w", err)
	}
	return &Client{db: db, log: cfg.Logger, known: known}, nil
}

// Close closes the connection. Calls under way fail.
func (c *Client) Close() error { return c.db.Close() }

// Decode reads an event as [Decode] does, and refuses one of another database or collection, as [ErrPoison].
func (c *Client) Decode(contentType string, data []byte) (Change, error) {
	change, err := Decode(contentType, data, c.db.CountField)
	if err != nil {
		return Change{}, err
	}
	if change.Database != c.db.Database || change.Collection != c.db.Collection {
		return Change{}, fmt.Errorf("%w: it is of %s in %s, and this roll-up is for %s in %s",
			ErrPoison, change.Collection, change.Database, c.db.Collection, c.db.Database)
	}
	return change, nil
}
