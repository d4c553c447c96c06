package shards

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/googleapis/gax-go/v2"

	"github.com/firestore-counters/counters/internal/store"
)

// run takes a batch from its first commit until its requests have outcomes, or leave. It has a context
// of its own: a caller who goes away touches nobody else.
func (c *Client) run(begun *flight) {
	f := begun.batch
	f.exact = !c.cfg.InexactWrites
	until := f.due(time.Now().Add(c.cfg.Timeout))
	whole, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	// The last quarter is for settling what is in doubt by then.
	ctx, cancel := context.WithDeadline(whole, until.Add(-c.cfg.Timeout/4))
	defer cancel()

	pauses := store.Pauses()
	for next := c.send(ctx, f); next != leave && (next != finished || f.next()); {
		c.queue.slow(begun)
		switch next {
		case sendCommit, finished: // with those left that have found no room beside these
			next = c.send(ctx, f)
		case makeMissing:
			if f.failures > 1 && gax.Sleep(ctx, pauses.Pause()) != nil { // it was of no use the last time
				next = f.giveUp(ErrBusy, ctx.Err())
			} else {
				next = c.makeMissing(ctx, f)
			}
		case settle:
			next = c.settle(whole, f)
		case readMarkers:
			next = c.readMarkers(whole, f)
		case pause:
			within := ctx
			if next = f.resume(); next == settle {
				within = whole
			}
			if err := gax.Sleep(within, pauses.Pause()); err != nil {
				next = f.giveUp(ErrBusy, err)
			}
		}
	}
	f.requests = append(f.requests, f.rest...)
}

// send commits to a shard of each counter, as long as all are known, or to those of fields with limits.
func (c *Client) send(ctx context.Context, f *batch) step {
	if err := ctx.Err(); err != nil {
		return f.giveUp(ErrBusy, err)
	}
	if places := f.limitedPlaces(); len(places) > 0 {
		return c.sendLimited(ctx, f, places)
	}
	sums := f.sums()
	for _, sum := range sums {
		known, ok := c.known.Get(sum.counter)
		switch {
		case ok:
			f.pick(sum.counter, known.NumShards)
		case f.shared():
			return leave
		default:
			return makeMissing
		}
	}
	resp, err := c.commit(ctx, f, c.writes(f, sums))
	if err == nil {
		return f.answer(outcome{at: resp.GetCommitTime().AsTime()})
	}
	switch {
	case store.KindOf(err) == store.Contention:
		c.contended(ctx, sums, err, true)
	case len(sums) == 1 && store.IsDeadline(err): // its shard may be locked
		c.queue.troubled.remember(sums[0].counter, troubledFor)
	}
	c.logDoubt(f, err)
	return f.failed(err)
}

// settle makes alone the marker that the commit in doubt was to make.
func (c *Client) settle(ctx context.Context, f *batch) step {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout/4)
	defer cancel()
	id := f.deciding()
	m := marker{batch: f.id, settled: true, at: f.markers()[id].at}
	resp, err := c.db.Commit(ctx, c.marks(id, m))
	if err != nil {
		return f.unsettled(err)
	}
	return f.settled(resp.GetWriteResults()[0].GetUpdateTime().AsTime())
}

// readMarkers reads the batch's markers and memberships at one time.
func (c *Client) readMarkers(ctx context.Context, f *batch) step {
	there, err := c.there(ctx, slices.Collect(maps.Keys(f.markers())), f.requests)
	if err != nil {
		return f.unread(err)
	}
	return f.found(there)
}
