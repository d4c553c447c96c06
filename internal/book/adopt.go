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

// Adopt makes a ledger for a counter that has none, from the shards as they are, and shows it in
// the counter's document: one of Google's snippets has made the counter, or a blind trigger has
// kept its total so far. Where a snippet has made shards only, the document is made; where the
// document has no room, it shows nothing yet. It returns the ledger, which is nil where another was
// faster, and the shards. Errors:
// [ErrNothing], unless it is to be made anyway; [ErrLedgerFull]; those of [store.DB.Transact].
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
		shown := docs[1] != nil || !names.Hosted && len(found) > 0
		if !shown && len(found) == 0 && !anyway {
			return ErrNothing
		}
		l, shards = k.Ledger, found
		if k.At = now; !shown {
			l.Gone = now
		}
		return k.WriteTo(tx)
	})
	return l, shards, err
}

// adopt is the book of a counter without a ledger, with one of what its shards hold. The shards are
// read inside of the transaction that makes the ledger: one that is written in between would be newer
// than its entry and older than the ledger, and its event might come before either. Numbers of the
// counter's document, which may be nil, that the totals take the place of are kept: an import in
// place needs them.
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

// Keep makes a ledger for a counter that has none, with totals, by the fields of the shards, that are
// made of its document, which must be there. A counter that has a ledger is left as it is. Errors are
// those of totals, [ErrNotFound], and those of [store.DB.Transact].
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
		return k.WriteTo(tx)
	})
}

// Rebuild makes a ledger that is an [ErrDamaged] again, from the shards as they are and with these
// answers, and shows it in the counter's document. What can still be read of its base, and of what
// was imported, is kept, unless it is an [ErrOthers]: without it the totals are what the shards hold.
// It returns the ledger, which is nil where there is none that can't be used, and the shards. Errors:
// [ErrLedgerFull]; those of [store.DB.Transact].
func (b Books) Rebuild(ctx context.Context, counter string, answers map[string]ledger.Answer) (l *ledger.Ledger, shards Shards, err error) {
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
		// The document keeps its create time, so the floor says as of when shards that aren't here held
		// nothing: a time after they were read.
		if _, k.At, err = tx.Get(ctx, names.LedgerOf(counter)); err != nil {
			return fmt.Errorf("read the time: %w", err)
		}
		k.Ledger.Floor, k.Ledger.Answers = k.At, answers
		if docs[1] == nil {
			k.Ledger.Gone = k.At
		}
		if !errors.Is(unusable, ErrOthers) {
			k.keep(docs[0].GetFields())
		}
		l, shards = k.Ledger, found
		return k.WriteTo(tx)
	})
	return l, shards, err
}

// keep takes over what can be read of a base, of what was imported into it, of what adoption had
// replaced, and of commands that were applied: the document shows what the ledger had, but for fields that are new to it. Where the base
// can't be read, nothing was imported into what is left; where it can, and not what was imported, it may
// hold anything. Earlier formats had one base per shown field: that of total at the top, and others in
// a map of fields.
func (k *Book) keep(fields map[string]*firestorepb.Value) {
	l, shown := k.Ledger, k.names().Fields
	var d decoder
	base := d.integers(fields[LedgerBase])
	lost := d.damaged
	if lost {
		base = map[string]int64{}
		for _, field := range shown {
			value := fields["fields"].GetMapValue().GetFields()[field.Name].GetMapValue().GetFields()[LedgerBase]
			if field.Name == "total" {
				value = fields[LedgerBase]
			}
			if n, ok := store.Integer(value); ok && value != nil {
				base[field.Shard] = n
			}
		}
	}
	maps.Copy(l.Base, base)
	d.damaged = false
	replaced := d.integers(fields[LedgerReplaced])
	for _, field := range shown {
		if _, known := base[field.Shard]; !known && !lost {
			continue
		}
		delete(l.Replaced, field.Name)
		if was, ok := replaced[field.Name]; ok && !d.damaged {
			if l.Replaced == nil {
				l.Replaced = map[string]int64{}
			}
			l.Replaced[field.Name] = was
		}
	}
	d.damaged = false
	if imported := d.integers(fields[LedgerImported]); !d.damaged && (!lost || len(base) > 0) {
		l.Imported = imported
	} else if len(base) > 0 {
		l.Imported = map[string]int64{ledger.Unknown: 0}
	}
	d.damaged = false
	if ops := d.times(fields[LedgerOps]); !d.damaged { // whose answers may be lost: they are not applied again
		l.Ops = ops
	}
}
