package shards_test

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/api/option"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/testbed/freeport"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/shards"
)

// called is each method of a counter and of its client, by its name.
func called(client *shards.Client, c shards.Counter) map[string]func(context.Context) error {
	calls := map[string]func(context.Context) error{
		"Get":     func(ctx context.Context) error { _, err := c.Get(ctx); return err },
		"Cached":  func(ctx context.Context) error { _, _, err := c.Cached(ctx); return err },
		"Sum":     func(ctx context.Context) error { _, err := c.Sum(ctx); return err },
		"Add":     func(ctx context.Context) error { return c.Add(ctx, 1) },
		"AddOnce": func(ctx context.Context) error { _, err := c.AddOnce(ctx, 1, shards.Key{Value: "k"}); return err },
		"AddFields": func(ctx context.Context) error {
			_, err := c.AddFields(ctx, map[string]int64{"total": 1}, shards.Key{})
			return err
		},
		"Join":         func(ctx context.Context) error { _, err := c.Join(ctx, "total", "alice"); return err },
		"Leave":        func(ctx context.Context) error { _, err := c.Leave(ctx, "total", "alice"); return err },
		"Joined":       func(ctx context.Context) error { _, _, err := c.Joined(ctx, "total", "alice"); return err },
		"Members":      func(ctx context.Context) error { return first(c.Members(ctx, "total")) },
		"Create":       func(ctx context.Context) error { return c.Create(ctx, shards.CreateOptions{}) },
		"Delete":       func(ctx context.Context) error { return c.Delete(ctx, shards.DeleteOptions{}) },
		"Reset":        func(ctx context.Context) error { return c.Reset(ctx, shards.ResetOptions{}) },
		"Resize":       func(ctx context.Context) error { return c.Resize(ctx, 4, shards.ResizeOptions{}) },
		"Rebase":       func(ctx context.Context) error { return c.Rebase(ctx, 4) },
		"RebaseFields": func(ctx context.Context) error { return c.RebaseFields(ctx, map[string]int64{"total": 4}) },
		"Audit":        func(ctx context.Context) error { _, err := c.Audit(ctx); return err },
		"Watch":        func(ctx context.Context) error { return first(c.Watch(ctx)) },
	}
	if client != nil {
		calls["List"] = func(ctx context.Context) error { return first(client.List(ctx)) }
		calls["AddAll"] = func(ctx context.Context) error {
			_, err := client.AddAll(ctx, []shards.Increment{{Counter: "x", By: 1}}, shards.Key{})
			return err
		}
		calls["Remove"] = func(ctx context.Context) error { _, err := client.Remove(ctx, "x", time.Now()); return err }
		calls["Missing"] = func(ctx context.Context) error { _, err := client.Missing(ctx, "never-read"); return err }
	}
	return calls
}

// first is the error that a loop begins with.
func first[V any](seq func(func(V, error) bool)) error {
	for _, err := range seq {
		return err
	}
	return nil
}

// Whoever forgets to take a counter from a client, has closed it or has cancelled the call, hears
// of just that from every method.
func TestErrorsOfEveryMethod(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		for name, call := range called(nil, shards.Counter{}) {
			if err := call(t.Context()); !errors.Is(err, shards.ErrInvalidID) || !strings.Contains(err.Error(), "zero value; Client.Counter makes one") {
				t.Errorf("%s of the zero Counter: %v", name, err)
			}
		}
		client, err := shards.Open(t.Context(), shards.Config{Place: shards.Place{Project: "p"}, AutoCreate: true, ReadCache: time.Hour}, option.WithGRPCConn(virtual.Start(t).Conn()))
		if err != nil {
			t.Fatal(err)
		}
		counter, err := client.Counter("x")
		if err == nil {
			err = counter.Add(t.Context(), 1)
		}
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for name, call := range called(client, counter) {
			if _, _, err := counter.Cached(t.Context()); err != nil { // known: what needs no read hears of it, too
				t.Fatal(err)
			}
			err := call(ctx)
			if name == "Watch" {
				if err != nil { // a loop that is ended just ends
					t.Errorf("%s with a context that is cancelled: %v", name, err)
				}
				continue
			}
			if !errors.Is(err, context.Canceled) || !strings.HasSuffix(err.Error(), ": context canceled") || strings.Contains(err.Error(), "busy") {
				t.Errorf("%s with a context that is cancelled: %v", name, err)
			}
		}
		if err := client.Close(); err != nil {
			t.Fatal(err)
		}
		for name, call := range called(client, counter) {
			if err := call(t.Context()); !errors.Is(err, shards.ErrClosed) {
				t.Errorf("%s of a closed client: %v", name, err)
			}
		}
	})
}

