package book

import (
	"context"
	"fmt"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// Make gives the counter n shards in a transaction that has read the book. It also makes the document
// and the ledger if they are missing: with a total unless that is 0, and with a floor unless that is
// zero. Errors: [ErrLedgerFull], [ErrDamaged], and those of reading.
func (k *Book) Make(ctx context.Context, tx *store.Tx, n int, total int64, floor time.Time) (err error) {
	names, doc := k.names(), k.Doc
	var fields map[string]*firestorepb.Value
	if doc == nil || names.Hosted && k.raw == nil { // by which the next reconcile finds one whose every event gets lost
		if k, err = k.begin(ctx, tx, total, floor); err != nil {
			return err
		}
		totals := k.Ledger.Totals(names.Shown()...)
		if err := k.balances(totals); err != nil {
			return err
		}
		tx.Write(k.writeLedger())
		fields = view(names, k.Ledger, totals)
	}
	switch name := names.Counter(k.Counter); {
	case doc == nil:
		if n > 0 { // or else none is summed up; should one be, later, the client's number holds
			fields[layout.NumShards] = store.Int(int64(n))
		}
		tx.Write(store.Create(name, fields, store.ServerTime(layout.CreatedAt), store.ServerTime(layout.UpdatedAt)))
	case n != NumShards(names, doc):
		own := map[string]*firestorepb.Value{layout.NumShards: store.Int(int64(n))}
		if Own(names, doc)[layout.NumShardsLegacy] != nil { // its clients read that one
			own[layout.NumShardsLegacy] = store.Int(int64(n))
		}
		if names.Hosted {
			own = map[string]*firestorepb.Value{layout.Rollup: store.Map(own)}
		}
		tx.Write(store.Update(name, store.Exists(true), own, nil))
	}
	return nil
}

// begin is the book with the ledger of a counter that is made: what its path has counted goes on.
func (k *Book) begin(ctx context.Context, tx *store.Tx, total int64, floor time.Time) (_ *Book, err error) {
	names := k.names()
	var shards Shards
	switch {
	case k.Unusable != nil:
		return nil, k.Unusable
	case k.raw == nil:
		if k, _, err = k.books.adopt(ctx, tx, k.Counter, k.Doc); err != nil {
			return nil, err
		}
		k.Ledger.Floor = floor
	default:
		k.diff.Back = true
		if total == 0 {
			break
		}
		if _, k.At, err = tx.Get(ctx, k.raw.GetName()); err != nil {
			return nil, err
		}
		if shards, err = k.books.Shards(ctx, tx, k.Counter, time.Time{}); err != nil {
			return nil, err
		}
		if err := k.Enter(shards); err != nil {
			return nil, err
		}
	}
	switch { // no shard is made beside those that have one
	case !k.Limited():
	case k.Doc == nil:
		return nil, fmt.Errorf("%w; its document is gone: delete what is left of it, and make it again", ErrLimited)
	default:
		return nil, ErrLimited
	}
	if total != 0 {
		first := names.Fields[0].Shard
		k.SetBase(first, k.Ledger.BaseFor(first, total))
	}
	return k, nil
}

// Life tells one life of a path from the next, by the create times of its documents; zero if there are
// none.
type Life struct{ ledger, doc time.Time }

// Life is the one that the book is of.
func (k *Book) Life() (l Life) {
	if k.raw != nil {
		l.ledger = k.raw.GetCreateTime().AsTime()
	}
	if k.Doc != nil {
		l.doc = k.Doc.GetCreateTime().AsTime()
	}
	return l
}

// Over reports whether a life has ended. A life without a ledger may get one at any moment, and doesn't
// end if somebody deletes its document.
func (l Life) Over(now Life) bool {
	if l.ledger.IsZero() {
		return !l.doc.IsZero() && !now.doc.IsZero() && !now.doc.Equal(l.doc)
	}
	return !now.ledger.Equal(l.ledger)
}

// HasLedger reports whether there is a ledger, even one that can't be used.
func (k *Book) HasLedger() bool { return k.raw != nil }

// Version is the update time of the ledger's document.
func (k *Book) Version() time.Time { return k.raw.GetUpdateTime().AsTime() }

// Ending reports whether the ledger says that everything below the path is being removed.
func (k *Book) Ending() bool { return k.raw.GetFields()[LedgerEnding].GetBooleanValue() }

// End says in the ledger that everything below the path is being removed, and that the document is
// missing.
func (k *Book) End(tx *store.Tx) {
	tx.Write(store.Update(k.raw.GetName(), store.Exists(true), map[string]*firestorepb.Value{LedgerEnding: store.Bool(true)},
		[]string{LedgerSums}, store.ServerTime(LedgerGone)))
}

// Stay takes back what [Book.End] says about what is below the path.
func (k *Book) Stay(tx *store.Tx) {
	tx.Write(store.Update(k.raw.GetName(), store.Exists(true), nil, []string{LedgerEnding}))
}

// Mark says in the document that it is being deleted: from then on nobody adds to it.
func (k *Book) Mark(tx *store.Tx) {
	tx.Write(store.Update(k.names().Counter(k.Counter), store.Exists(true), map[string]*firestorepb.Value{layout.Deleting: store.Bool(true)}, nil))
}

// Uneven says in the ledger, if there is one, that the transaction takes something off shards: see
// [ledger.Ledger.Uneven].
func (k *Book) Uneven(tx *store.Tx) {
	if k.raw != nil {
		tx.Write(store.Update(k.raw.GetName(), store.Exists(true), nil, nil, store.ServerTime(LedgerUneven)))
	}
}
