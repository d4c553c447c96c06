package book

import (
	"slices"
	"strings"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/escrow"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

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
