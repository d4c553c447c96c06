package shards_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/shards"
)

// Whoever counts in many documents of the app's own that an instance doesn't know is counted, beside others who do the
// same: only who asks for what is known needs no look.
func TestManyCallsOfManyUnknown(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{Place: shards.Place{Hosted: true}}, grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			time.Sleep(30 * time.Millisecond)
			return streamer(ctx, desc, cc, method, opts...)
		}))
		const calls, n = 20, 100
		for i := range calls * n {
			w.Put(fmt.Sprint("counters/c", i), map[string]any{"title": "a"})
		}
		var all sync.WaitGroup
		for i := range calls {
			all.Go(func() {
				var increments []shards.Increment
				for j := range n {
					increments = append(increments, shards.Increment{Counter: fmt.Sprint("c", i*n+j), By: 1})
				}
				if _, err := client.AddAll(t.Context(), increments, shards.Key{}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	})
}
