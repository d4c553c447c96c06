package book

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// Update commits a counter's book as change leaves it, on condition that its ledger is as it was read.
// change may be called several times, and returns nil if there is nothing to do. It must recognize its
// own work, by a difference that is gone: the answer to an earlier commit may be lost. If the document
// has no room, the ledger is written alone, and counts.
//
// Update returns the book that was committed, or nil. Errors are change's and those of
// [store.DB.CommitIf].
func (b Books) Update(ctx context.Context, p store.Patience, change func(context.Context) (*Book, error)) (*Book, error) {
	p.Smaller = ledgerAlone
	return b.update(ctx, p, change)
}

func (b Books) update(ctx context.Context, p store.Patience, change func(context.Context) (*Book, error)) (*Book, error) {
	var last *Book
	resp, err := b.db.CommitIf(ctx, p, func(ctx context.Context) (writes []*firestorepb.Write, err error) {
		if last, err = change(ctx); err != nil || last == nil {
			return nil, err
		}
		return last.writes()
	})
	if err != nil || resp == nil {
		return nil, err
	}
	results := resp.GetWriteResults()
	last.Ledger.Updated = results[0].GetUpdateTime().AsTime()
	if last.flush {
		last.Ledger.Flushes++
	}
	if last.alone = len(results) == 1; !last.alone {
		last.results = results[1].GetTransformResults()
	}
	return last, nil
}

// WriteTo has a transaction that has read the book write it.
func (k *Book) WriteTo(tx *store.Tx) error {
	writes, err := k.writes()
	tx.Write(writes...)
	return err
}

// writes are those of the ledger, of the counter's document, and of others.
func (k *Book) writes() ([]*firestorepb.Write, error) {
	totals := k.Ledger.Totals(k.names().Shown()...)
	if err := k.balances(totals); err != nil {
		return nil, err
	}
	document := k.document(totals) // before the ledger's sums say that it shows them
	writes := []*firestorepb.Write{k.writeLedger()}
	if document != nil {
		writes = append(writes, document)
	}
	return append(writes, k.beside...), nil
}

// balances is an error if the document would show another total than it did plus what the changes add.
// Then something has changed the ledger without the book's methods.
func (k *Book) balances(totals map[string]int64) error {
	for _, field := range k.names().Fields {
		was, grown, is := k.Was()[field.Name], k.grown[field.Shard], totals[field.Name]
		if was+grown != is && !ends(was) && !ends(is) {
			return fmt.Errorf("the book of counter %q doesn't balance, and isn't written: %s was %d, grows by %d, and would be %d", k.Counter, field.Name, was, grown, is)
		}
	}
	return nil
}

// ends reports whether a total may have been cut at the end of an int64.
func ends(n int64) bool { return n == math.MaxInt64 || n == math.MinInt64 }

// writeLedger is the write of the ledger, which then says what is shown.
func (k *Book) writeLedger() *firestorepb.Write {
	l, name := k.Ledger, k.names().LedgerOf(k.Counter)
	l.Apply(ledger.Diff{Gone: k.diff.Gone, Back: k.diff.Back})
	var fields map[string]*firestorepb.Value
	var removed []string
	if k.state == changed {
		if k.uneven {
			k.diff.Even = false
		}
		fields, removed = encodeDiff(k.diff)
		setIntegers(fields, LedgerImported, k.imported)
		removed = append(removed, k.removed...)
	} else {
		fields = encode(l)
	}
	if k.flush {
		fields[LedgerFlushes] = store.Int(l.Flushes + 1)
	}
	sums := sums(k.names(), l)
	setIntegers(fields, LedgerSums, sums)
	for key := range l.Sums {
		if _, shown := sums[key]; !shown {
			removed = append(removed, layout.FieldPath(LedgerSums, key))
		}
	}
	l.Sums = sums
	sign(fields, k.names().Shards)
	switch k.state {
	case made:
		return store.Create(name, fields, store.ServerTime(LedgerMade))
	case remade: // whole: without a mask
		return &firestorepb.Write{
			Operation:        &firestorepb.Write_Update{Update: &firestorepb.Document{Name: name, Fields: fields}},
			UpdateTransforms: []*firestorepb.DocumentTransform_FieldTransform{store.ServerTime(LedgerMade)},
			CurrentDocument:  store.Exists(true),
		}
	}
	transforms := k.transforms
	if k.uneven {
		transforms = append(transforms, store.ServerTime(LedgerUneven))
	}
	if k.diff.Renewed {
		transforms = append(transforms, store.ServerTime(LedgerMade))
	}
	return store.Update(name, store.UpdatedAtTime(l.Updated), fields, removed, transforms...)
}

// sums are what states and answers come to in the shown fields, by their definitions. They are empty
// while the document is missing.
func sums(names layout.Layout, l *ledger.Ledger) ledger.Counts {
	if !l.Gone.IsZero() {
		return nil
	}
	sums := make(ledger.Counts, len(names.Fields)+len(names.Counted))
	for _, field := range names.Fields {
		sums[field.Key()] = l.Sum(field.Shard)
	}
	for _, field := range names.Counted {
		if n, ok := l.Total(field); ok {
			sums[field.Key()] = n
		}
	}
	return sums
}

