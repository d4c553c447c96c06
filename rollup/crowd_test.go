//go:build !race

package rollup_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/emulator/eventarc"
	"github.com/firestore-counters/counters/rollup"
)

// crowd comes to counters that were quiet, whose events are pushed as Pub/Sub does: a few at a time, and
// more with each that is acknowledged. Documents take one write a second.
type crowd struct {
	instances, counters, shards int
	rate                        float64 // shard writes a second
	lasts, interval             time.Duration
	replaced                    time.Duration // how often an instance ends and another comes, on average; 0 is never
	window                      int           // of pushes, to begin with; 5 when 0
	commit, query               time.Duration // what these take; 10 and 20 ms when 0
	travels                     time.Duration // how long a commit of a total is on its way
	dead                        time.Duration // what a query scans 10,000 dead entries in
	aged                        int           // how many of those each shard has left in the index by then
}

// came is what became of it.
type came struct {
	p99, p50 time.Duration // until a write was in its total
	all      time.Duration // from the first write until 99 % were
	writes   float64       // of a total, a second, once it is hot
	reads    float64       // an event
	busy     float64       // the share of the time in which an event waits, which is what a function is billed for
	vain     int           // commits of a document that were not applied
	events   int
}

func (c came) String() string {
	return fmt.Sprintf("p99 %.2fs, p50 %.2fs, 99 %% after %.2fs; %.2f writes/s, %.2f reads an event, %d commits in vain (%d events)", c.p99.Seconds(), c.p50.Seconds(), c.all.Seconds(), c.writes, c.reads, c.vain, c.events)
}

// step is what a counter's shards, or its total, have come to.
type step struct {
	at    time.Time
	value int64
}

// push is the push window of a subscription.
type push struct {
	sync.Mutex
	window      *eventarc.Window
	outstanding int
	waiting     []func()
}

func (p *push) send(post func()) {
	p.Lock()
	defer p.Unlock()
	p.waiting = append(p.waiting, post)
	p.more()
}

func (p *push) answered(acknowledged bool, took time.Duration) {
	p.Lock()
	defer p.Unlock()
	p.outstanding--
	if acknowledged {
		p.window.Acknowledged(took)
	} else {
		p.window.Failed(took)
	}
	p.more()
}

func (p *push) more() {
	for len(p.waiting) > 0 && p.outstanding < p.window.Limit() {
		p.outstanding++
		go p.waiting[0]()
		p.waiting = p.waiting[1:]
	}
}

// ages has each shard written so often, as by an hour before.
func (c crowd) ages(w *world, counters []*firestore.DocumentRef) {
	for range c.aged {
		for _, doc := range counters {
			for n := 0; n < c.shards; n += 400 {
				w.commit(func(tx *firestore.Transaction) error {
					for k := n; k < min(n+400, c.shards); k++ {
						if err := tx.Update(doc.Collection("shards").Doc(fmt.Sprint(k)), []firestore.Update{{Path: "count", Value: firestore.Increment(1)}}); err != nil {
							return err
						}
					}
					return nil
				})
			}
		}
	}
	if c.aged > 0 {
		for _, doc := range counters {
			w.must(w.rollup.Reconcile(w.ctx, doc.ID, rollup.ReconcileOptions{}))
		}
	}
}

