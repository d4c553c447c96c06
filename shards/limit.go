package shards

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/escrow"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// maxMembersBefore is how many members a field may have when it gets a limit: they are read, to count
// them.
const maxMembersBefore = 1000

// SetLimit sets a field's limit, of 0 or more: from then on its total never exceeds the limit, and never goes
// below 0. [Counter.Add] and [Counter.Join] return [ErrLimit] if at some moment of the call there was no room, or
// less to give back. Only members give back what members took.
//
// A field can have a limit if its shards make up the whole total: not after a rebase, an import, or a creation
// with a total. All processes that count in this counter must know of limits; those of earlier revisions may
// exceed one. Other clients can't write the shards of a counter with a limit. Such a counter has at most
// [MaxLimitedShards] shards, is not resized and doesn't grow, is not reset, rebased or imported into.
//
// Errors: [ErrLimit] if more is taken, or the total is below 0; [ErrInvalidField]; [ErrInvalidLimit];
// [ErrInvalidShards]; [ErrNotInteger]; [ErrFull]; [ErrNotFound]; [ErrBusy]; [ErrUnknown]; or the client
// library's.
func (c Counter) SetLimit(ctx context.Context, field string, limit int64) error {
	return c.call("limit "+field+" of", func() error {
		if limit < 0 {
			return fmt.Errorf("%w: %d is below 0", ErrInvalidLimit, limit)
		}
		return c.setLimit(ctx, field, &limit)
	})
}

// RemoveLimit takes the limit of a field away, if it has one. Errors are those of [Counter.SetLimit].
func (c Counter) RemoveLimit(ctx context.Context, field string) error {
	return c.call("remove the limit of "+field+" of", func() error { return c.setLimit(ctx, field, nil) })
}

// errNoLedger says that a counter has no ledger yet.
var errNoLedger = errors.New("the counter has no ledger")

// setLimit is one transaction: nothing is counted between what it reads and what it writes.
func (c Counter) setLimit(ctx context.Context, name string, limit *int64) error {
	if err := c.client.db.Layout.CheckField(name); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidField, err)
	}
	field, _ := c.client.db.Layout.Field(name)
	defer func() {
		c.client.known.Remove(c.id)
		c.client.shardsOf.forget(c.id)
	}()
	body := func(ctx context.Context, tx *store.Tx, _ int) error { return c.planLimit(ctx, tx, field, limit) }
	err := c.client.once(ctx, body)
	if errors.Is(err, errNoLedger) {
		if _, _, err = c.client.books.Adopt(ctx, c.id, false); err == nil || errors.Is(err, book.ErrNothing) {
			err = c.client.once(ctx, body)
		}
	}
	if store.IsTooLarge(err) && c.client.db.Layout.Hosted {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return err
}

// planLimit writes what it takes for a field to have another limit, or none.
func (c Counter) planLimit(ctx context.Context, tx *store.Tx, field layout.Field, limit *int64) error {
	s, k, _, err := c.existing(ctx, tx)
	switch {
	case err != nil:
		return err
	case k.Unusable != nil:
		return k.Unusable
	case k.Ledger == nil:
		return errNoLedger
	}
	all, err := tx.Documents(ctx, store.Query{Collection: c.client.db.Layout.ShardsOf(c.id)})
	if err != nil {
		return fmt.Errorf("read shards: %w", err)
	}
	limits := ledger.Counts{} // that it has so far
	maps.Copy(limits, k.Ledger.Limits)
	after := maps.Clone(limits)
	maps.Copy(limits, book.LimitsIn(all))
	_, has := limits[field.Shard]
	switch {
	case limit != nil:
		after[field.Shard] = *limit
		err = c.giveLimit(ctx, tx, k, all, s.NumShards, field, *limit)
	case has:
		delete(after, field.Shard)
		err = k.TakeShares(tx, all, field, len(limits) == 1)
	}
	if err != nil {
		return err
	}
	k.SetLimits(tx, after)
	return nil
}

