package shards_test

import (
	"context"
	"sync"
	"testing"

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

// One increment after the other: what the marker and the batcher cost beside a plain update.
func BenchmarkLoneIncrement(b *testing.B) {
	for name, thrift := range map[string]bool{"marker": false, "thrift": true} {
		b.Run(name, func(b *testing.B) {
			counter, _ := benchmarkCounter(b, shards.Config{Thrift: thrift})
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
