package shards

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/escrow"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// once carries out a transaction once, however often its body is tried. Its commit makes a marker: if
// the answer is lost, the next try finds that.
func (c *Client) once(ctx context.Context, body func(ctx context.Context, tx *store.Tx, try int) error) error {
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
		tx.Write(c.marks(id, marker{batch: id}))
		return nil
	})
}

// inSteps makes one transaction after another, as long as there is more to do. A step is told how often
// it is tried, and returns how many documents it removes. progress, which may be nil, is told how many
// are removed by then.
func (c Counter) inSteps(ctx context.Context, progress func(removed int), step func(ctx context.Context, tx *store.Tx, try int) (n int, more bool, err error)) error {
	for removed, more := 0, true; more; {
		n := 0
		err := c.client.once(ctx, func(ctx context.Context, tx *store.Tx, try int) (err error) {
			n, more, err = step(ctx, tx, try)
			return err
		})
		if err != nil {
			return err
		}
		if removed += n; n > 0 && progress != nil {
			progress(removed)
		}
	}
	return nil
}

// existing reads the book of a counter whose document must be there, and other documents, all as of one
// time.
func (c Counter) existing(ctx context.Context, from book.Reader, others ...string) (s Snapshot, k *book.Book, docs book.Shards, err error) {
	books, docs, err := c.client.books.Get(ctx, from, []string{c.id}, others...)
	if err != nil {
		return s, nil, nil, err
	}
	s, err = c.client.snapshotOf(c.id, books[0].Doc)
	return s, books[0], docs, err
}

// unlimited is [Counter.existing] of a counter without limits. Of one that has some it is an [ErrLimited].
func (c Counter) unlimited(ctx context.Context, tx *store.Tx, others ...string) (s Snapshot, k *book.Book, docs book.Shards, err error) {
	if s, k, docs, err = c.existing(ctx, tx, others...); err == nil {
		err = k.CheckUnlimited(ctx, tx)
	}
	return s, k, docs, err
}

func (c Counter) shardName(id string) string { return c.client.db.Layout.Shard(c.id, id) }

// shards reads the counter's shards as they were at a time; the zero time is now.
func (c Counter) shards(ctx context.Context, at time.Time) (book.Shards, error) {
	return c.client.books.Shards(ctx, c.client.db, c.id, at)
}

// someMembers reads memberships, at most that many, as of a time; the zero time is now.
func (c Counter) someMembers(ctx context.Context, fields layout.Fields, most int, at time.Time, from book.Reader) (docs []*firestorepb.Document, err error) {
	for _, field := range fields {
		if len(docs) == most {
			break
		}
		of, err := from.Documents(ctx, store.Query{Collection: c.client.db.Layout.MembersOf(c.id, field.Name), Limit: most - len(docs), At: at})
		if err != nil {
			return nil, fmt.Errorf("read members: %w", err)
		}
		docs = append(docs, of...)
	}
	return docs, nil
}

// atOnce is how many members or shards one commit removes, beside what it writes for them.
const atOnce = maxWrites - 5

// takeOff deletes memberships that a transaction has read, and takes as many off shard 0. It doesn't
// matter where they were counted: a field is what its shards add up to.
func (c Counter) takeOff(members []*firestorepb.Document, fields layout.Fields) (writes []*firestorepb.Write) {
	var transforms []*firestorepb.DocumentTransform_FieldTransform
	for field, n := range c.countMembers(members, fields) {
		transforms = append(transforms, store.Increment(layout.FieldPath(field), -n))
	}
	return append(deleteAll(members), store.Update(c.shardName(layout.ShardID(0)), nil, nil, nil, transforms...))
}

