package shards_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/testbed/chance"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/shards"
)

const (
	credits       = 500
	creditWorkers = 64
)

var creditsLast = flag.Duration("credits.last", 2*time.Second, "how long TestCredits holds and settles credits")

// creditBooks are books that also tell who waits how little room there was meanwhile.
type creditBooks struct {
	*books
	at       time.Time       // of the last commit
	recorded int64           // what the records say is used, and held
	refunded int64           // what came back of what was used
	waiting  map[*int64]bool // the least room for each who waits
}

// room is how much there was after the last commit. Holds whose time is over count as room. The lock is held.
func (b *creditBooks) room() (free int64) {
	for _, f := range b.shards {
		free += f["share(total)"].GetIntegerValue() - f["total"].GetIntegerValue()
	}
	for _, f := range b.records {
		if !f["ends"].GetTimestampValue().AsTime().After(b.at) {
			free += f["amount"].GetIntegerValue()
		}
	}
	return free
}

// committed checks that a commit moves the shards by what the records say, or gives back what was used.
func (b *creditBooks) committed(t *testing.T, changes []emulator.Change) {
	for _, c := range changes {
		if at := c.New.GetUpdateTime(); at != nil {
			b.at = at.AsTime()
		}
	}
	recorded, share := b.used, int64(0)
	for _, f := range b.records {
		recorded += f["amount"].GetIntegerValue()
	}
	for _, f := range b.shards {
		share += f["share(total)"].GetIntegerValue()
	}
	if recorded == b.recorded { // a refund, or no change
		b.refunded = recorded - b.count
	}
	if b.recorded = recorded; recorded-b.refunded != b.count || share != credits && share != 0 {
		t.Errorf("the records have %d, of which %d came back, and the shards %d of %d", recorded, b.refunded, b.count, share)
	}
	room := b.room()
	for least := range b.waiting {
		*least = min(*least, room)
	}
}

// watch begins to look for the least room, and returns what says how much that was.
func (b *creditBooks) watch() (least func() int64) {
	_ = b.server.WaitForChanges(context.Background())
	b.mu.Lock()
	defer b.mu.Unlock()
	n := new(b.room())
	b.waiting[n] = true
	return func() int64 {
		_ = b.server.WaitForChanges(context.Background())
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.waiting, n)
		return *n
	}
}

// process is a process that may be killed: from then on nothing that it sends arrives, and it hears no answer.
type process struct {
	shards.Counter
	alive context.Context
	kill  context.CancelFunc
}

func (w *world) process(t *testing.T) *process {
	alive, kill := context.WithCancel(context.Background())
	t.Cleanup(kill)
	client := w.open(t, withLimit,
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if alive.Err() != nil {
				return unavailable
			}
			err := call(ctx, method, req, reply, conn, opts...)
			if alive.Err() != nil {
				return unavailable
			}
			return err
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, call grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			if alive.Err() != nil {
				return nil, unavailable
			}
			return call(ctx, desc, conn, method, opts...)
		}))
	return &process{handle(t, client, "a"), alive, kill}
}

// creditWorker holds and settles credits. It asks until there is an answer.
type creditWorker struct {
	*testing.T
	*rand.Rand
	books     *creditBooks
	instances []atomic.Pointer[process]
}

// some is one of the instances, and the context of a call to it, which ends with the process.
func (w creditWorker) some() (*process, context.Context) {
	i := w.instances[w.IntN(len(w.instances))].Load()
	return i, i.alive
}

// until asks until there is an answer, and checks that nobody is refused who had room for so much all the time.
func (w creditWorker) until(n int64, ask func(ctx context.Context, c *process) error) (err error) {
	for again := true; again; {
		least := w.books.watch()
		i, ctx := w.some()
		err = ask(ctx, i)
		room, killed := least(), ctx.Err() != nil
		again = killed || errors.Is(err, shards.ErrBusy) || errors.Is(err, shards.ErrUnknown)
		if errors.Is(err, shards.ErrLimit) && !killed && room >= n {
			w.Errorf("%d are refused, and there was room for %d at all times: %v", n, room, err)
		}
	}
	return err
}

// settle settles a hold of an amount for what was used, for all that it has if there is no room for more. Own is how
// much of the room may be its own, once its time is over: that is none for more of it.
func (w creditWorker) settle(key shards.Key, by, used, own int64) (int64, error) {
	err := w.until(used-by+own, func(ctx context.Context, c *process) error { return only(c.Settle(ctx, "total", used, key)) })
	if errors.Is(err, shards.ErrLimit) {
		used = by
		err = w.until(0, func(ctx context.Context, c *process) error { return only(c.Settle(ctx, "total", used, key)) })
	}
	return used, err
}

// creditTally is what workers have seen.
type creditTally struct{ held, settled, crashed, killed, ended, refused, refunded atomic.Int64 }

