package dev

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
	"google.golang.org/protobuf/proto"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/emulator/eventarc"
	"github.com/firestore-counters/counters/internal/layout"
)

var hotDuration = flag.Duration("hot.duration", 10*time.Second, "how long BenchmarkHotDocument writes")

const (
	hotShards = 600
	hotRate   = 200 // shard writes a second
)

// BenchmarkHotDocument writes 200 shards a second, of one counter of 600 shards, where a document
// takes one write a second, and reports how long a write takes until the counter's total has it.
// "blind" is what the public tutorials do: one increment of the total per event.
func BenchmarkHotDocument(b *testing.B) {
	for _, instances := range []int{1, 3} {
		b.Run(fmt.Sprintf("instances=%d", instances), func(b *testing.B) { hotDocument(b, instances, false) })
	}
	b.Run("blind", func(b *testing.B) { hotDocument(b, 1, true) })
}

func hotDocument(b *testing.B, instances int, blind bool) {
	s := startSystem(b, Config{Instances: instances, Environ: []string{"LOG_LEVEL=ERROR"}})
	client := s.client(b)
	makeHotCounter(b, client)
	if blind {
		s.rollUpBlindly(b, client)
	} else if code, err := postReconcile(s, "c"); err != nil || code != http.StatusOK { // adopts it
		b.Fatalf("adopt: %d, %v", code, err)
	}
	if err := s.WaitForEvents(b.Context()); err != nil {
		b.Fatal(err)
	}
	if err := s.SetFaults(Faults{Commits: emulator.Faults{DocWriteRate: 1}}); err != nil {
		b.Fatal(err)
	}
	lags := watchLags(s, blind)

	b.ResetTimer()
	var writes sync.WaitGroup
	var refused, written atomic.Int64
	tick := time.NewTicker(time.Second / hotRate)
	defer tick.Stop()
	for end := time.Now().Add(*hotDuration); time.Now().Before(end); {
		<-tick.C
		writes.Go(func() {
			for { // one that is refused goes to another shard
				shard := client.Doc(fmt.Sprintf("counters/c/shards/%d", rand.IntN(hotShards)))
				_, err := shard.Update(b.Context(), []firestore.Update{{Path: "count", Value: firestore.Increment(1)}})
				if err == nil {
					written.Add(1)
					return
				}
				refused.Add(1)
			}
		})
	}
	writes.Wait()
	b.StopTimer()

	// What has been written by now and isn't in the total.
	time.Sleep(50 * time.Millisecond) // the last changes are told
	waiting, age := lags.waiting()
	rollups := lags.commits.Load()
	if !blind {
		settled, cancel := context.WithTimeout(b.Context(), time.Minute)
		defer cancel()
		if err := s.WaitForEvents(settled); err != nil {
			b.Fatal(err)
		}
		waitForTotal(b, client, "c", written.Load())
	}
	counted := lags.sorted()
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(quantile(counted, 0.5), "lag-p50-ms")
	b.ReportMetric(quantile(counted, 0.99), "lag-p99-ms")
	b.ReportMetric(float64(len(counted)), "counted")
	b.ReportMetric(float64(waiting), "uncounted-at-the-end")
	b.ReportMetric(float64(age.Milliseconds()), "oldest-of-them-ms")
	b.ReportMetric(float64(refused.Load()), "refused")
	b.ReportMetric(float64(rollups)/hotDuration.Seconds(), "rollups/s")
}

func quantile(sorted []time.Duration, q float64) float64 {
	if len(sorted) == 0 {
		return -1
	}
	return float64(sorted[int(q*float64(len(sorted)-1))].Microseconds()) / 1000
}

func makeHotCounter(b *testing.B, client *firestore.Client) {
	b.Helper()
	err := client.RunTransaction(b.Context(), func(_ context.Context, tx *firestore.Transaction) error {
		err := tx.Set(client.Doc("counters/c"), map[string]any{"num_shards": hotShards, "total": 0})
		for n := range hotShards {
			err = errors.Join(err, tx.Set(client.Doc(fmt.Sprintf("counters/c/shards/%d", n)), map[string]any{"count": 0}))
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
}

func postReconcile(s *System, counter string) (int, error) {
	resp, err := http.Post(s.Gateway+"/reconcile", "application/json", strings.NewReader(fmt.Sprintf(`{"counters": [%q]}`, counter)))
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// rollUpBlindly sends the events to a function that adds each one's delta to the total, instead of
// to ours.
func (s *System) rollUpBlindly(b *testing.B, client *firestore.Client) {
	b.Helper()
	function := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		event, err := cloudevents.NewEventFromHTTPRequest(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var change firestoredata.DocumentEventData
		if err := proto.Unmarshal(event.Data(), &change); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		count := func(doc *firestoredata.Document) int64 { return doc.GetFields()["count"].GetIntegerValue() }
		delta := count(change.GetValue()) - count(change.GetOldValue())
		if delta == 0 {
			return
		}
		if _, err := client.Doc("counters/c").Update(r.Context(), []firestore.Update{{Path: "total", Value: firestore.Increment(delta)}}); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}))
	b.Cleanup(function.Close)
	events, err := eventarc.New(eventarc.Options{Pattern: "counters/{counter}/shards/{shard}", Logger: testLogger(b)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(events.Close)
	if err := events.SetTargets(function.URL); err != nil {
		b.Fatal(err)
	}
	s.server.OnChange(events.Deliver)
	if err := s.events.SetTargets(); err != nil {
		b.Fatal(err)
	}
}

// lags measures how long shard writes take until the total has them.
type lags struct {
	blind   bool
	commits atomic.Int64 // on the counter

	mu      sync.Mutex
	written map[string][]time.Time // :: shard id → times of writes that aren't counted yet; all under "" when blind
	counted []time.Duration
}

func watchLags(s *System, blind bool) *lags {
	l := &lags{blind: blind, written: map[string][]time.Time{}}
	s.server.OnChange(l.change)
	return l
}

func (l *lags) change(c emulator.Change) {
	path := strings.TrimPrefix(c.Name, "projects/"+layout.DefaultProject+"/databases/(default)/documents/counters/c")
	shard, isShard := strings.CutPrefix(path, "/shards/")
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case isShard && l.blind:
		l.written[""] = append(l.written[""], c.CommitTime)
	case isShard:
		l.written[shard] = append(l.written[shard], c.CommitTime)
	case path == "":
		l.commits.Add(1)
		if l.blind { // nobody knows which writes it holds: the oldest ones, at best
			grown := c.New.GetFields()["total"].GetIntegerValue() - c.Old.GetFields()["total"].GetIntegerValue()
			for ; grown > 0; grown-- {
				l.count("", c.CommitTime)
			}
		}
	case path == "/counter_rollup/ledger":
		for shard, entry := range c.New.GetFields()["shards"].GetMapValue().GetFields() {
			asOf := entry.GetMapValue().GetFields()["as_of"].GetTimestampValue().AsTime()
			for len(l.written[shard]) > 0 && !l.written[shard][0].After(asOf) {
				l.count(shard, c.CommitTime)
			}
		}
	}
}

// count takes a shard's oldest write as counted.
func (l *lags) count(shard string, at time.Time) {
	l.counted = append(l.counted, at.Sub(l.written[shard][0]))
	l.written[shard] = l.written[shard][1:]
}

// waiting is how many writes aren't counted yet, and how old the oldest of them is.
func (l *lags) waiting() (n int, age time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, times := range l.written {
		n += len(times)
		if len(times) > 0 {
			age = max(age, time.Since(times[0]))
		}
	}
	return n, age
}

func (l *lags) sorted() []time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(slices.Values(l.counted))
}
