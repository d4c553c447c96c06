package book

import (
	"errors"
	"slices"
	"strings"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/escrow"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// ErrLimited says that something can't be done to a counter while one of its fields has a limit.
var ErrLimited = errors.New("a field of the counter has a limit: remove the limit first")

// Limited reports whether the ledger, or without one the document, says that a field has a limit. Then
// shards have other ids, so whoever makes a shard asks this in the same transaction. What a document of the
// app's own says may be copied from another: without a ledger, [Book.Make] makes one, and refuses.
func (k *Book) Limited() bool {
	switch {
	case k.Ledger != nil:
		return len(k.Ledger.Limits) > 0
	case k.raw != nil: // and it can't be used
		return len(k.raw.GetFields()[LedgerLimits].GetMapValue().GetFields()) > 0
	case k.names().Hosted:
		return false
	}
	return len(LimitsOf(k.names(), k.Doc)) > 0
}

// SetLimits has a transaction say in the counter's ledger and in its document, both of which are there, which
// fields of the shards have what limits, and that no other has one.
func (k *Book) SetLimits(tx *store.Tx, limits ledger.Counts) {
	fields, removed := map[string]*firestorepb.Value{}, []string(nil)
	setIntegers(fields, LedgerLimits, limits)
	for field := range k.Ledger.Limits {
		if _, has := limits[field]; !has {
			removed = append(removed, layout.FieldPath(LedgerLimits, field))
		}
	}
	// Counts go from shard to shard: see [ledger.Ledger.Uneven].
	tx.Write(store.Update(k.raw.GetName(), store.Exists(true), fields, removed, store.ServerTime(LedgerUneven)))
	document := store.Update(k.Doc.GetName(), store.Exists(true), nil, nil)
	showLimits(k.names(), document, limits)
	tx.Write(document)
}

// HeldOf is what a shard's document holds of a field with a limit, by the field's name in the shards. It
// reports false for numbers that can't be a shard's: something else wrote them.
func HeldOf(doc *firestorepb.Document, field string) (held escrow.Held, ok bool) {
	held, whole, _ := heldIn(doc, field)
	if !whole || !held.Valid() {
		return escrow.Held{}, false
	}
	return held, true
}

// heldIn is what a shard's document holds of a field with a limit. Whole says that all of it are integers,
// and counts that the count and the members are, or numbers that stand for one: a share is given out anew.
func heldIn(doc *firestorepb.Document, field string) (held escrow.Held, whole, counts bool) {
	whole, counts = true, true
	for name, n := range map[string]*int64{field: &held.Count, layout.MembersIn(field): &held.Members, layout.ShareOf(field): &held.Share} {
		value := doc.GetFields()[name]
		number, ok := store.Integer(value)
		*n = number
		whole = whole && (value == nil || store.IsInteger(value))
		counts = counts && (ok || n == &held.Share)
	}
	return held, whole, counts
}

// Hold has fields that are set in a shard say what it holds of a field with a limit.
func Hold(fields map[string]*firestorepb.Value, field string, held escrow.Held) {
	fields[field] = store.Int(held.Count)
	fields[layout.MembersIn(field)] = store.Int(held.Members)
	fields[layout.ShareOf(field)] = store.Int(held.Share)
	fields[layout.RoomOf(field)] = store.Bool(held.Room() > 0)
}

// HeldWrite is what a write changes of what a shard holds of fields with limits, and of others. [HeldWrite.Change]
// and [Hold] make all such writes, so that none leaves out [layout.RoomOf].
type HeldWrite struct {
	fields     map[string]*firestorepb.Value
	transforms []*firestorepb.DocumentTransform_FieldTransform
}

// Change has the write change what the shard holds of a field, which is known, and is the write's condition or was
// read in its transaction.
func (w *HeldWrite) Change(field string, from, to escrow.Held) {
	w.Add(field, to.Count-from.Count)
	for name, by := range map[string]int64{layout.MembersIn(field): to.Members - from.Members, layout.ShareOf(field): to.Share - from.Share} {
		if by != 0 {
			w.Add(name, by)
		}
	}
	ledger.Put(&w.fields, layout.RoomOf(field), store.Bool(to.Room() > 0))
}

// Add adds to a field without a limit.
func (w *HeldWrite) Add(field string, by int64) {
	w.transforms = append(w.transforms, store.Increment(layout.FieldPath(field), by))
}

// Update is the write to a shard of that name.
func (w *HeldWrite) Update(name string, condition *firestorepb.Precondition) *firestorepb.Write {
	slices.SortFunc(w.transforms, func(a, b *firestorepb.DocumentTransform_FieldTransform) int {
		return strings.Compare(a.GetFieldPath(), b.GetFieldPath())
	})
	return store.Update(name, condition, w.fields, nil, w.transforms...)
}

// LimitsIn are the limits of fields that shards have shares of.
func LimitsIn(shards Shards) (limits ledger.Counts) {
	for _, doc := range shards {
		for name, value := range doc.GetFields() {
			field, ok := layout.SharedField(name)
			if n, integer := store.Integer(value); ok && integer {
				ledger.Put(&limits, field, ledger.Add(limits[field], n))
			}
		}
	}
	return limits
}
