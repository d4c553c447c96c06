package rollup

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"google.golang.org/api/option"

	"github.com/firestore-counters/counters/internal/conn"
	"github.com/firestore-counters/counters/internal/schema"
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
	db     *conn.DB
	layout schema.Layout
	log    *slog.Logger
	known  *lru.Cache[string, *ledgerCopy] // :: counter id → the ledger as this client last wrote it
}

// Open connects to a database; opts are the official client's. Nothing is sent yet.
func Open(ctx context.Context, cfg Config, opts ...option.ClientOption) (*Client, error) {
	if cfg.Collection == "" {
		cfg.Collection = "counters"
	}
	if cfg.CountField == "" {
		cfg.CountField = "count"
	}
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
	db, err := conn.Open(ctx, cfg.Project, cfg.Database, opts...)
	if err != nil {
		return nil, fmt.Errorf("rollup: %w", err)
	}
	layout := schema.Layout{Database: db.Name, Collection: cfg.Collection, CountField: cfg.CountField}
	return &Client{db: db, layout: layout, log: cfg.Logger, known: known}, nil
}

// Close closes the connection. Calls under way fail.
func (c *Client) Close() error { return c.db.Close() }

// Decode reads an event as [Decode] does, and refuses one of another database or collection, as [ErrPoison].
func (c *Client) Decode(contentType string, data []byte) (Change, error) {
	change, err := Decode(contentType, data, c.layout.CountField)
	if err != nil {
		return Change{}, err
	}
	if change.Database != c.layout.Database || change.Collection != c.layout.Collection {
		return Change{}, fmt.Errorf("%w: it is of %s in %s, and this roll-up is for %s in %s",
			ErrPoison, change.Collection, change.Database, c.layout.Collection, c.layout.Database)
	}
	return change, nil
}

// pause waits for about a tenth of a second the first time, and twice as long each time up to two seconds.
func pause(ctx context.Context, attempt int) error {
	timer := time.NewTimer(jitter(min(100*time.Millisecond<<min(attempt, 5), 2*time.Second)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
