package functions

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/emulator/eventarc"
	"github.com/firestore-counters/counters/internal/settings"
	"github.com/firestore-counters/counters/rollup"
)

// How late ten healthy counters are at the pace of Pub/Sub, alone and beside two whose events can't
// be counted: a damaged base, and a document that refuses every commit. It takes a minute and a half:
//
//	go test ./functions -run '^$' -bench OneCountersTrouble -benchtime 1x
func BenchmarkOneCountersTrouble(b *testing.B) {
	for range b.N {
		alone, refused := lagBeside(b, false)
		beside, more := lagBeside(b, true)
		b.ReportMetric(float64(alone.Milliseconds()), "p99_alone_ms")
		b.ReportMetric(float64(beside.Milliseconds()), "p99_beside_ms")
		b.ReportMetric(float64(beside)/float64(alone), "ratio")
		b.ReportMetric(float64(refused+more), "refused")
	}
}

// lagBeside is the 99th percentile of the lag of healthy counters' increments, and how many posts of
// events were not acknowledged.
func lagBeside(b *testing.B, trouble bool) (p99 time.Duration, refused int) {
	instance := emulator.Start(b)
	fs := instance.Client(b, "p")
	log := slog.New(slog.DiscardHandler)
	client, err := rollup.Open(b.Context(), rollup.Config{Place: rollup.Place{Project: "p"}, Logger: log}, option.WithGRPCConn(instance.Conn(b)))
	if err != nil {
		b.Fatal(err)
	}
	roller := rollup.NewRoller(client, rollup.RollerOptions{})
	server := httptest.NewServer(RollupHandler(client, roller, settings.Settings{RequestTimeout: 20 * time.Second}, log))
	defer server.Close()
	defer roller.Close(context.Background())

	ids := []string{"damaged", "stuck"}
	for i := range 10 {
		ids = append(ids, fmt.Sprint("healthy-", i))
	}
	must := func(_ any, err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	add := func(id string, shard int) {
		_, err := fs.Doc(fmt.Sprintf("counters/%s/shards/%d", id, shard)).Set(b.Context(), map[string]any{"count": firestore.Increment(1)}, firestore.MergeAll)
		if err != nil && b.Context().Err() == nil {
			b.Error(err)
		}
	}
	for _, id := range ids {
		must(fs.Doc("counters/"+id).Set(b.Context(), map[string]any{"num_shards": 3}))
		must(client.Reconcile(b.Context(), id, rollup.ReconcileOptions{}))
	}
	if trouble {
		must(fs.Doc("counters/damaged/counter_rollup/base").Update(b.Context(), []firestore.Update{{Path: "base", Value: "none"}}))
		instance.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) (v emulator.Verdict) {
			for _, write := range req.GetWrites() {
				if strings.HasSuffix(write.GetUpdate().GetName(), "/counters/stuck") {
					v.Before = status.Error(codes.Aborted, "too much contention")
				}
			}
			return v
		})
	}
	push := eventarc.PubSub()
	push.AckDeadline = 70 * time.Second // as it is deployed
	deliverer, err := eventarc.New(eventarc.Options{Pattern: "counters/{counter}/shards/{shard}", Push: push, Logger: log})
	must(nil, err)
	defer deliverer.Close()
	must(nil, deliverer.SetTargets(server.URL))

	var mu sync.Mutex
	var lags []time.Duration
	waiting := map[string][]time.Time{} // :: healthy counter → its increments that it doesn't show yet
	defer instance.Server.OnChange(func(c emulator.Change) {
		deliverer.Deliver(c)
		_, path, _ := strings.Cut(c.Name, "/documents/counters/")
		id, below, shard := strings.Cut(path, "/")
		if !strings.HasPrefix(id, "healthy-") || c.New == nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		switch {
		case strings.HasPrefix(below, "shards/"):
			waiting[id] = append(waiting[id], time.Now())
		case !shard:
			shown := c.New.GetFields()["total"].GetIntegerValue() - c.Old.GetFields()["total"].GetIntegerValue()
			for range min(int(shown), len(waiting[id])) {
				lags = append(lags, time.Since(waiting[id][0]))
				waiting[id] = waiting[id][1:]
			}
		}
	})()
	for end := time.Now().Add(40 * time.Second); time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
		var all sync.WaitGroup
		for i, id := range ids {
			if i > 1 || trouble {
				all.Go(func() { add(id, 1+i%2) })
			}
		}
		all.Wait()
	}
	time.Sleep(5 * time.Second)
	mu.Lock()
	defer mu.Unlock()
	for _, since := range waiting {
		for _, t := range since {
			lags = append(lags, time.Since(t))
		}
	}
	slices.Sort(lags)
	return lags[len(lags)*99/100], deliverer.Stats().Retries
}