// giveBack is [Counter.takeOff] of a counter with a limit, whose shards the transaction has read: each gives
// what its members took. If something else wrote them, they may hold fewer; then callers' seats go, too, and
// no shard ever counts less than nothing.
func (c Counter) giveBack(members []*firestorepb.Document, fields layout.Fields, shards book.Shards) (writes []*firestorepb.Write) {
	if writes = deleteAll(members); len(shards) == 0 {
		return writes
	}
	limits := book.LimitsIn(shards)
	changed := map[int]*book.HeldWrite{} // :: index of a shard
	of := func(shard int) *book.HeldWrite {
		if changed[shard] == nil {
			changed[shard] = &book.HeldWrite{}
		}
		return changed[shard]
	}
	for field, n := range c.countMembers(members, fields) {
		if _, has := limits[field]; !has {
			of(0).Add(field, -n)
			continue
		}
		held := make([]escrow.Held, len(shards))
		for i, doc := range shards {
			held[i], _ = book.HeldOf(doc, field)
		}
		all := escrow.Sum(held...)
		net := escrow.Net{Leave: min(n, all.Members)}
		net.Give = min(n-net.Leave, all.Own())
		for _, change := range escrow.Spread(held, net, rand.IntN) {
			before := held[change.Shard]
			of(change.Shard).Change(field, before, change.Of(before))
		}
	}
	for at, w := range changed {
		writes = append(writes, w.Update(shards[at].GetName(), store.Exists(true)))
	}
	return writes
}

// countMembers is how many of the memberships are of each field, by its name in the shards.
func (c Counter) countMembers(members []*firestorepb.Document, fields layout.Fields) map[string]int64 {
	of := map[string]int64{} // :: collection of memberships
	for _, m := range members {
		of[path.Dir(m.GetName())]++
	}
	counts := map[string]int64{}
	for _, field := range fields {
		if n := of[c.client.db.Layout.MembersOf(c.id, field.Name)]; n > 0 {
			counts[field.Shard] += n
		}
	}
	return counts
}

func deleteAll(docs []*firestorepb.Document) (writes []*firestorepb.Write) {
	for _, doc := range docs {
		writes = append(writes, store.Delete(doc.GetName()))
	}
	return writes
}

// zero is the document of a shard that holds nothing.
func (c *Client) zero(name string) *firestorepb.Document {
	fields := make(map[string]*firestorepb.Value, len(c.db.Layout.Fields))
	for _, field := range c.db.Layout.Fields {
		fields[field.Shard] = store.Int(0)
	}
	return &firestorepb.Document{Name: name, Fields: fields}
}

// toZero takes off a shard what it held when it was read; nil if that is nothing. What is added in
// between stays.
func (c Counter) toZero(doc *firestorepb.Document) *firestorepb.Write {
	var transforms []*firestorepb.DocumentTransform_FieldTransform
	set := false
	for _, field := range c.client.db.Layout.Fields {
		value := doc.GetFields()[field.Shard]
		_, whole := value.GetValueType().(*firestorepb.Value_IntegerValue)
		switch count := value.GetIntegerValue(); {
		case value == nil, whole && count == 0:
		case !whole || count == math.MinInt64:
			set = true
		default:
			transforms = append(transforms, store.Increment(layout.FieldPath(field.Shard), -count))
		}
	}
	switch {
	case set: // and nothing may come in between
		return store.Update(doc.GetName(), store.UpdatedAtTime(doc.GetUpdateTime().AsTime()), c.client.zero(doc.GetName()).GetFields(), nil)
	case len(transforms) == 0:
		return nil
	}
	return store.Update(doc.GetName(), store.Exists(true), nil, nil, transforms...)
}

// fold gathers in the first of some shards what all of them hold, in any field: another revision may
// show it. The others are deleted, or kept with nothing in them. It returns how many hold something: a
// sum beyond the int64s goes on in the second, and so on. Numbers are set, not added: an increment
// stops at ±2⁶³, and a double stays one.
func fold(tx *store.Tx, shards book.Shards, keep bool) (takes int) {
	held := map[string][]int64{}
	for _, shard := range shards {
		for name, value := range shard.GetFields() {
			if n, ok := store.Integer(value); ok && n != 0 {
				held[name] = append(held[name], n)
			}
		}
	}
	takes = 1
	for name, counts := range held {
		held[name] = ledger.Parts(counts...)
		takes = max(takes, len(held[name]))
	}
	for i, shard := range shards {
		if i >= takes && !keep {
			tx.Write(store.Delete(shard.GetName()))
			continue
		}
		fields := map[string]*firestorepb.Value{}
		for name, parts := range held {
			_, has := shard.GetFields()[name]
			switch {
			case i < len(parts):
				fields[name] = store.Int(parts[i])
			case has:
				fields[name] = store.Int(0)
			}
		}
		if len(fields) > 0 {
			tx.Write(store.Update(shard.GetName(), store.Exists(true), fields, nil))
		}
	}
	return takes
}
