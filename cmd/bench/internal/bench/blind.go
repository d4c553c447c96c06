package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
)

// shardsVariable tells the benchmark's functions how many shards there are. Tutorials have it as a
// constant.
const shardsVariable = "BENCH_SHARDS"

// blindFunctions are what public tutorials on distributed counters add up to: the official client
// as it comes, a commit per increment, and a trigger that believes every event.
type blindFunctions struct {
	client func() (*firestore.Client, error)
	shards func() int
}

func newBlindFunctions() *blindFunctions {
	return &blindFunctions{
		client: sync.OnceValues(func() (*firestore.Client, error) {
			return firestore.NewClient(context.Background(), os.Getenv("GOOGLE_CLOUD_PROJECT"))
		}),
		shards: sync.OnceValue(func() int {
			n, _ := strconv.Atoi(os.Getenv(shardsVariable))
			return max(1, n)
		}),
	}
}

// increment adds one to a random shard of the counter that the path names.
func (b *blindFunctions) increment(w http.ResponseWriter, r *http.Request) {
	client, err := b.client()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	counter := strings.TrimPrefix(r.URL.Path, "/")
	shard := client.Doc("counters/" + counter + "/shards/" + strconv.Itoa(rand.IntN(b.shards())))
	if _, err := shard.Update(r.Context(), []firestore.Update{{Path: "count", Value: firestore.Increment(1)}}); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer(w, map[string]any{"counter": counter, "by": 1})
}

// rollup adds what an event says has changed. An error makes the event come again.
func (b *blindFunctions) rollup(w http.ResponseWriter, r *http.Request) {
	event, err := decodeEvent(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	client, err := b.client()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	delta := count(event.GetValue()) - count(event.GetOldValue())
	name := event.GetValue().GetName()
	if name == "" {
		name = event.GetOldValue().GetName()
	}
	_, path, _ := strings.Cut(name, "/documents/")
	counter, _, _ := strings.Cut(path, "/shards/")
	if _, err := client.Doc(counter).Update(r.Context(), []firestore.Update{{Path: "total", Value: firestore.Increment(delta)}}); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func count(d *firestoredata.Document) int64 { return d.GetFields()["count"].GetIntegerValue() }

// sum answers a POST like increment, and a GET with the sum over the shards.
func (b *blindFunctions) sum(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		b.increment(w, r)
		return
	}
	client, err := b.client()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	counter := strings.TrimPrefix(r.URL.Path, "/")
	result, err := client.Collection("counters/"+counter+"/shards").NewAggregationQuery().WithSum("count", "total").Get(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	total, ok := result["total"].(*firestorepb.Value)
	if !ok {
		http.Error(w, fmt.Sprintf("the sum is a %T", result["total"]), http.StatusInternalServerError)
		return
	}
	answer(w, map[string]any{"counter": counter, "total": total.GetIntegerValue()})
}

func answer(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}
