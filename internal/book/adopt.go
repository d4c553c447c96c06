package book

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// ErrNothing says that there is nothing to make a ledger of.
var ErrNothing = errors.New("there is neither a document nor a shard")

// Adopt makes a ledger for a counter that has none, from its shards, and shows the totals in its
// document. It makes the document if there are only shards. If the document has no room, it shows
// nothing yet. The ledger is nil if somebody else was faster. Errors: [ErrNothing], unless anyway;
// [ErrLedgerFull]; those of [store.DB.Transact].
func (b Books) Adopt(ctx context.Context, counter string, anyway bool) (l *ledger.Ledger, shards Shards, err error) {
	names := b.db.Layout
	err = b.db.TransactOr(ctx, ledgerAlone, func(ctx context.Context, tx *store.Tx) error {
		l = nil // this may run again, and does no harm: the second time the ledger is there
		docs, now, err := tx.Get(ctx, names.LedgerOf(counter), names.Counter(counter))
		if err != nil || docs[0] != nil {
			return err
		}
		if Deleting(names, docs[1]) {
			return ErrNothing
		}
		k, found, err := b.adopt(ctx, tx, counter, docs[1])
		if err != nil {
			return err
		}
		there := docs[1] != nil || !names.Hosted && len(found) > 0
		if !there && len(found) == 0 && !anyway {
			return ErrNothing
		}
		l, shards = k.Ledger, found
		if k.At = now; !there {
			l.Gone = now
		}
		return k.WriteTo(tx)
	})
	return l, shards, err
}

// adopt is a book with a new ledger of what the shards hold. They are read in the transaction that
// makes the ledger: a shard that is written in between would be newer than its entry and older than the
// ledger, and its event might come before either. The document may be nil. An import in place needs the
// numbers that its totals replace.
func (b Books) adopt(ctx context.Context, tx *store.Tx, counter string, doc *firestorepb.Document) (k *Book, shards Shards, err error) {
	if shards, err = b.Shards(ctx, tx, counter, time.Time{}); err != nil {
		return nil, nil, err
	}
	k = &Book{Counter: counter, Ledger: ledger.New(shards.States()), Doc: doc, books: b, state: made}
	k.Ledger.Limits = LimitsIn(shards)
	if n := k.Ledger.Numbers(); n > ledger.MaxNumbers {
		return nil, nil, fmt.Errorf("%w: the counter has %d shards, and %d numbers in them", ErrLedgerFull, len(shards), n)
	}
	for _, field := range b.db.Layout.Fields {
		k.takeOver(field, b.db.Layout.Hosted)
	}
	return k, shards, nil
}

// Keep makes a ledger for a counter that has none, and whose document is there, with the totals that
// are made of the document. Errors: those of totals, [ErrNotFound], those of [store.DB.Transact].
func (b Books) Keep(ctx context.Context, counter string, totals func(ctx context.Context, tx *store.Tx, doc map[string]*firestorepb.Value) (map[string]int64, error)) error {
	return b.db.Transact(ctx, func(ctx context.Context, tx *store.Tx) error {
		docs, _, err := tx.Get(ctx, b.db.Layout.LedgerOf(counter), b.db.Layout.Counter(counter))
		switch {
		case err != nil:
			return err
		case docs[1] == nil:
			return ErrNotFound
		case docs[0] != nil:
			return nil // it is counted already, or this has run before and its answer was lost
		}
		bases, err := totals(ctx, tx, docs[1].GetFields())
		if err != nil {
			return err
		}
		k := &Book{Counter: counter, Ledger: ledger.New(nil), Doc: docs[1], books: b, state: made}
		for field, base := range bases {
			k.SetBase(field, base)
		}
		for _, field := range b.db.Layout.Fields {
			ledger.Put(&k.Ledger.Replaced, field.Name, 0) // the totals have it
		}
		return k.WriteTo(tx)
	})
}