// sign says of what format the fields are, and of whose shards.
func sign(fields map[string]*firestorepb.Value, shards string) {
	fields[LedgerFormat], fields[LedgerShards] = store.Int(ledgerFormat), store.String(shards)
}

// document is the write of the counter's document. A missing document is written only if the ledger is
// made beside it; otherwise the write is the condition that it stays away.
func (k *Book) document(totals map[string]int64) *firestorepb.Write {
	name := k.names().Counter(k.Counter)
	set := view(k.names(), k.Ledger, totals)
	transforms := k.increments(totals, set)
	condition := store.Exists(true)
	switch {
	case !k.Missing():
	case k.state == changed:
		return store.DeleteIf(name, store.Exists(false))
	case k.Ledger.Gone.IsZero():
		condition = nil
	default:
		return nil
	}
	w := store.Update(name, condition, set, nil, append(transforms, store.ServerTime(k.names().OwnPath(layout.UpdatedAt)))...)
	if limits := k.Ledger.Limits; len(limits) > 0 || k.names().Hosted && LimitsOf(k.names(), k.Doc) != nil { // it may have been made again
		showLimits(k.names(), w, limits)
	}
	return w
}

// increments are those of a flush, of fields that it then doesn't set. A field that doesn't grow is
// incremented by 0, because the commit's answer says what it holds afterwards. A flush sets fields that
// are shown for the first time, doubles, whose increments are not exact, and what grows by more than an
// increment can.
func (k *Book) increments(totals map[string]int64, set map[string]*firestorepb.Value) (transforms []*firestorepb.DocumentTransform_FieldTransform) {
	if !k.flush {
		return nil
	}
	k.Deltas = map[string]int64{}
	last := k.LastView()
	for _, field := range k.names().Shown() {
		total, integer := totals[field.Name]
		was, known := last[field.Name]
		if integer {
			k.Deltas[field.Name] = ledger.Sub(total, was)
		}
		if known && ledger.Add(was, k.Deltas[field.Name]) == total {
			k.incremented = append(k.incremented, field)
			transforms = append(transforms, store.Increment(layout.FieldPath(field.Name), k.Deltas[field.Name]))
			delete(set, field.Name)
		}
	}
	return transforms
}

// Alone reports whether only the ledger was committed, because the document has no room.
func (k *Book) Alone() bool { return k.alone }

// Seen compares the results of a flush's increments with the ledger. drift is by how much something
// else had changed the fields: of several, without signs. A field that was missing is a document that
// was made again.
func (k *Book) Seen() (agrees bool, drift int64) {
	agrees = !k.alone
	for i, result := range k.results[:min(len(k.results), len(k.incremented))] {
		field := k.incremented[i]
		total, _ := k.Ledger.Total(field)
		is, integer := result.GetValueType().(*firestorepb.Value_IntegerValue)
		if integer && is.IntegerValue == total {
			continue
		}
		agrees = false
		if n, _ := store.Integer(result); n != k.Deltas[field.Name] {
			by := ledger.Sub(n, total)
			if len(k.incremented) > 1 { // or they might cancel out
				by = max(by, ledger.Sub(0, by))
			}
			drift = ledger.Add(drift, by)
		}
	}
	return agrees, drift
}

// Mend sets the counter's document to what the ledger has, if the ledger is still as it was committed.
func (k *Book) Mend(ctx context.Context) error {
	names := k.names()
	document := store.Update(names.Counter(k.Counter), store.Exists(true), view(names, k.Ledger, k.Ledger.Totals(names.Shown()...)), nil, store.ServerTime(names.OwnPath(layout.UpdatedAt)))
	if ownsLimits(names, k.Ledger.Limits) {
		showLimits(names, document, k.Ledger.Limits)
	}
	_, err := k.books.db.Commit(ctx,
		store.Update(names.LedgerOf(k.Counter), store.UpdatedAtTime(k.Ledger.Updated), nil, nil), // it is there for its condition
		document,
	)
	return err
}

// Signed reports whether the ledger's sums are what it comes to in this revision's fields.
func (k *Book) Signed() bool { return maps.Equal(k.Ledger.Sums, sums(k.names(), k.Ledger)) }

// ledgerAlone is the write of the ledger, without its sums, which the counter's document doesn't show.
func ledgerAlone(writes []*firestorepb.Write) []*firestorepb.Write {
	delete(writes[0].GetUpdate().GetFields(), LedgerSums)
	if mask := writes[0].GetUpdateMask(); mask != nil { // or else the ledger is made
		mask.FieldPaths = slices.DeleteFunc(mask.FieldPaths, func(path string) bool { return strings.HasPrefix(path, LedgerSums+".") })
		mask.FieldPaths = append(mask.FieldPaths, LedgerSums)
	}
	return writes[:1]
}
