// Package seats says what the shards of a field with a limit hold, and what is written to them.
//
// Such a field has shards of its own, in the same collection as the counter's others. Each has a count and a share, and
// says how much of the count members have, and how much open holds. The shares add up to the limit, and no count
// exceeds its share: see package escrow. Nothing else says what the limit is.
package seats

import (
	"fmt"
	"strings"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/escrow"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// Shards asks for all shards of a field with a limit, as of a time; the zero time is now. They are found by their
// shares, which no other shard has.
func Shards(names layout.Layout, counter string, field layout.Field, at time.Time) store.Query {
	return store.Query{Collection: names.ShardsOf(counter), By: layout.FieldPath(layout.ShareOf(field.Shard)), At: at}
}

// Below asks for those shards of a field with a limit that count at most so much.
func Below(names layout.Layout, counter string, field layout.Field, most int64) store.Query {
	return store.Query{Collection: names.ShardsOf(counter), By: layout.FieldPath(field.Shard), Most: store.Int(most)}
}

// Make are the writes that make the shards of a field that has none: n, or [layout.MostApart].
func Make(names layout.Layout, counter string, field layout.Field, n int, limit int64) (writes []*firestorepb.Write) {
	for i, share := range escrow.Even(limit, min(max(n, 1), layout.MostApart)) {
		writes = append(writes, store.Create(names.Shard(counter, layout.LimitedShard(field.Shard, i)), map[string]*firestorepb.Value{
			field.Shard: store.Int(0), layout.MembersIn(field.Shard): store.Int(0), layout.HoldsIn(field.Shard): store.Int(0),
			layout.ShareOf(field.Shard): store.Int(share),
		}))
	}
	return writes
}

// BalanceOf is what a shard holds of its field. It reports false for numbers that can't be a shard's: something else
// wrote them. Such a shard has no room, and gives nothing back.
func BalanceOf(doc *firestorepb.Document, field layout.Field) (balance escrow.Balance, ok bool) {
	whole := true
	for name, n := range map[string]*int64{
		field.Shard: &balance.Count, layout.MembersIn(field.Shard): &balance.Members, layout.HoldsIn(field.Shard): &balance.Holds, layout.ShareOf(field.Shard): &balance.Share,
	} {
		value := doc.GetFields()[name]
		*n = value.GetIntegerValue()
		whole = whole && (value == nil || store.IsInteger(value))
	}
	if !whole || !balance.Valid() {
		return escrow.Balance{}, false
	}
	return balance, true
}

// Shard is what a shard holds of its field at a version of its document. It holds nothing, where something else wrote
// what can't be a shard's.
type Shard struct {
	Name    string // its resource name
	Version time.Time
	Balance escrow.Balance
}

// ShardsOf are shards as they were read.
func ShardsOf(docs []*firestorepb.Document, field layout.Field) []Shard {
	shards := make([]Shard, len(docs))
	for i, doc := range docs {
		balance, _ := BalanceOf(doc, field)
		shards[i] = Shard{doc.GetName(), doc.GetUpdateTime().AsTime(), balance}
	}
	return shards
}

// HeldOf is what shards hold of their field, one by one.
func HeldOf(shards []Shard) []escrow.Balance {
	held := make([]escrow.Balance, len(shards))
	for i, shard := range shards {
		held[i] = shard.Balance
	}
	return held
}

// Wrong says why shards of a field with a limit, one of which something else has written, hold what they can't; empty
// if they don't.
func Wrong(docs []*firestorepb.Document, field layout.Field) string {
	for _, doc := range docs {
		if _, ok := BalanceOf(doc, field); !ok {
			f := doc.GetFields()
			return fmt.Sprintf("shard %s counts %v of %q, %v of it for members and %v for holds, of a share of %v", store.IDOf(doc.GetName()), f[field.Shard], field.Shard,
				f[layout.MembersIn(field.Shard)], f[layout.HoldsIn(field.Shard)], f[layout.ShareOf(field.Shard)])
		}
	}
	return ""
}

// AddTo is the write that changes what a shard holds of its field, or, by nothing, its version alone: then nobody
// takes the counter for idle. Of a field with a limit, its result says what the shard holds then: see [After].
func AddTo(name string, condition *firestorepb.Precondition, field string, by escrow.Balance) *firestorepb.Write {
	var transforms []*firestorepb.DocumentTransform_FieldTransform
	_, limited := layout.LimitedField(store.IDOf(name))
	if limited || by != (escrow.Balance{}) {
		transforms = append(transforms, store.Increment(layout.FieldPath(field), by.Count))
	}
	if limited {
		transforms = append(transforms,
			store.Increment(layout.FieldPath(layout.MembersIn(field)), by.Members),
			store.Increment(layout.FieldPath(layout.HoldsIn(field)), by.Holds),
			store.Increment(layout.FieldPath(layout.ShareOf(field)), by.Share))
	}
	if by == (escrow.Balance{}) { // which alone would leave the version
		transforms = append(transforms, store.ServerTime(layout.ShardRequest))
	}
	return store.Update(name, condition, nil, nil, transforms...)
}

// AddTo is [AddTo] on condition of the version that is known.
func (s Shard) AddTo(field string, by escrow.Balance) *firestorepb.Write {
	return AddTo(s.Name, store.IfVersion(s.Version), field, by)
}

// After are the shards of a field with a limit that a commit has changed, as it left them; none without an answer to
// it.
func After(names layout.Layout, counter, field string, writes []*firestorepb.Write, answer *firestorepb.CommitResponse) (shards []Shard) {
	for i, result := range answer.GetWriteResults() {
		name, numbers := writes[i].GetUpdate().GetName(), result.GetTransformResults()
		id, below := strings.CutPrefix(name, names.ShardsOf(counter)+"/")
		if of, limited := layout.LimitedField(id); !below || !limited || of != field || len(numbers) < 4 {
			continue
		}
		balance := escrow.Balance{Count: numbers[0].GetIntegerValue(), Members: numbers[1].GetIntegerValue(), Holds: numbers[2].GetIntegerValue(), Share: numbers[3].GetIntegerValue()}
		if balance.Valid() {
			shards = append(shards, Shard{name, result.GetUpdateTime().AsTime(), balance})
		}
	}
	return shards
}
