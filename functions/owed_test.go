//go:build all

package functions

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/internal/settings"
	"github.com/firestore-counters/counters/shards"
)

// Many requests at the same time owe next to nothing, of whatever kind they are, where little is left: others would
// have to wait until it is earned, and an instance that is new owes nothing.
func TestRequestsAtTheSameTime(t *testing.T) {
	t.Parallel()
	const n, fields = 60, "f0,f1,f2,f3,f4,f5,f6,f7,f8,seats=limit(3)"
	to := func(method, path, body string, header ...string) func(f *flooded, n int) *http.Request {
		return func(f *flooded, n int) *http.Request {
			return f.request(method, fmt.Sprintf(path, n), body, "", header...)
		}
	}
	for name, send := range map[string]func(f *flooded, n int) *http.Request{
		"exact reads":             to("GET", "/c-%d?exact=true", ""),
		"reads":                   to("GET", "/c-%d", ""),
		"reads of nothing":        to("GET", "/nothing-%d", ""),
		"reads of members":        to("GET", "/c-%d/f0/m", ""),
		"joins":                   to("PUT", "/c-%d/f0/m", ""),
		"joins with a limit":      to("PUT", "/c-%d/seats/m", ""),
		"leaves":                  to("DELETE", "/c-%d/f0/m", ""),
		"held seats":              to("PUT", "/c-%d/f0/m?hold=1s", ""),
		"held amounts":            to("POST", "/c-%d/seats/holds", `{"by":1,"for":"1s"}`),
		"what is given back":      to("DELETE", "/c-%d/seats/holds/x", ""),
		"resets":                  to("POST", "/c-%d/reset", ""),
		"limits":                  to("PUT", "/c-%d/limit", `{"field":"seats","limit":5}`),
		"keys":                    to("POST", "/c-%d", "", "Idempotency-Key", "k"),
		"increments":              to("POST", "/c-%d", ""),
		"increments of fields":    to("POST", "/c-%d", `{"by":{"f0":1,"f1":1,"f2":1}}`),
		"increments with a limit": to("POST", "/c-%d", `{"by":{"f0":1,"seats":1}}`),
		"new counters":            to("POST", "/new-%d", ""),
	} {
		for _, known := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, known %v", name, known), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					rates := settings.Ceiling{Writes: 3, Reads: 1.5, Creates: 0.1, Bytes: 1e7, Logs: 500} // $5 a day
					f := startFlooded(t, "none", rates, "FIELDS="+fields, "MEMBERS=any", "RESET=any", "LIMIT=any")
					other, budget := f.other(fields), f.client.Budget()
					for i := range n {
						id := fmt.Sprint("c-", i)
						if _, err := other.AddAll(t.Context(), []shards.Increment{{Counter: id, Field: "f0", By: 1}, {Counter: id, Field: "seats", By: 3}}, shards.Key{}); err != nil {
							t.Fatal(err)
						}
						if known {
							budget.Spend(ceiling.Reads, -10)
							if status, m := f.do(f.request("GET", "/"+id, "", "")); status != 200 {
								t.Fatal(status, m.body)
							}
						}
					}
					time.Sleep(5 * time.Second) // what is known is not new
					for _, u := range []ceiling.Unit{ceiling.Writes, ceiling.Reads} {
						budget.Spend(u, budget.Left(u)-5.2*budget.Second(u)) // a little more than is short
					}
					f.latency = 20 * time.Millisecond
					var all sync.WaitGroup
					for i := range n {
						all.Go(func() { f.do(send(f, i)) })
					}
					all.Wait()
					synctest.Wait()
					for _, u := range []ceiling.Unit{ceiling.Writes, ceiling.Reads} {
						if left := budget.Left(u); left < -10 {
							t.Errorf("%.0f %v are owed", -left, u)
						}
					}
				})
			})
		}
	}
}

