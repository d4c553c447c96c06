//go:build all

package functions

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/firestore"
	"google.golang.org/api/option"
	"google.golang.org/grpc"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/internal/settings"
	"github.com/firestore-counters/counters/shards"
)

// meter is an answer whose bytes are counted, as they would be on a connection.
type meter struct {
	header http.Header
	status int // 0 for a connection that was closed without an answer
	bytes  int
	body   string
}

func (m *meter) Header() http.Header { return m.header }

func (m *meter) WriteHeader(status int) {
	m.status = status
	m.bytes += headersOf
	for name, values := range m.header {
		for _, value := range values {
			m.bytes += len(name) + len(value) + 4
		}
	}
}

func (m *meter) Write(p []byte) (int, error) {
	if m.status == 0 {
		m.WriteHeader(200)
	}
	m.bytes += len(p)
	m.body = string(p)
	return len(p), nil
}

func (m *meter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, other := net.Pipe()
	_ = other.Close()
	return conn, nil, nil
}

// flooded is a function in virtual time that somebody floods.
type flooded struct {
	t       *testing.T
	handler http.Handler
	server  *emulator.Server
	fs      *firestore.Client
	client  *shards.Client
	rates   settings.Ceiling
	log     bytes.Buffer
	latency time.Duration // of reads and queries

	mu       sync.Mutex
	bytes    int
	statuses map[int]int // of the flood
}

// slowly has reads and queries take their time.
func (f *flooded) slowly(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, next grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	time.Sleep(f.latency)
	return next(ctx, desc, conn, method, opts...)
}

func (f *flooded) do(r *http.Request) (status int, m *meter) {
	m = &meter{header: http.Header{}}
	f.handler.ServeHTTP(m, r)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bytes += m.bytes
	return m.status, m
}

// request is one of a user; "" has no token.
func (f *flooded) request(method, path, body, user string, header ...string) *http.Request {
	r := httptest.NewRequestWithContext(f.t.Context(), method, path, strings.NewReader(body))
	if user != "" {
		r.Header.Set("Authorization", "Bearer "+unsigned(emulated("p", user)))
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

// other is a process of somebody else's, without a budget.
func (f *flooded) other(fields string) *shards.Client { return f.otherOf(shards.Config{}, fields) }

func (f *flooded) otherOf(cfg shards.Config, fields string) *shards.Client {
	conn, err := f.server.Connect()
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { conn.Close() })
	cfg.Place, cfg.AutoCreate = shards.Place{Project: "p", Fields: fields}, true
	client, err := shards.Open(f.t.Context(), cfg, option.WithGRPCConn(conn))
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { client.Close() })
	return client
}

// flood is what somebody sends, so many times a second.
type flood struct {
	second int
	send   func(f *flooded, n int) *http.Request
}

// crowd is who adds to one counter, each by a token of its own: so many a second, perhaps with keys, as the web client
// sends them.
type crowd struct {
	second int
	keys   bool
}

// hundred is the crowd of docs/cost.md.
var hundred = crowd{100, false}

// longID is an id that is six times as long in JSON.
var longID = strings.Repeat("\x01", 1400)

