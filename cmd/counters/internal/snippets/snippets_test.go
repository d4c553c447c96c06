//go:build all

package snippets

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/layout"
)

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

// TestSnippets runs each snippet on a counter of its own; the roll-up's total follows. The number
// of shards is what the snippet has written, and NUM_SHARDS where it writes none.
func TestSnippets(t *testing.T) {
	t.Parallel()
	system, client := startSystem(t)
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
			isCounted(ctx, t, system, client.Collection("counters").Doc(snippet.name), numShards)
		})
	}
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
	if err != nil || likes != "♥ 1" {
		t.Errorf("the button says %q, %v", likes, err)
	}
}

// TestReadmeInGo runs what README.md shows of the library against the local system, until the total is there.
func TestReadmeInGo(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile("(?s)```go\n(.*?)```").FindSubmatch(readme)
	if shown == nil {
		t.Fatal("README.md shows no Go")
	}
	system, _ := startSystem(t)
	program := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(program, []byte(`package main

import (
	"context"
	"fmt"
	"time"

	"github.com/firestore-counters/counters/shards"
)

func main() {
	ctx := context.Background()
`+string(shown[1])+`
	for err == nil && snapshot.Total == 1 {
		if snapshot, err = likes.Get(ctx); err == nil && snapshot.Total == 1 {
			break
		}
		time.Sleep(10 * time.Millisecond)
		snapshot, err = likes.Sum(ctx)
	}
	fmt.Println(snapshot.Total, err)
}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "run", program)
	cmd.Env = append(os.Environ(), "FIRESTORE_EMULATOR_HOST="+system.Firestore, "GOOGLE_CLOUD_PROJECT=")
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "1 <nil>\n" {
		t.Errorf("%v\n%s", err, out)
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
