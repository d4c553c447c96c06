package shards

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/internal/groupcommit"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

const (
	// MaxShards is the largest number of shards of a counter.
	MaxShards = layout.MaxShards
	// DefaultNumShards is how many shards a counter gets where nothing says otherwise.
	DefaultNumShards = layout.DefaultNumShards
)

// Place says where the counters are. Zero values mean the defaults. It has the fields
//
//	Project  string // when empty GOOGLE_CLOUD_PROJECT's, or demo-counters with
//	                // FIRESTORE_EMULATOR_HOST, else found from the credentials
//	Database string // default "(default)"
//	Counters string // path of the counters' documents; default "counters/{counter}"
//	Fields   string // what the documents show, such as "likes,comments=count(comments)";
//	                // default "total=count"
//	Shards   string // id of the collection of a counter's shards; default "shards"
//	Hosted   bool   // the counters' documents are the app's own: none is made or deleted
//	Extension bool // the roll-up takes over what clients of Firebase's Distributed Counter extension count;
//	               // only with Hosted
type Place = layout.Place

// Config says where the counters are and how they are written. Zero values mean the defaults.
type Config struct {
	Place

	// AutoCreate makes a counter of NumShards shards with its first increment, instead of
	// returning [ErrNotFound]. It can't be with Hosted.
	AutoCreate bool
	// NumShards is how many shards a counter gets by default, 1 to [MaxShards]; default
	// [DefaultNumShards].
	NumShards int
	// MaxShards lets a counter that meets contention double its shards, at most once in ten seconds, up
	// to this many. 0 never doubles them.
	MaxShards int
	// CacheTTL is how long a counter's number of shards is trusted; default 60s. If it has grown, there
	// is only more contention. If it has shrunk, the client notices. While Budget has no reads, it is trusted for longer.
	CacheTTL time.Duration
	// ReadCache is how old a counter from [Counter.Cached] may be; default 1s. Below 0 it is always
	// read.
	ReadCache time.Duration

	// InexactWrites commits without a marker unless there is a [Key]: that saves a write and a delete
	// per commit. If such a commit's answer is lost, the error is [ErrUnknown].
	InexactWrites bool
	// KeyTTL is how long a [Key] is remembered, an hour at least; default 24h. It takes a TTL
	// policy on the field expire_at of the collection counter_requests.
	KeyTTL time.Duration
	// Timeout is how long a batch is tried, retries included; default 20s.
	Timeout time.Duration
	// Wait is how long an increment waits if its context has no deadline, or up to a hundredth less:
	// those that begin together share a timer, where a context for each is 6 % of an increment's cost.
	// It should be more than Timeout, so that callers hear what became of their batch. Default: until
	// that is known.
	Wait time.Duration
	// MaxBatch is how many calls share a commit at most; default 500. With 1 no call waits for another.
	MaxBatch int
	// CommitInterval is the least time between the begins of two commits of a counter, unless the
	// second is full: calls in between wait and share it. Default 0: they wait for the end of the
	// first. The first call of a quiet counter never waits.
	CommitInterval time.Duration
	// MaxQueue is how many calls may wait for a commit, or for another one after trouble; further ones
	// return [ErrBusy]. One counter's calls take nine tenths of it at most. Default 10000.
	MaxQueue int

	// Budget bounds what is written and read, by package functions' setting CEILING; nil bounds nothing. While it has
	// no writes, increments wait for company, up to a second, and then return [ErrBusy].
	Budget *ceiling.Budget

	// Logger gets contention, growth and commits whose answer was lost; by default it is silent.
	Logger *slog.Logger
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

// Client makes, writes and reads counters in a database. It is safe for concurrent use. One process
// should use one, so that its increments share commits.
type Client struct {
	cfg      Config
	db       *store.DB
	books    book.Books
	counters cache
	queue    *queue
	turns    turns // of members, of commands of a counter, and of its sums
	log      *slog.Logger

	places *knownShards

	logged, doubled lately // counters whose contention was logged, and whose shards were doubled

	waitTimer sharedTimer

	reads singleflight.Group // of a counter's document, for [Counter.Cached]
	// sums that have not begun, for [Counter.Sum]: one that has may miss what its caller has counted
	nextSums singleflight.Group
	ends     singleflight.Group // of holds of a field that are over
	lookups  *lookups
}

// Project is the id of the project that the counters are in.
func (c *Client) Project() string { return c.db.Project() }

// Budget is that of the client's configuration.
func (c *Client) Budget() *ceiling.Budget { return c.cfg.Budget }

// Counter is a counter of a client. Having one says nothing about whether it exists. The zero value
// is no counter: all that it returns is [ErrInvalidID].
type Counter struct {
	client *Client
	id     string
}

// call does something to the counter, and names it in the error.
func (c Counter) call(what string, do func() error) error {
	err := errZero
	if c.client != nil && c.client.queue.open.Err() != nil {
		err = ErrClosed
	} else if c.client != nil {
		err = do()
	}
	if err != nil {
		return fmt.Errorf("%s counter %q: %w", what, c.id, err)
	}
	return nil
}

// Counter returns the counter of that id. Errors: [ErrInvalidID].
func (c *Client) Counter(id string) (Counter, error) {
	if err := c.db.Layout.Path.Validate(id); err != nil {
		return Counter{}, fmt.Errorf("%w: %w", ErrInvalidID, err)
	}
	return Counter{client: c, id: id}, nil
}

// ID is the counter's id.
func (c Counter) ID() string { return c.id }

// checkPlain says why nothing can be reset or rebased in any counter, as [ErrInvalidField].
func (c *Client) checkPlain() error {
	if err := c.db.Layout.CheckAnyPlain(); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidField, err)
	}
	return nil
}