// floods are the rows of the table in docs/cost.md.
var floods = map[string]flood{
	"one token, 20 counters a request": {50, func(f *flooded, n int) *http.Request {
		return f.request("POST", "/", newIDs(fmt.Sprint("spread-", n%50), 20), "mallory")
	}},
	"one token, holds of a second": {50, func(f *flooded, n int) *http.Request {
		return f.request("PUT", fmt.Sprintf("/seat-%d/total/me?hold=1s", n), "", "mallory")
	}},
	"one token, holds of amounts": {50, func(f *flooded, n int) *http.Request {
		return f.request("POST", fmt.Sprintf("/spread-%d-%d/total/holds", n%50, n%20), `{"by":1,"for":"1s"}`, "mallory")
	}},
	"one token, the same key again": {200, func(f *flooded, n int) *http.Request {
		return f.request("POST", "/spread-0-0", "", "mallory", "Idempotency-Key", "key")
	}},
	"a thousand users, their keys again": {200, func(f *flooded, n int) *http.Request {
		return f.request("POST", "/spread-0-0", "", fmt.Sprint("mallory-", n%1000), "Idempotency-Key", "key")
	}},
	"a thousand users, who join and leave": {200, func(f *flooded, n int) *http.Request {
		return f.request([]string{"PUT", "DELETE"}[n/1000%2], "/spread-0-0/total/me", "", fmt.Sprint("mallory-", n%1000))
	}},
	"a thousand users, new counters": {100, func(f *flooded, n int) *http.Request {
		return f.request("POST", fmt.Sprint("/new-", n), "", fmt.Sprint("mallory-", n%1000))
	}},
	"a thousand users, single increments": {200, func(f *flooded, n int) *http.Request {
		return f.request("POST", fmt.Sprint("/spread-", n%50, "-", n%20), "", fmt.Sprint("mallory-", n%1000))
	}},
	"nobody, exact reads of 12 KB": {100, func(f *flooded, n int) *http.Request {
		return f.request("GET", "/"+strings.Repeat("%3C", 4000)+"?exact=true", "", "")
	}},
	"nobody, exact reads": {200, func(f *flooded, n int) *http.Request {
		return f.request("GET", fmt.Sprintf("/spread-%d-%d?exact=true", n%50, n%20), "", "")
	}},
	"nobody, reads of what isn't there": {200, func(f *flooded, n int) *http.Request {
		return f.request("GET", fmt.Sprint("/nothing-", n), "", "")
	}},
	"nobody, headers of 14 KB": {200, func(f *flooded, n int) *http.Request {
		return f.request("POST", "/hot", "", "", "X-Long", strings.Repeat("x", 14_000))
	}},
	"nobody, small": {500, func(f *flooded, n int) *http.Request {
		return f.request("POST", "/hot", "", "", "Authorization", "Bearer x")
	}},
	"one token, one counter twenty times a request": {100, func(f *flooded, n int) *http.Request {
		return f.request("POST", "/", `{"increments":[`+strings.TrimSuffix(strings.Repeat(fmt.Sprintf(`{"counter":"spread-%d-0"},`, n%50), 20), ",")+`]}`, "mallory")
	}},
	"a thousand users, a key each time": {200, func(f *flooded, n int) *http.Request {
		return f.request("POST", fmt.Sprintf("/spread-%d-%d", n%50, n%20), "", fmt.Sprint("mallory-", n%1000), "Idempotency-Key", fmt.Sprint("key-", n))
	}},
	"a thousand users, who join a counter each": {200, func(f *flooded, n int) *http.Request {
		return f.request("PUT", fmt.Sprintf("/spread-%d-%d/total/me", n%50, n/50%20), "", fmt.Sprint("mallory-", n%1000))
	}},
	"a thousand users, exact reads": {200, func(f *flooded, n int) *http.Request {
		return f.request("GET", fmt.Sprintf("/spread-%d-%d?exact=true", n%50, n%20), "", fmt.Sprint("mallory-", n%1000))
	}},
	"a thousand users, who hold a seat each": {200, func(f *flooded, n int) *http.Request {
		return f.request("PUT", fmt.Sprintf("/spread-%d-%d/total/me?hold=1s", n%50, n/50%20), "", fmt.Sprint("mallory-", n%1000))
	}},
	"a thousand users, who give back what nobody holds": {200, func(f *flooded, n int) *http.Request {
		return f.request("DELETE", fmt.Sprintf("/spread-%d-%d/total/holds/h-%d", n%50, n%20, n), "", fmt.Sprint("mallory-", n%1000))
	}},
	"one token, what can't be read": {200, func(f *flooded, n int) *http.Request {
		return f.request("POST", "/hot", `{"by": "`+strings.Repeat("<", 10_000)+`"}`, "mallory")
	}},
	"nobody, methods and queries that there are none of": {300, func(f *flooded, n int) *http.Request {
		return f.request([]string{"HEAD", "PATCH", "TRACE", "GET"}[n%4], "/hot?"+strings.Repeat("a", 8000), "", "")
	}},
	"a thousand users, a counter whose id is long": {200, func(f *flooded, n int) *http.Request {
		return f.request("POST", "/?counter="+url.QueryEscape(longID), "", fmt.Sprint("mallory-", n%1000))
	}},
	"a thousand users, such a counter seven times a request": {50, func(f *flooded, n int) *http.Request {
		return f.request("POST", "/", `{"increments":[`+strings.Repeat(`{"counter":"`+strings.Repeat(`\u0001`, len(longID))+`"},`, 7)+`{"counter":"spread-0-0"}]}`, fmt.Sprint("mallory-", n%1000))
	}},
	"nobody, preflights": {500, func(f *flooded, n int) *http.Request {
		return f.request("OPTIONS", "/hot", "", "", "Origin", "https://app.example", "Access-Control-Request-Method", "POST",
			"Access-Control-Request-Headers", strings.Repeat("x-a-rather-long-header-name,", 30))
	}},
}

