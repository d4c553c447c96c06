package book

import (
	"context"
	"errors"
	"fmt"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// ErrLimited says that something can't be done to a counter while one of its fields has a limit.
var ErrLimited = errors.New("a field of the counter has a limit: remove the limit first")

// Limited reports whether the ledger says that a field has a limit. Then shards have other ids, so whoever makes a shard
// asks [Book.CheckUnlimited] in the same transaction. What a document says may be copied from another, or the user's own.
func (k *Book) Limited() bool {
	switch {
	case k.Ledger != nil:
		return len(k.Ledger.Limits) > 0
	case k.raw != nil: // and it can't be used
		return len(k.raw.GetFields()[LedgerLimits].GetMapValue().GetFields()) > 0
	}
	return false
}

// CheckUnlimited is an [ErrLimited] if a field has a limit, in a transaction that has read the book. Without a ledger
// that can be used the ids of shards say that, too.
func (k *Book) CheckUnlimited(ctx context.Context, tx *store.Tx) error {
	switch {
	case k.Limited():
		return ErrLimited
	case k.Ledger != nil:
		return nil
	}
	names := k.names()
	first := store.Query{Collection: names.ShardsOf(k.Counter), After: names.Shard(k.Counter, layout.LimitedShard("")), Names: true, Limit: 1}
	docs, err := tx.Documents(ctx, first)
	if err != nil {
		return fmt.Errorf("read shards: %w", err)
	}
	if len(docs) > 0 && layout.IsLimited(store.IDOf(docs[0].GetName())) {
		return ErrLimited
	}
	return nil
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