// checkField says why nothing can be added to a field, as [ErrInvalidField].
func (c Counter) checkField(field string) error {
	if err := c.client.db.Layout.CheckField(field); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidField, err)
	}
	return nil
}

// checkShards says why a counter can't be given n shards.
func (c *Client) checkShards(n int) error {
	switch {
	case len(c.db.Layout.Sharded) == 0:
		return fmt.Errorf("%w: %d; a counter of documents alone has none", ErrInvalidShards, n)
	case n >= 1 && n <= MaxShards:
		return nil
	}
	return fmt.Errorf("%w: %d; a counter has 1 to %d", ErrInvalidShards, n, MaxShards)
}

// fewMarkers is how many reads of markers may be owed, less what a caller has asked for lately.
const fewMarkers = 10

// readable are the requests for whose markers and memberships the budget has reads, which it keeps for them: many may
// repeat at the same time what was done before. One that has none of these takes no read. The others are short. Who has
// asked for much lately leaves some reads to others.
func (c *Client) readable(requests []*request) (readable, short []*request, promised ceiling.Amounts) {
	budget := c.cfg.Budget
	for _, r := range requests {
		takes := ceiling.Amounts{ceiling.Reads: float64(len(r.writtenOnce()))}
		if missing := max(0, fewMarkers-r.asked) - budget.Leaves(ceiling.Reads, r.asked); !budget.Owe(takes, ceiling.Amounts{ceiling.Reads: missing}) {
			short = append(short, r)
			continue
		}
		promised = promised.Plus(takes)
		readable = append(readable, r)
	}
	return readable, short, promised
}

// forCaller is the error of a call that came to nothing. If its context has ended, or there was no
// connection, the error says only that, and is still [ErrBusy].
func (c *Client) forCaller(err error) error {
	if !errors.Is(err, ErrBusy) || errors.Is(err, ErrUnknown) {
		return err
	}
	unreachable, _ := errors.AsType[*store.Unreachable](err)
	switch {
	case errors.Is(err, context.Canceled):
		return quietBusy{context.Canceled}
	case unreachable == nil && errors.Is(err, context.DeadlineExceeded):
		if unreachable = c.db.Unreachable(); unreachable == nil {
			return quietBusy{context.DeadlineExceeded}
		}
	case unreachable == nil:
		return err
	}
	return quietBusy{unreachable}
}

// readError is [Client.forCaller] for an error of a read, or of a commit on a condition.
func (c *Client) readError(err error) error {
	if err != nil && !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrBusy) && store.MayPass(err) {
		err = fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return c.forCaller(err)
}

// quietBusy is an error that is [ErrBusy] too, and doesn't say so.
type quietBusy struct{ error }

func (e quietBusy) Unwrap() []error { return []error{e.error, ErrBusy} }

// logDoubt logs a commit whose outcome is not known.
func (c *Client) logDoubt(b *batch, err error) {
	if store.KindOf(err) == store.Doubtful {
		deltas := b.deltas()
		c.log.Warn(LogAmbiguous, "counter", deltas[0].counter, "counters", len(deltas), "marked", b.deciding() != "", "error", err)
	}
}

// Messages of the log lines that metrics look for.
const (
	LogAmbiguous = "ambiguous commit" // a commit's answer was lost
	// a commit met another's and is tried again, on another shard
	LogContention = "contention"
)

// edit carries out a command, which must not be applied twice: see [book.Books.Edit]. Those of one client take turns:
// each reads again what others have changed meanwhile, all shards among it.
func (c Counter) edit(ctx context.Context, decide func(context.Context, *book.Edit) error) error {
	defer c.client.counters.Remove(c.id)
	over, err := c.client.turns.wait(ctx, c.client.db.Layout.BaseOf(c.id))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}
	defer over()
	return c.client.books.Edit(ctx, c.id, func(ctx context.Context, e *book.Edit) (bool, error) { return true, decide(ctx, e) })
}
