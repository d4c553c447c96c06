package book

import (
	"errors"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// ErrLimited says that something can't be done to a counter while one of its fields has a limit.
var ErrLimited = errors.New("a field of the counter has a limit: remove the limit first")

// Limited reports whether a field of the counter has a limit, as its ledger says. Its shards have other
// ids then: nobody makes one who has not asked this in the same transaction.
func (k *Book) Limited() bool {
	if k.Ledger != nil && len(k.Ledger.Limits) > 0 {
		return true
	}
	return len(k.raw.GetFields()[LedgerLimits].GetMapValue().GetFields()) > 0 // of one that can't be used
}

// SetLimit has a transaction say in the counter's ledger and in its document, both of which are there, that
// a field has a limit, or with nil that it has none.
func (k *Book) SetLimit(tx *store.Tx, field layout.Field, limit *int64) {
	write := func(name, entry string, transforms ...*firestorepb.DocumentTransform_FieldTransform) {
		fields, removed := map[string]*firestorepb.Value{}, []string{layout.FieldPath(layout.Limits, entry)}
		if limit != nil {
			setIntegers(fields, layout.Limits, map[string]int64{entry: *limit})
			removed = nil
		}
		tx.Write(store.Update(name, store.Exists(true), fields, removed, transforms...))
	}
	// Counts go from shard to shard: see [ledger.Ledger.Uneven].
	write(k.raw.GetName(), field.Shard, store.ServerTime(LedgerUneven))
	write(k.Doc.GetName(), field.Name)
}

// LimitsIn are the limits of fields that shards have shares of.
func LimitsIn(shards Shards) (limits ledger.Counts) {
	for _, doc := range shards {
		for name, value := range doc.GetFields() {
			field, ok := layout.SharedField(name)
			if n, integer := store.Integer(value); ok && integer {
				if limits == nil {
					limits = ledger.Counts{}
				}
				limits[field] = ledger.Add(limits[field], n)
			}
		}
	}
	return limits
}

// LimitsOf are the limits that a counter's document shows, by the names of its fields; nil where it shows
// none.
func LimitsOf(names layout.Layout, counter *firestorepb.Document) map[string]int64 {
	var limits map[string]int64
	for name, value := range Own(names, counter)[layout.Limits].GetMapValue().GetFields() {
		if n, ok := store.Integer(value); ok {
			if limits == nil {
				limits = map[string]int64{}
			}
			limits[name] = n
		}
	}
	return limits
}
