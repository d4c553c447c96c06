package snippets

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore"

	"github.com/firestore-counters/counters/cmd/internal/dev"
)

// patience is how long anything may take on a machine that is busy with something else.
const patience = 2 * time.Minute

const shards = 5

// increments is how many each snippet makes of its own counter.
const increments = 300

// TestSnippetInGo runs Google's snippet on a counter of its own; the roll-up's total follows.
func TestSnippetInGo(t *testing.T) {
	t.Parallel()
	system, client := startSystem(t)
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
	isCounted(ctx, t, system, counter, shards)
}

// isCounted holds that a counter's total follows, and that Increment reads it.
func isCounted(ctx context.Context, t *testing.T, system *dev.System, counter *firestore.DocumentRef, numShards int) {
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

func incrementTimes(ctx context.Context, counter *firestore.DocumentRef, n int) error {
	for range n {
		if err := IncrementCounter(ctx, counter, shards); err != nil {
			return err
		}
	}
	return nil
}

// What docs/sdk.md tells people to do is what is run here.
func TestDocsShowWhatIsRun(t *testing.T) {
	t.Parallel()
	docs, err := os.ReadFile("../../../../docs/sdk.md")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("exact.mjs")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(code), "\n") // the first line says that
	if !strings.Contains(string(docs), "```js\n"+shown+"```\n") {
		t.Error("docs/sdk.md doesn't show exact.mjs as it is")
	}
}
