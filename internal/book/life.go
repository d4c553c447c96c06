package book

import (
	"context"
	"fmt"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// Make gives the counter n shards in a transaction that has read the book. It also makes the document and the
// base if they are missing, with a total unless that is 0. What its path has counted goes on. Errors: [ErrDamaged],
// and those of reading.
func (b *Book) Make(ctx context.Context, tx *store.Tx, n int, total int64) error {
	names := b.names()
	name := names.Counter(b.Counter)
	if err := b.CheckOurs(); err != nil {
		return err
	}
	switch {
	case b.Doc == nil:
		fields, err := b.begin(ctx, tx, total)
		if err != nil {
			return err
		}
		if n > 0 { // or else none is summed up; should one be, later, the client's number holds
			fields[layout.NumShards] = store.Int(int64(n))
		}
		tx.Write(store.Create(name, fields, store.ServerTime(layout.CreatedAt), store.ServerTime(layout.UpdatedAt)))
		return nil
	case b.Unusable != nil:
		return b.Unusable
	case names.Hosted && !b.HasBase(): // by which the next walk finds it, if every event gets lost
		tx.Write(b.writeBase(nil))
	}
	if n != NumShards(names, b.Doc) {
		own := map[string]*firestorepb.Value{layout.NumShards: store.Int(int64(n))}
		if OurFields(names, b.Doc)[layout.NumShardsLegacy] != nil { // its clients read that one
			own[layout.NumShardsLegacy] = store.Int(int64(n))
		}
		if names.Hosted {
			own = map[string]*firestorepb.Value{layout.Rollup: store.Map(own)}
		}
		tx.Write(store.Update(name, store.Exists(true), own, nil))
	}
	return nil
}

// begin has a transaction make the base of a counter whose document is missing, or change it, and returns what the
// document is to show. It doesn't say as of when: the first roll-up asks for all fields. With a total other than 0 the
// first field without a limit shows that, whatever the shards hold; its caller has checked that there is one.
func (b *Book) begin(ctx context.Context, tx *store.Tx, total int64) (map[string]*firestorepb.Value, error) {
	if b.Unusable != nil {
		return nil, b.Unusable
	}
	shards, err := b.books.Shards(ctx, tx, b.Counter, time.Time{})
	if err != nil {
		return nil, err
	}
	after := b.copy()
	after.Base.Gone = time.Time{}
	fields := map[string]*firestorepb.Value{}
	plain := b.names().Plain()
	for _, field := range b.names().Sharded {
		base := b.Base.Counts[field.Shard]
		sum, ok := Whole(shards.SumOf(field))          // 0 where it is no integer: the first roll-up says so
		if total != 0 && field.Name == plain[0].Name { // what has a limit begins with nothing
			if !ok {
				return nil, fmt.Errorf("%w: the shards' sum of %s: set right what they hold", store.ErrNotInteger, field.Shard)
			}
			base = store.Sub(total, sum)
		}
		put(&after.Base.Counts, field.Shard, base)
		put(&after.Base.Replaced, field.Name, b.Base.Replaced[field.Name])
		fields[field.Name] = store.Int(store.Add(base, sum))
	}
	if b.HasBase() { // its documents were counted before
		for _, field := range b.names().Counted {
			a, err := b.books.db.Aggregate(ctx, b.Counter, field.Counted, time.Time{})
			if err != nil {
				continue // the next roll-up asks again, and says why
			}
			if shows, odd := b.Total(field, Answer{Value: a.Value}); odd == nil {
				fields[field.Name] = shows
			}
		}
	}
	if after.baseChanged() || !b.HasBase() {
		tx.Write(after.writeBase(nil))
	}
	return fields, nil
}

// Life tells one life of a path from the next, by the create times of its documents; zero if there are
// none.
type Life struct{ base, doc time.Time }

// Life is the one that the book is of.
func (b *Book) Life() (l Life) {
	l.base = b.baseMade
	if b.Doc != nil {
		l.doc = b.Doc.GetCreateTime().AsTime()
	}
	return l
}

// Over reports whether a life has ended. A life without a base may get one at any moment, and doesn't
// end if somebody deletes its document.
func (l Life) Over(now Life) bool {
	if l.base.IsZero() {
		return !l.doc.IsZero() && !now.doc.IsZero() && !now.doc.Equal(l.doc)
	}
	return !now.base.Equal(l.base)
}

// End marks the counter as being deleted, in a transaction that has read its book: the base says so, and nothing else
// but the names of fields that may have members below it, and a document of ours goes. From then on the counter isn't
// found, whoever makes its document again, and nobody makes a shard or a document of it: who does reads the base in
// the same transaction.
func (b *Book) End(tx *store.Tx, fields layout.Fields) {
	made := Book{Counter: b.Counter, books: b.books}
	for _, field := range fields {
		put(&made.Base.Counts, field.Shard, 0)
	}
	mark := made.writeBase(map[string]*firestorepb.Value{baseEnding: store.Bool(true)})
	mark.CurrentDocument = nil
	tx.Write(mark)
	if b.Doc != nil {
		tx.Write(store.Delete(b.Doc.GetName()))
	}
}

// Clear is a step of a counter's deletion: it deletes these documents below the counter, in which fields of those names
// were found. Once there are none, it deletes the base, in which the deletion is marked. Each step is on condition of
// the base's version, and changes it. So a step that arrives late, when others have gone on or the counter was made
// again, does nothing.
func (b *Book) Clear(below []*firestorepb.Document, fields layout.Fields) (writes []*firestorepb.Write) {
	if len(below) == 0 {
		return []*firestorepb.Write{store.DeleteIf(b.names().BaseOf(b.Counter), store.IfVersion(b.baseVersion))}
	}
	after := b.copy()
	for _, field := range fields {
		put(&after.Base.Counts, field.Shard, 0)
	}
	writes = append(writes, after.writeBase(map[string]*firestorepb.Value{baseEnding: store.Time(b.Base.Ending)}, store.Increment("steps", 1)))
	for _, doc := range below {
		writes = append(writes, store.Delete(doc.GetName()))
	}
	return writes
}

// SetGone is the commit that sets the base's Gone to now: what is below the missing document stays for the whole of
// its time from then on.
func (b *Book) SetGone() Draft {
	return Draft{Writes: []*firestorepb.Write{store.Update(b.names().BaseOf(b.Counter), store.IfVersion(b.baseVersion), nil, nil, store.ServerTime(baseGone))}}
}

// Appear is for a counter that has neither a document nor a base, below which something was counted. It makes the
// document of one that has shards: a snippet, or a client that writes shards itself, has made them. Where the app makes
// documents, and where only documents are counted, it makes the base alone, by which walks find what is below.
// It reports whether there is a document now. Errors are those of [Book.Make] and [store.DB.Transact].
func (books Books) Appear(ctx context.Context, counter string, documents bool) (exists bool, err error) {
	names := books.db.Layout
	// Late events of a deleted counter come here. They look without a transaction, which would wait for the locks of
	// a killed process, for up to a minute.
	anyShard := store.Query{Collection: names.ShardsOf(counter), Limit: 1, Names: true}
	shards, err := books.db.Documents(ctx, anyShard)
	if err != nil || len(shards) == 0 && !documents {
		return false, err
	}
	err = books.db.Transact(ctx, func(ctx context.Context, tx *store.Tx) error {
		list, _, err := books.Get(ctx, tx, []string{counter})
		if err != nil {
			return err
		}
		b := list[0]
		if exists = b.Doc != nil; exists || b.HasBase() { // somebody was faster, or this was, and its answer is lost
			return nil
		}
		shards, err := tx.Documents(ctx, anyShard)
		switch {
		case err != nil:
			return err
		case len(shards) > 0 && !names.Hosted:
			exists = true
			return b.Make(ctx, tx, 0, 0)
		case len(shards) > 0 || documents:
			tx.Write(b.writeBase(nil, store.ServerTime(baseGone)))
		}
		return nil
	})
	return exists, err
}
