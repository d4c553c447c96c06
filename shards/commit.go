package shards

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/googleapis/gax-go/v2"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// picks says which shard of each counter is written to.
type picks map[string]int

// run takes a batch from its first commit to its end. It runs under a context of its own: whoever
// waits for it may go away, and no one else is touched.
func (c *Client) run(f *inFlight) {
	if f.until.IsZero() {
		f.until = time.Now().Add(c.cfg.Timeout)
	}
	whole, cancel := context.WithDeadline(context.Background(), f.until)
	defer cancel()
	// The last quarter is for settling what is in doubt by then.
	ctx, cancel := context.WithDeadline(whole, f.until.Add(-c.cfg.Timeout/4))
	defer cancel()

	picked := picks{}
	created, births := map[string]bool{}, newBirths() // by AutoCreate
	pauses := store.Pauses()
	for next := pickShards; next != finished; {
		switch next {
		case pickShards, sendCommit:
			if ctx.Err() != nil {
				next = f.conclude(ErrBusy, ctx.Err())
				continue
			}
		default:
			c.queues.inTrouble(f)
		}
		var gone map[string]bool
		var err error
		switch next {
		case sendCommit:
			next = c.commit(ctx, f, picked, births.now)
			continue
		case settle:
			next = c.settle(whole, f)
			continue
		case readMarkers:
			var there map[string]marker
			var members map[*request]bool
			if there, members, err = c.readMarkers(whole, f); err == nil {
				before := len(f.requests)
				next = f.found(there, members)
				next = births.found(next, len(f.requests) < before)
			} else {
				next = f.unread(err)
			}
			continue
		case pause:
			next = c.wait(ctx, whole, f, pauses)
			continue
		case leave:
			c.queues.goOn(f.split(func(*request) bool { return true }))
			return
		case makeShards:
			clear(births.now)
			if f.failures > 1 { // it was of no use the last time
				if next = c.wait(ctx, whole, f, pauses); next != pickShards {
					continue
				}
			}
			picked, gone, err = c.makeShards(ctx, picked)
		case pickShards:
			clear(births.now)
			picked, gone, err = c.pick(ctx, f, picked)
		}
		switch {
		case err != nil && permanent(err):
			next = f.conclude(nil, err)
		case err != nil:
			next = f.failure(err)
		case c.cfg.AutoCreate && !f.doubt:
			next = c.autoCreate(ctx, f, gone, created, births, picked)
		default:
			next = f.without(gone)
		}
	}
}

// wait waits before the next attempt, unless the time for that is over.
func (c *Client) wait(ctx, whole context.Context, f *inFlight, pauses *gax.Backoff) step {
	if f.settling != nil {
		if err := gax.Sleep(whole, pauses.Pause()); err != nil {
			return f.giveUp(ErrUnknown, err)
		}
	} else if err := gax.Sleep(ctx, pauses.Pause()); err != nil {
		return f.conclude(ErrBusy, err)
	}
	return f.resume()
}