// Whatever somebody sends, what is written, read, made, answered and logged stays within the ceiling, and an honest
// crowd of one counter is counted, each of them once.
func TestFloodsStayBelowTheCeiling(t *testing.T) {
	t.Parallel()
	all := flood{500, func(f *flooded, n int) *http.Request {
		var names []string
		for name := range floods {
			names = append(names, name)
		}
		slices.Sort(names)
		return floods[names[n%len(names)]].send(f, n/len(names))
	}}
	t.Run("all at once", func(t *testing.T) { t.Parallel(); underFlood(t, "firebase", hundred, all, 15) })
	t.Run("without tokens, 500 new counters a request", func(t *testing.T) {
		t.Parallel()
		underFlood(t, "none", hundred, flood{14, func(f *flooded, n int) *http.Request {
			return f.request("POST", "/", newIDs(fmt.Sprint("new-", n), 500), "")
		}}, 15)
	})
}

// startFlooded starts a function that may spend so much a second.
func startFlooded(t *testing.T, auth string, rates settings.Ceiling, environ ...string) *flooded {
	f := &flooded{t: t, server: emulator.New(emulator.Options{}), rates: rates, statuses: map[int]int{}}
	t.Cleanup(f.server.Close)
	s, err := settings.Parse(append([]string{"AUTO_CREATE=true"}, append(environ, "GOOGLE_CLOUD_PROJECT=p", "AUTH="+auth, "CEILING="+f.rates.String(), "ALLOWED_ORIGINS=https://app.example")...))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := f.server.Connect(grpc.WithStreamInterceptor(f.slowly))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if f.fs, err = firestore.NewClient(t.Context(), "p", option.WithGRPCConn(conn)); err != nil {
		t.Fatal(err)
	}
	var logging sync.Mutex
	log := slog.New(newBoundLog(lockedWriter{&logging, &f.log}, slog.LevelInfo, s.Ceiling.Logs))
	client, err := openShards(s, log, option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	var tk *tokens
	if auth == "firebase" {
		tk = emulatorTokens("p")
	}
	f.handler = newIncrementHandler(client, s, tk, log)
	f.client = client
	return f
}

func underFlood(t *testing.T, auth string, honest crowd, fl flood, seconds int) {
	underFloodOf(t, auth, settings.Ceiling{Writes: 60, Reads: 60, Creates: 1, Bytes: 150_000, Logs: 1000}, honest, fl, 0, seconds)
}

// underFloodOf has a flood begin some seconds before the crowd, to whose counter it may add, too.
func underFloodOf(t *testing.T, auth string, rates settings.Ceiling, honest crowd, fl flood, before, seconds int) {
	synctest.Test(t, func(t *testing.T) {
		f := startFlooded(t, auth, rates)
		for _, id := range append([]string{"hot", longID}, spread()...) {
			batch := f.fs.Doc("counters/" + id)
			if _, err := batch.Set(t.Context(), map[string]any{"num_shards": 1}); err != nil {
				t.Fatal(err)
			}
			if _, err := batch.Collection("shards").Doc("0").Set(t.Context(), map[string]any{"count": 0}); err != nil {
				t.Fatal(err)
			}
		}
		made := f.counters()
		f.server.ResetStats()
		for u, second := range map[ceiling.Unit]float64{ceiling.Writes: f.rates.Writes, ceiling.Reads: f.rates.Reads, ceiling.Bytes: f.rates.Bytes} {
			f.client.Budget().Spend(u, (ceiling.Begins-5*time.Second).Seconds()*second) // little of what it begins with is left
		}

		f.latency = 20 * time.Millisecond
		began := time.Now()
		var sending sync.WaitGroup
		var acknowledged atomic.Int64
		var took []time.Duration
		sending.Go(func() { // the honest crowd
			time.Sleep(time.Duration(before) * time.Second)
			for n := range honest.second * seconds {
				time.Sleep(time.Second / time.Duration(honest.second))
				sending.Go(func() {
					asked := time.Now()
					for try := 0; ; try++ {
						user := ""
						if auth == "firebase" {
							user = fmt.Sprint("alice-", n)
						}
						request := f.request("POST", "/hot", "", user)
						if honest.keys {
							request.Header.Set("Idempotency-Key", fmt.Sprint("key-", n))
						}
						status, m := f.do(request)
						if status == 200 {
							acknowledged.Add(1)
							break
						}
						if status == 504 || try == 20 {
							t.Errorf("one of the crowd is answered %d, %v %s", status, m.header, m.body)
							return
						}
						time.Sleep(time.Second)
					}
					f.mu.Lock()
					defer f.mu.Unlock()
					took = append(took, time.Since(asked))
				})
			}
		})
		sending.Go(func() {
			for n := range fl.second * (before + seconds) {
				time.Sleep(time.Second / time.Duration(fl.second))
				sending.Go(func() {
					status, _ := f.do(fl.send(f, n))
					f.mu.Lock()
					defer f.mu.Unlock()
					f.statuses[status]++
				})
			}
		})
		sending.Wait()
		over := time.Since(began).Seconds() + 5 // with what the buckets begin with

		stats := f.server.Stats()
		within := func(what string, got, second, owed float64) {
			t.Helper()
			if most := second*over + owed; got > most {
				t.Errorf("%s: %.0f, want at most %.0f", what, got, most)
			}
		}
		within("writes", float64(stats.Writes+stats.Deletes), f.rates.Writes, 600)
		within("reads", float64(stats.Reads), f.rates.Reads, 600)
		within("counters made", float64(f.counters()-made), f.rates.Creates, 20)
		within("bytes answered", float64(f.bytes), f.rates.Bytes, ceiling.Begins.Seconds()*f.rates.Bytes)
		within("bytes logged", float64(f.log.Len()), f.rates.Logs, longestLine)
		for u, second := range map[ceiling.Unit]float64{ceiling.Writes: f.rates.Writes, ceiling.Reads: f.rates.Reads, ceiling.Bytes: f.rates.Bytes} {
			// An instance that is replaced owes nothing any more: what it owes at its end nobody earns.
			if left := f.client.Budget().Left(u); left < -second {
				t.Errorf("%.0f %v are owed", -left, u)
			}
		}
		if sum := f.sum("hot"); sum < acknowledged.Load() || before == 0 && sum > acknowledged.Load() || acknowledged.Load() != int64(honest.second*seconds) {
			t.Errorf("%d of the crowd were acknowledged, and %d are counted; want all %d", acknowledged.Load(), sum, honest.second*seconds)
		}
		if slices.Sort(took); len(took) == 0 {
			t.Fatal("nobody of the crowd was counted")
		}
		if late := took[len(took)*99/100]; late > 5*time.Second {
			t.Errorf("99 %% of the crowd are counted within %v, want 5 s", late)
		}
		t.Logf("in %.0f s: %d writes, %d reads, %d counters, %d bytes answered, %d logged; the crowd's 99 %% after %v; the flood is answered %v",
			over-5, stats.Writes+stats.Deletes, stats.Reads, f.counters()-made, f.bytes, f.log.Len(), took[len(took)*99/100], f.statuses)
	})
}

// A crowd takes what is saved for commits of its own. So who makes many counters at once beside it would have it wait
// until what they take is earned: they are made when there is room for all of that.
func TestCrowdBesideManyNewCounters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const seconds = 200
		// $50 a day, by the instance
		f := startFlooded(t, "none", settings.Ceiling{Writes: 100.4, Reads: 50.2, Creates: 3.34, Bytes: 1_200_000, Logs: 3000})
		f.latency = 20 * time.Millisecond
		f.server.SetFaults(emulator.Faults{CommitLatency: 10 * time.Millisecond})
		var sending sync.WaitGroup
		var refused atomic.Int64
		for n := range 100 * seconds {
			time.Sleep(10 * time.Millisecond)
			sending.Go(func() {
				asked := time.Now()
				if status, _ := f.do(f.request("POST", "/hot", "", "")); status != 200 || time.Since(asked) > time.Second {
					refused.Add(1)
				}
			})
			if n%500 == 0 {
				sending.Go(func() { f.do(f.request("POST", "/", newIDs(fmt.Sprint("new-", n), 500), "")) })
			}
		}
		sending.Wait()
		if n := refused.Load(); n > 0 {
			t.Errorf("%d of a crowd of %d were refused, or waited for over a second", n, 100*seconds)
		}
		time.Sleep(ceiling.Holds)
		if status, m := f.do(f.request("POST", "/", newIDs("later", 500), "")); status != 200 {
			t.Errorf("500 counters with all that can be saved: %d %s", status, m.body)
		}
	})
}

