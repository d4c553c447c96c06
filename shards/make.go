package shards

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// makeMissing commits a batch in a transaction that also makes what is missing: shards, or with AutoCreate counters. So
// if nothing is counted, nothing is made. No deleted counter gets a shard, and no counter gets back a shard that a
// resize has removed. A batch that counts in fields with limits is planned, and committed, after that.
func (c *Client) makeMissing(ctx context.Context, b *batch) step {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout/2)
	defer cancel()
	var gone map[string]bool
	var partly []string
	promised, err := c.promise(b)
	if err != nil {
		return b.giveUp(nil, err)
	}
	var at time.Time
	var sent bool
	err = c.afterEarlierLife(ctx, func() (err error) {
		at, sent, err = c.db.TryTransact(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
			gone, partly, err = c.writeWithMissing(ctx, tx, b)
			return err
		})
		return err
	})
	if err != nil {
		partly = nil
	}
	c.cfg.Budget.SpendAll(c.costOfShards().Times(len(partly)))
	c.cfg.Budget.Release(promised)
	switch {
	case err == nil && len(gone) > 0:
		return b.afterMissing(gone)
	case err == nil && b.planned():
		c.complete(partly)
		if _, err := c.resolve(ctx, b.deltas().counters()...); err != nil {
			return b.afterLookError(err)
		}
		return sendCommit
	case err == nil:
		next := b.answer(outcome{at: at})
		c.complete(partly)
		return next
	case store.IsTooLarge(err) && c.db.Layout.Hosted:
		return b.giveUp(nil, fmt.Errorf("%w: %w", ErrFull, err))
	case b.planned():
		sent = false // nothing was counted
	}
	switch {
	case !sent && errors.Is(err, store.ErrContention):
		return b.giveUp(ErrBusy, err)
	case !sent && (!store.FromFirestore(err) || store.KindOf(err) == store.Permanent):
		return b.giveUp(nil, err)
	case !sent:
		return b.tryAgain(err)
	case store.KindOf(err) == store.Conflict: // whatever document it is that is in the way
		b.conflict = err
		return readMarkers
	}
	c.logDoubt(b, err)
	return b.afterCommitError(err)
}

// promise keeps of the budget what it takes to make those of a batch's counters that have no shards, as far as is
// known, and for a batch that is planned the shards of its fields with limits. One of them may be owed. Errors:
// [ErrBusy], and those of [Client.CheckNew].
func (c *Client) promise(b *batch) (all ceiling.Amounts, err error) {
	one, counters, places := c.costOfApart(), 0, 0
	unknown := func(counter string) bool {
		known, ok := c.counters.Peek(counter)
		return !ok || known.bare
	}
	for _, counter := range b.deltas().counters() {
		if unknown(counter) {
			counters, one = counters+1, c.CostOfCounter()
		}
	}
	for where := range b.limited() {
		if !unknown(where.counter) {
			places++
		}
	}
	if counters > 0 {
		if err := c.CheckNew(counters); err != nil {
			return all, err
		}
	}
	all = c.CostOfCounter().Times(counters).Plus(c.costOfApart().Times(places))
	if !c.cfg.Budget.Owe(all, one) {
		return ceiling.Amounts{}, fmt.Errorf("%w for %d new counters, and %d fields with limits", errShort, counters, places)
	}
	return all, nil
}

