package shards

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// A deletion has three states. First the counter is there. Then one commit makes its base a mark, and deletes its own
// document: nobody finds the counter any more, and a sweep deletes what is below it, in any order. Nobody reads its
// sums then, so no step has to keep them right. In the end the sweep deletes the mark. What others make after the mark,
// such as an app its document or a snippet its shards, belongs to the counter's next life, which begins at 0.
//
// No late commit brings anything back. Whoever makes a shard or a document reads the base in its transaction, which
// fails if the mark has come since. An increment, and a membership in the same commit, are on condition that the shard
// exists. What changes document or base is on condition of their versions, and so is each step of a deletion.

// errSpared says that a counter which was to be removed stays: it is there again, is in use, or has counted something.
var errSpared = errors.New("the counter is in use")

// DeleteOptions are the choices in deleting a counter.
type DeleteOptions struct {
	// Progress is called after each commit, with how many documents are gone so far, members and
	// shards among them.
	Progress func(removed int)
}

// Delete deletes the counter, its members, shards and base, and whatever is left of one without a document. From its
// first commit on the counter isn't found. That one takes up to 490 shards along. Clients that have read a larger
// counter within Config.CacheTTL may still add to it: that is deleted, too. If the deletion is cut short, delete the
// counter again, or call [Client.Remove]. Errors: [ErrNotFound], [ErrHosted] while the app's own document exists,
// [ErrBusy], [ErrUnknown], or the client library's.
func (c Counter) Delete(ctx context.Context, opts DeleteOptions) error {
	return c.call("delete", func() error {
		_, err := c.markAndSweep(ctx, nil, opts.Progress)
		return err
	})
}

// Remove removes what is left of a counter. Its document is missing, and no shard was written since the given time,
// or an earlier deletion or removal was cut short. It reports false if the counter is back, something was counted
// since, or ctx ended first. Errors are those of [Counter.Delete], and [ErrInvalidID].
func (c *Client) Remove(ctx context.Context, counter string, unwrittenSince time.Time) (removed bool, err error) {
	removed, err = c.remove(ctx, "remove what is left of", counter, func(gone Counter) (marked bool, err error) { return gone.markAndSweep(ctx, &unwrittenSince, nil) })
	if errors.Is(err, ErrNotFound) {
		return true, nil
	}
	return removed, err
}

// RemoveIdle removes a counter whose document this package has made, with all that is below it, if nothing has written
// its document, its base or its shards after a time, and nobody holds anything of it. With atZero it spares one that is
// unlike a new one: whose sums aren't all 0, that has members, or another limit than FIELDS declares. It reports false
// if it spares the counter, or ctx ended first. What is counted at the same time comes before, and spares the counter,
// or is of its next life. All goes in one commit; of more than some 490 documents, the first commit is that of
// [Counter.Delete], and the counter isn't found until the last. Errors are those of [Counter.Delete], and
// [ErrInvalidID].
func (c *Client) RemoveIdle(ctx context.Context, counter string, since time.Time, atZero bool) (removed bool, err error) {
	return c.remove(ctx, "remove what is idle of", counter, func(idle Counter) (marked bool, err error) { return idle.endIdle(ctx, since, atZero) })
}

// remove ends a counter, and reports whether it is gone. It is not if end spares it; nor if ctx ended after the counter
// was marked: whoever comes next goes on.
func (c *Client) remove(ctx context.Context, what, counter string, end func(Counter) (marked bool, err error)) (removed bool, err error) {
	of, err := c.Counter(counter)
	if err != nil {
		return false, err
	}
	marked := false
	err = of.call(what, func() (err error) {
		marked, err = end(of)
		return err
	})
	if errors.Is(err, errSpared) || err != nil && marked && ctx.Err() != nil {
		return false, nil
	}
	return err == nil, err
}

