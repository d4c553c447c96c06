package engine

import (
	"sync"
	"sync/atomic"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/firestore-counters/counters/emulator/internal/locks"
	"github.com/firestore-counters/counters/emulator/internal/versions"
)

// database is one database: documents, locks and listeners. What takes time (evaluating, encoding,
// sending, calling out) happens outside of its lock.
type database struct {
	engine *Engine
	name   string
	root   string // name/documents

	last atomic.Int64 // the youngest time handed out, to a commit or a reader

	mu sync.RWMutex
	*versions.Tree
	locks        *locks.Table
	transactions transactions
	listeners    listeners
	changed      map[locks.Resource]int64 // only in Enterprise edition: when a collection or group was written last
}

func newDatabase(e *Engine, name string) *database {
	db := &database{
		engine: e,
		name:   name,
		root:   name + "/documents",
		Tree:   versions.New(),
	}
	db.last.Store(e.started)
	db.locks = locks.New(locks.Config{
		Mu: &db.mu, Wait: e.opts.LockWait, Closed: e.done, ErrClosed: errClosed(), Waits: &e.stats.lockWaits, Refused: &e.stats.lockRefused,
	})
	db.transactions.init(e.started)
	if e.opts.Enterprise {
		db.changed = map[locks.Resource]int64{}
	}
	db.listeners.init()
	return db
}

// readTime is the present, as a reader sees it: not before any commit that has been applied, and
// before every one that hasn't been. The caller holds the lock, for reading at least.
func (db *database) readTime() int64 {
	now := db.engine.now()
	for {
		last := db.last.Load()
		if last >= now {
			return last
		}
		if db.last.CompareAndSwap(last, now) {
			return now
		}
	}
}

// commitTime is later than every time handed out so far, and not before the one given. The caller
// holds the lock for writing.
func (db *database) commitTime(notBefore int64) int64 {
	t := max(db.engine.now(), db.last.Load()+1, notBefore)
	db.last.Store(t)
	return t
}

// present is readTime for callers without the lock.
func (db *database) present() int64 {
	db.mu.RLock()
	defer db.mu.RUnlock()
	return db.readTime()
}

// pastTime checks a time that a reader asks for.
func (db *database) pastTime(t *timestamppb.Timestamp) (int64, error) {
	if err := t.CheckValid(); err != nil {
		return 0, invalid("Invalid read_time: %v.", err)
	}
	if t.Nanos%1000 != 0 {
		return 0, invalid("read_time must be in whole microseconds.")
	}
	at := micros(t)
	if at > db.present() {
		return 0, invalid("read_time %s is in the future.", t.AsTime().Format(timeFormat))
	}
	return at, db.checkKept(at)
}

const timeFormat = "2006-01-02T15:04:05.000000Z07:00"

// checkKept refuses times of which versions may be missing. A reader checks before it reads and, as
// the past may have been cut off meanwhile, once more when it is done.
func (db *database) checkKept(at int64) error {
	if at < db.Horizon.Load() || at < db.engine.now()-db.engine.opts.History.Microseconds() {
		return status.Errorf(codes.FailedPrecondition, "The requested read_time %s is too old.",
			timestamp(at).AsTime().Format(timeFormat))
	}
	return nil
}

// lookup is a document as of a time.
func (db *database) lookup(name string, at int64) *pb.Document {
	db.mu.RLock()
	n := db.Nodes[name]
	db.mu.RUnlock()
	if n == nil {
		return nil
	}
	return n.At(at)
}
