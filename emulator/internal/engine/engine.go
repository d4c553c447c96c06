package engine

import (
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator/internal/document"
)

// Options configures an Engine; every zero value takes the default that its field names.
type Options struct {
	// Now is the clock. Commit times are strictly increasing even where it is not. Default:
	// time.Now.
	Now func() time.Time
	// LockWait is how long a read or commit waits for locks before it fails with ABORTED. Default:
	// 15 s, as production's; the official emulator waits 2 s, too short for 50 transactions in a
	// queue.
	LockWait time.Duration
	// TransactionIdle is after how long without a request a transaction ends, and gives its locks
	// back. Default: 60 s.
	TransactionIdle time.Duration
	// History is how long superseded versions can be read. Default: 1 h.
	History time.Duration
	// HistoryVersions is how many superseded versions a database keeps at most. Default: 250,000.
	HistoryVersions int
	// HistoryBytes is how large the superseded versions of a database may be together, counted as
	// Firestore counts document sizes (the heap holds several times as much). Default: 64 MiB.
	HistoryBytes int
	// TTL names, per collection id, the field after whose time a document expires.
	TTL map[string]string
	// SweepEvery is how often expired documents are looked for, where TTL names any. Default: 1
	// min.
	SweepEvery time.Duration
	// Enterprise is that edition: transactions lock nothing that they read, and fail at their commit; a sum of nothing
	// is null. No query needs an index in either edition here.
	Enterprise bool
	// OnDatabase is called with the name of each database that is used, at its first use.
	OnDatabase func(name string)
}

func (o Options) withDefaults() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.LockWait == 0 {
		o.LockWait = 15 * time.Second
	}
	if o.TransactionIdle == 0 {
		o.TransactionIdle = time.Minute
	}
	if o.History == 0 {
		o.History = time.Hour
	}
	if o.HistoryVersions == 0 {
		o.HistoryVersions = 250_000
	}
	if o.HistoryBytes == 0 {
		o.HistoryBytes = 64 << 20
	}
	if o.SweepEvery == 0 {
		o.SweepEvery = time.Minute
	}
	return o
}

// Engine holds any number of databases, of any number of projects; each comes into being with its
// first use.
type Engine struct {
	opts    Options
	started int64 // microseconds
	hot     hotDocuments
	indexes indexes
	stats   stats
	feed    feed

	mu        sync.RWMutex
	databases map[string]*database
	closed    bool
	done      chan struct{} // closed by Close
	sweeping  sync.WaitGroup
}

// New makes an empty Engine. Close it to end its goroutines and whoever waits in it.
func New(opts Options) *Engine {
	e := &Engine{opts: opts.withDefaults(), databases: make(map[string]*database), done: make(chan struct{})}
	e.started = e.now()
	e.feed.init()
	if len(e.opts.TTL) > 0 {
		e.sweeping.Go(e.sweepUntilClosed)
	}
	return e
}

// Close ends all waiting for locks, slots and changes with UNAVAILABLE, and returns when no
// OnCommit function runs any more. Calls that come later may fail likewise.
func (e *Engine) Close() {
	e.mu.Lock()
	if !e.closed {
		e.closed = true
		close(e.done)
	}
	for _, db := range e.databases {
		db.close()
	}
	e.mu.Unlock()
	e.sweeping.Wait()
	e.feed.close()
}

// close stops the timers of transactions, which would keep the database in memory.
func (db *database) close() {
	db.mu.Lock()
	defer db.mu.Unlock()
	for _, tx := range db.transactions.open {
		tx.expiry.Stop()
	}
}

func errClosed() error { return status.Error(codes.Unavailable, "The server is shutting down.") }

func (e *Engine) now() int64 { return e.opts.Now().UnixMicro() }

// database finds a database by its name, projects/{project}/databases/{database}.
func (e *Engine) database(name string) (*database, error) {
	e.mu.RLock()
	db := e.databases[name]
	e.mu.RUnlock()
	if db != nil {
		return db, nil
	}
	if err := document.CheckDatabase(name); err != nil {
		return nil, err
	}
	e.mu.Lock()
	db = e.databases[name]
	first := db == nil
	if first {
		db = newDatabase(e, name)
		e.databases[name] = db
	}
	e.mu.Unlock()
	if first && e.opts.OnDatabase != nil {
		e.opts.OnDatabase(name)
	}
	return db, nil
}

// databaseFor finds the database that a resource name begins with.
func (e *Engine) databaseFor(resource string) (*database, error) {
	name, err := document.DatabaseOf(resource)
	if err != nil {
		return nil, err
	}
	return e.database(name)
}
