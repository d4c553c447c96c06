package book

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/escrow"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// ShareFault is what is wrong with the shards of a counter in a field with a limit. This module leaves none:
// something else has written them, such as a console or the Admin SDK.
type ShareFault struct {
	Field   string // of the shards
	Limit   int64  // as the ledger has it
	Taken   int64  // in all shards
	Members int64  // the part of it that members took, as shards have it
	Base    int64  // what the total holds beyond the shards, if that is what is wrong
	Why     string
	// Mendable says that [Books.MendShares] mends it. Otherwise only the user can say what should be: Over
	// says that more is taken than the limit, and nothing else is wrong with that.
	Mendable, Over bool
}

// ShareFaults says what is wrong with all shards of a counter that has a ledger, in the fields with limits: nil where
// nothing is. A total with a limit is made of shards alone: a base beside it is wrong, too.
func ShareFaults(l *ledger.Ledger, shards Shards) (faults []ShareFault) {
	limits := l.Limits
	fields := maps.Clone(LimitsIn(shards))
	if fields == nil {
		fields = ledger.Counts{}
	}
	maps.Copy(fields, limits)
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		all, why, mendable := shared(shards, field)
		limit, has := limits[field]
		if !has {
			why, mendable = []string{"the ledger knows of no limit"}, false
		} else if all.Share != limit {
			why = append(why, fmt.Sprintf("their shares add up to %d", all.Share))
		}
		numbers := mendable
		if all.Share = limit; !all.Valid() {
			why = append(why, fmt.Sprintf("%d are taken, %d of them by members", all.Count, all.Members))
			mendable = false
		}
		if len(why) > 0 {
			faults = append(faults, ShareFault{
				Field: field, Limit: limit, Taken: all.Count, Members: all.Members, Why: strings.Join(why, ", "),
				Mendable: mendable, Over: numbers && !mendable && 0 <= all.Members && all.Members <= all.Count,
			})
		}
		if base := l.Base[field]; has && base != 0 {
			why := fmt.Sprintf("its total holds %d beyond its shards, which hold %d", base, all.Count)
			faults = append(faults, ShareFault{Field: field, Limit: limit, Taken: all.Count, Members: all.Members, Base: base, Why: why})
		}
	}
	return faults
}

// shared is what shards hold together of a field with a limit, and what is wrong with single ones. It
// reports false where one holds what can be no number.
func shared(shards Shards, field string) (all escrow.Held, why []string, numbers bool) {
	numbers = true
	var taken, members, shares []int64 // each in one sum: shard by shard it would depend on their order near the ends of int64
	for _, doc := range shards {
		id := store.IDOf(doc.GetName())
		held, whole, counts := heldIn(doc, field)
		taken, members, shares = append(taken, held.Count), append(members, held.Members), append(shares, held.Share)
		numbers = numbers && counts && (!shards.Plain() || Movable(nil, doc) == nil)
		switch {
		case !whole:
			why = append(why, fmt.Sprintf("shard %s holds what is no integer", id))
		case !layout.IsLimited(id):
			why = append(why, fmt.Sprintf("shard %s is beside the limit", id))
		case !held.Valid():
			why = append(why, fmt.Sprintf("shard %s counts %d, %d of it for members, of a share of %d", id, held.Count, held.Members, held.Share))
		case doc.GetFields()[layout.RoomOf(field)].GetBooleanValue() != (held.Room() > 0):
			why = append(why, fmt.Sprintf("shard %s counts %d of a share of %d, and its %s says otherwise", id, held.Count, held.Share, layout.RoomOf(field)))
		}
	}
	return escrow.Held{Count: ledger.Add(taken...), Members: ledger.Add(members...), Share: ledger.Add(shares...)}, why, numbers
}

// MendShares gives out anew the shares of a counter's limits, where they are not what [ShareFaults] wants
// and no more is taken than the limit. It is one transaction, and does nothing the second time.
func (b Books) MendShares(ctx context.Context, counter string) error {
	return b.db.Transact(ctx, func(ctx context.Context, tx *store.Tx) error {
		books, _, err := b.Get(ctx, tx, []string{counter})
		if err != nil {
			return err
		}
		k := books[0]
		if k.Ledger == nil || k.Doc == nil || k.Deleting() {
			return nil
		}
		all, err := tx.Documents(ctx, store.Query{Collection: b.db.Layout.ShardsOf(counter)})
		if err != nil {
			return fmt.Errorf("read shards: %w", err)
		}
		held := map[string]escrow.Held{}
		for _, f := range ShareFaults(k.Ledger, all) {
			if f.Mendable {
				held[f.Field] = escrow.Held{Count: f.Taken, Members: f.Members, Share: f.Limit}
			}
		}
		if len(held) > 0 {
			k.ShareOut(tx, all, NumShards(b.db.Layout, k.Doc), held)
			tx.Write(store.Update(k.raw.GetName(), store.Exists(true), nil, nil, store.ServerTime(LedgerUneven)))
		}
		return nil
	})
}