// Where there can never be room, nobody is told to come again.
func TestMoreNewCountersThanEverFit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := startFlooded(t, "none", settings.Ceiling{Writes: 3, Reads: 3, Creates: 0.1, Bytes: 1e6, Logs: 500}) // $5 a day
		time.Sleep(ceiling.Holds)
		for n, want := range map[int]int{61: 400, 60: 200} {
			status, m := f.do(f.request("POST", "/", newIDs(fmt.Sprint("new-", n), n), ""))
			if status != want || status == 400 && (!strings.Contains(m.body, "would make 61 counters, and the ceiling has room for 60 at once") || m.header.Get("Retry-After") != "") {
				t.Errorf("%d counters: %d %v %s, want %d", n, status, m.header, m.body, want)
			}
			time.Sleep(ceiling.Holds)
		}
	})
}

// What requests at the same time look for is about what one of them could have: together they would owe the reads of
// days, and an instance that is new owes nothing.
func TestLooksAtTheSameTime(t *testing.T) {
	t.Parallel()
	const reads = 1.5
	for name, c := range map[string]struct {
		environ []string
		send    func(f *flooded, n int) *http.Request
		most    float64 // times what was saved
	}{
		"for unknown counters": {nil, func(f *flooded, n int) *http.Request {
			return f.request("POST", "/", newIDs(fmt.Sprint("nothing-", n), 100), "")
		}, 1},
		"for room": {[]string{"FIELDS=seats=limit(1)"}, func(f *flooded, n int) *http.Request {
			return f.request("POST", "/", newIDs(fmt.Sprint("full-", n), 20), "")
		}, 1.2},
		"for what can be given back": {[]string{"FIELDS=seats=limit(1)", "NUM_SHARDS=25"}, func(f *flooded, n int) *http.Request {
			return f.request("POST", "/", strings.ReplaceAll(newIDs(fmt.Sprint("full-", n), 20), `"}`, `","by":-1}`), "")
		}, 1.2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := startFlooded(t, "none", settings.Ceiling{Writes: 3, Reads: reads, Creates: 0.1, Bytes: 1e6, Logs: 500}, c.environ...)
				if c.environ != nil { // they are there, and full
					other := f.otherOf(shards.Config{NumShards: 25}, "seats=limit(1)")
					for n := range 50 * 20 {
						if _, err := other.AddAll(t.Context(), []shards.Increment{{Counter: fmt.Sprintf("full-%d-%d", n/20, n%20), By: 1}}, shards.Key{}); err != nil {
							t.Fatal(err)
						}
					}
				}
				f.latency = 20 * time.Millisecond
				time.Sleep(ceiling.Holds)
				f.server.ResetStats()
				var sending sync.WaitGroup
				for n := range 50 {
					sending.Go(func() { f.do(c.send(f, n)) })
				}
				sending.Wait()
				if got, most := float64(f.server.Stats().Reads), c.most*reads*(ceiling.Holds.Seconds()+1); got > most || got < most/4 {
					t.Errorf("%.0f reads at once, want at most %.0f", got, most)
				}
			})
		})
	}
}

