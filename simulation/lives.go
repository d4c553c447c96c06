package simulation

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/store"
	"github.com/firestore-counters/counters/shards"
)

// drawLives draws how counters begin and end, from dice of their own. An app makes its documents
// itself.
func (p *Plan) drawLives() {
	r := dice(p.Seed, "lives", 0)
	starts, pieces, ends := r.IntN(2) == 0, between(r, 0.1, 1.0), between(r, 0.1, 1.0)
	if p.Hosted {
		return
	}
	p.Starts = starts
	if r.IntN(3) == 0 {
		p.Mix.Pieces = pieces
	}
	if r.IntN(3) == 0 {
		p.Mix.Ends = ends
	}
}

// startOf is what a creation starts from: a number that no other one has, or 0.
func (w *world) startOf(r *rand.Rand) int64 {
	if !w.plan.Starts || r.IntN(2) == 0 {
		return 0
	}
	return 7_000_000_000_000 + int64(w.numberOf("start"))
}

// set has somebody set shards of a counter, and its document where that has a number of shards, as a
// program does that knows nothing of the system. Nothing goes wrong on its way. Together they hold sum.
func (w *world) set(id string, numShards int, sum int64, counts ...int64) {
	call := w.begin(Begin{Kind: Snippet, Counter: id})
	if sum != 0 {
		adds := w.begin(Begin{Kind: Increment, Intent: w.intent(), Adds: []Add{{Counter: id, By: sum}}})
		defer func() { w.rec.add(End{Call: adds, Outcome: OK}) }()
	}
	writes := make([]*firestorepb.Write, 0, len(counts)+1)
	if numShards > 0 {
		writes = append(writes, store.Create(counterName(id), map[string]*firestorepb.Value{"num_shards": store.Int(int64(numShards))}))
	}
	for n, count := range counts {
		writes = append(writes, store.Update(shardName(id, n), nil, map[string]*firestorepb.Value{"count": store.Int(count)}, nil))
	}
	_ = w.commit(newLink(w.plan.Seed, "hand"), writes...)
	w.rec.add(End{Call: call, Outcome: OK})
}

// intent is the number of what somebody wants.
func (w *world) intent() int {
	w.load.mu.Lock()
	defer w.load.mu.Unlock()
	w.load.intents++
	return w.load.intents
}

// pieces are lives of a counter that consists of shards only, as Google's Python and Go snippets make
// it: each is deleted, and the next one begins as soon as it is gone, before the deletion has heard so.
func (w *world) pieces(all *sync.WaitGroup, number uint64) {
	r := dice(w.plan.Seed, "pieces", number)
	id := w.plan.id("named-pieces-" + strconv.FormatUint(number, 36))
	gone := make(chan struct{}, 1)
	defer w.server.OnCommit(func(changes []emulator.Change) {
		if slices.ContainsFunc(changes, func(c emulator.Change) bool { return c.Name == shardName(id, 0) && c.New == nil }) {
			select {
			case gone <- struct{}{}:
			default:
			}
		}
	})()
	for life := range 6 {
		w.set(id, 0, 0, 0, 0, 0)
		all.Go(func() { w.delete(dice(w.plan.Seed, "pieces end", number+uint64(life)), id) })
		by := int64(1) << (w.plan.firstBit() + life)
		w.snippet(r, Add{Counter: id, By: by}, w.intent(), store.Int(by))
		select {
		case <-gone:
		case <-time.After(between(r, time.Second, time.Minute)):
		case <-w.ctx.Done():
			return
		}
	}
}

// ends has a counter's shards near the ends of an int64, though their sum is not, and resizes it.
func (w *world) ends(r *rand.Rand, number uint64) {
	id := w.plan.id("plain-ends-" + strconv.FormatUint(number, 36))
	const quarter = 1 << 62
	counts := []int64{math.MinInt64, quarter, quarter, quarter}
	r.Shuffle(len(counts), func(i, j int) { counts[i], counts[j] = counts[j], counts[i] })
	w.set(id, len(counts), quarter, counts...)
	for _, n := range []int{1 + r.IntN(3), 1, 1 + r.IntN(8), 1} {
		w.command(r, Resize, id, func(ctx context.Context, c shards.Counter) error {
			return c.Resize(ctx, n, shards.ResizeOptions{KeepShards: r.IntN(4) == 0})
		})
		by := (1 + r.Int64N(9)) << w.plan.firstBit()
		w.snippet(r, Add{Counter: id, By: by}, w.intent(), store.Int(by))
		w.read(r, id, ExactRead)
	}
}