// ShareOut has a transaction spread evenly over shards what they hold together of fields with limits. Whoever
// calls it says in the ledger that counts go from shard to shard: see [ledger.Ledger.Uneven].
//
// A shard of a counter with a limit has another id: an increment that is on its way, and doesn't know of
// the limit, finds none. Where no shard has such an id yet, all get one, and there are at least so many.
// Otherwise, what is in one without goes to those that have one.
func (k *Book) ShareOut(tx *store.Tx, all Shards, least int, held map[string]escrow.Held) {
	names := k.names()
	shards := map[string]map[string]*firestorepb.Value{} // :: id → what is set in it
	was := map[string]*firestorepb.Document{}
	var plain Shards
	for _, doc := range all {
		if id := store.IDOf(doc.GetName()); layout.IsLimited(id) {
			shards[id], was[id] = map[string]*firestorepb.Value{}, doc
		} else {
			plain = append(plain, doc)
			tx.Write(store.Delete(doc.GetName()))
		}
	}
	first := len(shards) == 0
	rest := map[string][]int64{} // :: field without a limit → what is counted of it beside the limit
	for _, doc := range plain {
		if first {
			shards[layout.LimitedShard(store.IDOf(doc.GetName()))] = maps.Clone(doc.GetFields())
			continue
		}
		fields := maps.Clone(doc.GetFields())
		for field := range held {
			delete(fields, field)
			delete(fields, layout.MembersIn(field))
			delete(fields, layout.ShareOf(field))
		}
		for name, value := range fields {
			if n, ok := store.Integer(value); ok && n != 0 {
				rest[name] = append(rest[name], n)
			}
		}
	}
	for i := 0; i < max(least, 1) && first; i++ {
		if id := layout.LimitedShard(layout.ShardID(i)); shards[id] == nil {
			shards[id] = map[string]*firestorepb.Value{}
			for _, field := range names.Fields {
				shards[id][field.Shard] = store.Int(0)
			}
		}
	}
	ids := slices.Sorted(maps.Keys(shards))
	for field, of := range held {
		counts, members, shares := escrow.Even(of.Count, len(ids)), escrow.Even(of.Members, len(ids)), escrow.Even(of.Share, len(ids))
		for i, id := range ids {
			Hold(shards[id], field, escrow.Held{Count: counts[i], Members: members[i], Share: shares[i]})
		}
	}
	var blank []*firestorepb.DocumentTransform_FieldTransform // for a field that is a text in each of them
	for name, counts := range rest {
		// Numbers are set, not added: an increment stops at ±2⁶³, and a double stays one. What one shard has no room
		// for is the next one's.
		whole := false
		for _, id := range ids {
			if n, ok := store.Integer(was[id].GetFields()[name]); ok && len(counts) > 0 {
				parts := ledger.Parts(append(counts, n)...)
				shards[id][name], counts, whole = store.Int(parts[0]), parts[1:], true
			}
		}
		if !whole {
			blank = append(blank, store.Increment(layout.FieldPath(name), ledger.Add(counts...)))
		}
	}
	for _, id := range ids {
		if name := names.Shard(k.Counter, id); first {
			tx.Write(store.Create(name, shards[id]))
		} else {
			tx.Write(store.Update(name, store.Exists(true), shards[id], nil, blank...))
			blank = nil
		}
	}
}

// TakeShares has a transaction take the shares of a field away. Where it was the counter's last limit, shards
// get their ids back, and what something else counted in one that it made of such an id stays. The error is a
// [store.ErrNotInteger]: see [Movable]; or a sum is beyond an int64.
func (k *Book) TakeShares(tx *store.Tx, all Shards, field layout.Field, last bool) error {
	names := k.names()
	taken := []string{layout.ShareOf(field.Shard), layout.MembersIn(field.Shard), layout.RoomOf(field.Shard)}
	paths := make([]string, len(taken))
	for i, name := range taken {
		paths[i] = layout.FieldPath(name)
	}
	others := map[string]*firestorepb.Document{}
	for _, doc := range all {
		if err := Movable(names.Fields, doc); err != nil && last {
			return err
		}
		others[doc.GetName()] = doc
	}
	for _, doc := range all {
		id, limited := layout.UnlimitedShard(store.IDOf(doc.GetName()))
		if !last || !limited {
			tx.Write(store.Update(doc.GetName(), store.Exists(true), nil, paths))
			continue
		}
		fields, name := maps.Clone(doc.GetFields()), names.Shard(k.Counter, id)
		for _, name := range taken {
			delete(fields, name)
		}
		tx.Write(store.Delete(doc.GetName()))
		other := others[name]
		if other == nil {
			tx.Write(store.Create(name, fields))
			continue
		}
		sums := map[string]*firestorepb.Value{} // set, not added: as in ShareOut
		for field, value := range fields {
			if n, ok := store.Integer(value); ok {
				there, _ := store.Integer(other.GetFields()[field])
				sum := ledger.Parts(there, n)
				if sums[field] = store.Int(sum[0]); len(sum) > 1 {
					return fmt.Errorf("%w: the sum of %s in shards %s and %s is beyond ±2⁶³", store.ErrNotInteger, field, store.IDOf(doc.GetName()), id)
				}
			}
		}
		tx.Write(store.Update(name, store.Exists(true), sums, nil))
	}
	return nil
}

// Movable says, as an [store.ErrNotInteger], why what a shard holds of these fields, or of any that may be counted,
// can't be moved to another one: of a fraction it keeps what was counted before, and so it does of a text until the
// roll-up has heard of that.
func Movable(fields layout.Fields, shard *firestorepb.Document) error {
	for name, value := range shard.GetFields() {
		_, ok := store.Integer(value)
		_, number := store.Float(value)
		_, counted := fields.Sum(name)
		if !ok && (number && layout.CountsField(name) || counted) {
			return fmt.Errorf("%w: %s of shard %s is %v", store.ErrNotInteger, name, store.IDOf(shard.GetName()), value)
		}
	}
	return nil
}

// Limited are those of the shards that have the id of one with a limit.
func (s Shards) Limited() Shards {
	return slices.DeleteFunc(slices.Clone(s), func(doc *firestorepb.Document) bool { return !layout.IsLimited(store.IDOf(doc.GetName())) })
}

// Plain reports whether one of the shards has the id of one without a limit.
func (s Shards) Plain() bool {
	return slices.ContainsFunc(s, func(doc *firestorepb.Document) bool { return !layout.IsLimited(store.IDOf(doc.GetName())) })
}
