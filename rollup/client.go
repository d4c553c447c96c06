package rollup

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"

	lru "github.com/hashicorp/golang-lru/v2"
	"google.golang.org/api/option"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// Place says where the counters are: package shards has the same type, and says what its fields are.
type Place = layout.Place

// Config says which counters are rolled up, and how. Zero values mean the defaults.
type Config struct {
	Place

	Ledgers int // kept in memory, default 1000; one takes about 100 bytes per shard
	// of flushes, contention and what was wrong ([LogRollup] …); by default silent
	Logger *slog.Logger
}

// Client rolls up the counters of a database. It is safe for concurrent use.
type Client struct {
	db     *store.DB
	books  book.Books
	log    *slog.Logger
	asking chan struct{}                   // holds one while Firestore is asked for its time: one question is enough for all who wait
	known  *lru.Cache[string, *ledgerCopy] // :: counter id → the ledger as this client last wrote it
	looks  func() bool                     // whether a walk looks at each shard of a counter, whatever the sums say
}

// looksOnceIn is how many walks there are, on average, for one that looks at each shard of a counter:
// about a day's, if they are hourly. It finds losses for which others make up in the sum.
const looksOnceIn = 24

// Open connects to a database; opts are the official client's. Nothing is sent yet.
func Open(ctx context.Context, cfg Config, opts ...option.ClientOption) (*Client, error) {
	known, err := lru.New[string, *ledgerCopy](cmp.Or(cfg.Ledgers, 1000))
	if err != nil {
		return nil, fmt.Errorf("rollup: keep %d ledgers: %w", cfg.Ledgers, err)
	}
	db, err := store.Open(ctx, cfg.Place, opts...)
	if err != nil {
		return nil, fmt.Errorf("rollup: %w", err)
	}
	return &Client{
		db: db, books: book.Of(db), asking: make(chan struct{}, 1), known: known, looks: func() bool { return rand.IntN(looksOnceIn) == 0 },
		log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)),
	}, nil
}

// Close closes the connection. Calls under way fail.
func (c *Client) Close() error { return c.db.Close() }

// ledgerCopy is a ledger as this client last wrote it. Whoever uses it takes it out of the cache, so
// that nobody else has it meanwhile.
type ledgerCopy struct {
	*ledger.Ledger
	// shared: others have written the ledger between this client's last two flushes. A commit on this
	// copy's condition would likely fail, so the ledger is read first.
	shared bool
}

func (c *Client) take(counter string) *ledgerCopy {
	l, ok := c.known.Get(counter)
	if !ok || !c.known.Remove(counter) { // a concurrent call was faster
		return nil
	}
	return l
}

// put keeps a copy, unless it claims a time that has not come: a reconcile takes that out, in any instance.
func (c *Client) put(counter string, l *ledgerCopy) {
	if !l.Ahead() {
		c.known.Add(counter, l)
	}
}
