package rollup_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/api/option"
	"google.golang.org/grpc"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/rollup"
)

// Events whose times have to be asked about wait for one question, and none of them beyond
// its own deadline.
func TestAskingForTheTimeKeepsDeadlines(t *testing.T) {
	t.Parallel()
	server := emulator.New(emulator.Options{})
	defer server.Close()
	asked := make(chan struct{}, 10)
	conn, err := server.Connect(grpc.WithChainStreamInterceptor(
		func(ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, _ string, _ grpc.Streamer, _ ...grpc.CallOption) (grpc.ClientStream, error) {
			asked <- struct{}{}
			<-ctx.Done() // a connection that went silent
			return nil, ctx.Err()
		}))
	if err != nil {
		t.Fatal(err)
	}
	client, err := rollup.Open(t.Context(), rollup.Config{Place: rollup.Place{Project: "p"}}, option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	roller := rollup.NewRoller(client, rollup.RollerOptions{})
	defer roller.Close(t.Context())

	add := func(ctx context.Context) <-chan error {
		ended := make(chan error, 1)
		go func() {
			ended <- roller.Add(ctx, change(ledger.State{Shard: "0", Counts: ledger.Counts{"total": 1}, AsOf: time.Now()}))
		}()
		return ended
	}
	long, cancel := context.WithCancel(t.Context())
	first := add(long)
	<-asked
	short, end := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer end()
	select {
	case err := <-add(short):
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the second event got %v", err)
		}
	case err := <-first:
		t.Errorf("the first event ended first: %v", err)
	case <-time.After(time.Minute):
		t.Error("the second event waits beyond its deadline")
	}
	cancel()
	<-first
}
