package snippets

import (
	"context"
	"strconv"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"golang.org/x/sync/errgroup"

	"github.com/firestore-counters/counters/emulator"
)

// patience is how long anything may take on a machine that is busy with something else.
const patience = time.Minute

const shards = 5

// inNode are the snippets in JavaScript, as arguments of Node.js.
var inNode = map[string][]string{
	"web":         {"--import", "./browser.mjs", "run.mjs", "web"},
	"web-in-node": {"run.mjs", "web"}, // where the web SDK speaks gRPC
	"node":        {"run.mjs", "node"},
}

// TestSnippets runs each snippet on a counter of its own; the roll-up's total follows.
func TestSnippets(t *testing.T) {
	t.Parallel()
	needNode(t)
	system, client := startSystem(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for name, args := range inNode {
		t.Run(name, func(t *testing.T) {
			counter := client.Collection("counters").Doc(name)
			sum, err := node(ctx, system.Firestore, system.Project, append(args, name, "create", strconv.Itoa(shards), "increment", "10", "sum")...)
			if err != nil {
				t.Fatal(err)
			}
			if sum != "10" {
				t.Errorf("the shards' sum is %s, want 10", sum)
			}
			if err := waitForTotal(ctx, counter, 10); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("go", func(t *testing.T) {
		counter := client.Collection("counters").Doc("go")
		if err := CreateCounter(ctx, counter, shards); err != nil {
			t.Fatal(err)
		}
		if err := incrementTimes(ctx, counter, 10); err != nil {
			t.Fatal(err)
		}
		if sum, err := GetCount(ctx, counter); err != nil || sum != 10 {
			t.Errorf("the shards' sum is %d, %v, want 10", sum, err)
		}
		if err := waitForTotal(ctx, counter, 10); err != nil {
			t.Error(err)
		}
	})
}

func incrementTimes(ctx context.Context, counter *firestore.DocumentRef, n int) error {
	for range n {
		if err := IncrementCounter(ctx, counter, shards); err != nil {
			return err
		}
	}
	return nil
}

// TestMixed has all snippets increment one counter at the same time.
func TestMixed(t *testing.T) {
	t.Parallel()
	needNode(t)
	system, client := startSystem(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	counter := client.Collection("counters").Doc("mixed")
	if err := CreateCounter(ctx, counter, shards); err != nil {
		t.Fatal(err)
	}
	var all errgroup.Group
	for _, args := range inNode {
		all.Go(func() error {
			_, err := node(ctx, system.Firestore, system.Project, append(args, "mixed", "increment", "75")...)
			return err
		})
	}
	all.Go(func() error { return incrementTimes(ctx, counter, 75) })
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	if sum, err := GetCount(ctx, counter); err != nil || sum != 300 {
		t.Errorf("the shards' sum is %d, %v, want 300", sum, err)
	}
	if err := waitForTotal(ctx, counter, 300); err != nil {
		t.Error(err)
	}
}

// TestWebSDK runs what applications rely on, in each way in which the web SDK talks to a server.
func TestWebSDK(t *testing.T) {
	t.Parallel()
	needNode(t)
	firestore := emulator.Start(t)
	for name, args := range map[string][]string{
		"webchannel":   {"--import", "./browser.mjs", "behaviour.mjs"},
		"long-polling": {"--import", "./browser.mjs", "behaviour.mjs", "long-polling"},
		"grpc":         {"behaviour.mjs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := node(t.Context(), firestore.Addr, "demo-"+name, args...)
			if err != nil {
				t.Fatal(err)
			}
			t.Log(out)
		})
	}
}
