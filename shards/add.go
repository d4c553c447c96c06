package shards

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/googleapis/gax-go/v2"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// Add adds to the counter and returns when that is committed. Errors: [ErrNotFound], [ErrBusy], [ErrUnknown],
// [ErrInvalidIncrement] when by is 0, [ErrInvalidField] where no shards are summed up, [ErrLimit] beyond a limit (see
// [Counter.SetLimit]), [ErrClosed], or one of Firestore's, after which nothing was counted. A sum beyond an int64 stays
// at the largest or smallest one.
//
// If ctx ends before the commit begins, nothing is counted. A commit that has begun goes on, and Add returns
// [ErrUnknown]. In a field with a limit no other follows where that one fails. For a ctx without a deadline, see
// Config.Wait.
func (c Counter) Add(ctx context.Context, by int64) error {
	_, err := c.AddOnce(ctx, by, Key{})
	return err
}

// AddOnce is [Counter.Add] with a key, and may be repeated: of all calls with the same key one is counted, and the
// others report that they are replays. [ErrKeyReused] says that the key came with another increment before.
func (c Counter) AddOnce(ctx context.Context, by int64, key Key) (replayed bool, err error) {
	return c.client.AddAll(ctx, []Increment{{Counter: c.id, By: by}}, key)
}

// AddFields is [Counter.AddOnce] for several fields by their names: all or none. The zero [Key] means
// none.
func (c Counter) AddFields(ctx context.Context, by map[string]int64, key Key) (replayed bool, err error) {
	increments := make([]Increment, 0, len(by))
	for field, n := range by {
		if field == "" { // which would be the first one
			return false, fmt.Errorf("%w: a field without a name", ErrInvalidField)
		}
		increments = append(increments, Increment{Counter: c.id, Field: field, By: n})
	}
	return c.client.AddAll(ctx, increments, key)
}

// AddAll applies up to [MaxIncrements] increments in one commit: all or none. Those of one field of a
// counter are added up. The zero [Key] means none. Errors are those of [Counter.AddOnce], and
// [ErrInvalidID].
func (c *Client) AddAll(ctx context.Context, increments []Increment, key Key) (replayed bool, err error) {
	replayed, _, err = c.Apply(ctx, increments, key)
	return replayed, err
}

// Apply is [Client.AddAll] that also says when the increments were committed: totals as of then or later hold them
// (see [Snapshot.AsOf]).
func (c *Client) Apply(ctx context.Context, increments []Increment, key Key) (replayed bool, at time.Time, err error) {
	if c == nil {
		return false, at, errZero
	}
	r, err := newRequest(c.db.Layout, increments, key)
	if err != nil {
		return false, at, err
	}
	out := c.perform(ctx, r)
	if out.err != nil {
		return false, at, fmt.Errorf("add to %s: %w", r.describe(), c.forCaller(out.err))
	}
	return out.already, out.at, nil
}

// perform looks up a request's counters, and queues it. It goes alone if one of them is to be made, or
// if it counts in a field with a limit.
func (c *Client) perform(ctx context.Context, r *request) outcome {
	r.timedOut = c.waitTimer.forCall(ctx)
	missing, err := c.resolve(ctx, r.deltas.counters()...)
	switch {
	case err != nil:
		return outcome{err: c.readError(err)}
	case len(missing) > 0 && !c.cfg.AutoCreate:
		return outcome{err: notFound(r, missing[0])}
	}
	if err := c.checkOurs(r.deltas.counters()); err != nil {
		return outcome{err: err}
	}
	r.alone = r.alone || len(missing) > 0
	if r.lasts > 0 { // by now Firestore has told its time: this machine's clock may be slow
		r.holdUntil(c.db.Later().Add(r.lasts).Truncate(time.Millisecond))
	}
	return c.queue.await(ctx, r)
}

