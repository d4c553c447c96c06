package shards

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/googleapis/gax-go/v2"

	"github.com/firestore-counters/counters/internal/store"
)

// picks says which shard of each counter is written to.
type picks map[string]int

// fly commits a batch. It runs under a context of its own: whoever waits for it may go away, and nobody else is touched.
func (c *Client) fly(b *batch) {
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.Timeout)
	defer cancel()

	f := newFlight(b, !c.cfg.Thrift)
	picked := picks{}
	created := map[string]bool{} // by AutoCreate
	pause := store.Pauses()
	for next := choose; next != landed; {
		var gone map[string]bool
		var err error
		switch next {
		case choose:
			picked, gone, err = c.choose(ctx, f.sums(), picked)
		case makeShards:
			picked, gone, err = c.makeShards(ctx, picked)
		case readMarkers:
			var there map[string]marker
			if there, err = c.readMarkers(ctx, f.markers()); err == nil {
				next = f.found(there)
				continue
			}
		case commit:
			next = c.commit(ctx, f, picked)
			continue
		case wait:
			if err := gax.Sleep(ctx, pause.Pause()); err != nil {
				next = f.giveUp(ErrBusy, err)
			} else {
				next = choose
			}
			continue
		}
		made := false
		if err == nil && c.cfg.AutoCreate {
			made, err = c.createMissing(ctx, gone, created)
		}
		switch {
		case err != nil && store.KindOf(err) == store.Permanent:
			next = f.giveUp(nil, err)
		case err != nil:
			next = f.setback(err)
		case made:
			next = choose
		default:
			next = f.without(gone)
		}
	}
}

// choose picks a random shard of each counter, another one than the last time, and tells which counters don't exist.
func (c *Client) choose(ctx context.Context, sums []Increment, last picks) (picks, map[string]bool, error) {
	picked := make(picks, len(sums))
	var unknown []string
	for _, sum := range sums {
		if n, ok := c.known.shards(sum.Counter); ok {
			picked[sum.Counter] = pickShard(n, sum.Counter, last)
		} else {
			unknown = append(unknown, sum.Counter)
		}
	}
	if len(unknown) == 0 {
		return picked, nil, nil
	}
	snapshots, err := c.read(ctx, unknown...)
	if err != nil {
		return last, nil, err
	}
	gone := map[string]bool{}
	for i, s := range snapshots {
		if s == nil {
			gone[unknown[i]] = true
		} else {
			picked[s.Counter] = pickShard(s.NumShards, s.Counter, last)
		}
	}
	return picked, gone, nil
}

// pickShard is a random one of n shards, but not the last one again.
func pickShard(n int, counter string, last picks) int {
	before, again := last[counter]
	if !again || n < 2 || before >= n {
		return rand.IntN(n)
	}
	picked := rand.IntN(n - 1)
	if picked >= before {
		picked++
	}
	return picked
}

// commit sends the flight's commit, once.
func (c *Client) commit(ctx context.Context, f *flight, picked picks) step {
	sums, markers := f.sums(), f.markers()
	writes := make([]*firestorepb.Write, 0, len(sums)+len(markers))
	for _, sum := range sums {
		name := c.db.Shard(sum.Counter, shardID(picked[sum.Counter]))
		writes = append(writes, store.Update(name, store.Exists(true), nil, nil, store.Increment(c.db.CountField, sum.By)))
	}
	now := time.Now()
	for id, m := range markers {
		ttl := c.cfg.KeyTTL
		if m.asked == "" {
			ttl = batchMarkerTTL
		}
		writes = append(writes, store.Create(c.db.Request(id), m.fields(now.Add(ttl))))
	}
	if f.marked { // an answer that does not come may be asked for again
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.cfg.Timeout/2)
		defer cancel()
	}
	_, err := c.db.Commit(ctx, writes)
	if err == nil {
		for _, sum := range sums {
			c.known.added(sum.Counter)
		}
		return f.applied()
	}
	switch store.KindOf(err) {
	case store.Doubtful:
		c.log.Warn("ambiguous commit", "counter", sums[0].Counter, "counters", len(sums), "marked", f.marked, "error", err)
	case store.Contention:
		c.contended(ctx, sums, err)
	}
	return f.refused(err)
}

// readMarkers returns those of the markers that are there.
func (c *Client) readMarkers(ctx context.Context, markers map[string]marker) (map[string]marker, error) {
	ids := make([]string, 0, len(markers))
	names := make([]string, 0, len(markers))
	for id := range markers {
		ids = append(ids, id)
		names = append(names, c.db.Request(id))
	}
	docs, _, err := c.db.Get(ctx, names...)
	if err != nil {
		return nil, err
	}
	there := make(map[string]marker)
	for i, doc := range docs {
		if doc != nil {
			there[ids[i]] = decodeMarker(doc)
		}
	}
	return there, nil
}

// createMissing makes counters that nobody has made yet, each at most once per flight, and reports whether it did.
func (c *Client) createMissing(ctx context.Context, gone, created map[string]bool) (bool, error) {
	made := false
	for counter := range gone {
		if created[counter] {
			continue // and deleted at once, or being deleted: it doesn't exist
		}
		err := Counter{client: c, id: counter}.Create(ctx, CreateOptions{keep: true})
		if err != nil && !errors.Is(err, ErrExists) { // somebody was faster
			return made, err
		}
		created[counter], made = true, true
	}
	return made, nil
}