// mayHaveLimit says why a field of a counter that has these shards can't get a limit, or another one.
func (c Counter) mayHaveLimit(k *book.Book, all book.Shards, field layout.Field) error {
	if base := k.Ledger.Base[field.Shard]; base != 0 {
		return fmt.Errorf("%w: its total holds %d beyond its shards, of a rebase, an import or its creation; count in another counter", ErrInvalidLimit, base)
	}
	moves := all.Plain()
	for _, doc := range all {
		if value := doc.GetFields()[field.Shard]; value != nil && !store.IsInteger(value) {
			return fmt.Errorf("%w: %s of shard %s is %v", ErrNotInteger, field.Shard, store.IDOf(doc.GetName()), value)
		}
		if err := book.Movable(c.client.db.Layout.Fields, doc); moves && err != nil {
			return err
		}
	}
	return nil
}

// giveLimit gives shards shares of a field's limit. Where they have some of another one, only these change.
// Where it had none, or they are not what they should be, what is taken is spread evenly.
func (c Counter) giveLimit(ctx context.Context, tx *store.Tx, k *book.Book, all book.Shards, n int, field layout.Field, limit int64) error {
	if n := max(len(all), n); n > MaxLimitedShards {
		return fmt.Errorf("%w: it has %d, and at most %d can have a limit: resize it first", ErrInvalidShards, n, MaxLimitedShards)
	}
	if err := c.mayHaveLimit(k, all, field); err != nil {
		return err
	}
	var taken, members int64
	beyond := false // more is taken than an int64 can hold
	faults := book.ShareFaults(k.Ledger, all)
	fault := slices.IndexFunc(faults, func(f book.ShareFault) bool { return f.Field == field.Shard })
	_, has := book.LimitsIn(all)[field.Shard]
	switch {
	case has && fault < 0:
		return c.changeLimit(tx, all, field, limit)
	case has && !faults[fault].Mendable && !faults[fault].Over:
		return fmt.Errorf("%w: %s: remove the limit, and set it again", ErrInvalidLimit, faults[fault].Why)
	case has:
		taken, members = faults[fault].Taken, faults[fault].Members
	default:
		found, err := tx.Documents(ctx, store.Query{Collection: c.client.db.Layout.MembersOf(c.id, field.Name), Names: true, Limit: maxMembersBefore + 1})
		if err != nil {
			return fmt.Errorf("read members: %w", err)
		}
		if members = int64(len(found)); members > maxMembersBefore {
			return fmt.Errorf("%w: it has more than %d members, and can get one only before they join", ErrInvalidLimit, maxMembersBefore)
		}
		counts := make([]int64, len(all)) // in one sum: shard by shard it would depend on their order near the ends of int64
		for i, doc := range all {
			counts[i] = doc.GetFields()[field.Shard].GetIntegerValue()
		}
		taken, beyond = ledger.Add(counts...), len(ledger.Parts(counts...)) > 1
	}
	switch {
	case taken < members:
		return fmt.Errorf("%w: its total is %d, with %d members", ErrInvalidLimit, taken, members)
	case taken > limit, beyond:
		return &LimitError{Counter: c.id, Field: field.Name, Limit: limit, Taken: taken, Members: members}
	}
	k.ShareOut(tx, all, n, map[string]escrow.Held{field.Shard: {Count: taken, Members: members, Share: limit}})
	return nil
}

// changeLimit changes the shares of shards for another limit.
func (c Counter) changeLimit(tx *store.Tx, all book.Shards, field layout.Field, limit int64) error {
	held := make([]escrow.Held, len(all))
	for i, doc := range all {
		held[i], _ = book.HeldOf(doc, field.Shard) // of which none is wrong
	}
	shares, ok := escrow.Limit(held, limit)
	if !ok {
		sum := escrow.Sum(held...)
		return &LimitError{Counter: c.id, Field: field.Name, Limit: limit, Taken: sum.Count, Members: sum.Members}
	}
	for i, n := range shares {
		if n != 0 {
			to, w := held[i], book.HeldWrite{}
			to.Share += n
			w.Change(field.Shard, held[i], to)
			tx.Write(w.Update(all[i].GetName(), store.Exists(true)))
		}
	}
	return nil
}
