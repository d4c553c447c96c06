package dev

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"cloud.google.com/go/firestore"

	"github.com/firestore-counters/counters/internal/testbed/chance"
	"github.com/firestore-counters/counters/shards"
)

// The documents of every language on Google's page of distributed counters, as its snippets make
// and increment them, with the settings that docs/migrating.md gives: the total follows, whatever
// the number of shards. It is the document's, or else NUM_SHARDS.
func TestLanguagesOfGooglesPage(t *testing.T) {
	t.Parallel()
	const numShards, increments = 5, 100
	type document map[string]any
	for _, l := range []struct {
		name     string
		settings []string
		counter  string   // path of the document above the shards, of which the snippet may write none
		writes   document // what it writes there; nil for nothing
		shards   string   // collection below it
		field    string
		id       string
	}{
		{"Web, Node.js, Java and Kotlin", nil, "counters/web", document{"num_shards": numShards}, "shards", "count", "web"},
		{"Swift", nil, "counters/swift", document{"numShards": numShards}, "shards", "count", "swift"},
		{"Python", nil, "counters/python", nil, "shards", "count", "python"},
		{"Go", []string{"FIELDS=total=Count"}, "counters/go", nil, "shards", "Count", "go"},
		{"C#", []string{"FIELDS=total=Count"}, "counters/csharp", nil, "shards", "Count", "csharp"},
		{"PHP", []string{"COUNTERS=samples/{counter}", "SHARDS=distributedCounters", "FIELDS=total=Cnt"}, "samples/php", nil, "distributedCounters", "Cnt", "php"},
		{"Ruby, at a path of one's own", []string{"COUNTERS=pages/{page}"}, "pages/home", nil, "shards", "count", "home"},
		{"Ruby, below the app's own document", []string{"COUNTERS=pages/{page}", "HOSTED=true", "FIELDS=visits=count"}, "pages/home", document{"title": "Home"}, "shards", "count", "home"},
	} {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			s := startSystem(t, Config{Environ: append(l.settings, "ROLLUP_INTERVAL=100ms")})
			client := s.client(t)
			if l.writes != nil {
				if _, err := client.Doc(l.counter).Set(t.Context(), l.writes); err != nil {
					t.Fatal(err)
				}
			}
			shard := func(n int) *firestore.DocumentRef {
				return client.Collection(l.counter + "/" + l.shards).Doc(fmt.Sprint(n))
			}
			for n := range numShards {
				if _, err := shard(n).Set(t.Context(), document{l.field: 0}); err != nil {
					t.Fatal(err)
				}
			}
			dice := chance.Of(t)
			for range increments {
				if _, err := shard(dice.IntN(numShards)).Update(t.Context(), []firestore.Update{{Path: l.field, Value: firestore.Increment(1)}}); err != nil {
					t.Fatal(err)
				}
			}
			settle(t, s)
			for _, query := range []string{"", "?exact=true"} {
				answer, err := http.Get(s.Gateway + "/increment/" + l.id + query)
				if err != nil {
					t.Fatal(err)
				}
				var got struct {
					Total     int64
					NumShards int `json:"num_shards"`
				}
				err = json.NewDecoder(answer.Body).Decode(&got)
				_ = answer.Body.Close()
				want := numShards
				if l.writes["num_shards"] == nil && l.writes["numShards"] == nil {
					want = shards.DefaultNumShards
				}
				if err != nil || got.Total != increments || got.NumShards != want {
					t.Errorf("Increment reads %+v, %v; want %d in %d shards", got, err, increments, want)
				}
			}
			// And the function counts in the same shards.
			if code, err := s.post(t.Context(), l.id, "", ""); err != nil || code != http.StatusOK {
				t.Errorf("increment: %d, %v", code, err)
			}
			settle(t, s)
			snap, err := client.Doc(l.counter).Get(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			field := "total"
			if l.writes["title"] != nil {
				field = "visits"
			}
			if snap.Data()[field] != int64(increments+1) {
				t.Errorf("the counter's document is %v, want %d", snap.Data(), increments+1)
			}
		})
	}
}
