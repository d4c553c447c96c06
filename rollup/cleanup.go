package rollup

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// A document of the app's own may be deleted at any time, and what is below it stays. The first who finds it missing says so
// in its ledger. Until that is [ReconcileOptions.CleanupAfter] ago, the counts wait: they belong to the path, and a document
// that is made again has them. Then they are removed, memberships first, each page of them with its -1s, and shards and ledger
// last and together; of more shards than one commit takes, those that go leave what they hold to one that stays. So wherever
// the removal stops, the sum of a field's shards is still the number of its members and what was counted otherwise.

const (
	// defaultCleanupAfter is how long a document has to be gone.
	defaultCleanupAfter = 24 * time.Hour
	// never keeps a reconcile from removing anything.
	never = time.Duration(1<<63 - 1)
	// maxWrites is how many writes one commit has at most.
	maxWrites = 500
	// membersPage is how many memberships go in one commit. Each may take a write for its shard too.
	membersPage = maxWrites/2 - 1
)

// goneAt is when a counter's document was first found missing, as its ledger's document says; the zero time if it wasn't.
func goneAt(doc *firestorepb.Document) time.Time {
	if at := doc.GetFields()[ledger.FieldGone].GetTimestampValue(); at != nil {
		return at.AsTime()
	}
	return time.Time{}
}

// noteGone notes in a ledger's document that the app's document was missing when both were read, at the time now, unless that
// is noted already. It reports false when one of them has changed meanwhile.
//
// The note is what makes it safe to pass over events while there is no document to count them in: every copy of the ledger is
// out of date with it, and whoever reads a ledger that has it reads the shards before counting goes on.
func (c *Client) noteGone(ctx context.Context, counter string, doc *firestorepb.Document, now time.Time) (noted bool, err error) {
	if !c.db.Hosted || !goneAt(doc).IsZero() {
		return true, nil
	}
	_, err = c.db.Commit(ctx, []*firestorepb.Write{
		store.DeleteIf(c.db.Counter(counter), store.Exists(false)), // still missing
		store.Update(c.db.LedgerOf(counter), store.UpdatedAtTime(doc.GetUpdateTime().AsTime()),
			map[string]*firestorepb.Value{ledger.FieldGone: store.Time(now)}, []string{ledger.FieldGone})})
	switch {
	case err == nil:
		return true, nil
	case store.KindOf(err) == store.Conflict:
		return false, nil
	}
	return false, fmt.Errorf("note that the document is gone: %w", err)
}

// abandoned is for a ledger, read at the time now, whose counter's document is the app's own and missing. It reports again where
// that is no longer so.
func (c *Client) abandoned(ctx context.Context, r Report, doc *firestorepb.Document, now time.Time, opts ReconcileOptions) (report Report, again bool, err error) {
	since, due := goneAt(doc), now.Add(-cmp.Or(opts.CleanupAfter, defaultCleanupAfter))
	if since.IsZero() || since.After(due) {
		r.Gone = true
		if opts.DryRun {
			return r, false, nil
		}
		noted, err := c.noteGone(ctx, r.Counter, doc, now)
		return r, !noted, err
	}
	r.Deleted = true
	if opts.DryRun {
		return r, false, nil
	}
	for steps := 0; ; steps++ {
		next, err := c.removeSome(ctx, r.Counter, since, due, steps == 0)
		switch {
		case err != nil && steps > 0 && ctx.Err() != nil: // it is large, and the next walk goes on
			r.Gone, r.Deleted = true, false
			return r, false, nil //nolint:nilerr // what was removed stays removed
		case err != nil:
			return r, false, fmt.Errorf("remove what is left of it: %w", err)
		case next != more:
			return r, next == changed, nil
		}
	}
}

// removal is what is left to do after a step of it.
type removal int

const (
	more    removal = iota
	all             // nothing is left
	changed         // the document is there again, or was meanwhile
)

// removeSome removes a commit's worth of what is left below a document that is gone since then.
//
// The document may have been there in between, counted, and gone again, while events were lost and no reconcile came by. So
// the first step looks for a shard that was written after the ledger: it is gone since that write, at the earliest. (One that
// was there and was not counted leaves no trace.) Every step that writes shards writes the ledger too, so that the next
// reconcile doesn't take this one for that.
func (c *Client) removeSome(ctx context.Context, counter string, since, due time.Time, first bool) (next removal, err error) {
	err = c.db.Transact(ctx, func(tx *store.Tx) error {
		docs, _, err := tx.Get(ctx, c.db.LedgerOf(counter), c.db.Counter(counter))
		switch {
		case err != nil:
			return err
		case docs[0] == nil && docs[1] == nil:
			next = all // by this or another call
			return nil
		case docs[1] != nil || !goneAt(docs[0]).Equal(since):
			next = changed
			return nil
		}
		if first {
			written, err := c.lastWritten(ctx, tx, counter)
			if err != nil {
				return err
			}
			if written.After(docs[0].GetUpdateTime().AsTime()) {
				next = changed
				tx.Write(store.Update(docs[0].GetName(), store.Exists(true),
					map[string]*firestorepb.Value{ledger.FieldGone: store.Time(written)}, []string{ledger.FieldGone}))
				return nil
			}
		}
		removed, err := c.removeMembers(ctx, tx, counter, docs[0])
		if err != nil || removed {
			next = more
			return err
		}
		next, err = c.removeRest(ctx, tx, counter, due)
		return err
	})
	return next, err
}

