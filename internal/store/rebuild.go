package store

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/ledger"
)

// Rebuild makes a ledger that is an [ErrDamaged] again, from the shards as they are and with these
// answers, and shows it in the counter's document. What can still be read of its base, and of what
// was imported, is kept, unless it is an [ErrOthers]: without it the totals are what the shards hold.
// It returns the ledger, which is nil where there is none that can't be used, and the shards. Errors:
// [ErrLedgerFull]; those of [DB.Transact].
func (db *DB) Rebuild(ctx context.Context, counter string, answers map[string]ledger.Answer) (l *ledger.Ledger, shards []*firestorepb.Document, err error) {
	err = db.Transact(ctx, func(ctx context.Context, tx *Tx) error {
		l = nil // this may run again, and the second time the ledger can be used
		docs, _, err := tx.Get(ctx, db.LedgerOf(counter), db.Counter(counter))
		if err != nil || docs[0] == nil {
			return err
		}
		_, unusable := DecodeLedger(db.Shards, docs[0])
		if unusable == nil || !errors.Is(unusable, ErrDamaged) {
			return unusable
		}
		made, found, err := tx.Adopt(ctx, counter, docs[1])
		if err != nil {
			return err
		}
		// The document keeps its create time, so the floor says as of when shards that aren't here held
		// nothing: a time after they were read.
		_, now, err := tx.Get(ctx, db.LedgerOf(counter))
		if err != nil {
			return fmt.Errorf("read the time: %w", err)
		}
		made.Floor, made.Answers = now, answers
		if docs[1] == nil {
			made.Gone = now
		}
		if !errors.Is(unusable, ErrOthers) {
			db.keep(made, docs[0].GetFields())
		}
		fields := LedgerFields(made)
		diff, _ := LedgerDiff(ledger.Diff{Answers: answers})
		maps.Copy(fields, diff)
		SetIntegers(fields, LedgerSums, db.Sums(made))
		SetIntegers(fields, LedgerImported, made.Imported)
		db.own(fields)
		tx.Write(&firestorepb.Write{ // whole: without a mask
			Operation:       &firestorepb.Write_Update{Update: &firestorepb.Document{Name: db.LedgerOf(counter), Fields: fields}},
			CurrentDocument: Exists(true),
		})
		if docs[1] != nil {
			tx.Write(db.Show(counter, Exists(true), made))
		}
		l, shards = made, found
		return nil
	})
	return l, shards, err
}

// keep takes over what can be read of a base, of what was imported into it, and of what adoption had
// replaced: the document shows what the ledger had, but for fields that are new to it. Where the base
// can't be read, nothing was imported into what is left; where it can, and not what was imported, it may
// hold anything. Earlier formats had one base per shown field:
// that of total at the top, and others in a map of fields.
func (db *DB) keep(l *ledger.Ledger, fields map[string]*firestorepb.Value) {
	var d decoder
	base := d.integers(fields[LedgerBase])
	lost := d.damaged
	if lost {
		base = map[string]int64{}
		for _, field := range db.Fields {
			value := fields["fields"].GetMapValue().GetFields()[field.Name].GetMapValue().GetFields()[LedgerBase]
			if field.Name == "total" {
				value = fields[LedgerBase]
			}
			if n, ok := Integer(value); ok && value != nil {
				base[field.Shard] = n
			}
		}
	}
	maps.Copy(l.Base, base)
	d.damaged = false
	replaced := d.integers(fields[LedgerReplaced])
	for _, field := range db.Fields {
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
}
