package shards

import (
	"context"
	"fmt"
	"path"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/layout"
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

// existing reads the book of a counter whose document must be there, and other documents, all as of one
// time.
func (c Counter) existing(ctx context.Context, from book.Reader, others ...string) (s Snapshot, b *book.Book, docs book.Shards, err error) {
	books, docs, err := c.client.books.Get(ctx, from, []string{c.id}, others...)
	if err != nil {
		return s, nil, nil, err
	}
	if err = books[0].CheckSettings(); err == nil && books[0].Deleting() {
		err = ErrNotFound
	}
	if err == nil {
		s, err = c.client.snapshotOf(c.id, books[0].Doc)
	}
	return s, books[0], docs, err
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

// zero is the document of a shard that holds nothing.
func (c *Client) zero(name string) *firestorepb.Document {
	fields := map[string]*firestorepb.Value{}
	for _, field := range c.db.Layout.Plain() {
		fields[field.Shard] = store.Int(0)
	}
	return &firestorepb.Document{Name: name, Fields: fields}
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
		held[name] = store.Parts(counts...)
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

// movable says, as an [ErrNotInteger], why what a shard holds of these fields, or of any that may be counted,
// can't be moved to another one: of a fraction a sum of integers has no room, and a text counts
// nothing.
func movable(fields layout.Fields, shard *firestorepb.Document) error {
	for name, value := range shard.GetFields() {
		_, ok := store.Integer(value)
		_, number := store.Float(value)
		_, counted := fields.Sum(name)
		if !ok && (number && layout.CountsField(name) || counted) {
			return fmt.Errorf("%w: %s of shard %s is %v", ErrNotInteger, name, store.IDOf(shard.GetName()), value)
		}
	}
	return nil
}
