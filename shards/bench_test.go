package shards_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"google.golang.org/api/option"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/shards"
)

// benchmarkCounter is a counter on a Firestore that answers at once.
func benchmarkCounter(b *testing.B, cfg shards.Config) (shards.Counter, *emulator.Instance) {
	b.Helper()
	i := emulator.Start(b)
	cfg.Project = "p"
	client, err := shards.Open(context.Background(), cfg, option.WithGRPCConn(i.Conn(b)))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { client.Close() })
	counter, err := client.Counter("a")
	if err != nil {
		b.Fatal(err)
	}
	if err := counter.Create(b.Context(), shards.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	return counter, i
}

// One increment after the other: what the marker and the queues cost beside a plain update.
func BenchmarkLoneIncrement(b *testing.B) {
	for name, unmarked := range map[string]bool{"marker": false, "unmarked": true} {
		b.Run(name, func(b *testing.B) {
			counter, _ := benchmarkCounter(b, shards.Config{InexactWrites: unmarked})
			b.ReportAllocs()
			for b.Loop() {
				if err := counter.Add(b.Context(), 1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("plain", func(b *testing.B) {
		_, i := benchmarkCounter(b, shards.Config{})
		shard := i.Client(b, "p").Doc("counters/a/shards/3")
		b.ReportAllocs()
		for b.Loop() {
			if _, err := shard.Update(b.Context(), []firestore.Update{{Path: "count", Value: firestore.Increment(1)}}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// A thousand callers at a time.
func BenchmarkGroupCommit(b *testing.B) {
	counter, _ := benchmarkCounter(b, shards.Config{})
	b.ReportAllocs()
	work := make(chan struct{})
	var group sync.WaitGroup
	for range 1000 {
		group.Go(func() {
			for range work {
				if err := counter.Add(b.Context(), 1); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for b.Loop() {
		work <- struct{}{}
	}
	close(work)
	group.Wait()
}

// A thousand callers at a time, each with a counter of its own.
func BenchmarkManyCounters(b *testing.B) {
	const counters = 1000
	_, i := benchmarkCounter(b, shards.Config{})
	client, err := shards.Open(context.Background(), shards.Config{Place: shards.Place{Project: "p"}, AutoCreate: true, NumShards: 1}, option.WithGRPCConn(i.Conn(b)))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { client.Close() })
	work := make(chan struct{})
	var group sync.WaitGroup
	var made sync.WaitGroup
	made.Add(counters)
	for n := range counters {
		group.Go(func() {
			counter, err := client.Counter(fmt.Sprint(n))
			if err != nil {
				b.Error(err)
			}
			if err := counter.Add(b.Context(), 1); err != nil {
				b.Error(err)
			}
			made.Done()
			for range work {
				if err := counter.Add(b.Context(), 1); err != nil {
					b.Error(err)
				}
			}
		})
	}
	made.Wait()
	before := i.Server.Stats().CommitRequests
	b.ReportAllocs()
	for b.Loop() {
		work <- struct{}{}
	}
	close(work)
	group.Wait()
	b.ReportMetric(float64(i.Server.Stats().CommitRequests-before)/float64(b.N), "commits/op")
}

// A thousand different members a second, at ten milliseconds a commit: about ten share one.
// -benchtime 3000x is three seconds of it.
func BenchmarkMembers(b *testing.B) {
	counter, i := benchmarkCounter(b, shards.Config{})
	i.Server.SetFaults(emulator.Faults{CommitLatency: 10 * time.Millisecond})
	before := i.Server.Stats().CommitRequests
	began := time.Now()
	var group sync.WaitGroup
	n := 0
	for b.Loop() {
		n++
		member := fmt.Sprint(n)
		time.Sleep(time.Until(began.Add(time.Duration(n) * time.Millisecond)))
		group.Go(func() {
			if counted, err := counter.Join(b.Context(), "total", member); err != nil || !counted {
				b.Errorf("%s: %v, %v", member, counted, err)
			}
		})
	}
	group.Wait()
	commits := float64(i.Server.Stats().CommitRequests - before)
	b.ReportMetric(commits/time.Since(began).Seconds(), "commits/s")
	b.ReportMetric(float64(n)/time.Since(began).Seconds(), "members/s")
	b.ReportMetric(float64(n)/commits, "members/commit")
}
