package rollup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"google.golang.org/api/option"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/internal/extension"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// Place says where the counters are: package shards has the same type, and says what its fields are.
type Place = layout.Place

// Config says which counters are rolled up, and how. Zero values mean the defaults.
type Config struct {
	Place

	// Budget bounds what is written and read, by package functions' setting CEILING; nil bounds nothing. While it has
	// none, refreshes wait, and so do reconciles of several counters.
	Budget *ceiling.Budget

	// of refreshes, contention and what was wrong ([LogRollup] …); by default silent
	Logger *slog.Logger
}

// Client rolls up the counters of a database. It is safe for concurrent use.
type Client struct {
	db          *store.DB
	books       book.Books
	log         *slog.Logger
	memories    *lru.Cache[string, *memory] // :: counter id → what is remembered of it
	mu          sync.Mutex                  // of query, and of taking a memory out of memories
	query       time.Duration               // that a lone query takes, as far as is known
	readTurn    chan struct{}               // holds who waits for the read of a look at a document: see [Client.findCounter]
	extension   extension.Lookout
	looksOnceIn int // of so many walks one looks at each shard of a counter, whatever the sums say
}

// looksOnceIn is about a day's walks, if they are hourly. One of them finds what something else has written into shards.
const looksOnceIn = 24

// loneQuery is how long a query is taken to take until one was measured: a lone one takes 20 to 40 ms.
const loneQuery = 40 * time.Millisecond

// remembered is how many counters are kept in memory; one takes about 1 KB.
const remembered = 5000

// Open connects to a database; opts are the official client's. Nothing is sent yet.
func Open(ctx context.Context, cfg Config, opts ...option.ClientOption) (*Client, error) {
	known, err := lru.New[string, *memory](remembered)
	if err != nil {
		return nil, fmt.Errorf("rollup: %w", err)
	}
	db, err := store.Open(ctx, cfg.Place, opts...)
	if err != nil {
		return nil, fmt.Errorf("rollup: %w", err)
	}
	db.Budget = cfg.Budget
	return &Client{
		db: db, books: book.In(db), memories: known, query: loneQuery, readTurn: make(chan struct{}, 1), looksOnceIn: looksOnceIn,
		log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)),
	}, nil
}

// Budget is that of the client's configuration.
func (c *Client) Budget() *ceiling.Budget { return c.db.Budget }

// Close closes the connection. Calls under way fail.
func (c *Client) Close() error { return c.db.Close() }

// Errors of this package; those of the client library are passed on.
var (
	// ErrPoison says that an event can never be counted. Log and acknowledge it: a reconcile covers
	// what it carried.
	ErrPoison = errors.New("event can never be counted")
	// ErrUnreadable says that an event doesn't say which document was changed when. The path of its document is enough:
	// see [Client.Named]. It is an [ErrPoison], too.
	ErrUnreadable = fmt.Errorf("%w: its data can't be read", ErrPoison)
	// ErrInvalidID says that an id can't be a counter's, and why.
	ErrInvalidID = errors.New("invalid counter id")
	// ErrContention says that too many write the counter's documents, and that nothing was applied.
	ErrContention = store.ErrContention
	// ErrDamagedBase says that this version hasn't written what is beside the counter, and what that holds. If you
	// delete it, rebase the counter.
	ErrDamagedBase = book.ErrDamaged
	// ErrOthers says that the counter is counted with another HOSTED, SHARDS or COUNTERS than here. Nothing was
	// changed. It is an [ErrDamagedBase], too.
	ErrOthers = book.ErrOthers
	// ErrExtensionRuns says that Firebase's extension still runs, and would write the same fields: nothing was changed.
	// Uninstall it.
	ErrExtensionRuns = extension.ErrRuns
	// ErrBusy says that too many events wait already. Deliver the event again.
	ErrBusy = errors.New("too many events are waiting")
	// ErrClosed says that the roller is closed. Deliver the event again.
	ErrClosed = errors.New("roll-up is closed")
)

// Messages of the log that metrics and alerts filter on. Each comes with the counter.
const (
	// a refresh; with events, delta, reads, duration_ms, lag_ms
	LogRollup     = "roll-up"
	LogContention = "contention" // a refresh failed because too many write the counter's document
	// a document showed another total than was written last, and was set; with drift, by how much
	LogDrift = "drift"
	// events of a counter can't be counted, for a reason of its own: it must be reconciled, and each
	// time that this fails it is said again; with age_s, since when, and error
	LogNoted = "counter must be reconciled"
)

// Further messages, also with the counter.
const (
	logRollupFailed = "roll-up failed" // a refresh failed, and not for contention
	// queries were asked; with collection, events, reads, values, duration_ms
	logRecount = "recount"
	// one has no answer; with collection and error, or field and problem
	logRecountFailed = "recount failed"
	// a counter got a document, or a field is shown for the first time where a number stood: with replaced_total
	logAdopted     = "adopted"
	logNotedDone   = "what was noted is reconciled" // with age_s
	logNotesUnread = "notes can't be read"          // of counters that must be reconciled
	logProblem     = "problem"                      // something keeps a total from being right; with problem
)

// problemTooLarge says what keeps a counter's document from showing its totals.
const problemTooLarge = "its document can't be written, because it has no room or holds what Firestore no longer takes; make room in it: what is counted meanwhile is kept, and shown then"