// writeWithMissing has a transaction write a batch, and what is missing for it. If counters don't exist, and aren't to
// be made, it returns them as gone and writes nothing. Counters in partly get only the shard that was picked.
func (c *Client) writeWithMissing(ctx context.Context, tx *store.Tx, b *batch) (gone map[string]bool, partly []string, err error) {
	began := time.Now()
	books, _, err := c.books.Get(ctx, tx, b.deltas().counters())
	if err != nil {
		return nil, nil, err
	}
	gone = map[string]bool{}
	var counters []*batchCounter
	for i, delta := range b.deltas() {
		shards, err := c.sizeOf(books[i], c.makes(b), began)
		switch {
		case errors.Is(err, ErrNotFound):
			gone[delta.counter] = true
		case err != nil:
			return nil, nil, err
		}
		counters = append(counters, &batchCounter{delta: delta, book: books[i], shards: shards})
	}
	if len(gone) > 0 {
		return gone, nil, nil
	}
	err = each(counters, func(_ int, counter *batchCounter) (err error) {
		if counter.book.Doc == nil || c.db.Layout.Hosted { // the app's document may never have been counted
			counter.missing, err = Counter{c, counter.delta.counter}.giveShards(ctx, tx, counter.book, counter.shards, 0)
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	makes := 0 // shards of all counters that have none, their documents and bases
	for _, counter := range counters {
		if n := len(counter.missing); n > 0 {
			makes += n + 2
		}
	}
	var shards []string // those that must be there after the commit
	for _, counter := range counters {
		b.pick(counter.delta.counter, counter.shards)
		if err := c.makeLimitedShards(ctx, tx, counter.delta, counter.shards); err != nil {
			return nil, nil, err
		}
		if makes > maxWrites && len(counter.missing) > 0 {
			partly = append(partly, counter.delta.counter)
			shards = append(shards, b.pickedShard(c.db.Layout, counter.delta.counter))
		} else {
			shards = append(append(shards, counter.missing...), c.countedIn(b, counter)...)
		}
	}
	if err := c.createMissing(ctx, tx, shards); err != nil {
		return nil, nil, err
	}
	if !b.planned() {
		tx.Write(b.writes(c.db.Layout, c.db.Later(), c.cfg.KeyTTL, b.deltas())...)
	}
	return nil, partly, nil
}

// batchCounter is a counter of a batch, as the transaction that makes what is missing has read it.
type batchCounter struct {
	delta   delta // what the batch adds to it
	book    *book.Book
	shards  int      // how many it has, or gets
	missing []string // names of shards that it gets, and that may be missing
}

// countedIn are the names of a counter's shards that a batch counts in: the one that was picked. A batch that is
// planned is committed later and picks again, so it may count in any of them.
func (c *Client) countedIn(b *batch, counter *batchCounter) []string {
	shards := []string{b.pickedShard(c.db.Layout, counter.delta.counter)}
	if b.planned() && len(b.plain(deltas{counter.delta})) > 0 {
		for i := range counter.shards {
			shards = append(shards, c.db.Layout.Shard(counter.delta.counter, layout.ShardID(i)))
		}
	}
	return shards
}

// makes reports whether a batch makes counters. Nothing is made for those who leave.
func (c *Client) makes(b *batch) bool {
	return c.cfg.AutoCreate && slices.ContainsFunc(b.requests, func(r *request) bool { return r.member == nil || r.member.join })
}

// sizeOf is how many shards a counter has, or gets if it isn't there, and is to be made; otherwise the error is
// [ErrNotFound]. It remembers what was read, from began on.
func (c *Client) sizeOf(b *book.Book, makes bool, began time.Time) (n int, err error) {
	if err := b.CheckOurs(); err != nil {
		return 0, err
	}
	switch s, missing := c.snapshotOf(b.Counter, b.Doc); {
	case b.Deleting():
	case missing == nil:
		c.counters.put(s, began)
		return s.NumShards, nil
	case makes:
		return c.cfg.NumShards, nil
	}
	c.counters.Remove(b.Counter)
	return 0, ErrNotFound
}

// complete makes the shards that counters were made without, because many at once are too much for a
// commit. Clients that write shards themselves update existing ones. If that fails, later increments
// make what they need. The budget was promised for that.
func (c *Client) complete(counters []string) {
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.Timeout)
	defer cancel()
	err := each(counters, func(_ int, id string) error {
		defer c.cfg.Budget.Release(c.costOfShards())
		err := Counter{c, id}.setShards(ctx, 0, func(is int) int { return is })
		if errors.Is(err, ErrNotFound) {
			return nil // deleted since: no shard comes back
		}
		return err
	})
	if err != nil {
		c.log.Warn("shards of new counters are made by their increments", "counters", len(counters), "error", err)
	}
}

// setShards sets the counter's number of shards to what change makes of it, and makes the new ones. It also makes old
// ones that are missing, beginning with number from: clients that know only the public layout update shards that exist.
// It is one transaction, and may run twice.
func (c Counter) setShards(ctx context.Context, from int, change func(was int) int) error {
	sets := func(ctx context.Context, tx *store.Tx) error {
		s, b, _, err := c.readExisting(ctx, tx)
		if err != nil {
			return err
		}
		n := change(s.NumShards)
		missing, err := c.giveShards(ctx, tx, b, n, 0)
		if err != nil {
			return err
		}
		for i := from; i < min(s.NumShards, n); i++ {
			missing = append(missing, c.shardName(layout.ShardID(i)))
		}
		return c.client.createMissing(ctx, tx, missing)
	}
	return c.client.afterEarlierLife(ctx, func() error { return c.client.db.Transact(ctx, sets) })
}

// giveShards gives the counter n shards, and what else it takes to be counted, in a transaction that has read its book:
// see [book.Book.Make]. It begins with total; with 0, what its shards hold stays. It returns the shards that may be
// missing.
func (c Counter) giveShards(ctx context.Context, tx *store.Tx, b *book.Book, n int, total int64) (missing []string, err error) {
	for i := book.NumShards(c.client.db.Layout, b.Doc); i < n; i++ {
		missing = append(missing, c.shardName(layout.ShardID(i)))
	}
	// Without a number of shards the counter is new, or a snippet's: holds of an earlier life may still be open.
	if book.NumShards(c.client.db.Layout, b.Doc) == 0 {
		total, err = c.endEarlierLife(ctx, tx, total)
	}
	if err != nil {
		return nil, err
	}
	return missing, b.Make(ctx, tx, n, total)
}

// createMissing makes those of the shards that are missing, with a 0 for each field without a limit. Where all fields
// have one it makes none: these have shards of their own. It sorts the names, and drops duplicates.
func (c *Client) createMissing(ctx context.Context, tx *store.Tx, names []string) error {
	if len(c.db.Layout.Plain()) == 0 {
		return nil
	}
	slices.Sort(names)
	names = slices.Compact(names)
	docs, _, err := tx.Get(ctx, names...)
	if err != nil {
		return err
	}
	for i, doc := range docs {
		if doc == nil {
			tx.Write(store.Create(names[i], c.zero()))
		}
	}
	return nil
}

// exactlyOnce carries out a transaction once, however often its body is tried. Its commit makes a marker: if
// the answer is lost, the next try finds that.
func (c *Client) exactlyOnce(ctx context.Context, body func(ctx context.Context, tx *store.Tx, try int) error) error {
	id, try := newID(), 0
	return c.db.Transact(ctx, func(ctx context.Context, tx *store.Tx) error {
		docs, _, err := tx.Get(ctx, c.db.Layout.Request(id))
		if err != nil || docs[0] != nil {
			return err
		}
		try++
		if err := body(ctx, tx, try); err != nil {
			return err
		}
		tx.Write(marker{batch: id}.write(c.db.Layout, c.db.Later(), c.cfg.KeyTTL, id))
		return nil
	})
}

// removedAtOnce is how many members or shards one commit removes. It leaves room for what the commit writes for them.
const removedAtOnce = maxWrites - 5

// zero are the fields of a shard that holds nothing.
func (c *Client) zero() map[string]*firestorepb.Value {
	fields := map[string]*firestorepb.Value{}
	for _, field := range c.db.Layout.Plain() {
		fields[field.Shard] = store.Int(0)
	}
	return fields
}

// moveCounts adds what shards hold to another shard in a transaction. It deletes the shards, or with keep sets them to
// zero. A shard that the counter has again, by another resize or by growth, stays. move sets numbers, and doesn't add
// them: an increment stops at ±2⁶³, and a double stays a double.
func (c Counter) moveCounts(ctx context.Context, tx *store.Tx, from []string, to string, keep bool) error {
	s, _, docs, err := c.readExisting(ctx, tx, append([]string{to}, from...)...)
	if err != nil {
		return err
	}
	target, moved := docs[0], slices.DeleteFunc(docs[1:], func(shard *firestorepb.Document) bool {
		number, _ := layout.ShardNumber(store.IDOf(shard.GetName()))
		return shard == nil || number < s.NumShards
	})
	if len(moved) == 0 {
		return nil
	}
	counts := map[string][]int64{} // :: field → what shards hold; another revision may show it
	for _, shard := range moved {
		for name, value := range shard.GetFields() {
			n, whole := store.Integer(value)
			_, number := store.Float(value)
			_, shown := c.client.db.Layout.Plain().ByShard(name)
			if !whole && (shown || number && layout.MayCount(name)) { // a fraction, for which there is no room; a text counts nothing
				return fmt.Errorf("%w: %s of shard %s is %v", ErrNotInteger, name, store.IDOf(shard.GetName()), value)
			}
			if n != 0 {
				counts[name] = append(counts[name], n)
			}
		}
	}
	sums := map[string]*firestorepb.Value{}
	for name, list := range counts {
		n, whole := store.Integer(target.GetFields()[name])
		if !whole { // what is added to a fraction would no longer be counted
			return fmt.Errorf("%w: %s of shard %s is %v, so the counts of other shards can't be added to it", ErrNotInteger, name, store.IDOf(to), target.GetFields()[name])
		}
		parts := store.Parts(append(list, n)...)
		if len(parts) > 1 {
			return fmt.Errorf("%w: %d; what the others hold and shard %s takes is beyond ±2⁶³", ErrInvalidShards, s.NumShards, store.IDOf(to))
		}
		sums[name] = store.Int(parts[0])
	}
	if target == nil {
		fields := c.client.zero()
		maps.Copy(fields, sums)
		tx.Write(store.Create(to, fields))
	} else if len(sums) > 0 {
		tx.Write(store.Update(to, store.Exists(true), sums, nil))
	}
	for _, shard := range moved {
		nothing := map[string]*firestorepb.Value{}
		for name, value := range shard.GetFields() {
			if n, _ := store.Integer(value); n != 0 {
				nothing[name] = store.Int(0)
			}
		}
		switch {
		case !keep:
			tx.Write(store.Delete(shard.GetName()))
		case len(nothing) > 0:
			tx.Write(store.Update(shard.GetName(), store.Exists(true), nothing, nil))
		}
	}
	return nil
}