// run takes a batch from its first commit until its requests have outcomes, or leave: these the queue has go on alone.
// It has a context of its own: a caller who goes away touches nobody else.
func (c *Client) run(f *flight) {
	b := f.batch
	b.exact = !c.cfg.InexactWrites
	until := b.due(time.Now().Add(c.cfg.Timeout))
	whole, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	// The last quarter is for fencing what is in doubt by then.
	ctx, cancel := context.WithDeadline(whole, until.Add(-c.cfg.Timeout/4))
	defer cancel()

	pauses := store.Pauses()
	for next := c.send(ctx, b); next != disband && next != finished; {
		c.queue.slow(f)
		switch next {
		case sendCommit:
			next = c.send(ctx, b)
		case makeMissing:
			if b.failures > 1 && gax.Sleep(ctx, pauses.Pause()) != nil { // it was of no use the last time
				next = b.giveUp(ErrBusy, ctx.Err())
			} else {
				next = c.makeMissing(ctx, b)
			}
		case fence:
			next = c.fence(whole, b)
		case readMarkers:
			next = c.readMarkers(whole, b)
		case pause:
			within := ctx
			if next = b.afterPause(); next == fence {
				within = whole
			}
			if err := gax.Sleep(within, pauses.Pause()); err != nil {
				next = b.giveUp(ErrBusy, err)
			}
		}
	}
	b.requests = append(b.requests, b.unplanned...)
}

// send commits to a shard of each counter, as long as all are known, and to those of fields with limits as planned.
func (c *Client) send(ctx context.Context, b *batch) step {
	if err := ctx.Err(); err != nil {
		return b.giveUp(ErrBusy, err)
	}
	if b.planned() {
		if b.dropLeft(); len(b.requests) == 0 {
			return finished
		}
		if next, planned := c.planBatch(ctx, b); !planned {
			return next
		}
		if slices.ContainsFunc(b.requests, (*request).nobodyWaits) { // since they were planned
			c.places.putBack(b.plan)
			return sendCommit
		}
		promised, err := c.affordShards(b.plan.further())
		if err != nil {
			c.places.putBack(b.plan)
			return b.tryAgain(err)
		}
		defer c.cfg.Budget.Release(promised)
	}
	deltas := b.deltas()
	plain := b.plain(deltas)
	for _, delta := range plain {
		known, ok := c.counters.Get(delta.counter)
		switch {
		case ok:
			b.pick(delta.counter, known.NumShards)
		case b.mixed():
			return disband
		default:
			return makeMissing
		}
	}
	within := ctx
	if b.deciding() != "" { // an answer that does not come may be asked for again
		var cancel context.CancelFunc
		within, cancel = context.WithTimeout(ctx, c.cfg.Timeout/2)
		defer cancel()
	}
	var err error
	b.sent = b.writes(c.db.Layout, c.db.Later(), c.cfg.KeyTTL, plain)
	b.reply, err = c.db.Commit(within, b.sent...)
	if b.planned() {
		c.learn(b, err)
	}
	switch {
	case err == nil:
		return b.answer(outcome{at: b.reply.GetCommitTime().AsTime()})
	case store.KindOf(err) == store.Contention:
		c.contended(ctx, deltas, err, !b.planned())
	case len(deltas) == 1 && store.IsDeadline(err): // its shard may be locked
		c.queue.troubled.remember(deltas[0].counter, troubledFor)
	}
	c.logDoubt(b, err)
	return b.afterCommitError(err)
}

// fence makes alone the marker that the commit in doubt was to make.
func (c *Client) fence(ctx context.Context, b *batch) step {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout/4)
	defer cancel()
	id := b.deciding()
	m := marker{batch: b.id, fenced: true, at: b.markers()[id].at}
	resp, err := c.db.CommitInstead(ctx, m.write(c.db.Layout, c.db.Later(), c.cfg.KeyTTL, id))
	if err != nil {
		return b.afterFenceError(err)
	}
	return b.afterFence(resp.GetWriteResults()[0].GetUpdateTime().AsTime())
}