// comes is the crowd coming. Every event is acknowledged in the end, and every total is right.
func (c crowd) comes(t *testing.T, seed uint64) (got came) {
	t.Helper()
	inVirtualTime(t, func(w *world) {
		dice := rand.New(rand.NewPCG(seed, 1))
		var counters []*firestore.DocumentRef
		for i := range c.counters {
			doc := w.fs.Doc(fmt.Sprintf("counters/crowd-%d", i))
			counters = append(counters, doc)
			w.must(doc.Set(w.ctx, map[string]any{"total": 0, "num_shards": c.shards}))
			for n := 0; n < c.shards; n += 400 {
				w.commit(func(tx *firestore.Transaction) error {
					for k := n; k < min(n+400, c.shards); k++ {
						if err := tx.Set(doc.Collection("shards").Doc(fmt.Sprint(k)), map[string]any{"count": 0}); err != nil {
							return err
						}
					}
					return nil
				})
			}
			w.must(w.rollup.Reconcile(w.ctx, doc.ID, rollup.ReconcileOptions{}))
		}
		time.Sleep(time.Minute)
		w.server.SetFaults(emulator.Faults{IndexTombstones: c.dead})
		c.ages(w, counters)
		w.arrived()
		w.server.SetFaults(emulator.Faults{
			DocWriteRate: 1, CommitLatency: cmp.Or(c.commit, 10*time.Millisecond), QueryLatency: cmp.Or(c.query, 20*time.Millisecond), IndexTombstones: c.dead,
		})
		w.server.ResetStats()
		var sent, wrote atomic.Int64 // commits of the document
		w.server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
			if len(req.GetWrites()) > 0 && !strings.Contains(req.GetWrites()[0].GetUpdate().GetName(), "/shards/") {
				sent.Add(1)
				time.Sleep(c.travels)
			}
			return emulator.Verdict{}
		})

		var mu sync.Mutex
		var rollers []*rollup.Roller
		start := func() *rollup.Roller {
			client, err := rollup.Open(w.ctx, rollup.Config{Place: rollup.Place{Project: "p"}, Logger: slog.New(slog.DiscardHandler)}, option.WithGRPCConn(w.connect()))
			w.must(nil, err)
			return rollup.NewRoller(client, rollup.RollerOptions{Interval: c.interval})
		}
		for range c.instances {
			rollers = append(rollers, start())
		}
		queue := &push{window: eventarc.NewWindow(cmp.Or(c.window, 5))}
		shards, totals := map[string][]step{}, map[string][]step{}
		var deliveries sync.WaitGroup
		var inFlight int
		var busy time.Duration
		var since time.Time
		posts := rand.New(rand.NewPCG(seed, 4)) // of whom changes are told to
		defer w.server.OnChange(func(change emulator.Change) {
			_, path, _ := strings.Cut(change.Name, "/documents/counters/")
			id, below, _ := strings.Cut(path, "/")
			mu.Lock()
			defer mu.Unlock()
			if below == "" {
				wrote.Add(1)
				total := change.New.GetFields()["total"].GetIntegerValue()
				if steps := totals[id]; len(steps) == 0 || steps[len(steps)-1].value != total {
					totals[id] = append(steps, step{change.CommitTime, total})
				}
				return
			}
			if !strings.HasPrefix(below, "shards/") {
				return
			}
			shards[id] = append(shards[id], step{change.CommitTime, int64(c.aged*c.shards + len(shards[id]) + 1)})
			_, body, err := eventarc.Encode("id", change)
			w.must(nil, err)
			changes, err := w.rollup.Decode("application/protobuf", body)
			w.must(nil, err)
			own := rand.New(rand.NewPCG(posts.Uint64(), 2))
			var post func()
			post = func() {
				time.Sleep(25*time.Millisecond + time.Duration(own.Int64N(int64(50*time.Millisecond))))
				mu.Lock()
				r := rollers[own.IntN(len(rollers))]
				began := time.Now()
				if inFlight++; inFlight == 1 {
					since = began
				}
				mu.Unlock()
				err := r.Add(context.WithoutCancel(w.ctx), changes...)
				mu.Lock()
				if inFlight--; inFlight == 0 {
					busy += time.Since(since)
				}
				mu.Unlock()
				queue.answered(err == nil, time.Since(began))
				if err == nil {
					deliveries.Done()
					return
				}
				time.Sleep(10 * time.Second)
				queue.send(post)
			}
			deliveries.Add(1)
			queue.send(post)
		})()

		began := time.Now()
		end, cancel := context.WithTimeout(w.ctx, c.lasts)
		var others, writers sync.WaitGroup
		if c.replaced > 0 {
			r := rand.New(rand.NewPCG(seed, 3))
			others.Go(func() {
				for {
					select {
					case <-end.Done():
						return
					case <-time.After(time.Duration(r.ExpFloat64() * float64(c.replaced))):
					}
					mu.Lock()
					at := r.IntN(len(rollers))
					was := rollers[at]
					rollers[at] = start()
					mu.Unlock()
					dead, kill := context.WithCancel(w.ctx)
					kill() // it ends without a flush
					_ = was.Close(dead)
				}
			})
		}
		for end.Err() == nil {
			time.Sleep(time.Duration(dice.ExpFloat64() / c.rate * float64(time.Second)))
			shard := counters[dice.IntN(len(counters))].Collection("shards").Doc(fmt.Sprint(dice.IntN(c.shards)))
			writers.Go(func() {
				_, err := shard.Update(w.ctx, []firestore.Update{{Path: "count", Value: firestore.Increment(1)}})
				if status.Code(err) != codes.Aborted { // by chance it is hit too often
					w.must(nil, err)
				}
			})
		}
		cancel()
		writers.Wait()
		w.must(nil, w.server.WaitForChanges(w.ctx))
		deliveries.Wait()
		others.Wait()
		for _, r := range rollers {
			w.must(nil, r.Close(w.ctx))
		}
		reads := w.server.Stats().Reads
		w.server.SetInterceptor(nil)
		w.must(nil, w.server.WaitForChanges(w.ctx))
		var lags, done []time.Duration
		hot := 0
		for _, doc := range counters {
			steps, sums := shards[doc.ID], totals[doc.ID]
			at := 0
			for _, s := range steps {
				for at < len(sums) && sums[at].value < s.value {
					at++
				}
				if at == len(sums) {
					t.Fatalf("the total of %s ends at %v, its shards at %v", doc.ID, sums, steps[len(steps)-1])
				}
				lags, done = append(lags, sums[at].at.Sub(s.at)), append(done, sums[at].at.Sub(began))
			}
			if n := len(sums); n > 0 && sums[n-1].value != steps[len(steps)-1].value {
				t.Errorf("the total of %s is %d, and its shards hold %d", doc.ID, sums[n-1].value, steps[len(steps)-1].value)
			}
			for _, s := range sums {
				if in := s.at.Sub(began); in > 2*time.Second && in < c.lasts {
					hot++
				}
			}
		}
		got.busy = busy.Seconds() / c.lasts.Seconds()
		got.reads = float64(reads) / float64(len(lags))
		got.vain = int(sent.Load() - wrote.Load())
		slices.Sort(lags)
		slices.Sort(done)
		got.p99, got.p50, got.all, got.events = lags[len(lags)*99/100], lags[len(lags)/2], done[len(done)*99/100], len(lags)
		got.writes = float64(hot) / max(0.001, (c.lasts-2*time.Second).Seconds()) / float64(c.counters)
	})
	return got
}

