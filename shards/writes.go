package shards

import (
	"context"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/internal/hold"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/seats"
	"github.com/firestore-counters/counters/internal/store"
)

// commit sends a batch's commit, and says what follows.
func (c *Client) commit(ctx context.Context, b *batch, sums sums, writes []*firestorepb.Write) step {
	within := ctx
	if b.deciding() != "" { // an answer that does not come may be asked for again
		var cancel context.CancelFunc
		within, cancel = context.WithTimeout(ctx, c.cfg.Timeout/2)
		defer cancel()
	}
	resp, err := c.db.Commit(within, writes...)
	for at := range b.plan.Plan {
		if c.limitedShards.put(at, seats.After(c.db.Layout, at.counter, at.field, writes, resp)); status.Code(err) == codes.AlreadyExists {
			c.limitedShards.put(at, b.plan.changed(at)) // it met a marker, which says nothing of shards
		}
	}
	switch {
	case err == nil:
		return b.answer(outcome{at: resp.GetCommitTime().AsTime()})
	case store.KindOf(err) == store.Contention:
		c.contended(ctx, sums, err, len(b.limited()) == 0)
	case len(sums) == 1 && store.IsDeadline(err): // its shard may be locked
		c.queue.troubled.remember(sums[0].counter, troubledFor)
	}
	c.logDoubt(b, err)
	return b.failed(err)
}

// logDoubt logs a commit whose outcome is not known.
func (c *Client) logDoubt(b *batch, err error) {
	if store.KindOf(err) == store.Doubtful {
		sums := b.sums()
		c.log.Warn(LogAmbiguous, "counter", sums[0].counter, "counters", len(sums), "marked", b.deciding() != "", "error", err)
	}
}

// writes are those of a batch's commit. Markers come first: Firestore looks at one write after the
// other, and a missing shard must not hide that the increments were counted.
func (c *Client) writes(b *batch, plain sums) []*firestorepb.Write {
	for i, r := range b.requests {
		if r.hold != nil {
			r.hold.Parts = b.parts(i)
		}
	}
	markers := b.markers()
	writes := make([]*firestorepb.Write, 0, len(markers)+len(plain))
	for id, m := range markers {
		writes = append(writes, c.marks(id, m))
	}
	for i, r := range b.requests {
		if r.member != nil {
			for shard := range b.parts(i) {
				writes = append(writes, r.member.writes(c.db.Layout, b.id, shard)...)
			}
		}
	}
	for _, sum := range plain {
		writes = append(writes, c.increment(b, sum))
	}
	for at, changes := range b.plan.Plan {
		for i, shard := range b.plan.changed(at) {
			writes = append(writes, shard.ChangeAt(at.field, changes[i].By))
		}
	}
	return writes
}

// increment is the write that adds to the picked shard of a counter.
func (c *Client) increment(b *batch, sum sum) *firestorepb.Write {
	transforms := make([]*firestorepb.DocumentTransform_FieldTransform, len(sum.amounts))
	for i, a := range sum.amounts {
		transforms[i] = store.Increment(layout.FieldPath(a.field), a.by)
	}
	return store.Update(c.pickedShard(b, sum.counter), store.Exists(true), nil, nil, transforms...)
}

func (c *Client) pickedShard(b *batch, counter string) string {
	return c.db.Layout.Shard(counter, layout.ShardID(b.picked[counter]))
}

// marks is the write that makes a marker, or replaces one that was made alone. TTL must not delete it while a commit is
// in doubt, so it expires by the later of two clocks.
func (c *Client) marks(id string, m marker) *firestorepb.Write {
	ttl := c.cfg.KeyTTL
	if m.asked == "" || ttl < batchMarkerTTL {
		// a key's may be the only one that stands in the way of a late commit
		ttl = batchMarkerTTL
	}
	fields := map[string]*firestorepb.Value{layout.ExpireAt: store.Time(c.db.Later().Add(ttl)), markerBatch: store.String(m.batch)}
	if m.asked != "" {
		fields[markerAsked] = store.String(m.asked)
	}
	if m.fenced {
		fields[markerFenced] = store.Bool(true)
	}
	if m.record != nil && !m.fenced {
		delete(fields, layout.ExpireAt)
		m.record.Version = m.at
		return m.record.Make(c.db.Layout, fields)
	}
	return store.CreateOver(c.markerName(id), m.at, fields)
}

// writes are those of a batch's commit that counts on this shard.
func (m *membership) writes(names layout.Layout, batch, shard string) []*firestorepb.Write {
	switch {
	case !m.version.IsZero():
		return []*firestorepb.Write{store.DeleteIf(m.name, store.UpdatedAtTime(m.version))}
	case !m.join:
		return []*firestorepb.Write{store.DeleteIf(m.name, store.Exists(true))}
	}
	fields := map[string]*firestorepb.Value{
		memberID:    store.String(m.seat.Member),
		memberShard: store.String(shard),
		markerBatch: store.String(batch),
	}
	if m.from != "" {
		fields[memberFrom] = store.String(m.from)
	}
	var entry []*firestorepb.Write
	if !m.until.IsZero() {
		fields[hold.Until] = store.Time(m.until)
		entry = append(entry, m.seat.Hold(names, m.until, m.after))
	}
	return append(entry, store.Create(m.name, fields, store.ServerTime(memberAt)))
}
