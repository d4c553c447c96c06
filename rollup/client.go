package rollup

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	lru "github.com/hashicorp/golang-lru/v2"
	"google.golang.org/api/option"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// Config says where the counters are. Zero values mean the defaults.
type Config struct {
	Project  string // when empty GOOGLE_CLOUD_PROJECT's, or demo-counters with FIRESTORE_EMULATOR_HOST, else found from the credentials
	Database string // default "(default)"
	Counters string // path of the counters' documents; default "counters/{counter}"
	Fields   string // what is counted, such as "likes,comments=count(comments)"; default "total=count"
	Shards   string // id of the collection of a counter's shards; default "shards"
	Hosted   bool   // the counters' documents are the app's own: none is made or deleted

	Ledgers int          // kept in memory, default 1000; one takes about 100 bytes per shard
	Logger  *slog.Logger // of flushes, contention and what was wrong ([LogRollup] …); by default silent
}

// Client rolls up the counters of a database. It is safe for concurrent use.
type Client struct {
	db    *store.DB
	log   *slog.Logger
	clock serverClock
	known *lru.Cache[string, *ledgerCopy] // :: counter id → the ledger as this client last wrote it
}

// Open connects to a database; opts are the official client's. Nothing is sent yet.
func Open(ctx context.Context, cfg Config, opts ...option.ClientOption) (*Client, error) {
	db, err := store.Open(ctx, layout.Place{
		Project: cfg.Project, Database: cfg.Database, Counters: cfg.Counters, Fields: cfg.Fields, Shards: cfg.Shards, Hosted: cfg.Hosted,
	}, opts...)
	if err != nil {
		return nil, fmt.Errorf("rollup: %w", err)
	}
	c, err := New(db, cfg)
	if err != nil {
		_ = db.Close()
	}
	return c, err
}

// New is [Open] for a connection that package shards has too, as in this module's functions. The connection, which is made
// for one place of counters, is of an internal type, since it must not be sent commits that are sent again: importers open
// one for each package.
func New(db *store.DB, cfg Config) (*Client, error) {
	cfg.Ledgers = cmp.Or(cfg.Ledgers, 1000)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	known, err := lru.New[string, *ledgerCopy](cfg.Ledgers)
	if err != nil {
		return nil, fmt.Errorf("rollup: keep %d ledgers: %w", cfg.Ledgers, err)
	}
	return &Client{db: db, clock: serverClock{asking: make(chan struct{}, 1)}, log: cfg.Logger, known: known}, nil
}

// Close closes the connection. Calls under way fail.
func (c *Client) Close() error { return c.db.Close() }

// Decode reads the data of a Firestore document event (google.cloud.firestore.document.v1.*), as protocol buffer or JSON
// by its content type. Every error is an [ErrPoison]: the event is of another database or of no shard of a counter, or can't
// be read.
func (c *Client) Decode(contentType string, data []byte) (Change, error) {
	return decode(c.db.Layout, contentType, data)
}
