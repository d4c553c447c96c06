package emulator_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"cloud.google.com/go/firestore"

	"github.com/firestore-counters/counters/emulator"
)

// BenchmarkClientIncrement is an increment of one of a hundred shards with the official client,
// over a connection, from 64 goroutines. Client and server share the machine.
func BenchmarkClientIncrement(b *testing.B) {
	c := emulator.Start(b).Client(b, "bench")
	ctx := context.Background()
	for i := range 100 {
		if _, err := c.Doc(fmt.Sprintf("counters/c/shards/%d", i)).Set(ctx, map[string]any{"count": 0}); err != nil {
			b.Fatal(err)
		}
	}
	var n atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(32)
	b.ResetTimer()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			doc := c.Doc(fmt.Sprintf("counters/c/shards/%d", n.Add(1)%100))
			if _, err := doc.Update(ctx, []firestore.Update{{Path: "count", Value: firestore.Increment(1)}}); err != nil {
				b.Error(err)
			}
		}
	})
}
