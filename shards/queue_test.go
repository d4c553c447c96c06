package shards

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firestore-counters/counters/internal/groupcommit"
)

// traffic is a queue whose batches are held in flight until a test lets them end.
type traffic struct {
	*queue
	t     *testing.T
	group sync.WaitGroup
	// :: counters of a batch, and how many requests it has → what ends it
	inFlight map[string][]chan struct{}
	// counters of each batch and how many requests it has, in order
	begun []string
	last  *flight
	mu    sync.Mutex
}

func newTraffic(t *testing.T, b bounds) *traffic {
	w := &traffic{t: t, inFlight: map[string][]chan struct{}{}}
	w.queue = newQueue(b, func(f *flight) {
		name := ""
		for _, sum := range f.deltas() {
			name += sum.counter
		}
		end := make(chan struct{})
		w.mu.Lock()
		name += fmt.Sprint(len(f.requests))
		w.begun = append(w.begun, name)
		w.last = f
		w.inFlight[name] = append(w.inFlight[name], end)
		w.mu.Unlock()
		<-end
		f.answer(outcome{})
	})
	return w
}

// one is a request that adds 1 to a counter.
func one(t testing.TB, counter string) *request {
	t.Helper()
	r, err := newRequest(flat, []Increment{{Counter: counter, By: 1}}, Key{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (w *traffic) add(counter string, n int) {
	w.t.Helper()
	for range n {
		r := one(w.t, counter)
		w.group.Go(func() {
			if out := w.queue.await(w.t.Context(), r); out.err != nil {
				w.t.Error(out.err)
			}
		})
	}
	synctest.Wait()
}

// want fails unless these batches have begun since the last call.
func (w *traffic) want(batches ...string) {
	w.t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if got, want := fmt.Sprint(w.begun), fmt.Sprint(batches); got != want {
		w.t.Errorf("batches %v, want %v", got, want)
	}
	w.begun = nil
}

// few has as many commits in flight as begin at once: of the counters a to d.
func (w *traffic) few() {
	w.t.Helper()
	for _, counter := range []string{"a", "b", "c", "d"} {
		w.add(counter, 1)
	}
	w.want("a1", "b1", "c1", "d1")
}

func (w *traffic) end(batch string) {
	w.t.Helper()
	w.mu.Lock()
	ends := w.inFlight[batch]
	if len(ends) == 0 {
		w.t.Fatalf("no batch %s is in flight", batch)
	}
	if w.inFlight[batch] = ends[1:]; len(ends) == 1 {
		delete(w.inFlight, batch)
	}
	w.mu.Unlock()
	close(ends[0])
	synctest.Wait()
}

func (w *traffic) finish() {
	w.t.Helper()
	for {
		w.mu.Lock()
		var batch string
		for batch = range w.inFlight {
			break
		}
		w.mu.Unlock()
		if batch == "" {
			break
		}
		w.end(batch)
	}
	w.group.Wait()
	w.close()
	if len(w.lines) > 0 || w.waiting != 0 || w.commits != 0 || len(w.ready) > 0 {
		w.t.Errorf("left: %d lines, %d waiting requests, %d commits, %d ready", len(w.lines), w.waiting, w.commits, len(w.ready))
	}
}

// One commit of a counter is in flight while few increments wait, and a few more once many do.
func TestCommitsOfOneCounter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTraffic(t, bounds{batch: 500, waiting: 10_000})
		w.add("a", 1)
		w.want("a1") // at once
		w.add("a", groupcommit.ManyWaiting-1)
		w.want()
		w.add("a", 1)
		w.want("a64")
		w.add("a", groupcommit.ManyWaiting+1)
		w.want("a64")
		w.end("a64")
		w.add("a", 2*groupcommit.ManyWaiting)
		time.Sleep(time.Second)
		w.want("a64", "a64")
		w.add("a", 200)
		w.want() // four are in flight, and that is enough
		w.end("a1")
		w.want("a201")
		w.finish()
		r := one(t, "a")
		if out := w.queue.await(t.Context(), r); !errors.Is(out.err, ErrClosed) {
			t.Errorf("after close: %v, want ErrClosed", out.err)
		}
	})
}