// An instance that has a counter for itself asks once an interval, and lists its shards now and then: as soon as it is
// busy, so that no question scans what was replaced.
func TestOneInstanceAsksOnceAnInterval(t *testing.T) {
	t.Parallel()
	got := crowd{instances: 1, counters: 1, shards: 100, rate: 92, lasts: 60 * time.Second, window: 1000}.comes(t, 1)
	t.Log(got)
	if got.reads > 0.1 || got.writes > 1.01 || got.p99 > 1100*time.Millisecond {
		t.Errorf("%v", got)
	}
}

// A counter that is hit about once a second has a refresh in its bucket nearly always, so that its events seldom wait:
// a tenth of the time, and not a third as with one refresh an interval.
func TestEventsOfASlowCounterSeldomWait(t *testing.T) {
	t.Parallel()
	got := crowd{instances: 1, counters: 1, shards: 100, rate: 1, lasts: 20 * time.Minute, window: 1000}.comes(t, 1)
	t.Logf("%v; an event waits for %.0f %% of the time", got, 100*got.busy)
	if got.busy > 0.2 {
		t.Errorf("an event waits for %.0f %% of the time", 100*got.busy)
	}
}

// A crowd that comes to quiet counters is in their totals soon, whatever number of instances share them, and however
// often one is replaced.
func TestACrowdIsCountedSoon(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		crowd
		within time.Duration // p99
		reads  float64       // an event, at most
	}{
		{crowd{instances: 1, counters: 1, shards: 100, rate: 92, lasts: 3 * time.Second}, 1300 * time.Millisecond, 0.1},
		{crowd{instances: 3, counters: 1, shards: 100, rate: 92, lasts: 3 * time.Second}, 1300 * time.Millisecond, 0.2},
		{crowd{instances: 8, counters: 1, shards: 100, rate: 92, lasts: 3 * time.Second}, 1300 * time.Millisecond, 0.4},
		// All have events in the same moment: had each committed at once, the document would be busy with that.
		{crowd{instances: 8, counters: 1, shards: 1000, rate: 800, lasts: 3 * time.Second, window: 1000, travels: 40 * time.Millisecond, query: 40 * time.Millisecond}, 1300 * time.Millisecond, 0.1},
		{crowd{instances: 8, counters: 1, shards: 1000, rate: 500, lasts: 3 * time.Second}, 1300 * time.Millisecond, 0.1},
		{crowd{instances: 8, counters: 300, shards: 10, rate: 270, lasts: 3 * time.Second}, 1300 * time.Millisecond, 3.9},
		{crowd{instances: 1, counters: 1, shards: 100, rate: 92, lasts: 20 * time.Second, replaced: 5 * time.Second}, 2000 * time.Millisecond, 0.1},
		{crowd{instances: 3, counters: 1, shards: 100, rate: 92, lasts: 20 * time.Second, replaced: 5 * time.Second}, 2000 * time.Millisecond, 0.1},
		{crowd{instances: 8, counters: 1, shards: 100, rate: 92, lasts: 20 * time.Second, replaced: 5 * time.Second}, 2000 * time.Millisecond, 0.3},
	} {
		t.Run(fmt.Sprintf("%d instances, replaced every %v, %d counters", tt.instances, tt.replaced, tt.counters), func(t *testing.T) {
			t.Parallel()
			got := tt.comes(t, 1)
			t.Log(got)
			if got.p99 > tt.within || got.reads > tt.reads || tt.counters == 1 && got.vain > 7 {
				t.Errorf("%v; want a p99 of %v, %.1f reads an event and 7 commits in vain at most", got, tt.within, tt.reads)
			}
		})
	}
}