// endIdle is [Client.RemoveIdle]. With an error it reports whether the counter is marked.
func (c Counter) endIdle(ctx context.Context, since time.Time, atZero bool) (marked bool, err error) {
	if c.client.db.Layout.Hosted || len(c.client.db.Layout.Counted) > 0 {
		return false, errSpared
	}
	// Not in the transaction: whoever holds something later writes a shard.
	confirmed := since
	if atZero { // any member spares the counter, below
		confirmed = time.Time{}
	}
	if used, err := c.inUse(ctx, confirmed); err != nil || used {
		return false, cmp.Or(err, errSpared)
	}
	defer c.client.counters.Remove(c.id)
	whole := false // one commit deletes all of it
	err = c.client.exactlyOnce(ctx, func(ctx context.Context, tx *store.Tx, _ int) error {
		books, _, err := c.client.books.Get(ctx, tx, []string{c.id})
		if err != nil {
			return err
		}
		b := books[0]
		if b.Doc == nil {
			return errSpared
		}
		shards, err := c.client.books.Shards(ctx, tx, c.id, time.Time{})
		if err != nil {
			return err
		}
		written := b.Version().After(since) || b.BaseVersion().After(since) || anyWrittenAfter(shards, since)
		if written || !b.Made() || atZero && !c.client.atZero(b, shards) {
			return errSpared
		}
		fields, room := c.fieldsWithMembers(shards, b), removedAtOnce-len(shards)
		members, err := c.readMembers(ctx, fields, max(1, room), time.Time{}, tx)
		if err != nil {
			return err
		}
		if atZero && len(members) > 0 {
			return errSpared
		}
		base := c.client.db.Layout.BaseOf(c.id)
		beside, err := tx.Documents(ctx, store.Query{Collection: path.Dir(base), Limit: removedAtOnce, Names: true})
		if err != nil {
			return fmt.Errorf("read what is beside the base: %w", err)
		}
		below := slices.Concat(shards, members, beside)
		whole = len(below) < removedAtOnce && len(members) < max(1, room)
		if !whole {
			b.End(tx, fields)
			return nil
		}
		tx.Write(store.Delete(b.Doc.GetName()))
		for _, doc := range below {
			tx.Write(store.Delete(doc.GetName()))
		}
		return nil
	})
	if err != nil || whole {
		return false, err
	}
	return true, c.sweep(ctx, 0, nil)
}

// atZero reports whether all that the shards and the base hold comes to what it is without them: to 0, or the limit
// that FIELDS declares. It looks at fields, too, that are not shown here.
func (c *Client) atZero(b *book.Book, shards book.Shards) bool {
	terms := map[string][]int64{} // :: field of the shards → what comes to its total
	for _, shard := range shards {
		for name, value := range shard.GetFields() {
			if name == layout.ShardRequest {
				continue
			}
			if _, is := value.GetValueType().(*firestorepb.Value_IntegerValue); !is {
				return false
			}
			terms[name] = append(terms[name], value.GetIntegerValue())
		}
	}
	for name, n := range b.Base.Counts {
		if n != 0 {
			terms[name] = append(terms[name], n)
		}
	}
	for name, of := range terms {
		if field, _ := c.db.Layout.Sharded.ByShard(name); store.Add(of...) != field.OfNone() {
			return false
		}
	}
	return true
}

// markAndSweep marks the counter, and sweeps what is below it. If something was written after since, it does neither;
// nil removes whatever there is. With an error it also reports whether the counter is marked.
func (c Counter) markAndSweep(ctx context.Context, since *time.Time, progress func(removed int)) (marked bool, err error) {
	defer c.client.counters.Remove(c.id)
	n, err := c.mark(ctx, since)
	if err != nil {
		return false, err
	}
	return true, c.sweep(ctx, n, progress)
}

// mark is the first commit of a deletion, and returns how many documents it deletes. It is applied once: if its answer
// is lost, and somebody deletes and makes the counter meanwhile, that is another life.
func (c Counter) mark(ctx context.Context, since *time.Time) (removed int, err error) {
	db := c.client.db
	shards, err := c.shards(ctx, time.Time{}) // not in the transaction, which would wait for increments
	if err != nil {
		return 0, err
	}
	var life book.Life
	err = c.client.exactlyOnce(ctx, func(ctx context.Context, tx *store.Tx, try int) error {
		removed = 0
		books, _, err := c.client.books.Get(ctx, tx, []string{c.id})
		if err == nil && since != nil {
			shards, err = c.client.books.Shards(ctx, tx, c.id, time.Time{})
		}
		if err != nil {
			return err
		}
		b := books[0]
		switch now := b.Life(); {
		case b.CheckOurs() != nil: // its deletion would take along what others have made or counted
			return b.CheckOurs()
		case b.Deleting(): // whoever has begun that
			return nil
		case try > 1 && life.Over(now): // another has ended the life that was meant
			return nil
		case since != nil && (b.Doc != nil || !b.Base.Gone.Equal(*since) || anyWrittenAfter(shards, *since)):
			return errSpared
		case b.Doc != nil && db.Layout.Hosted:
			return ErrHosted
		case b.AppField() != "":
			return fmt.Errorf("%w: it has a field %q; delete it, or that field, then delete the counter again", ErrHosted, b.AppField())
		default:
			life = now
		}
		fields := c.fieldsWithMembers(shards, b)
		if b.Doc == nil && !b.HasBase() && len(shards) == 0 {
			members, err := c.readMembers(ctx, fields, 1, time.Time{}, tx)
			if err != nil || len(members) == 0 {
				return cmp.Or(err, ErrNotFound)
			}
		}
		b.End(tx, fields)
		if b.Doc != nil {
			removed++
		}
		for _, shard := range shards[:min(len(shards), removedAtOnce)] {
			tx.Write(store.Delete(shard.GetName()))
			removed++
		}
		return nil
	})
	return removed, err
}

