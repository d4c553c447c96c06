package rollup

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// A document of the app's own may be deleted at any time, and what is below it stays. The first who finds it missing says so
// in its ledger. Until that is [ReconcileOptions.CleanupAfter] ago, the counts wait: they belong to the path, and a document
// that is made again has them. Then they are removed, memberships first, each page of them with its -1s, and shards and ledger
// last and together. So wherever the removal stops, the sum of a field's shards is still the number of its members and what was
// counted otherwise.

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
	missing := store.Delete(c.db.Counter(counter)) // which it is, so that this only holds the condition
	missing.CurrentDocument = store.Exists(false)
	_, err = c.db.Commit(ctx, []*firestorepb.Write{missing,
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
	since := goneAt(doc)
	if since.IsZero() || now.Sub(since) < cmp.Or(opts.CleanupAfter, defaultCleanupAfter) {
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
		next, err := c.removeSome(ctx, r.Counter, since)
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
func (c *Client) removeSome(ctx context.Context, counter string, since time.Time) (next removal, err error) {
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
		removed, err := c.removeMembers(ctx, tx, counter, docs[0])
		if err != nil || removed {
			next = more
			return err
		}
		next, err = c.removeRest(ctx, tx, counter)
		return err
	})
	return next, err
}

// removeMembers removes a page of memberships of one field, and takes each off its shard. It reports false where there are none.
func (c *Client) removeMembers(ctx context.Context, tx *store.Tx, counter string, doc *firestorepb.Document) (bool, error) {
	fields := slices.Clip(c.db.Fields)
	if l, err := ledger.Decode(doc); err == nil {
		for name := range l.Sums {
			if _, counted := c.db.Field(name); !counted {
				fields = append(fields, store.Field{Name: name}) // no longer: its memberships go, and its shards' field stays as it is
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
		if field.Shard != "" {
			if err := c.takeOff(ctx, tx, counter, field, members); err != nil {
				return false, err
			}
		}
		for _, member := range members {
			tx.Write(store.Delete(member.GetName()))
		}
		return true, nil
	}
	return false, nil
}

// takeOff takes members off the shards that they were counted in, or off shard 0 where theirs is no longer there.
func (c *Client) takeOff(ctx context.Context, tx *store.Tx, counter string, field store.Field, members []*firestorepb.Document) error {
	first := c.db.Shard(counter, "0")
	names, by := []string{first}, map[string]int64{first: 0} // :: resource name of a shard → its members
	for _, member := range members {
		name := first
		if id := member.GetFields()["shard"].GetStringValue(); store.ValidateID(id) == nil {
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
			by[first] += n
			continue
		}
		if _, counted := store.Integer(shard.GetFields()[field.Shard]); counted && n > 0 {
			tx.Write(store.Update(name, store.Exists(true), nil, nil, store.Increment(store.FieldPath(field.Shard), -n)))
		}
	}
	return nil
}

// removeRest removes the shards, and with the last of them the ledger and whatever else is beside it.
func (c *Client) removeRest(ctx context.Context, tx *store.Tx, counter string) (removal, error) {
	own := c.db.LedgerOf(counter)
	var names []string
	for _, collection := range []string{c.db.ShardsOf(counter), path.Dir(own)} {
		docs, err := tx.Documents(ctx, store.Query{Collection: collection, Limit: maxWrites})
		if err != nil {
			return more, fmt.Errorf("read what is left: %w", err)
		}
		for _, doc := range docs {
			if doc.GetName() != own {
				names = append(names, doc.GetName())
			}
		}
	}
	next := all
	if len(names) >= maxWrites {
		names, next = names[:maxWrites], more
	} else {
		names = append(names, own)
	}
	for _, name := range names {
		tx.Write(store.Delete(name))
	}
	return next, nil
}
