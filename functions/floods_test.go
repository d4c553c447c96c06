//go:build all && !race

package functions

import (
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

// fiveDollars are what one instance may spend a second at $5 a day.
var fiveDollars = settings.Ceiling{Writes: 3.09, Reads: 1.54, Creates: 0.1, Bytes: 37_200, Logs: 500}

// The same of each flood alone, for a shorter time; and at $5 a day, where the crowd's counter is one that the instance has
// yet to look for, while others take one read after the other.
func TestEachFloodStaysBelowTheCeiling(t *testing.T) {
	t.Parallel()
	for name, fl := range floods {
		t.Run(name, func(t *testing.T) { t.Parallel(); underFlood(t, "firebase", hundred, fl, 8) })
		t.Run(name+", $5 a day", func(t *testing.T) { t.Parallel(); underFloodOf(t, "firebase", fiveDollars, hundred, fl, 2, 8) })
	}
}

// A crowd with keys costs a write each, and still fits beside whoever adds to many counters, where these share no more
// commits than the crowd does.
func TestKeyedCrowdBesideFloods(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"a thousand users, single increments", "a thousand users, a key each time", "a thousand users, who join a counter each",
		"a thousand users, who join and leave", "one token, the same key again",
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); underFlood(t, "firebase", crowd{10, true}, floods[name], 20) })
	}
}

// Whoever adds to the crowd's own counter what costs a write each, such as with a key, doesn't have the crowd wait: at $5
// a day it did so for 20 s.
func TestCrowdBesideKeysOfItsCounter(t *testing.T) {
	t.Parallel()
	who := func(n int) string { return fmt.Sprint("mallory-", n%1000) }
	for name, send := range map[string]func(f *flooded, n int) *http.Request{
		"keys": func(f *flooded, n int) *http.Request {
			return f.request("POST", "/hot", "", who(n), "Idempotency-Key", fmt.Sprint("new-", n))
		},
		"joins": func(f *flooded, n int) *http.Request { return f.request("PUT", "/hot/total/me", "", who(n)) },
	} {
		for _, second := range []int{20, 100} {
			t.Run(fmt.Sprintf("%s, %d a second", name, second), func(t *testing.T) {
				t.Parallel()
				underFloodOf(t, "firebase", fiveDollars, crowd{second, false}, flood{100, send}, 1, 30)
			})
		}
	}
}

// One with a key a second, beside a crowd without keys of the same counter: each batch went once there were two writes, and
// she needs a third, so that at $5 a day she was counted after 35 s.
func TestKeyedBesideACrowdOfItsCounter(t *testing.T) {
	t.Parallel()
	underFloodOf(t, "firebase", fiveDollars, crowd{1, true}, flood{80, func(f *flooded, n int) *http.Request {
		return f.request("POST", "/hot", "", fmt.Sprint("mallory-", n%1000))
	}}, 20, 30)
}

// Nor beside a crowd with keys of another counter: as many of that one waited as would fit into a minute, so it went first.
// Of 30 of hers 26 were counted, and 99 % waited for 42 s.
func TestKeyedBesideACrowdWithKeys(t *testing.T) {
	t.Parallel()
	underFloodOf(t, "firebase", fiveDollars, crowd{1, true}, flood{100, func(f *flooded, n int) *http.Request {
		return f.request("POST", "/spread-0-0", "", fmt.Sprint("mallory-", n%1000), "Idempotency-Key", "key")
	}}, 20, 30)
}

// Users who all add to a counter for which there is no room don't have it looked for each time: they used up the reads, and
// 13 to 18 of a crowd of 30 were counted, whose own counter this instance had yet to look for.
func TestKeyedBesideACounterThatIsNotMade(t *testing.T) {
	t.Parallel()
	for name, several := range map[string]bool{"one": false, "two": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			underFloodOf(t, "firebase", fiveDollars, crowd{1, true}, flood{100, func(f *flooded, n int) *http.Request {
				if n == 0 { // once the counter is there, they are a crowd, which goes first
					f.client.Budget().Spend(ceiling.Creates, 10)
				}
				who := fmt.Sprint("mallory-", n%1000)
				if several {
					return f.request("POST", "/", newIDs("new", 2), who)
				}
				return f.request("POST", "/"+strings.Repeat("x", 1000), "", who)
			}}, 20, 30)
		})
	}
}