// pick picks a random shard of each counter, another one than the last time, and tells which
// counters don't exist. Where others share the commit, requests to counters that have yet to be
// read leave it: the others don't wait for that.
func (c *Client) pick(ctx context.Context, f *inFlight, last picks) (picks, map[string]bool, error) {
	sums := f.sums()
	picked := make(picks, len(sums))
	unknown := map[string]bool{}
	for _, sum := range sums {
		if n, ok := c.known.shards(sum.counter); ok {
			picked[sum.counter] = pickShard(n, sum.counter, last)
		} else {
			unknown[sum.counter] = true
		}
	}
	if len(unknown) == 0 {
		return picked, nil, nil
	}
	if len(picked) > 0 && !f.doubt && f.shared() {
		known := func(r *request) bool {
			_, is := r.touches(func(counter string) bool { return unknown[counter] })
			return !is
		}
		if ready := f.takeOut(known); ready != nil {
			c.queues.goOn([]*inFlight{ready})
		}
	}
	ids := make([]string, 0, len(unknown))
	for id := range unknown {
		ids = append(ids, id)
	}
	snapshots, err := c.read(ctx, ids...)
	if err != nil {
		return last, nil, err
	}
	gone := map[string]bool{}
	for i, s := range snapshots {
		if s == nil {
			gone[ids[i]] = true
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

// commit sends the batch's commit, once. It makes those counters that are to be born with it.
func (c *Client) commit(ctx context.Context, f *inFlight, picked picks, born map[string]bool) step {
	if !f.begin() {
		return finished
	}
	sums, markers := f.sums(), f.markers()
	writes := make([]*firestorepb.Write, 0, len(sums)+len(markers))
	whole := c.bornWhole(len(born))
	for _, sum := range sums {
		if born[sum.counter] { // if one of these is there already, so may the markers be: that is found out in either case
			writes = append(writes, c.birth(sum, picked[sum.counter], whole)...)
		}
	}
	// Markers before increments: Firestore looks at one write after the other, and a shard that is missing must not hide that the
	// increments were counted.
	now := time.Now()
	for id, m := range markers {
		writes = append(writes, c.marks(id, m, now))
	}
	for _, r := range f.requests {
		if r.member != nil {
			writes = append(writes, r.member.write(f.id, layout.ShardID(picked[r.counter()])))
		}
	}
	for _, sum := range sums {
		if born[sum.counter] {
			continue
		}
		name := c.db.Shard(sum.counter, layout.ShardID(picked[sum.counter]))
		transforms := make([]*firestorepb.DocumentTransform_FieldTransform, len(sum.fields))
		for i, by := range sum.fields {
			transforms[i] = store.Increment(c.shardPath(by.Field), by.By)
		}
		writes = append(writes, store.Update(name, store.Exists(true), nil, nil, transforms...))
	}
	if f.marked() { // an answer that does not come may be asked for again
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.cfg.Timeout/2)
		defer cancel()
	}
	_, err := c.db.Commit(ctx, writes)
	if err == nil {
		if len(born) > 0 && !whole {
			c.grown(ctx, slices.Collect(maps.Keys(born)))
		}
		return f.applied()
	}
	if len(born) > 0 && status.Code(err) == codes.AlreadyExists {
		return readMarkers // or it is a counter that another instance has made
	}
	switch store.KindOf(err) {
	case store.Doubtful:
		c.log.Warn(LogAmbiguous, "counter", sums[0].counter, "counters", len(sums), "marked", f.marked(), "error", err)
	case store.Contention:
		c.contended(ctx, sums, err)
	}
	return f.failed(err)
}

// shardField is a counted field's name in a shard; "" is the first.
func (c *Client) shardField(name string) string {
	field, ok := c.db.Field(name)
	if !ok {
		field = c.db.Fields[0]
	}
	return field.Shard
}

// shardPath is its path there.
func (c *Client) shardPath(name string) string { return layout.FieldPath(c.shardField(name)) }

// marks is the write that makes a marker.
func (c *Client) marks(id string, m marker, now time.Time) *firestorepb.Write {
	ttl := c.cfg.KeyTTL
	if m.asked == (asked{}) || ttl < batchMarkerTTL {
		// a key's may be the only one that stands in the way of a late commit
		ttl = batchMarkerTTL
	}
	return store.Create(c.db.Request(id), m.fields(now.Add(ttl)))
}

// settle makes the batch's own marker alone.
func (c *Client) settle(ctx context.Context, f *inFlight) step {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout/4)
	defer cancel()
	_, err := c.db.Commit(ctx, []*firestorepb.Write{c.marks(f.id, marker{batch: f.id, settled: true}, time.Now())})
	if err == nil {
		return f.settled()
	}
	return f.unsettled(err)
}

// readMarkers returns those of a batch's markers that are there, and which of its memberships are,
// all at one time.
func (c *Client) readMarkers(ctx context.Context, f *inFlight) (map[string]marker, map[*request]bool, error) {
	var ids, names []string
	for id := range f.markers() {
		ids = append(ids, id)
		names = append(names, c.db.Request(id))
	}
	var of []*request
	for _, r := range f.requests {
		if r.member != nil {
			of = append(of, r)
			names = append(names, r.member.name)
		}
	}
	docs, _, err := c.db.Get(ctx, names...)
	if err != nil {
		return nil, nil, err
	}
	there := make(map[string]marker)
	for i, id := range ids {
		if docs[i] != nil {
			there[id] = decodeMarker(docs[i])
		}
	}
	members := make(map[*request]bool, len(of))
	for i, r := range of {
		members[r] = docs[len(ids)+i] != nil
	}
	return there, members, nil
}

const (
	// creationsAtOnce is how many counters a client makes at the same time, and
	// creationsOfOne for one call.
	creationsAtOnce = 16
	creationsOfOne  = 8
)

// autoCreate makes counters that don't exist yet, each at most once per batch. Where others share the commit, those that
// need it leave: the others don't wait for it.
func (c *Client) autoCreate(ctx context.Context, f *inFlight, gone, created map[string]bool, births *births, picked picks) step {
	if len(gone) == 0 {
		return f.without(nil)
	}
	c.queues.inTrouble(f)
	if f.shared() {
		c.queues.goOn(f.split(func(r *request) bool {
			_, is := r.touches(func(counter string) bool { return gone[counter] })
			return is
		}))
		if len(f.requests) == 0 {
			return finished
		}
		return sendCommit
	}
	if !slices.ContainsFunc(f.requests, func(r *request) bool { return r.member == nil || r.member.join }) {
		return f.without(gone) // nothing is made for those who leave
	}
	var missing []string
	for counter := range gone {
		if !created[counter] { // else it was deleted at once, or is being deleted: it doesn't exist
			missing = append(missing, counter)
			created[counter] = true
		}
	}
	if len(missing) == 0 {
		return f.without(gone)
	}
	var untried []string
	for _, counter := range missing {
		if !births.met[counter] {
			untried = append(untried, counter)
		}
	}
	unborn, err := c.unborn(ctx, untried)
	switch {
	case err != nil && store.KindOf(err) == store.Permanent:
		return f.conclude(nil, err)
	case err != nil:
		clear(created)
		return f.failure(err)
	case len(unborn) == len(missing) && len(missing) == len(gone):
		clear(created) // they are made by the commit, if it is applied
		births.expect(unborn, picked, c.cfg.NumShards)
		return sendCommit
	}
	// Those come when all others are there.
	missing = slices.DeleteFunc(missing, func(counter string) bool { return unborn[counter] })
	for counter := range unborn {
		delete(created, counter)
		delete(gone, counter)
	}
	if len(missing) == 0 { // what is gone besides was made by this batch, and deleted at once
		if next := f.without(gone); next != sendCommit {
			return next
		}
		return pickShards
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(creationsOfOne)
	for _, counter := range missing {
		group.Go(func() error {
			if err := c.creations.Acquire(ctx, 1); err != nil {
				return err
			}
			defer c.creations.Release(1)
			err := Counter{client: c, id: counter}.Create(ctx, CreateOptions{})
			if errors.Is(err, ErrExists) { // someone else was faster
				return nil
			}
			return err
		})
	}
	switch err := group.Wait(); {
	case err == nil:
		return pickShards
	case !permanent(err):
		clear(created)
		return f.failure(notCounted(err))
	default:
		return f.conclude(nil, err)
	}
}

// permanent reports whether what failed will fail again: Firestore refuses it, or there is a
// reason of ours.
func permanent(err error) bool {
	return !store.FromFirestore(err) || store.KindOf(err) == store.Permanent
}

// notCounted is a creation's error without its doubt: whether or not the counter was made,
// nothing was counted.
func notCounted(err error) error { return status.Error(codes.Unavailable, err.Error()) }
