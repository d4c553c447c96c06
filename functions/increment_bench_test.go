package functions

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"google.golang.org/api/option"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/settings"
	"github.com/firestore-counters/counters/shards"
)

// BenchmarkIncrement compares, on one hot counter with commits of ten milliseconds: the function,
// and the same function with a plain commit per request, as the public tutorials have it. They take
// turns, over HTTP, from callers that wait for their answers; it reports how many times more
// increments a second ours answers, and how many times longer the slowest percent of the other's
// answers take.
//
//	go test ./functions -run '^$' -bench Increment -benchtime 1x
func BenchmarkIncrement(b *testing.B) {
	const callers, perRound, rounds = 300, 10_000, 3
	server := emulator.Start(b)
	log := slog.New(slog.DiscardHandler)
	s, err := settings.Parse([]string{"GOOGLE_CLOUD_PROJECT=p"})
	if err != nil {
		b.Fatal(err)
	}
	client, err := openShards(s, log, option.WithGRPCConn(server.Conn(b)))
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	counter, err := client.Counter("hot")
	if err != nil {
		b.Fatal(err)
	}
	if err := counter.Create(b.Context(), shards.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	server.Server.SetFaults(emulator.Faults{CommitLatency: 10 * time.Millisecond})
	noop := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}\n") })
	for range b.N {
		var ours, plain, ceiling rates
		for range rounds {
			plain.add(load(b, plainHandler(server.Client(b, "p")), callers, perRound/3))
			ceiling.add(load(b, noop, callers, perRound))
			ours.add(load(b, newIncrementHandler(client, s, nil, log), callers, perRound))
		}
		b.ReportMetric(ours.perSecond(), "ours/s")
		b.ReportMetric(plain.perSecond(), "plain/s")
		b.ReportMetric(ceiling.perSecond(), "noop/s")
		b.ReportMetric(ours.perSecond()/plain.perSecond(), "ours÷plain")
		b.ReportMetric(float64(ours.p99().Microseconds())/1000, "ours-p99-ms")
		b.ReportMetric(float64(plain.p99().Microseconds())/1000, "plain-p99-ms")
		b.ReportMetric(float64(plain.p99())/float64(ours.p99()), "plain÷ours-p99")
	}
}

// plainHandler commits each request by itself.
func plainHandler(fs *firestore.Client) http.Handler {
	counter := fs.Collection("counters").Doc("hot")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shard := counter.Collection("shards").Doc(fmt.Sprint(rand.IntN(10)))
		if _, err := shard.Update(r.Context(), []firestore.Update{{Path: "count", Value: firestore.Increment(1)}}); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
}

// rates are what callers met.
type rates struct {
	answers []time.Duration
	elapsed time.Duration
}

func (r *rates) add(more rates) {
	r.answers = append(r.answers, more.answers...)
	r.elapsed += more.elapsed
}

func (r *rates) perSecond() float64 { return float64(len(r.answers)) / r.elapsed.Seconds() }

func (r *rates) p99() time.Duration {
	slices.Sort(r.answers)
	return r.answers[len(r.answers)*99/100]
}

// load sends n increments from callers that each wait for an answer before they send the next.
func load(b *testing.B, handler http.Handler, callers, n int) rates {
	b.Helper()
	server := httptest.NewServer(handler)
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers}}
	defer client.CloseIdleConnections()
	r := rates{answers: make([]time.Duration, n)}
	var next atomic.Int64
	var group sync.WaitGroup
	began := time.Now()
	for range callers {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				sent := time.Now()
				resp, err := client.Post(server.URL+"/hot", "application/json", nil)
				if err != nil {
					b.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					b.Errorf("answered %d", resp.StatusCode)
				}
				r.answers[i] = time.Since(sent)
			}
		})
	}
	group.Wait()
	r.elapsed = time.Since(began)
	return r
}
