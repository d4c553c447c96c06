package shards_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/api/option"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/shards"
)

// spend takes 1 of a user's quota of a day, of 3. Who finds no counter makes it, and who finds no limit sets it,
// before anything is taken.
func spend(ctx context.Context, client *shards.Client, user, day string, key shards.Key) error {
	quota, err := client.Counter("quota-" + user + "-" + day)
	if err != nil {
		return err
	}
	s, _, err := quota.Cached(ctx)
	if errors.Is(err, shards.ErrNotFound) {
		err = quota.Create(ctx, shards.CreateOptions{Shards: 1})
	}
	if err != nil && !errors.Is(err, shards.ErrExists) {
		return err
	}
	if s.Limits == nil {
		if err := quota.SetLimit(ctx, "total", 3); err != nil {
			return err
		}
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
	client, err := shards.Open(ctx, shards.Config{Place: shards.Place{Project: "my-project"}}, option.WithGRPCConn(conn))
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

// A quota whose maker has died before it had a limit, or is about to give it one, isn't exceeded.
func TestQuotaThatIsHalfMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.counter(t, w.open(t, shards.Config{}), "quota-ada-today", 1)
	var clients []*shards.Client
	for range 2 {
		clients = append(clients, w.open(t, shards.Config{}))
	}
	for call := range 6 {
		err := spend(t.Context(), clients[call%2], "ada", "today", shards.Key{Value: fmt.Sprint(call)})
		if (err == nil) != (call < 3) || err != nil && !errors.Is(err, shards.ErrLimit) {
			t.Errorf("call %d: %v", call, err)
		}
	}
	w.wantSum(t, "quota-ada-today", 3)
}

// The page has the function that is run here.
func TestQuotaOfThePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile("example_limit_test.go")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile("(?s)```go\n(.*?)```").FindSubmatch(page)
	if shown == nil || !strings.Contains(string(own), string(shown[1])) {
		t.Errorf("docs/limits.md shows another function than is run:\n%s", shown)
	}
}