// With an interval, the first increment of a quiet counter goes at once, and what follows waits for the
// interval's end, but for a full batch; other counters' go as ever.
func TestCommitInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval = 50 * time.Millisecond
		w := newTraffic(t, bounds{batch: 100, waiting: 10_000, interval: interval})
		w.add("a", 1)
		w.want("a1")
		w.end("a1")
		w.add("a", 2)
		time.Sleep(interval / 2)
		w.add("a", groupcommit.ManyWaiting)
		w.add("b", 1)
		w.want("b1")
		time.Sleep(interval/2 - time.Nanosecond)
		w.want()
		time.Sleep(time.Nanosecond)
		w.want("a66")
		w.add("a", 99) // while it is in flight
		time.Sleep(interval)
		w.want("a99") // beside it: many wait
		w.add("a", 99)
		w.want()
		w.add("a", 1)
		w.want("a100") // full
		w.end("a66")
		w.end("a99")
		w.end("a100")
		time.Sleep(interval)
		w.add("a", 1)
		w.want("a1") // at once: it has been quiet for an interval
		w.end("a1")
		w.end("b1")
		time.Sleep(interval)
		synctest.Wait()
		if len(w.lines) > 0 {
			t.Errorf("%d lines of quiet counters are kept", len(w.lines))
		}
		w.finish()
	})
}

// What waits for company when the client is closed is committed; what goes away before is not.
func TestCloseEndsTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTraffic(t, bounds{batch: 500, waiting: 10_000, interval: time.Second})
		w.add("a", 1)
		w.end("a1")
		w.want("a1")
		ctx, leave := context.WithCancel(t.Context())
		r := one(t, "a")
		w.group.Go(func() {
			if out := w.queue.await(ctx, r); !errors.Is(out.err, ErrBusy) || out.pending {
				t.Errorf("who went away hears %+v, want that nothing was counted", out)
			}
		})
		w.add("a", 2)
		leave()
		w.want()
		w.group.Go(w.queue.close)
		w.want("a2")
		w.end("a2")
		time.Sleep(time.Second)
		synctest.Wait()
		w.finish()
	})
}

// Who has left a shared batch doesn't wait for company: its time runs.
func TestALeaverWaitsForNoInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const commit = time.Millisecond
		q := newQueue(bounds{batch: 500, waiting: 100, interval: time.Second}, func(f *flight) {
			if time.Sleep(commit); !f.mixed() {
				f.answer(outcome{})
			}
		})
		var group sync.WaitGroup
		add := func(counter string) {
			r := one(t, counter)
			group.Go(func() {
				began := time.Now()
				out := q.await(t.Context(), r)
				if took := time.Since(began); out.err != nil || took > 3*commit {
					t.Errorf("%s: %v, after %v", counter, out.err, took)
				}
			})
			synctest.Wait()
		}
		for n := range groupcommit.FewCommits { // so that the next ones share a commit
			add(fmt.Sprint("other", n))
		}
		add("a")
		add("b")
		group.Wait()
		q.close()
	})
}

// Where no commit is shared, each increment has its own at once, and those count as waiting.
func TestNothingIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const room = 100
		w := newTraffic(t, bounds{batch: 1, waiting: room})
		w.add("a", room-1)
		w.want(slices.Repeat([]string{"a1"}, room-1)...)
		w.add("b", 1)
		w.want("b1")
		r := one(t, "a")
		if out := w.queue.await(t.Context(), r); !errors.Is(out.err, ErrBusy) {
			t.Errorf("beyond the room: %v, want ErrBusy", out.err)
		}
		w.end("a1")
		w.add("a", 1)
		w.want("a1")
		w.finish()
	})
}

// The first counters go at once; further ones share the next commit, and wait for it until one of
// those ends, or a moment.
func TestCountersShareCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTraffic(t, bounds{batch: 500, waiting: 10_000})
		w.few()
		for _, counter := range []string{"e", "f", "a", "g"} {
			w.add(counter, 2)
		}
		w.want()
		w.end("a1")
		w.want("efga8")
		w.add("h", 1)
		w.want()
		w.end("b1")
		w.want("h1")
		w.add("i", 1)
		w.add("j", 1)
		w.want()
		time.Sleep(groupcommit.SharedWait)
		w.want("ij2")
		w.finish()
	})
}