// Whoever goes away has what was promised to their request until that is over, which others wait for as well: a look
// for many counters, or an exact read, goes on.
func TestLooksOfThoseWhoGoAway(t *testing.T) {
	t.Parallel()
	const reads = 1.5
	for name, send := range map[string]func(f *flooded, n int) *http.Request{
		"for unknown counters": func(f *flooded, n int) *http.Request {
			return f.request("POST", "/", newIDs(fmt.Sprint("nothing-", n), 100), "")
		},
		"exact reads": func(f *flooded, n int) *http.Request {
			return f.request("GET", fmt.Sprintf("/nothing-%d?exact=true", n), "", "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := startFlooded(t, "none", settings.Ceiling{Writes: 3, Reads: reads, Creates: 0.1, Bytes: 1e6, Logs: 500})
				f.latency = 100 * time.Millisecond
				time.Sleep(ceiling.Holds)
				f.server.ResetStats()
				var sending sync.WaitGroup
				for n := range 1000 {
					sending.Go(func() {
						ctx, cancel := context.WithTimeout(t.Context(), 10*time.Microsecond)
						defer cancel()
						f.do(send(f, n).WithContext(ctx))
					})
					time.Sleep(20 * time.Microsecond)
				}
				sending.Wait()
				time.Sleep(time.Minute)
				if got, most := float64(f.server.Stats().Reads), 1.1*reads*ceiling.Holds.Seconds(); got > most || got < most/4 {
					t.Errorf("%.0f reads at once, want at most %.0f", got, most)
				}
			})
		})
	}
}

