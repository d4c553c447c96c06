// Package snippets holds programs that know nothing of this project: counters as Google's page on
// distributed counters describes them, in Go, Python, Java and Kotlin, for Node.js and for the web,
// written by the documented APIs. Its tests run them against the whole local system, whose roll-up
// has to follow them as they are.
//
// They run the Firebase SDK for the web, too, in the ways in which it talks to a server: WebChannel
// and REST, as in a browser, and gRPC.
package snippets

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"

	"cloud.google.com/go/firestore"
)

// Counter is the document of a counter.
type Counter struct {
	NumShards int `firestore:"num_shards"`
}

// Shard is one of the documents that share a counter's count.
type Shard struct {
	Count int `firestore:"count"`
}

// CreateCounter writes a counter's document and its shards.
func CreateCounter(ctx context.Context, counter *firestore.DocumentRef, numShards int) error {
	if _, err := counter.Set(ctx, Counter{numShards}); err != nil {
		return fmt.Errorf("create %s: %w", counter.Path, err)
	}
	for n := range numShards {
		if _, err := counter.Collection("shards").Doc(strconv.Itoa(n)).Set(ctx, Shard{0}); err != nil {
			return fmt.Errorf("create shard %d of %s: %w", n, counter.Path, err)
		}
	}
	return nil
}

// IncrementCounter adds one to a random shard.
func IncrementCounter(ctx context.Context, counter *firestore.DocumentRef, numShards int) error {
	shard := counter.Collection("shards").Doc(strconv.Itoa(rand.IntN(numShards)))
	_, err := shard.Update(ctx, []firestore.Update{{Path: "count", Value: firestore.Increment(1)}})
	if err != nil {
		return fmt.Errorf("increment %s: %w", shard.Path, err)
	}
	return nil
}

// GetCount reads the shards and adds them up.
func GetCount(ctx context.Context, counter *firestore.DocumentRef) (int, error) {
	shards, err := counter.Collection("shards").Documents(ctx).GetAll()
	if err != nil {
		return 0, fmt.Errorf("read the shards of %s: %w", counter.Path, err)
	}
	total := 0
	for _, doc := range shards {
		var shard Shard
		if err := doc.DataTo(&shard); err != nil {
			return 0, fmt.Errorf("read %s: %w", doc.Ref.Path, err)
		}
		total += shard.Count
	}
	return total, nil
}