// readMarkers reads the batch's markers and memberships at one time, or those for which the budget has reads: the other
// requests are refused. While a commit is in doubt the batch's own marker says it all, and has to be read.
func (c *Client) readMarkers(ctx context.Context, b *batch) step {
	var promised ceiling.Amounts
	if b.doubt == nil {
		var readable, short []*request
		if readable, short, promised = c.readable(b.requests); len(readable) == 0 {
			return b.tryAgain(errShort)
		}
		for _, r := range short {
			r.answer(outcome{err: errShort})
		}
		b.requests = readable
	}
	var own []string
	requests := b.requests
	if b.hasOwnMarker() {
		own = []string{b.id}
		if b.doubt != nil {
			requests = nil
		}
	}
	found, err := c.markersThere(ctx, &promised, requests, own...)
	c.cfg.Budget.Release(promised)
	if err != nil {
		return b.afterMarkersUnread(err)
	}
	return b.afterMarkers(found)
}

const (
	// growthInterval is the least time between two doublings of a counter. New shards take part at
	// once, so what is contended after that needs more.
	growthInterval = 10 * time.Second
	// growthTimeout bounds a doubling, for which a batch waits.
	growthTimeout = 5 * time.Second
	// troubledFor is how long a counter that met contention sends its own commits.
	troubledFor = 10 * time.Second
	// contentionLogInterval bounds what a contended counter writes to the log.
	contentionLogInterval = time.Second
)

// contended notes that a commit met contention, and doubles the counter's shards if it grows, and that is allowed.
// After a commit to several counters nobody knows which one is to blame.
func (c *Client) contended(ctx context.Context, deltas deltas, err error, grows bool) {
	counter := deltas[0].counter
	if len(deltas) == 1 {
		c.queue.troubled.remember(counter, troubledFor)
	}
	if !c.logged.is(counter) {
		c.logged.remember(counter, contentionLogInterval)
		c.log.WarnContext(ctx, LogContention, "counter", counter, "counters", len(deltas), "error", err)
	}
	if known, ok := c.counters.within(c.cfg.CacheTTL, counter); len(deltas) == 1 && ok && grows && known.NumShards < c.cfg.MaxShards && !c.doubled.is(counter) {
		c.doubled.remember(counter, growthInterval)
		c.grow(ctx, counter, known.NumShards)
	}
}

// grow doubles a counter's shards, unless another client has just changed or made them, or the budget has no room for
// it.
func (c *Client) grow(ctx context.Context, counter string, seen int) {
	ctx, cancel := context.WithTimeout(ctx, growthTimeout)
	defer cancel()
	n := min(2*seen, c.cfg.MaxShards)
	takes := ceiling.Amounts{ceiling.Writes: float64(n - seen + 1), ceiling.Reads: float64(n + 2*book.Reads)}
	if c.cfg.Budget.Promise(takes) > 0 {
		return
	}
	defer c.cfg.Budget.Release(takes)
	grows := false
	grown, err := c.grownLately(ctx, counter, seen)
	if err == nil && !grown {
		err = Counter{c, counter}.setShards(ctx, seen, func(is int) int {
			if grows = is == seen; grows {
				return n
			}
			return is
		})
	}
	c.counters.Remove(counter)
	switch {
	case err != nil:
		c.log.WarnContext(ctx, "growth failed", "counter", counter, "from", seen, "to", n, "error", err)
	case grows:
		c.log.InfoContext(ctx, "growth", "counter", counter, "from", seen, "to", n)
	}
}

// grownLately reports whether the last shard was made less than an interval ago, and not with the
// counter.
func (c *Client) grownLately(ctx context.Context, counter string, shards int) (bool, error) {
	docs, now, err := c.db.Get(ctx, c.db.Layout.Counter(counter), c.db.Layout.Shard(counter, layout.ShardID(shards-1)))
	if err != nil || docs[0] == nil || docs[1] == nil {
		return false, err
	}
	made := docs[1].GetCreateTime().AsTime()
	return made.After(docs[0].GetCreateTime().AsTime()) && now.Sub(made) < growthInterval, nil
}