// Where all queries are slow, a crowd's total is late by a query more, no shards are listed for it, and few commits are
// in vain. Where dead entries of an index make them slow, they soon aren't.
func TestACrowdBesideSlowQueries(t *testing.T) {
	t.Parallel()
	const sixty, any = 60 * time.Second, time.Hour
	for _, tt := range []struct {
		crowd
		p50, p99 time.Duration
		reads    float64 // an event, at most
	}{
		{crowd{instances: 1, shards: 1000, query: 300 * time.Millisecond, lasts: sixty}, 900 * time.Millisecond, 1350 * time.Millisecond, 0.1},
		{crowd{instances: 3, shards: 1000, query: 300 * time.Millisecond, lasts: sixty}, 900 * time.Millisecond, 1350 * time.Millisecond, 0.1},
		{crowd{instances: 8, shards: 1000, query: 300 * time.Millisecond, lasts: sixty}, 900 * time.Millisecond, 1700 * time.Millisecond, 0.3},
		{crowd{instances: 1, shards: 100, aged: 500, dead: 300 * time.Millisecond, lasts: sixty}, 700 * time.Millisecond, any, 0.3},
	} {
		t.Run(fmt.Sprintf("%d instances, %d shards, a query in %v, dead entries in %v", tt.instances, tt.shards, tt.query, tt.dead), func(t *testing.T) {
			t.Parallel()
			tt.counters, tt.rate, tt.window = 1, 92, 1000
			got := tt.comes(t, 1)
			t.Log(got)
			if got.p50 > tt.p50 || got.p99 > tt.p99 || got.reads > tt.reads || got.vain > 10 {
				t.Errorf("%v; want a p50 of %v, a p99 of %v, %.1f reads an event and 10 commits in vain at most", got, tt.p50, tt.p99, tt.reads)
			}
		})
	}
}

// Whoever looks leaves the next refresh to the instance that wrote less than an interval ago. A document that was just
// made, or that a command has written, was refreshed by nobody.
func TestWhoLooksLeavesTheNextRefresh(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		second := w.open()
		w.snippet(2)
		w.must(w.counter().Update(w.ctx, []firestore.Update{{Path: "updated_at", Value: firestore.ServerTimestamp}}))
		var events []rollup.Change // all so far
		follow := func(c *rollup.Client, yields bool, total int64) {
			t.Helper()
			events = append(events, w.arrived()...)
			got, err := c.Follow(w.ctx, w.id, events[len(events)-1:])
			w.must(nil, err)
			if got.Yielded != yields || got.Committed == yields {
				t.Errorf("%+v; want it left to another: %t", got, yields)
			}
			w.total(total)
		}
		w.inc(0, 1)
		follow(w.rollup, false, 1)
		w.inc(1, 1)
		follow(second, true, 1)
		time.Sleep(1100 * time.Millisecond)
		follow(second, false, 2)
		time.Sleep(time.Minute)
		w.must(w.counter().Update(w.ctx, []firestore.Update{{Path: "updated_at", Value: firestore.ServerTimestamp}}))
		w.inc(0, 1)
		follow(w.rollup, false, 3)
	})
}