// Of a crowd that is larger than what fits, as many are counted as fit: those who are refused use up next to nothing.
func TestRefusalsAreCheap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const seconds = 60
		// $5 a day, by the instance: about 100 increments a second of one counter
		f := startFlooded(t, "firebase", settings.Ceiling{Writes: 3.22, Reads: 1.61, Creates: 0.107, Bytes: 37_200, Logs: 500})
		f.client.Budget().Spend(ceiling.Reads, -20) // that it takes to make a counter
		if status, m := f.do(f.request("POST", "/hot", "", "alice")); status != 200 {
			t.Fatal(status, m.body)
		}
		f.bytes = 0
		var sending sync.WaitGroup
		var counted, refused atomic.Int64
		for n := range 130 * seconds {
			time.Sleep(time.Second / 130)
			sending.Go(func() {
				if status, _ := f.do(f.request("POST", "/hot", "", fmt.Sprint("user-", n))); status == 200 {
					counted.Add(1)
				} else {
					refused.Add(1)
				}
			})
		}
		sending.Wait()
		if got := float64(f.bytes); got > (seconds+ceiling.Begins.Seconds())*f.rates.Bytes {
			t.Errorf("%.0f bytes are answered in %d s, want at most %v a second", got, seconds, f.rates.Bytes)
		}
		if n := counted.Load(); n < 95*seconds || refused.Load() == 0 || f.sum("hot") != n+1 {
			t.Errorf("%d of 130 a second are counted in %d s, %d in the shards; want about 100 a second, and some refused", n, seconds, f.sum("hot"))
		}
	})
}

// By the request, who goes away while they wait takes no turn: those that stay are counted as if these had never come.
// Nor is anybody answered 200 who wasn't counted, as a handler does that returns without an answer.
func TestWhoGoesAwayTakesNoTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const seconds = 20
		// $6 a day, by the request
		f := startFlooded(t, "none", settings.Ceiling{Writes: 9, Reads: 4, Creates: 0.1, Bytes: 100_000, Logs: 500, Requests: 15})
		if status, m := f.do(f.request("POST", "/hot", "", "")); status != 200 {
			t.Fatal(status, m.body)
		}
		var sending sync.WaitGroup
		var late atomic.Int64
		for n := range 200 * seconds {
			time.Sleep(time.Second / 200)
			stays := n%40 == 0
			sending.Go(func() {
				// The framework gives each request the function's time, by CLOUD_RUN_TIMEOUT_SECONDS.
				ctx, cancel := context.WithTimeout(t.Context(), 75*time.Second)
				defer cancel()
				if !stays {
					time.AfterFunc(20*time.Millisecond, cancel)
				}
				began, answer := time.Now(), httptest.NewRecorder()
				f.handler.ServeHTTP(answer, f.request("POST", "/hot", "", "").WithContext(ctx))
				if stays && (answer.Code != 200 || answer.Body.Len() == 0 || time.Since(began) > 5*time.Second) {
					late.Add(1)
				}
				if !stays && answer.Code == 200 && answer.Body.Len() == 0 {
					t.Error("who has gone away is answered 200 without having been counted")
				}
			})
		}
		sending.Wait()
		if n := late.Load(); n > 0 {
			t.Errorf("%d of %d that stay are not counted within 5 s", n, 5*seconds)
		}
	})
}

// spread are ids that floods add to.
func spread() (ids []string) {
	for a := range 50 {
		for b := range 20 {
			ids = append(ids, fmt.Sprintf("spread-%d-%d", a, b))
		}
	}
	return ids
}

func (f *flooded) counters() int {
	f.t.Helper()
	docs, err := f.fs.Collection("counters").Documents(f.t.Context()).GetAll()
	if err != nil {
		f.t.Fatal(err)
	}
	return len(docs)
}

func (f *flooded) sum(id string) (sum int64) {
	f.t.Helper()
	docs, err := f.fs.Collection("counters").Doc(id).Collection("shards").Documents(f.t.Context()).GetAll()
	if err != nil {
		f.t.Fatal(err)
	}
	for _, doc := range docs {
		sum += doc.Data()["count"].(int64)
	}
	return sum
}

type lockedWriter struct {
	mu *sync.Mutex
	to *bytes.Buffer
}

func (w lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}