// What a request reads doesn't go by how many documents somebody has made before: with all that is saved, many requests
// at the same time owe next to nothing. A reset reads each open hold of an amount, and is refused where these are too
// many; who confirms or joins what is over reads a shard of hundreds.
func TestRequestsBesideManyDocuments(t *testing.T) {
	t.Parallel()
	const n = 60
	to := func(method, path, body string) func(f *flooded, n int) *http.Request {
		return func(f *flooded, n int) *http.Request { return f.request(method, fmt.Sprintf(path, n), body, "") }
	}
	wide := func(ctx context.Context, counter shards.Counter) error { // each of the shards has room for 40
		err := counter.Create(ctx, shards.CreateOptions{})
		if err == nil {
			err = counter.SetLimit(ctx, "seats", 1000)
		}
		return err
	}
	for name, c := range map[string]struct {
		make   func(ctx context.Context, counter shards.Counter) error // of each counter
		send   func(f *flooded, n int) *http.Request
		want   int
		writes float64 // that are left; 0 is all that are saved
	}{
		"resets": {func(ctx context.Context, counter shards.Counter) (err error) {
			for i := 0; i < 20 && err == nil; i++ {
				_, _, err = counter.Reserve(ctx, "f0", 1, time.Hour, shards.Key{})
			}
			return err
		}, func(f *flooded, n int) *http.Request { return f.request("POST", "/c-0/reset", "", "") }, 503, 0},
		"confirms of what is over": {func(ctx context.Context, counter shards.Counter) error {
			_, _, err := counter.Hold(ctx, "f0", "m", time.Second)
			return err
		}, func(f *flooded, n int) *http.Request {
			return f.request("POST", fmt.Sprintf("/c-%d/f0/m/confirm", n), "", "")
		}, 409, 120},
		"joins of what is over": {func(ctx context.Context, counter shards.Counter) error {
			_, _, err := counter.Hold(ctx, "f0", "m", time.Second)
			return err
		}, func(f *flooded, n int) *http.Request { return f.request("PUT", fmt.Sprintf("/c-%d/f0/m", n), "", "") }, 200, 0},
		"takes from 25 shards": {wide, to("POST", "/c-%d", `{"by":{"seats":999}}`), 200, 120},
		"holds from 25 shards": {wide, to("POST", "/c-%d/seats/holds", `{"by":999,"for":"1h"}`), 200, 120},
		"what is given back to 25 shards": {func(ctx context.Context, counter shards.Counter) error {
			err := wide(ctx, counter)
			if err == nil {
				_, _, err = counter.Reserve(ctx, "seats", 999, time.Hour, shards.Key{Value: "x"})
			}
			return err
		}, to("DELETE", "/c-%d/seats/holds/x", ""), 200, 120},
		"holds that are over, of 25 shards": {func(ctx context.Context, counter shards.Counter) error {
			err := wide(ctx, counter)
			if err == nil {
				_, _, err = counter.Reserve(ctx, "seats", 999, time.Second, shards.Key{Value: "x"})
			}
			return err
		}, to("POST", "/c-%d", `{"by":{"seats":2}}`), 200, 120},
		"a field that has no shards yet": {func(ctx context.Context, counter shards.Counter) error {
			return counter.Create(ctx, shards.CreateOptions{})
		}, to("POST", "/c-%d", `{"by":{"seats":1}}`), 200, 120},
		"limits, each of 25 shards": {func(ctx context.Context, counter shards.Counter) error {
			_, _, err := counter.Hold(ctx, "seats", "m", time.Hour)
			return err
		}, func(f *flooded, n int) *http.Request {
			return f.request("PUT", fmt.Sprintf("/c-%d/limit", n), `{"field":"seats","limit":1000}`, "")
		}, 200, 120},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				// $5 a day
				f := startFlooded(t, "none", settings.Ceiling{Writes: 3, Reads: 1.5, Creates: 0.1, Bytes: 1e7, Logs: 500},
					"FIELDS=f0,seats=limit(3)", "MEMBERS=any", "RESET=any", "LIMIT=any", "NUM_SHARDS=100", "MAX_SHARDS=100")
				other := f.otherOf(shards.Config{NumShards: 100, MaxShards: 100}, "f0,seats=limit(3)")
				for i := range n {
					id := fmt.Sprint("c-", i)
					if c.want == 503 { // all of one
						id = "c-0"
					}
					counter, err := other.Counter(id)
					if err == nil {
						err = c.make(t.Context(), counter)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(ceiling.Holds)
				if c.writes > 0 {
					f.client.Budget().Spend(ceiling.Writes, f.client.Budget().Left(ceiling.Writes)-c.writes)
				}
				f.latency = 20 * time.Millisecond
				f.server.SetFaults(emulator.Faults{CommitLatency: 10 * time.Millisecond})
				var all sync.WaitGroup
				var answered atomic.Int64
				for i := range n {
					all.Go(func() {
						if status, _ := f.do(c.send(f, i)); status == c.want {
							answered.Add(1)
						}
					})
				}
				all.Wait()
				synctest.Wait()
				reads, writes := f.client.Budget().Left(ceiling.Reads), f.client.Budget().Left(ceiling.Writes)
				if reads < -50 || writes < -50 || answered.Load() == 0 {
					t.Errorf("%.0f reads and %.0f writes are left; %d are answered %d", reads, writes, answered.Load(), c.want)
				}
			})
		})
	}
}

