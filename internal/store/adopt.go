package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
)

// ErrLedgerFull says that a counter has more shards, with more fields, than a ledger has room for.
var ErrLedgerFull = fmt.Errorf("the ledger has no room for more than %d numbers", ledger.MaxNumbers)

// Adopt is a new ledger of what a counter's shards hold, for the transaction to write with
// [Tx.CreateLedger]. The shards are read inside of the transaction that makes the ledger: one that
// is written in between would be newer than its entry and older than the ledger, and its event
// might come before either. Numbers of the counter's document, which may be nil, that the totals
// take the place of are kept: an import in place needs them.
func (tx *Tx) Adopt(ctx context.Context, counter string, doc *firestorepb.Document) (l *ledger.Ledger, shards []*firestorepb.Document, err error) {
	if shards, err = tx.Documents(ctx, Query{Collection: tx.db.ShardsOf(counter)}); err != nil {
		return nil, nil, fmt.Errorf("read shards: %w", err)
	}
	l = ledger.New(ShardStates(shards))
	if n := l.Numbers(); n > ledger.MaxNumbers {
		return nil, nil, fmt.Errorf("%w: the counter has %d shards, and %d numbers in them", ErrLedgerFull, len(shards), n)
	}
	for _, field := range tx.db.Fields {
		tx.db.takeOver(l, field, doc, tx.db.Hosted)
	}
	return l, shards, nil
}

// Meet notes in a diff what a commit on a ledger's condition finds of the counter's document at a
// time: that it is missing, or back; and shown fields that the ledger has no base for. The numbers
// in the app's document that their totals take the place of are kept: FIELDS shows a field now that
// the extension, say, has kept so far. The ledger knows them from then on.
func (db *DB) Meet(l *ledger.Ledger, doc *firestorepb.Document, now time.Time, d *ledger.Diff) {
	switch {
	case doc == nil && l.Gone.IsZero():
		d.Gone = now
	case doc != nil:
		d.Back = !l.Gone.IsZero()
	}
	for _, field := range db.Fields {
		if _, known := l.Base[field.Shard]; known || !db.Hosted {
			continue
		}
		_, ours := l.Sums[field.Key()] // or else it is the total by chance
		db.takeOver(l, field, doc, !ours)
		if d.Base == nil {
			d.Base = ledger.Counts{}
		}
		if d.Replaced == nil {
			d.Replaced = map[string]int64{}
		}
		d.Base[field.Shard] += 0
		if was, ok := l.Replaced[field.Name]; ok {
			d.Replaced[field.Name] = was
		}
	}
}

// takeOver notes that a field is shown from now on, and what number was in its place: another than
// the total, or any, where the two may be the same by chance, 1 and 1.
func (db *DB) takeOver(l *ledger.Ledger, field layout.Field, doc *firestorepb.Document, any bool) {
	total, _ := l.Total(field)
	if db.Hosted {
		l.Base[field.Shard] += 0
	}
	value := doc.GetFields()[field.Name]
	if was, ok := Integer(value); ok && value != nil && (was != total || any && was != 0) {
		if l.Replaced == nil {
			l.Replaced = map[string]int64{}
		}
		l.Replaced[field.Name] = was
	}
}

// CreateLedger makes a ledger.
func (tx *Tx) CreateLedger(counter string, l *ledger.Ledger) {
	fields := LedgerFields(l)
	SetIntegers(fields, LedgerSums, tx.db.Sums(l))
	tx.db.own(fields)
	tx.Write(Create(tx.db.LedgerOf(counter), fields))
}

// Sums are what a ledger's states and answers come to in the fields that are shown, by their
// definitions: what is shown from another source from now on, or in another place, likes=count
// after total=count, was not there before. Nor was anything while the document is missing.
func (db *DB) Sums(l *ledger.Ledger) ledger.Counts {
	if !l.Gone.IsZero() {
		return nil
	}
	sums := make(ledger.Counts, len(db.Fields)+len(db.Counted))
	for _, field := range db.Fields {
		sums[field.Key()] = l.Sum(field.Shard)
	}
	for _, field := range db.Counted {
		if n, ok := l.Total(field); ok {
			sums[field.Key()] = n
		}
	}
	return sums
}

// UpdateLedger is the write that changes a ledger, on condition that it is as it was read. Without
// fields it changes nothing.
func (db *DB) UpdateLedger(counter string, l *ledger.Ledger, fields map[string]*firestorepb.Value, removed []string, transforms ...*firestorepb.DocumentTransform_FieldTransform) *firestorepb.Write {
	if fields != nil {
		sums := db.Sums(l)
		SetIntegers(fields, LedgerSums, sums)
		db.own(fields)
		for name := range l.Sums {
			if _, shown := sums[name]; !shown {
				removed = append(removed, layout.FieldPath(LedgerSums, name))
			}
		}
		l.Sums = sums
	}
	return Update(db.LedgerOf(counter), UpdatedAtTime(l.Updated), fields, removed, transforms...)
}

// Ledger reads a counter's ledger and its document, which may be nil, both as of the time now.
// Where there is no ledger, adopt is to make one; where that reports false, the ledger is nil. Of
// both only what is at the paths is read, where there are any.
func (db *DB) Ledger(ctx context.Context, counter string, paths []string, adopt func(doc *firestorepb.Document) (bool, error)) (*ledger.Ledger, *firestorepb.Document, time.Time, error) {
	for {
		docs, now, err := db.get(ctx, paths, db.LedgerOf(counter), db.Counter(counter))
		if err != nil {
			return nil, nil, now, fmt.Errorf("read ledger: %w", err)
		}
		if docs[0] != nil {
			l, err := DecodeLedger(db.Shards, docs[0])
			return l, docs[1], now, err
		}
		if made, err := adopt(docs[1]); err != nil || !made {
			return nil, docs[1], now, err
		}
	}
}

// ErrNothing says that there is nothing to make a ledger of.
var ErrNothing = errors.New("there is neither a document nor a shard")

// Adopt makes a ledger for a counter that has none, from the shards as they are, and shows it in
// the counter's document: one of Google's snippets has made the counter, or a blind trigger has
// kept its total so far. Where a snippet has made shards only, the document is made; where the
// document has no room, it shows nothing yet. It returns the ledger, which is nil where another was
// faster, and the shards. Errors:
// [ErrNothing], unless it is to be made anyway; [ErrLedgerFull]; those of [DB.Transact].
func (db *DB) Adopt(ctx context.Context, counter string, anyway bool) (l *ledger.Ledger, shards []*firestorepb.Document, err error) {
	err = db.transact(ctx, true, func(ctx context.Context, tx *Tx) error {
		l = nil // this may run again, and does no harm: the second time the ledger is there
		docs, now, err := tx.Get(ctx, db.LedgerOf(counter), db.Counter(counter))
		if err != nil || docs[0] != nil {
			return err
		}
		if db.Deleting(docs[1]) {
			return ErrNothing
		}
		made, found, err := tx.Adopt(ctx, counter, docs[1])
		if err != nil {
			return err
		}
		shown := docs[1] != nil || !db.Hosted && len(found) > 0
		if !shown && len(found) == 0 && !anyway {
			return ErrNothing
		}
		l, shards = made, found
		if !shown {
			l.Gone = now
		}
		if tx.CreateLedger(counter, l); !shown {
			return nil
		}
		var condition *firestorepb.Precondition
		if docs[1] != nil {
			condition = Exists(true)
		}
		tx.Write(db.Show(counter, condition, l))
		return nil
	})
	return l, shards, err
}
