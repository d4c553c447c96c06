package shards_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/shards"
)

// Clients that count by themselves make requests beside our markers, in the same collection. The
// rules take UUIDs with their uids from them and nothing else, so a client can neither read one of
// ours nor be there first, as long as ours never look like that: not those of batches, nor those of
// keys, whatever the key.
func TestOurMarkersLookLikeNoClientsRequest(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		rules, err := os.ReadFile("../firestore/firestore.rules")
		if err != nil {
			t.Fatal(err)
		}
		m := regexp.MustCompile(`id\.matches\('([^']+)'\)`).FindSubmatch(rules)
		if m == nil {
			t.Fatal("firestore.rules says nothing of the ids of requests")
		}
		request := regexp.MustCompile("^(?:" + string(m[1]) + ")$")
		const uuid = "f81d4fae-7dec-41d0-a765-00a0c91e6bf6:alice"
		if !request.MatchString(uuid) {
			t.Fatalf("%s is not a request by %s", uuid, m[1])
		}

		w := newWorld(t)
		client := w.open(t, shards.Config{})
		counter := w.counter(t, client, "a", 2)
		for _, key := range []string{"", "order-17", uuid} {
			if key == "" {
				err = counter.Add(t.Context(), 1)
			} else {
				_, err = counter.AddOnce(t.Context(), 1, shards.Key{Value: key})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		markers, err := w.fs.Collection("counter_requests").Documents(t.Context()).GetAll()
		if err != nil || len(markers) < 3 {
			t.Fatalf("%d markers, %v", len(markers), err)
		}
		for _, marker := range markers {
			if request.MatchString(marker.Ref.ID) {
				t.Errorf("%s is a request that a client may make", marker.Ref.ID)
			}
		}
	})
}