// Rebuild replaces a ledger that is an [ErrDamaged] by a new one, of the shards and of these answers.
// It keeps what it can read of the base, of imports, and of what was counted of fields that are no
// integers, unless the ledger is an [ErrOthers]. A dry run writes nothing. The ledger is nil if there is none
// that can't be used. Errors: [ErrLedgerFull]; those of [store.DB.Transact].
func (b Books) Rebuild(ctx context.Context, counter string, answers map[string]ledger.Answer, dry bool) (l *ledger.Ledger, shards Shards, err error) {
	names := b.db.Layout
	err = b.db.Transact(ctx, func(ctx context.Context, tx *store.Tx) error {
		l = nil // this may run again, and the second time the ledger can be used
		docs, _, err := tx.Get(ctx, names.LedgerOf(counter), names.Counter(counter))
		if err != nil || docs[0] == nil {
			return err
		}
		_, unusable := Decode(names.Shards, docs[0])
		if unusable == nil || !errors.Is(unusable, ErrDamaged) {
			return unusable
		}
		k, found, err := b.adopt(ctx, tx, counter, docs[1])
		if err != nil {
			return err
		}
		k.state = remade
		// Shards that aren't here held nothing at a time after the shards were read.
		if _, k.At, err = tx.Get(ctx, names.LedgerOf(counter)); err != nil {
			return fmt.Errorf("read the time: %w", err)
		}
		if !errors.Is(unusable, ErrOthers) {
			k.keep(docs[0].GetFields())
			k.Ledger.States = readable(docs[0].GetFields()) // of fields that are no integers it knows more than the shards
			k.Ledger.Created, k.Ledger.Restored = docs[0].GetCreateTime().AsTime(), new(decoder).restored(docs[0])
			if err := k.Enter(found); err != nil {
				return err
			}
		}
		k.Ledger.Floor, k.Ledger.Answers = k.At, answers
		if docs[1] == nil {
			k.Ledger.Gone = k.At
		}
		if l, shards = k.Ledger, found; dry {
			return nil
		}
		return k.WriteTo(tx)
	})
	return l, shards, err
}

// readable are the entries of the old ledger that can be read.
func readable(fields map[string]*firestorepb.Value) map[string]ledger.Entry {
	entries := map[string]ledger.Entry{}
	for key, value := range fields[LedgerStates].GetMapValue().GetFields() {
		var d decoder
		entry := d.mapping(value)
		if e := (ledger.Entry{AsOf: d.time(entry[stateAsOf]), Counts: d.integers(entry[stateCounts])}); !d.damaged {
			entries[key] = e
		}
	}
	return entries
}

// keep takes over what can be read of the old ledger: base, imports, what adoption had replaced, and
// commands. If nothing of the base can be read, nothing is left of imports. If some of it can, and not all of
// base and imports, the base may hold any import.
func (k *Book) keep(fields map[string]*firestorepb.Value) {
	l := k.Ledger
	var d decoder
	had, base := d.mapping(fields[LedgerBase]), map[string]int64{}
	whole, lost := !d.damaged, d.damaged
	for field, value := range had {
		if n, ok := store.Integer(value); ok {
			base[field] = n
		} else {
			lost = true
		}
	}
	maps.Copy(l.Base, base)
	d.damaged = false
	for _, field := range k.names().Fields {
		if _, known := had[field.Shard]; known || !whole {
			ledger.Put(&l.Replaced, field.Name, 0)
		}
	}
	for name, was := range d.integers(fields[LedgerReplaced]) {
		ledger.Put(&l.Replaced, name, was)
	}
	d.damaged = false
	if imported := d.integers(fields[LedgerImported]); !lost && !d.damaged {
		l.Imported = imported
	} else if len(base) > 0 {
		l.Imported = map[string]int64{ledger.Unknown: 0}
	}
	d.damaged = false
	if ops := d.times(fields[LedgerOps]); !d.damaged { // whose answers may be lost: they are not applied again
		l.Ops = ops
	}
}