// Members who leave a counter that isn't there, or join where they hold a seat, take reads that are promised to each: at
// the same time they owed two each, or one, as soon as one was there.
func TestMembersAtTheSameTime(t *testing.T) {
	t.Parallel()
	const n = 400
	for method, id := range map[string]string{"DELETE": "nothing", "PUT": "c"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := startFlooded(t, "none", settings.Ceiling{Writes: 3, Reads: 1.5, Creates: 0.1, Bytes: 1e7, Logs: 500}, "MEMBERS=any", "AUTO_CREATE=false") // $5 a day
				counter, err := f.other("total").Counter("c")
				for i := 0; i < n && err == nil; i++ {
					_, _, err = counter.Hold(t.Context(), "total", fmt.Sprint("m", i), time.Hour)
				}
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(ceiling.Holds)
				budget := f.client.Budget()
				budget.Spend(ceiling.Reads, budget.Left(ceiling.Reads)-(n*3/2))
				f.latency = 20 * time.Millisecond
				f.server.SetFaults(emulator.Faults{CommitLatency: 20 * time.Millisecond})
				var all sync.WaitGroup
				var answered atomic.Int64
				for i := range n {
					all.Go(func() {
						if status, _ := f.do(f.request(method, fmt.Sprintf("/%s/total/m%d", id, i), "", "")); status == 200 {
							answered.Add(1)
						}
					})
				}
				all.Wait()
				synctest.Wait()
				if left := budget.Left(ceiling.Reads); left < -20 || answered.Load() < n/4 {
					t.Errorf("%.0f reads are left, and %d of %d are answered", left, answered.Load(), n)
				}
			})
		})
	}
}

// Exact reads of large collections go as the reads are there that they took before: they would owe those of minutes
// each time, and whoever adds with a key, or where something has to be looked for, would be refused meanwhile.
func TestExactReadsOfLargeCollections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const documents, seconds = 12_000, 300
		f := startFlooded(t, "none", settings.Ceiling{Writes: 100, Reads: 0.5, Creates: 1, Bytes: 1e7, Logs: 500}, "FIELDS=likes,comments=count(comments)")
		other := f.other("likes,comments=count(comments)")
		for _, id := range []string{"big", "hot"} {
			if _, err := other.AddAll(t.Context(), []shards.Increment{{Counter: id, By: 1}}, shards.Key{}); err != nil {
				t.Fatal(err)
			}
		}
		many := f.fs.BulkWriter(t.Context())
		for n := range documents {
			if _, err := many.Create(f.fs.Doc(fmt.Sprint("counters/big/comments/", n)), map[string]any{}); err != nil {
				t.Fatal(err)
			}
		}
		many.End()
		var all sync.WaitGroup
		var late, read atomic.Int64
		for n := range seconds {
			for range 5 {
				all.Go(func() {
					if status, _ := f.do(f.request("GET", "/big?exact=true", "", "")); status == 200 {
						read.Add(1)
					}
				})
			}
			all.Go(func() {
				for began := time.Now(); ; time.Sleep(time.Second) {
					if status, _ := f.do(f.request("POST", "/hot", "", "", "Idempotency-Key", fmt.Sprint(n))); status == 200 {
						if time.Since(began) > 5*time.Second {
							late.Add(1)
						}
						return
					}
				}
			})
			time.Sleep(time.Second)
		}
		all.Wait()
		// Nobody knows what the first one takes.
		if late.Load() > seconds/8 || read.Load() < 3 {
			t.Errorf("%d of %d were counted late; %d exact reads", late.Load(), seconds, read.Load())
		}
	})
}

// What a large exact read takes is remembered, however many small ones come after it, and also where it ends with an
// error.
func TestLargeReadsAreRemembered(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		field  string
		status int
	}{"many small ones": {"sum(comments.n)", 200}, "an error": {"sum(comments.half)", 409}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				fields := "likes,comments=" + c.field
				f := startFlooded(t, "none", settings.Ceiling{Writes: 100, Reads: 1, Creates: 1, Bytes: 1e7, Logs: 500}, "FIELDS="+fields)
				other, budget := f.other(fields), f.client.Budget()
				for _, id := range append(spread(), "big") {
					if _, err := other.AddAll(t.Context(), []shards.Increment{{Counter: id, By: 1}}, shards.Key{}); err != nil {
						t.Fatal(err)
					}
				}
				many := f.fs.BulkWriter(t.Context())
				for n := range 30_001 {
					if _, err := many.Create(f.fs.Doc(fmt.Sprint("counters/big/comments/", n)), map[string]any{"n": 1, "half": 0.5}); err != nil {
						t.Fatal(err)
					}
				}
				many.End()
				time.Sleep(ceiling.Holds)
				if status, m := f.do(f.request("GET", "/big?exact=true", "", "")); status != c.status {
					t.Fatalf("answered %d %s, want %d", status, m.body, c.status)
				}
				if c.status == 200 {
					for _, id := range spread() {
						budget.Spend(ceiling.Reads, -10)
						if status, m := f.do(f.request("GET", "/"+id+"?exact=true", "", "")); status != 200 {
							t.Fatal(status, m.body)
						}
					}
				}
				budget.Spend(ceiling.Reads, budget.Left(ceiling.Reads)-10)
				if status, m := f.do(f.request("GET", "/big?exact=true", "", "")); status != 429 {
					t.Errorf("answered %d %s, want 429", status, m.body)
				}
			})
		})
	}
}