// sweepPatience is for others that sweep the same counter.
var sweepPatience = store.Patience{Conflicts: 20, Doubts: 20}

// sweep removes what is below a counter that is marked, after a commit that has removed n documents.
func (c Counter) sweep(ctx context.Context, n int, progress func(removed int)) (err error) {
	for removed, more := 0, true; err == nil; n, more, err = c.sweepOnce(ctx) {
		if removed += n; n > 0 && progress != nil {
			progress(removed)
		}
		if !more {
			return nil
		}
	}
	if errors.Is(err, ErrBusy) { // which says that nothing has happened
		err = fmt.Errorf("%w: the counter isn't found any more, and what is left of it goes when it is deleted again: %v", ErrUnknown, err)
	}
	return err
}

// sweepOnce is one more commit of a deletion. It tells how many documents that removes, and whether there is another
// step. It begins once the budget has something left.
func (c Counter) sweepOnce(ctx context.Context) (removed int, more bool, err error) {
	db := c.client.db
	c.client.cfg.Budget.Wait(ctx, ceiling.Reads, ceiling.Writes)
	_, err = db.CommitIf(ctx, sweepPatience, func(ctx context.Context) ([]*firestorepb.Write, error) {
		removed, more = 0, false
		books, _, err := c.client.books.Get(ctx, db, []string{c.id})
		if err != nil {
			return nil, err
		}
		b := books[0]
		switch {
		case b.Unusable != nil && b.CheckOurs() == nil: // nobody knows whether it is a mark
			return nil, b.Unusable
		case !b.Deleting(): // it is over
			return nil, nil
		}
		shards, err := c.shards(ctx, b.At)
		if err != nil {
			return nil, err
		}
		old, young := book.Shards{}, map[string]time.Time{} // :: id → when it was made
		for _, shard := range shards {
			if made := shard.GetCreateTime().AsTime(); made.After(b.Base.Ending) {
				young[store.IDOf(shard.GetName())] = made
			} else {
				old = append(old, shard)
			}
		}
		// Who knew the counter may have joined on an old shard after the mark. A member of the next life names a shard
		// of that.
		goes := func(member *firestorepb.Document) bool {
			shard, is := young[member.GetFields()[layout.MemberShard].GetStringValue()]
			return !is || member.GetCreateTime().AsTime().Before(shard)
		}
		fields := c.fieldsWithMembers(shards, b)
		below := old
		for _, field := range fields {
			members, err := c.pageOfLeftovers(ctx, db.Layout.MembersOf(c.id, field.Name), b.At, goes)
			if err != nil {
				return nil, err
			}
			below = append(below, members...)
			records, err := c.recordsOf(ctx, field, b.At, young)
			if err != nil {
				return nil, err
			}
			below = append(below, records...)
		}
		base := db.Layout.BaseOf(c.id)
		beside, err := c.pageOfLeftovers(ctx, path.Dir(base), b.At, func(d *firestorepb.Document) bool { return d.GetName() != base })
		if err != nil {
			return nil, err
		}
		below = append(below, beside...)
		below = below[:min(len(below), removedAtOnce)]
		if removed, more = len(below), true; removed == 0 {
			removed, more = 1, false // the mark
		}
		return b.Clear(below, fields), nil
	})
	return removed, more, err
}

// pageOfLeftovers are the documents of a collection that go, as they were at a time: those of the first page that has
// any, of as many as one commit takes.
func (c Counter) pageOfLeftovers(ctx context.Context, collection string, at time.Time, goes func(*firestorepb.Document) bool) (docs []*firestorepb.Document, err error) {
	n := 0
	for doc, err := range c.client.db.All(ctx, store.Query{Collection: collection, Limit: removedAtOnce, At: at}) {
		if err != nil {
			return nil, fmt.Errorf("read what is left: %w", err)
		}
		if goes(doc) {
			docs = append(docs, doc)
		}
		if n++; n%removedAtOnce == 0 && len(docs) > 0 {
			break
		}
	}
	return docs, nil
}