// work is one hold of a worker, until it is settled, given back, or forgotten.
func (w creditWorker) work(tally *creditTally, key shards.Key) {
	by, lasts, own := 1+w.Int64N(40), time.Minute, int64(0)
	reserve := func(ctx context.Context, c *process) error {
		_, err := c.ReserveBriefly(ctx, by, lasts, key)
		return err
	}
	dies := w.IntN(4) == 0
	if dies {
		lasts, own = 20*time.Millisecond, by
		i, alive := w.some()
		short, cancel := context.WithTimeout(alive, time.Duration(w.IntN(4000))*time.Microsecond)
		_ = reserve(short, i)
		cancel()
		if tally.crashed.Add(1); w.IntN(2) == 0 {
			return
		}
	}
	switch err := w.until(by, reserve); {
	case errors.Is(err, shards.ErrLimit):
		tally.refused.Add(1)
		time.Sleep(time.Duration(w.IntN(10)) * time.Millisecond)
		return
	case err != nil:
		w.Error(err)
		return
	}
	tally.held.Add(1)
	time.Sleep(time.Duration(w.IntN(5)) * time.Millisecond)
	used, err := w.settle(key, by, w.Int64N(by+by/8+1), own)
	_, again := w.settle(key, by, used, own)
	switch {
	case errors.Is(err, shards.ErrHoldEnded) && errors.Is(again, shards.ErrHoldEnded) && dies:
		tally.ended.Add(1)
	case err != nil || again != nil:
		w.Errorf("settled: %v, then %v", err, again)
	default:
		tally.settled.Add(1)
		var h shards.Hold
		err := w.until(0, func(ctx context.Context, c *process) (err error) {
			h, err = c.Settle(ctx, "total", used+1, key)
			return err
		})
		wantSettled(w.T, h, err, used)
		err = w.until(0, func(ctx context.Context, c *process) (err error) {
			h, err = c.GiveBack(ctx, "total", key)
			return err
		})
		wantSettled(w.T, h, err, used)
		if used > 0 { // so that it goes on
			if err := w.until(0, func(ctx context.Context, c *process) error {
				_, err := c.AddOnce(ctx, -used, shards.Key{Value: "refund of " + key.Value})
				return err
			}); err != nil {
				w.Error(err)
			}
			tally.refunded.Add(used)
		}
	}
}

// 64 workers on three instances hold 1 to 40 of 500 credits, and settle, crash, retry, and settle twice, while answers
// get lost, commits arrive late or twice, and instances are killed, and others without memory take their places. What
// is used and what is left is 500 after each commit, nothing comes back twice, and nobody is refused who had room all
// the time.
func TestCredits(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := &creditBooks{books: w.keepBooks(t), waiting: map[*int64]bool{}}
		b.after = func(changes []emulator.Change) { b.committed(t, changes) }
		limit(t, w.counter(t, w.open(t, withLimit), "a", 5), credits)
		late := w.failCommits(24, 20*time.Millisecond, true, func(req *firestorepb.CommitRequest) bool { return false })
		instances := make([]atomic.Pointer[process], 3)
		for i := range instances {
			instances[i].Store(w.process(t))
		}
		var tally creditTally
		var group sync.WaitGroup
		ends := time.Now().Add(*creditsLast)
		for n := range creditWorkers {
			worker := creditWorker{t, rand.New(rand.NewPCG(uint64(n), 1)), b, instances}
			group.Go(func() {
				for i := 0; time.Now().Before(ends) && !t.Failed(); i++ {
					worker.work(&tally, named(fmt.Sprint(n, "-", i)))
				}
			})
		}
		group.Go(func() {
			for r := rand.New(rand.NewPCG(creditWorkers, 1)); time.Now().Before(ends); tally.killed.Add(1) {
				time.Sleep(chance.Below(r, time.Second))
				instances[r.IntN(len(instances))].Swap(w.process(t)).kill()
			}
		})
		group.Wait()
		late.Wait()
		w.Server.SetInterceptor(nil)
		for n := 0; n < 50 && b.open() > 0; n++ { // what crashed workers have sent comes yet
			time.Sleep(20 * time.Millisecond)
			w.rollUpLimit(t, "a") // ends what is over
		}
		if open := b.open(); open > 0 || b.refunded != tally.refunded.Load() || b.count != 0 {
			t.Errorf("%d are used and %d holds open in the end; %d came back of %d", b.count, open, b.refunded, tally.refunded.Load())
		}
		t.Logf("%d held, %d settled, %d callers crashed, %d instances killed, %d ended, %d refused, in %d commits",
			tally.held.Load(), tally.settled.Load(), tally.crashed.Load(), tally.killed.Load(), tally.ended.Load(), tally.refused.Load(), b.commits)
	})
}