// Many who repeat at the same time what was done before owe next to nothing, however much is saved: each reads its marker
// or membership. Whoever came with a key was refused for 20 minutes afterwards. Those for whom there are no reads don't keep
// their slots waiting.
func TestManyRepeatWhatWasDone(t *testing.T) {
	t.Parallel()
	const n = 1500
	for name, send := range map[string]func(f *flooded, i int) *http.Request{
		"keys": func(f *flooded, i int) *http.Request {
			return f.request("POST", "/c", "", "", "Idempotency-Key", fmt.Sprint(i))
		},
		"joins": func(f *flooded, i int) *http.Request { return f.request("PUT", fmt.Sprintf("/c/total/m%d", i), "", "") },
		"holds": func(f *flooded, i int) *http.Request {
			return f.request("PUT", fmt.Sprintf("/c/total/m%d?hold=10h", i), "", "")
		},
		"leaves": func(f *flooded, i int) *http.Request {
			return f.request("DELETE", fmt.Sprintf("/c/total/m%d", i), "", "")
		},
		"no room": func(f *flooded, i int) *http.Request {
			return f.request("POST", "/c", `{"by":{"seats":11}}`, "", "Idempotency-Key", fmt.Sprint(i))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := startFlooded(t, "none", settings.Ceiling{Writes: 40, Reads: 20, Creates: 0.1, Bytes: 1e7, Logs: 500}, "FIELDS=total,seats=limit(10)", "MEMBERS=any")
				budget := f.client.Budget()
				time.Sleep(ceiling.Holds)
				f.do(f.request("POST", "/c", "", ""))
				for i := range n {
					budget.Spend(ceiling.Writes, -10)
					budget.Spend(ceiling.Reads, -50)
					if status, m := f.do(send(f, i)); status != 200 && status != 409 {
						t.Fatal(status, m.body)
					}
				}
				time.Sleep(ceiling.Holds)
				f.latency = 20 * time.Millisecond
				f.do(f.request("GET", "/c", "", ""))
				budget.Spend(ceiling.Reads, budget.Left(ceiling.Reads)-900) // of ten minutes at $5 a day
				began := time.Now()
				var all sync.WaitGroup
				var answered, refused atomic.Int64
				for i := range n {
					all.Go(func() {
						if status, _ := f.do(send(f, i)); status == 200 || status == 409 {
							answered.Add(1)
						}
					})
					if i%20 == 0 { // one without a key, which shares their commits, and reads no marker
						all.Go(func() {
							if status, _ := f.do(f.request("POST", "/c", "", "")); status == 503 {
								refused.Add(1)
							}
						})
					}
				}
				all.Wait()
				took := time.Since(began)
				if refused.Load() > 0 {
					t.Errorf("%d of %d increments without keys are refused in a batch with others", refused.Load(), n/20)
				}
				synctest.Wait()
				if left := budget.Left(ceiling.Reads); left < -20 || answered.Load() < 500 || took > 3*time.Second {
					t.Errorf("%.0f reads are left; %d of %d are answered, and the others refused within %v", left, answered.Load(), n, took)
				}
			})
		})
	}
}

