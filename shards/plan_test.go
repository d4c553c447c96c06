package shards

import (
	"testing"
	"time"

	"github.com/firestore-counters/counters/internal/escrow"
	"github.com/firestore-counters/counters/internal/seats"
)

// What is left is told by the shards that had room, all of them, as this client has left them.
func TestLeftOfKnownShards(t *testing.T) {
	at, began := place{"a", "seats"}, time.Now()
	shard := func(name string, version, count int64) seats.Shard {
		return seats.Shard{Name: name, Version: began.Add(time.Duration(version)), Balance: escrow.Balance{Count: count, Share: 10}}
	}
	look := func(k *knownShards, shards ...seats.Shard) limitedPlan {
		p := limitedPlan{places: map[place]seen{at: {shards: shards, all: escrow.Balance{Count: 18, Share: 30}}}}
		k.rememberLook(p)
		return p
	}
	knows := func(k *knownShards, want int64, known bool) {
		t.Helper()
		if left, ok := k.left(at); left != want || ok != known {
			t.Errorf("%d are left, %v; want %d, %v", left, ok, want, known)
		}
	}
	k := newPlaces()
	p := look(k, shard("0", 1, 4), shard("1", 1, 4)) // the third one is full
	knows(k, 12, true)
	p.Plan = map[place][]escrow.Addition{at: {{Shard: 0, By: escrow.Balance{Count: 1}}}}
	k.takeOut(p)
	knows(k, 0, false)
	k.remember(at, []seats.Shard{shard("2", 2, 9)}) // a hold comes back there
	knows(k, 0, false)
	k.remember(at, []seats.Shard{shard("0", 2, 5)})
	knows(k, 12, true)
	look(k, shard("0", 1, 4), shard("1", 1, 4)) // it was under way before
	knows(k, 11, true)
}