// unheard are the calls of a client of an address at which nothing listens. It is called before t.Parallel:
// until then no other test runs that would see the environment.
func unheard(t *testing.T, timeout time.Duration) (addr string, calls map[string]func(context.Context) error) {
	t.Helper()
	port, err := freeport.Find()
	if err != nil {
		t.Fatal(err)
	}
	addr = "127.0.0.1:" + port
	const variable = "FIRESTORE_EMULATOR_HOST"
	before, was := os.LookupEnv(variable)
	if err := os.Setenv(variable, addr); err != nil {
		t.Fatal(err)
	}
	client, err := shards.Open(t.Context(), shards.Config{Place: shards.Place{Project: "p"}, AutoCreate: true, Timeout: timeout})
	if was {
		err = errors.Join(err, os.Setenv(variable, before))
	} else {
		err = errors.Join(err, os.Unsetenv(variable))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	counter, err := client.Counter("x")
	if err != nil {
		t.Fatal(err)
	}
	return addr, called(client, counter)
}

// Where nothing listens, that is what callers hear once their time is over, the client's or their
// own, and not that something is busy.
func TestNothingListens(t *testing.T) {
	addr, calls := unheard(t, time.Second)
	t.Parallel()
	said := "connection refused by " + addr
	ends := func(ctx context.Context, name string) {
		if err := calls[name](ctx); !errors.Is(err, shards.ErrUnreachable) || !strings.HasSuffix(err.Error(), said) || strings.Contains(err.Error(), "busy") {
			t.Errorf("%s: %v", name, err)
		}
	}
	var all sync.WaitGroup
	for _, name := range []string{"Get", "Cached", "Sum", "Add", "AddOnce", "AddAll", "Join"} { // the client's own time
		all.Go(func() { ends(t.Context(), name) })
	}
	all.Wait()
	for _, name := range []string{"Create", "Joined", "List", "Audit", "Delete"} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		ends(ctx, name)
		cancel()
	}
	if err := calls["Add"](t.Context()); !errors.Is(err, shards.ErrBusy) { // nothing was counted
		t.Errorf("Add: %v", err)
	}
}

// An emulator's port at which nothing listens is said to be that soon, however much time there is,
// and one that is started then is found.
func TestNothingListensYet(t *testing.T) {
	addr, calls := unheard(t, time.Hour)
	t.Parallel()
	for name, call := range calls {
		if name == "Watch" {
			continue // it waits for what comes
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		err := call(ctx)
		cancel()
		if !errors.Is(err, shards.ErrUnreachable) || errors.Is(err, shards.ErrUnknown) || !strings.HasSuffix(err.Error(), "connection refused by "+addr) || strings.Contains(err.Error(), "busy") {
			t.Errorf("%s: %v", name, err)
		}
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	server := emulator.New(emulator.Options{})
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	for added := false; !added; {
		switch err := calls["Add"](t.Context()); {
		case err == nil:
			added = true
		case !errors.Is(err, shards.ErrUnreachable):
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// A setting that would fail every call is refused before the first.
func TestSettingsBelowZero(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]shards.Config{
		"MaxShards": {MaxShards: -1}, "CacheTTL": {CacheTTL: -1}, "KeyTTL": {KeyTTL: -time.Hour}, "Timeout": {Timeout: -time.Second},
		"Wait": {Wait: -time.Second}, "MaxBatch": {MaxBatch: -1}, "MaxQueue": {MaxQueue: -1},
		"CommitInterval": {CommitInterval: -time.Second},
	} {
		if _, err := shards.Open(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), name+" of Config is below 0") {
			t.Errorf("%s: %v, want that it is below 0", name, err)
		}
	}
}

// An increment must make no document of the app's own.
func TestHostedCountersAreNotMadeByIncrements(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client, err := shards.Open(t.Context(), shards.Config{Place: shards.Place{Project: "p", Hosted: true}, AutoCreate: true}, option.WithGRPCConn(w.Conn()))
		if err == nil {
			client.Close()
		}
		if !errors.Is(err, shards.ErrHosted) || !strings.Contains(err.Error(), "AutoCreate") {
			t.Errorf("%v, want ErrHosted, and why", err)
		}
	})
}
