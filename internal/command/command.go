// Package command carries out what must not be applied twice to a counter: a reset, a
// rebase, an import.
//
// A command is one commit, on condition that the counter's ledger is still the version that was
// read. It leaves an id of the attempt in the ledger (its ops): where the commit's answer is
// lost, the id tells whether it was applied, and which attempt was. Ids go when nothing can be in
// doubt any more.
package command

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// ErrNotFound says that there is no such counter, or that it is being deleted.
var ErrNotFound = errors.New("counter not found")

// patience is how long a command goes on, about fifteen seconds, and timeout how long it is in
// doubt at most: far less than [ledger.InDoubt], after which its id may be gone.
var patience = store.Patience{Conflicts: 20, Doubts: 20}

const timeout = ledger.InDoubt / 3

// Change is what a command does.
type Change struct {
	// :: field of the shards → what its total holds beyond them from now on
	Bases map[string]int64
	// what the shards hold that the ledger did not know, which decide has entered in its copy
	Entered ledger.Diff
	// whatever these totals were: no import is to bring back the numbers that they have replaced
	Anew     bool
	Uneven   bool                 // writes take something off shards
	Imported map[string]int64     // :: source → what base holds of it from now on
	Writes   []*firestorepb.Write // of other documents
	// is called once this change is known to be the one that was applied; may be nil
	Applied func()
}

// NewID is an id of an attempt.
func NewID() string { return rand.Text() }

// Run carries out what decide makes of the ledger, which was read at a time. decide may be called
// several times; nil is nothing to do. A counter that has no ledger yet gets one. Errors are decide's, [ErrNotFound],
// [store.ErrContention], [store.ErrDoubt], [store.ErrLedgerFull] for one more source, or the client library's.
func Run(ctx context.Context, db *store.DB, counter string, decide func(ctx context.Context, l *ledger.Ledger, at time.Time) (*Change, error)) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	tried := map[string]*Change{} // by the id of the attempt
	var last *Change
	var life time.Time // of the ledger that the command is about
	_, err := db.Settle(ctx, patience, func(ctx context.Context) ([]*firestorepb.Write, error) {
		l, doc, now, err := read(ctx, db, counter)
		if err != nil {
			return nil, err
		}
		for id, ch := range tried { // also where the counter is gone, or being deleted, by now
			if _, applied := l.Ops[id]; applied {
				last = ch
				return nil, nil
			}
		}
		if doc == nil || !life.IsZero() && !l.Created.Equal(life) {
			// gone, or another was made, which a late command leaves alone
			return nil, ErrNotFound
		}
		life = l.Created
		settled := settledIn(l, now)
		if len(l.Ops)-len(settled) >= ledger.MaxOps {
			return nil, fmt.Errorf("%w: %d commands within %v", store.ErrContention, ledger.MaxOps, ledger.InDoubt)
		}
		var diff ledger.Diff
		db.Meet(l, doc, life, &diff)
		if last, err = decide(ctx, l, now); err != nil || last == nil {
			return nil, err
		}
		for source := range last.Imported {
			_, again := l.Imported[source]
			if _, lost := l.Imported[ledger.Unknown]; lost && !again {
				return nil, fmt.Errorf("%w: what was imported into this counter is not known any more, since its ledger was made again, and would count twice: import into another, and rebase this one", store.ErrDamaged)
			}
			if !again && (len(l.Imported) >= ledger.MaxImported || l.Numbers() >= ledger.MaxNumbers) {
				return nil, fmt.Errorf("%w: %d were imported into this counter, and %d can be: import the rest into another", store.ErrLedgerFull, len(l.Imported), ledger.MaxImported)
			}
		}
		id := NewID()
		tried[id] = last
		return writes(db, counter, l, diff, settled, last, id), nil
	})
	if err == nil && last != nil && last.Applied != nil {
		last.Applied()
	}
	return err
}

// read reads a counter's ledger and its document, which is nil where there is no such counter, both
// as of the time now.
func read(ctx context.Context, db *store.DB, counter string) (l *ledger.Ledger, doc *firestorepb.Document, now time.Time, err error) {
	l, doc, now, err = db.Ledger(ctx, counter, nil, func(doc *firestorepb.Document) (bool, error) {
		if doc == nil || db.Deleting(doc) {
			return false, nil
		}
		if _, _, err := db.Adopt(ctx, counter, false); err != nil && !errors.Is(err, store.ErrNothing) {
			return false, err
		}
		return true, nil // or else it is gone by now, or being deleted
	})
	if l == nil {
		l = &ledger.Ledger{}
	}
	if db.Deleting(doc) {
		doc = nil
	}
	return l, doc, now, err
}

func writes(db *store.DB, counter string, l *ledger.Ledger, diff ledger.Diff, removed []string, ch *Change, id string) []*firestorepb.Write {
	for _, field := range db.Fields {
		if _, set := ch.Bases[field.Shard]; set && ch.Anew {
			delete(diff.Replaced, field.Name)
			removed = append(removed, layout.FieldPath(store.LedgerReplaced, field.Name))
		}
	}
	diff.States, diff.Removed, diff.Floor, diff.Even = ch.Entered.States, ch.Entered.Removed, ch.Entered.Floor, ch.Entered.Even && !ch.Uneven
	if diff.Base == nil {
		diff.Base = ledger.Counts{}
	}
	maps.Copy(diff.Base, ch.Entered.Base)
	maps.Copy(diff.Base, ch.Bases)
	fields, paths := store.LedgerDiff(diff)
	store.SetIntegers(fields, store.LedgerImported, ch.Imported)
	maps.Copy(l.Base, ch.Bases)
	if diff.Back { // or its sums would not say that the document shows them
		l.Gone = time.Time{}
	}
	transforms := []*firestorepb.DocumentTransform_FieldTransform{applied(id)}
	if ch.Uneven {
		transforms = append(transforms, store.ServerTime(store.LedgerUneven))
	}
	return append([]*firestorepb.Write{
		db.UpdateLedger(counter, l, fields, append(removed, paths...), transforms...),
		db.Show(counter, store.Exists(true), l),
	}, ch.Writes...)
}

// settledIn are the paths of the ids in a ledger that nothing can be in doubt about any more at a time
// of Firestore's, to be removed.
func settledIn(l *ledger.Ledger, now time.Time) (paths []string) {
	for id, at := range l.Ops {
		if now.Sub(at) > ledger.InDoubt {
			paths = append(paths, layout.FieldPath(store.LedgerOps, id))
		}
	}
	return paths
}

// applied is the transform of a ledger that says that an attempt was applied.
func applied(id string) *firestorepb.DocumentTransform_FieldTransform {
	return store.ServerTime(layout.FieldPath(store.LedgerOps, id))
}