// A batch that takes longer than a commit isn't waited for.
func TestSlowBatchesHoldNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTraffic(t, bounds{batch: 500, waiting: 10_000})
		w.few()
		w.add("e", 1)
		w.want()
		w.queue.slow(w.last)
		w.want("e1")
		w.finish()
	})
}

// Requests of a counter in trouble take room in the queue until they have their outcomes, because
// they may be tried for a while; and no counter's take more than nine tenths of it.
func TestRoomInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTraffic(t, bounds{batch: 500, waiting: 20})
		refused := func(counter string) bool {
			r := one(t, counter)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			answer := make(chan outcome, 1)
			go func() { answer <- w.queue.await(ctx, r) }()
			synctest.Wait()
			select {
			case out := <-answer:
				return errors.Is(out.err, ErrBusy)
			default:
			}
			leave()
			synctest.Wait()
			<-answer
			return false
		}
		w.few()
		w.add("a", 17)
		if refused("a") {
			t.Error("the eighteenth of a counter has no room")
		}
		w.add("a", 1)
		if !refused("a") || refused("b") {
			t.Error("a counter's nineteenth has room, or another's first has none")
		}
		w.troubled.remember("x", time.Minute)
		w.add("x", 1)
		w.want("x1")
		w.add("b", 1)
		if !refused("c") {
			t.Error("there is room for more than 20")
		}
		w.finish()
	})
}

// A counter whose only caller goes away while it waits for a commit keeps no others from theirs.
func TestALineThatIsLeftEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTraffic(t, bounds{batch: 500, waiting: 10_000})
		w.few()
		ctx, leave := context.WithCancel(t.Context())
		r := one(t, "e")
		w.group.Go(func() {
			if out := w.queue.await(ctx, r); !errors.Is(out.err, ErrBusy) || out.pending {
				t.Errorf("who went away hears %+v, want that nothing was counted", out)
			}
		})
		synctest.Wait()
		w.add("f", 1)
		leave()
		w.want()
		w.end("a1")
		w.want("f1")
		w.finish()
	})
}

// Counters that wait to share a commit share none any more once they have sent their own.
func TestALineThatGrowsLongWhileItIsReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTraffic(t, bounds{batch: 500, waiting: 10_000, interval: time.Second})
		w.few()
		w.add("e", groupcommit.ManyWaiting-1)
		w.want()
		w.add("e", 1)
		w.want("e64")
		w.add("e", 1)
		w.end("a1")
		w.want() // its batch is in flight
		w.end("e64")
		w.want() // and it waits for company
		time.Sleep(time.Second)
		w.want("e1")
		w.end("e1")
		time.Sleep(time.Second)
		w.finish()
	})
}

// A call whose context has no deadline waits no longer than the client says: not for a commit that
// is to begin, which then never counts it, and not for one that has begun, which goes on.
func TestACallEndsItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTraffic(t, bounds{batch: 500, waiting: 10_000})
		client := &Client{cfg: Config{CacheTTL: time.Minute}, queue: w.queue, counters: newCache(), waitTimer: sharedTimer{after: time.Second}}
		client.counters.put(Snapshot{Counter: "a", NumShards: 1}, time.Now())
		call := func(ctx context.Context, takes time.Duration, want outcome) {
			r, err := newRequest(flat, []Increment{{Counter: "a", By: 1}}, Key{})
			if err != nil {
				t.Fatal(err)
			}
			w.group.Go(func() {
				began := time.Now()
				out := client.perform(ctx, r)
				if took := time.Since(began); took > takes || took < takes*99/100 || out.pending != want.pending || !errors.Is(out.err, want.err) {
					t.Errorf("hears %+v after %v, want %+v after %v", out, took, want, takes)
				}
			})
			synctest.Wait()
		}
		call(t.Context(), time.Second, outcome{pending: true, err: ErrUnknown})
		w.want("a1")
		time.Sleep(5 * time.Millisecond)
		call(t.Context(), time.Second, outcome{err: ErrBusy})
		time.Sleep(50 * time.Millisecond)
		call(t.Context(), time.Second, outcome{err: ErrBusy})
		longer, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		call(longer, 2*time.Second-55*time.Millisecond, outcome{})
		time.Sleep(2*time.Second - 55*time.Millisecond)
		w.end("a1")
		w.want("a1")
		w.end("a1")
		w.finish()
	})
}

