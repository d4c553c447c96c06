package shards_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/api/option"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/shards"
)

// spend takes 1 of a user's quota of a day. The first one of a day makes its counter, which has the limit that is
// declared.
func spend(ctx context.Context, client *shards.Client, user, day string, key shards.Key) error {
	quota, err := client.Counter("quota-" + user + "-" + day)
	if err != nil {
		return err
	}
	_, err = quota.AddOnce(ctx, 1, key)
	return err // shards.ErrLimit: nothing is left until tomorrow
}

// A quota a day is a counter a day, with a limit.
func ExampleCounter_SetLimit() {
	ctx := context.Background()
	server := emulator.New(emulator.Options{}) // a Firestore in memory
	defer server.Close()
	conn, err := server.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	client, err := shards.Open(ctx, shards.Config{Place: shards.Place{Project: "my-project", Fields: "used=limit(3)"}, AutoCreate: true, NumShards: 1}, option.WithGRPCConn(conn))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	for _, call := range []string{"1", "2", "2", "3", "4"} { // the second is repeated
		err := spend(ctx, client, "ada", "2026-11-25", shards.Key{Caller: "ada", Value: call})
		fmt.Println(call, err == nil, errors.Is(err, shards.ErrLimit))
	}
	// Output:
	// 1 true false
	// 2 true false
	// 2 true false
	// 3 true false
	// 4 false true
}

// The first take of a user's day makes everything, with five writes, and those that come at the same time exceed
// nothing. Each later one is two.
func TestQuotaOfADay(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		cfg := shards.Config{Place: shards.Place{Fields: "used=limit(3)"}, AutoCreate: true, NumShards: 1}
		for day, crowd := range map[string]int{"quiet": 1, "busy": 8} {
			var taken, refused atomic.Int64
			var group sync.WaitGroup
			w.Server.ResetStats()
			for n := range crowd {
				client := w.open(t, cfg)
				group.Go(func() {
					switch err := spend(t.Context(), client, "ada", day, shards.Key{Value: fmt.Sprint(n)}); {
					case err == nil:
						taken.Add(1)
					case errors.Is(err, shards.ErrLimit):
						refused.Add(1)
					default:
						t.Error(err)
					}
				})
			}
			group.Wait()
			if taken.Load() != int64(min(crowd, 3)) || taken.Load()+refused.Load() != int64(crowd) {
				t.Errorf("%s: %d taken, %d refused", day, taken.Load(), refused.Load())
			}
			if writes := w.Server.Stats().Writes; day == "quiet" && writes > 5 {
				t.Errorf("%d writes, want 5", writes)
			}
		}
	})
}