// lastWritten is when one of a counter's shards was last written.
func (c *Client) lastWritten(ctx context.Context, tx *store.Tx, counter string) (last time.Time, err error) {
	shards, err := tx.Documents(ctx, store.Query{Collection: c.db.ShardsOf(counter)})
	if err != nil {
		return last, fmt.Errorf("read shards: %w", err)
	}
	for _, shard := range shards {
		if at := shard.GetUpdateTime().AsTime(); at.After(last) {
			last = at
		}
	}
	return last, nil
}

// touch is the write that only makes the ledger as new as what is written with it.
func (c *Client) touch(counter string) *firestorepb.Write {
	return store.Update(c.db.LedgerOf(counter), store.Exists(true), nil, nil, store.Increment(ledger.FieldFlushes, 1))
}

// removeMembers removes a page of memberships of one field, and takes each off its shard. It reports false where there are none.
func (c *Client) removeMembers(ctx context.Context, tx *store.Tx, counter string, doc *firestorepb.Document) (bool, error) {
	fields := slices.Clip(c.db.Fields)
	if l, err := ledger.Decode(doc); err == nil {
		for name, sum := range l.Sums {
			if _, counted := c.db.Field(name); !counted {
				fields = append(fields, layout.Field{Name: name, Shard: sum.Field}) // no longer
			}
		}
	}
	for _, field := range fields {
		members, err := tx.Documents(ctx, store.Query{Collection: c.db.MembersOf(counter, field.Name), Limit: membersPage})
		if err != nil {
			return false, fmt.Errorf("read members: %w", err)
		}
		if len(members) == 0 {
			continue
		}
		if field.Shard != "" { // or else it isn't known where they were counted
			if err := c.takeOff(ctx, tx, counter, field, members); err != nil {
				return false, err
			}
			tx.Write(c.touch(counter))
		}
		for _, member := range members {
			tx.Write(store.Delete(member.GetName()))
		}
		return true, nil
	}
	return false, nil
}

// takeOff takes members off the shards that they were counted in, or off shard 0 where theirs is no longer there.
func (c *Client) takeOff(ctx context.Context, tx *store.Tx, counter string, field layout.Field, members []*firestorepb.Document) error {
	first := c.db.Shard(counter, "0")
	names, by := []string{first}, map[string]int64{first: 0} // :: resource name of a shard → its members
	for _, member := range members {
		name := first
		if id := member.GetFields()["shard"].GetStringValue(); layout.ValidateID(id) == nil {
			name = c.db.Shard(counter, id)
		}
		if _, known := by[name]; !known {
			names = append(names, name)
		}
		by[name]++
	}
	shards, _, err := tx.Get(ctx, names...)
	if err != nil {
		return fmt.Errorf("read shards: %w", err)
	}
	for i, name := range slices.Backward(names) { // the first one last, when it is known what falls to it
		n, shard := by[name], shards[i]
		if shard == nil {
			if name != first {
				by[first] += n
			} else if n > 0 { // made for it, so that what others hold for its members is taken off
				tx.Write(store.Update(first, nil, nil, []string{}, store.Increment(layout.FieldPath(field.Shard), -n)))
			}
			continue
		}
		if _, counted := store.Integer(shard.GetFields()[field.Shard]); counted && n > 0 {
			tx.Write(store.Update(name, store.Exists(true), nil, nil, store.Increment(layout.FieldPath(field.Shard), -n)))
		}
	}
	return nil
}

// removeRest removes the shards, and with the last of them the ledger and whatever else is beside it, but for the note of an event
// that has come since what is due now: it goes when it is due itself.
func (c *Client) removeRest(ctx context.Context, tx *store.Tx, counter string, due time.Time) (removal, error) {
	shards, err := tx.Documents(ctx, store.Query{Collection: c.db.ShardsOf(counter), Limit: maxWrites})
	if err != nil {
		return more, fmt.Errorf("read shards: %w", err)
	}
	if len(shards) == maxWrites {
		c.gather(tx, shards[:maxWrites-1])
		tx.Write(c.touch(counter))
		return more, nil
	}
	beside, err := tx.Documents(ctx, store.Query{Collection: path.Dir(c.db.LedgerOf(counter))})
	if err != nil {
		return more, fmt.Errorf("read what is left: %w", err)
	}
	for _, doc := range slices.Concat(shards, beside) {
		if doc.GetName() != c.db.Note(counter) || !doc.GetUpdateTime().AsTime().After(due) {
			tx.Write(store.Delete(doc.GetName()))
		}
	}
	return all, nil
}

// gather removes shards but the last of them, which gets what the others hold: of any field, as another revision may count it.
func (c *Client) gather(tx *store.Tx, shards []*firestorepb.Document) {
	last := len(shards) - 1
	held := ledger.Counts{} // :: field of the shards → what goes
	for _, shard := range shards[:last] {
		for name, value := range shard.GetFields() {
			if n, ok := store.Integer(value); ok {
				held[name] = ledger.Add(held[name], n)
			}
		}
		tx.Write(store.Delete(shard.GetName()))
	}
	var transforms []*firestorepb.DocumentTransform_FieldTransform
	for name, n := range held {
		transforms = append(transforms, store.Increment(layout.FieldPath(name), n))
	}
	tx.Write(store.Update(shards[last].GetName(), store.Exists(true), nil, nil, transforms...))
}