// A counter that met contention goes alone, beside the commits that others share; a batch in
// trouble keeps no one.
func TestTroubleIsItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTraffic(t, bounds{batch: 500, waiting: 10_000})
		w.few()
		w.troubled.remember("x", time.Minute)
		w.add("x", 1)
		w.want("x1")
		w.add("e", 1)
		w.want()
		w.end("x1")
		w.want()
		w.add("x", 1)
		w.want("x1")
		w.finish()
	})
}

// A call of several counters stands in the line of one that is in trouble, and goes by itself once
// their commit has met trouble: no batch is left twice.
func TestALineInTroubleIsLeftOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var begun []int
		hold := make(chan struct{})
		q := newQueue(bounds{batch: 500, waiting: 100}, func(f *flight) {
			mu.Lock()
			begun = append(begun, len(f.requests))
			mu.Unlock()
			<-hold
			if !f.mixed() {
				f.answer(outcome{})
			}
		})
		q.troubled.remember("x", time.Minute)
		var group sync.WaitGroup
		add := func(counters ...string) {
			var increments []Increment
			for _, counter := range counters {
				increments = append(increments, Increment{Counter: counter, By: 1})
			}
			r, err := newRequest(flat, increments, Key{})
			if err != nil {
				t.Fatal(err)
			}
			group.Go(func() {
				if out := q.await(t.Context(), r); out.err != nil {
					t.Error(out.err)
				}
			})
			synctest.Wait()
		}
		add("x")
		add("x")
		add("x", "y")
		close(hold)
		group.Wait()
		q.close()
		if got := fmt.Sprint(begun); got != "[1 2 1 1]" {
			t.Errorf("batches of %s requests, want one, those that waited, and these by themselves", got)
		}
	})
}

// Requests of many counters that wait are refused beyond the limit, and one counter's don't
// take all of it.
func TestQueuesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTraffic(t, bounds{batch: 10, waiting: 100})
		for i := range groupcommit.MaxCommits {
			w.add(fmt.Sprint("busy", i), 1)
			time.Sleep(groupcommit.SharedWait)
			synctest.Wait()
		}
		refused := 0
		for i := range 150 {
			r := one(t, fmt.Sprint("more", i))
			if err := w.enter(r); errors.Is(err, ErrBusy) {
				refused++
			} else if err != nil {
				t.Error(err)
			}
		}
		if refused != 50 {
			t.Errorf("%d of 150 were refused, want 50", refused)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		w.finish()

		w = newTraffic(t, bounds{batch: 10, waiting: 100})
		w.add("a", 1)
		for range 95 {
			r := one(t, "a")
			if err := w.enter(r); err != nil && !errors.Is(err, ErrBusy) {
				t.Error(err)
			}
		}
		w.add("b", 1)
		w.finish()
	})
}

// Requests that have left a shared batch go on with what time they had, and those that come after them
// have all of theirs.
func TestWhoComesAfterALeaverHasTimeOfTheirOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const timeout = 4 * time.Second
		var mu sync.Mutex
		left := map[string]time.Duration{} // :: field → what time there was when its last batch began
		q := newQueue(bounds{batch: 500, waiting: 1000}, func(f *flight) {
			until := f.due(time.Now().Add(timeout))
			mu.Lock()
			for _, r := range f.requests {
				left[r.deltas[0].amounts[0].field] = time.Until(until)
			}
			mu.Unlock()
			if time.Sleep(3 * time.Second); !f.mixed() {
				f.answer(outcome{})
			}
		})
		add := func(counter, field string) {
			q.await(t.Context(), &request{deltas: deltas{{counter, []amount{{field, 1}}}}, done: make(chan outcome, 1)})
		}
		var adding sync.WaitGroup
		for n := range groupcommit.FewCommits { // so that the next ones share a commit
			adding.Go(func() { add(fmt.Sprint("other", n), "other") })
		}
		synctest.Wait()
		adding.Go(func() { add("a", "leaves") })
		adding.Go(func() { add("b", "leaves") })
		time.Sleep(groupcommit.SharedWait)
		synctest.Wait()
		for range 5 {
			adding.Go(func() { add("a", "comes") })
		}
		adding.Wait()
		q.close()
		if left["leaves"] != time.Second || left["comes"] != timeout {
			t.Errorf("%v, want a second for who leaves, and %v for who comes", left, timeout)
		}
	})
}