// A crowd of a field without a limit takes no reads, and isn't refused for want of these where another field has a limit
// and others look for room there: at $5 a day most waited for longer than 5 s.
func TestCrowdBesideLooksForRoom(t *testing.T) {
	t.Parallel()
	for _, by := range []int{1, -20} {
		t.Run(fmt.Sprint(by), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const counters, fields = 20, "likes,seats=limit(10)"
				f := startFlooded(t, "firebase", fiveDollars, "FIELDS="+fields)
				other := f.other(fields)
				for i := range counters {
					full := []shards.Increment{{Counter: fmt.Sprint("full-", i), Field: "seats", By: 10}, {Counter: "hot", By: 1}}
					if _, err := other.AddAll(t.Context(), full, shards.Key{}); err != nil {
						t.Fatal(err)
					}
				}
				if status, m := f.do(f.request("POST", "/hot", "", "alice")); status != 200 {
					t.Fatal(status, m.body)
				}
				f.latency = 20 * time.Millisecond
				var all sync.WaitGroup
				var late atomic.Int64
				for n := range 3000 {
					time.Sleep(10 * time.Millisecond)
					all.Go(func() {
						f.do(f.request("POST", fmt.Sprint("/full-", n%counters), fmt.Sprintf(`{"by":{"seats":%d}}`, by), fmt.Sprint("mallory-", n%1000)))
					})
					if n%5 > 0 {
						continue
					}
					all.Go(func() {
						for began := time.Now(); ; time.Sleep(time.Second) {
							if status, _ := f.do(f.request("POST", "/hot", "", fmt.Sprint("alice-", n))); status == 200 {
								return
							}
							if time.Since(began) > 5*time.Second {
								late.Add(1)
								return
							}
						}
					})
				}
				if all.Wait(); late.Load() > 6 {
					t.Errorf("%d of a crowd of 600 were not counted within 5 s", late.Load())
				}
			})
		})
	}
}

// A user who sends one increment with a key isn't behind those who send many a minute, each by the rules: whoever has asked
// for least lately goes first, for reads, writes and answers. Without that the crowd waited for a minute.
func TestKeyedCrowdBesideBusyUsers(t *testing.T) {
	t.Parallel()
	busy := func(n int) string { return fmt.Sprint("mallory-", n%400) }
	for name, send := range map[string]func(f *flooded, n int) *http.Request{
		"repeated keys of the counter": func(f *flooded, n int) *http.Request {
			return f.request("POST", "/hot", "", busy(n), "Idempotency-Key", fmt.Sprint("again-", n%3000))
		},
		"repeated keys of another": func(f *flooded, n int) *http.Request {
			return f.request("POST", "/spread-0-0", "", busy(n), "Idempotency-Key", fmt.Sprint("again-", n%3000))
		},
		"new keys": func(f *flooded, n int) *http.Request {
			return f.request("POST", fmt.Sprintf("/spread-%d-%d", n%50, n/50%20), "", busy(n), "Idempotency-Key", fmt.Sprint("new-", n))
		},
		"increments of many": func(f *flooded, n int) *http.Request {
			return f.request("POST", fmt.Sprintf("/spread-%d-%d", n%50, n/50%20), "", busy(n))
		},
		"increments of the counter": func(f *flooded, n int) *http.Request { return f.request("POST", "/hot", "", busy(n)) },
		"joins and leaves": func(f *flooded, n int) *http.Request {
			return f.request([]string{"PUT", "DELETE"}[n/400%2], "/hot/total/me", "", busy(n))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			underFloodOf(t, "firebase", fiveDollars, crowd{1, true}, flood{200, send}, 30, 30)
		})
	}
}

