package snippets

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"golang.org/x/sync/errgroup"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/layout"
)

// patience is how long anything may take on a machine that is busy with something else.
const patience = 2 * time.Minute

const shards = 5

// snippets are those in other languages than Go, with the arguments that name them.
var snippets = []struct {
	name, kind string
	*toolchain
}{
	{"web", "web", inNode("--import", "./browser.mjs", "run.mjs")},
	{"web-in-node", "web", inNode("run.mjs")}, // where the web SDK speaks gRPC
	{"node", "node", inNode("run.mjs")},
	{"python", "sync", inPython},
	{"python-async", "async", inPython},
	{"java", "java", onJVM},
	{"kotlin", "kotlin", onJVM},
}

// increments is how many each snippet makes of its own counter.
const increments = 300

// TestSnippets runs each snippet on a counter of its own; the roll-up's total follows. The number
// of shards is what the snippet has written, and NUM_SHARDS where it writes none.
func TestSnippets(t *testing.T) {
	t.Parallel()
	system, client := startSystem(t)
	check := func(ctx context.Context, t *testing.T, counter *firestore.DocumentRef, numShards int) {
		t.Helper()
		if err := waitForTotal(ctx, counter, increments); err != nil {
			t.Error(err)
		}
		answer, err := http.Get(system.Gateway + "/increment/" + counter.ID)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		var got struct {
			Total     int64
			NumShards int `json:"num_shards"`
		}
		if err := json.NewDecoder(answer.Body).Decode(&got); err != nil || got.Total != increments || got.NumShards != numShards {
			t.Errorf("Increment reads %+v, %v; want %d in %d shards", got, err, increments, numShards)
		}
	}
	for _, snippet := range snippets {
		t.Run(snippet.name, func(t *testing.T) {
			t.Parallel()
			snippet.need(t)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			sum, err := snippet.run(ctx, system.Firestore, system.Project, snippet.kind, snippet.name,
				"create", strconv.Itoa(shards), "increment", strconv.Itoa(increments), "sum")
			if err != nil {
				t.Fatal(err)
			}
			if sum != strconv.Itoa(increments) {
				t.Errorf("the shards' sum is %s, want %d", sum, increments)
			}
			numShards := shards
			if snippet.toolchain == inPython {
				numShards = layout.DefaultNumShards
			}
			check(ctx, t, client.Collection("counters").Doc(snippet.name), numShards)
		})
	}
	t.Run("go", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		counter := client.Collection("counters").Doc("go")
		if err := CreateCounter(ctx, counter, shards); err != nil {
			t.Fatal(err)
		}
		if err := incrementTimes(ctx, counter, increments); err != nil {
			t.Fatal(err)
		}
		if sum, err := GetCount(ctx, counter); err != nil || sum != increments {
			t.Errorf("the shards' sum is %d, %v, want %d", sum, err, increments)
		}
		check(ctx, t, counter, shards)
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

// TestReadme presses the like button that README.md shows first.
func TestReadme(t *testing.T) {
	t.Parallel()
	node := inNode("readme.mjs")
	node.need(t)
	system, _ := startSystem(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	likes, err := node.run(ctx, system.Firestore, system.Project, system.Gateway)
	if err != nil || likes != "♥ 2" {
		t.Errorf("the button says %q, %v", likes, err)
	}
}

// TestMixed has the snippets of all languages that are here increment one counter at the same time.
func TestMixed(t *testing.T) {
	t.Parallel()
	system, client := startSystem(t)
	var runs []func(context.Context) error
	for _, snippet := range snippets {
		if err := snippet.install(); errors.Is(err, errNoToolchain) && os.Getenv("CI") != "true" {
			t.Log(err)
			continue
		}
		snippet.need(t)
		runs = append(runs, func(ctx context.Context) error {
			_, err := snippet.run(ctx, system.Firestore, system.Project, snippet.kind, "mixed", "increment", "75")
			return err
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	counter := client.Collection("counters").Doc("mixed")
	if err := CreateCounter(ctx, counter, shards); err != nil {
		t.Fatal(err)
	}
	want := 75 * (len(runs) + 1)
	var all errgroup.Group
	for _, run := range runs {
		all.Go(func() error { return run(ctx) })
	}
	all.Go(func() error { return incrementTimes(ctx, counter, 75) })
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	if sum, err := GetCount(ctx, counter); err != nil || sum != want {
		t.Errorf("the shards' sum is %d, %v, want %d", sum, err, want)
	}
	if err := waitForTotal(ctx, counter, int64(want)); err != nil {
		t.Error(err)
	}
}

// TestWebSDK runs what applications rely on, in each way in which the web SDK talks to a server.
func TestWebSDK(t *testing.T) {
	t.Parallel()
	server := emulator.Start(t)
	for name, sdk := range map[string]struct {
		*toolchain
		args []string
	}{
		"webchannel":   {inNode("--import", "./browser.mjs", "behaviour.mjs"), nil},
		"long-polling": {inNode("--import", "./browser.mjs", "behaviour.mjs"), []string{"long-polling"}},
		"grpc":         {inNode("behaviour.mjs"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sdk.need(t)
			out, err := sdk.run(t.Context(), server.Addr, "demo-"+name, sdk.args...)
			if err != nil {
				t.Fatal(err)
			}
			t.Log(out)
		})
	}
}