// A crowd whose holds of one field are over, and who come for these at the same time, share what it takes: most are
// answered at once, owe next to nothing, and the others are within minutes. Each read all holds that were over, and did
// so again once another had ended some, so that nobody was answered, and some not within an hour.
func TestACrowdWhoseHoldsAreOver(t *testing.T) {
	t.Parallel()
	const n, atOnce = 250, 240
	for _, field := range []string{"f0", "seats"} {
		for path, want := range map[string]int{"PUT /c/%s/m%d": 200, "PUT /c/%s/m%d?hold=10s": 200, "POST /c/%s/m%d/confirm": 409} {
			t.Run(fmt.Sprintf(path, field, 0), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					const fields = "f0,seats=limit(1000)"
					f := startFlooded(t, "none", settings.Ceiling{Writes: 3, Reads: 1.5, Creates: 0.1, Bytes: 1e7, Logs: 500}, "FIELDS="+fields, "MEMBERS=any") // $5 a day
					counter, err := f.other(fields).Counter("c")
					for i := 0; i < n && err == nil; i++ {
						_, _, err = counter.Hold(t.Context(), field, fmt.Sprint("m", i), time.Second)
					}
					if err != nil {
						t.Fatal(err)
					}
					f.do(f.request("GET", "/c", "", ""))
					time.Sleep(ceiling.Holds)
					f.latency = 20 * time.Millisecond
					began, budget := time.Now(), f.client.Budget()
					var all sync.WaitGroup
					var answered atomic.Int64
					for i := range n {
						method, to, _ := strings.Cut(fmt.Sprintf(path, field, i), " ")
						all.Go(func() {
							for time.Since(began) < 10*time.Minute {
								if status, _ := f.do(f.request(method, to, "", "")); status == want {
									answered.Add(1)
									return
								}
								time.Sleep(10*time.Second + time.Duration(i)*10*time.Millisecond)
							}
						})
					}
					time.Sleep(5 * time.Second)
					soon, reads, writes := answered.Load(), budget.Left(ceiling.Reads), budget.Left(ceiling.Writes)
					if all.Wait(); reads < -100 || writes < 0 || soon < atOnce || answered.Load() < n {
						t.Errorf("%d are answered at once, and %.0f reads and %.0f writes are left; %d are after ten minutes", soon, reads, writes, answered.Load())
					}
				})
			})
		}
	}
}

// A crowd that comes to a new instance at the same time shares the look for its counter, and what that takes is promised
// once. It was promised once a request, and of 500 only eight were let in.
func TestACrowdSharesItsFirstLook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := startFlooded(t, "none", settings.Ceiling{Writes: 3, Reads: 1.5, Creates: 0.1, Bytes: 1e7, Logs: 500}) // $5 a day
		if _, err := f.other("total").AddAll(t.Context(), []shards.Increment{{Counter: "c", By: 1}}, shards.Key{}); err != nil {
			t.Fatal(err)
		}
		f.latency = 20 * time.Millisecond
		var all sync.WaitGroup
		var refused atomic.Int64
		for range 500 {
			all.Go(func() {
				if status, _ := f.do(f.request("POST", "/c", "", "")); status != 200 {
					refused.Add(1)
				}
			})
		}
		all.Wait()
		if refused.Load() > 0 {
			t.Errorf("%d of 500 are refused", refused.Load())
		}
	})
}

// A crowd of a counter that is known doesn't wait for looks for thousands of others. With HOSTED, where few documents are
// read at a time, it waited 18 s.
func TestCrowdBesideLooksForMany(t *testing.T) {
	t.Parallel()
	for path, environ := range map[string][]string{"counters/hot": nil, "posts/hot": {"HOSTED=true", "AUTO_CREATE=false", "COUNTERS=posts/{post}"}} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := startFlooded(t, "firebase", settings.Ceiling{Writes: 100, Reads: 50, Creates: 3, Bytes: 1_200_000, Logs: 3000}, environ...) // $50 a day
				if _, err := f.fs.Doc(path).Set(t.Context(), map[string]any{"num_shards": 1}); err != nil {
					t.Fatal(err)
				}
				if status, m := f.do(f.request("POST", "/hot", "", "alice")); status != 200 {
					t.Fatal(status, m.body)
				}
				time.Sleep(ceiling.Holds)
				f.latency = 30 * time.Millisecond
				var all sync.WaitGroup
				var refused, longest atomic.Int64
				for n := range 600 {
					all.Go(func() {
						f.do(f.request("POST", "/", newIDs(fmt.Sprint("nothing-", n), maxNamed), fmt.Sprint("mallory-", n)))
					})
				}
				for n := range 100 {
					time.Sleep(10 * time.Millisecond)
					all.Go(func() {
						began := time.Now()
						if status, _ := f.do(f.request("POST", "/hot", "", fmt.Sprint("alice-", n))); status != 200 {
							refused.Add(1)
						}
						for took := int64(time.Since(began)); took > longest.Load(); {
							longest.CompareAndSwap(longest.Load(), took)
						}
					})
				}
				all.Wait()
				if took := time.Duration(longest.Load()); took > time.Second || refused.Load() > 0 {
					t.Errorf("one of the crowd waits for %v, and %d of 100 are refused", took, refused.Load())
				}
			})
		})
	}
}