// Who ends a hold is answered beside a crowd that takes all writes, also where it lies on 25 shards, and beside others who
// end what there isn't; and the crowd is counted, if later. At $5 a day nobody could give back such a hold for as long as
// there was a crowd: 300 tries in five minutes got 429.
func TestEndsOfHoldsBesideACrowd(t *testing.T) {
	t.Parallel()
	const fields = "f0,seats=limit(3)"
	for name, end := range map[string]struct{ method, path, body string }{
		"given back":              {"DELETE", "/c/seats/holds/x", ""},
		"given back, small":       {"DELETE", "/c/f0/holds/y", ""},
		"settled for less":        {"POST", "/c/seats/holds/x/settle", `{"by":1}`},
		"settled for what it has": {"POST", "/c/seats/holds/x/settle", `{"by":999}`},
		"settled for more":        {"POST", "/c/seats/holds/x/settle", `{"by":1000}`},
		"confirmed":               {"POST", "/c/f0/bob/confirm", ""},
	} {
		// Many who are busy leave reads to bob. Of a few who aren't each takes one as soon as it is there.
		for others, of := range map[string]struct{ every, n, users int }{"alone": {every: 1}, "beside many": {1, 2, 100}, "beside a few": {12, 1, 20}} {
			t.Run(name+", "+others, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					f := startFlooded(t, "firebase", fiveDollars, "FIELDS="+fields, "NUM_SHARDS=100", "MAX_SHARDS=100")
					c, err := f.otherOf(shards.Config{NumShards: 100, MaxShards: 100}, fields).Counter("c")
					if err == nil {
						err = c.Create(t.Context(), shards.CreateOptions{})
					}
					if err == nil {
						err = c.SetLimit(t.Context(), "seats", 1000)
					}
					if err != nil {
						t.Fatal(err)
					}
					for path, body := range map[string]string{"seats/holds/x": `{"by":999,"for":"24h"}`, "f0/holds/y": `{"by":9,"for":"24h"}`, "f0/bob?hold=24h": ""} {
						time.Sleep(ceiling.Holds)
						if status, m := f.do(f.request("PUT", "/c/"+path, body, "bob")); status != 200 {
							t.Fatal(status, m.body)
						}
					}
					time.Sleep(time.Minute) // bob has asked for nothing lately
					budget := f.client.Budget()
					budget.Spend(ceiling.Writes, budget.Left(ceiling.Writes))
					budget.Spend(ceiling.Reads, budget.Left(ceiling.Reads))
					f.latency = 20 * time.Millisecond
					f.server.SetFaults(emulator.Faults{CommitLatency: 10 * time.Millisecond})
					var all sync.WaitGroup
					var late atomic.Int64
					within := func(most time.Duration, r func() *http.Request) {
						for began := time.Now(); ; time.Sleep(time.Second) {
							if status, _ := f.do(r()); status == 200 {
								return
							}
							if time.Since(began) > most {
								late.Add(1)
								return
							}
						}
					}
					const second, seconds = 50, 60
					for n := range second * seconds {
						time.Sleep(time.Second / second)
						all.Go(func() {
							within(5*time.Second, func() *http.Request { return f.request("POST", "/c", `{"by":{"f0":1}}`, fmt.Sprint("alice-", n)) })
						})
						for i := range of.n {
							if n%of.every == 0 {
								all.Go(func() {
									f.do(f.request("DELETE", fmt.Sprintf("/c/f0/holds/z-%d-%d", n, i), "", fmt.Sprint("mallory-", n/of.every%of.users)))
								})
							}
						}
						if n == 20*second {
							all.Go(func() {
								within(10*time.Second, func() *http.Request { return f.request(end.method, end.path, end.body, "bob") })
								if late.Load() > 0 {
									t.Error("bob's hold doesn't end within 10 s, or somebody before him is late")
								}
							})
						}
					}
					if all.Wait(); late.Load() > 0 {
						t.Errorf("%d weren't counted within 5 s", late.Load())
					}
				})
			})
		}
	}
}
