package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
)

// Fields of a ledger. What it knows of the counted field total stands at the top, as it did when there was no other field, and
// what it knows of others in a map of maps: fields.likes.shards and so on. Neither is indexed.
const (
	FieldOps      = "ops"
	FieldFlushes  = "flushes"
	FieldID       = "id"
	FieldImported = "imported"
	FieldGone     = "gone_at" // when the app's document was first found missing

	FieldShards   = "shards"
	FieldBase     = "base"
	FieldReplaced = "replaced_total"
	FieldFloor    = "floor"       // where it is not the document's create time
	FieldField    = "shard_field" // what the field is called in shards
	FieldFields   = "fields"
	FieldCounted  = "counted" // :: layout.Field.Key → the newest value of a field that counts documents

	entryCount = "count"
	entryValue = "value"
	entryAsOf  = "as_of"
)

// PathOf is the path of a field such as [FieldBase] of one sum in the ledger, as an update mask has it.
func PathOf(sum, field string) string { return layout.FieldPath(names(sum, field)...) }

// PathsOf are the paths of all that the ledger has of one sum: a write with them in its mask, and no values, takes it away.
func PathsOf(sum string) []string {
	if sum == layout.Total {
		return []string{FieldShards, FieldBase, FieldReplaced, FieldFloor, FieldField}
	}
	return []string{layout.FieldPath(FieldFields, sum)}
}

func names(sum string, field string) []string {
	if sum == layout.Total {
		return []string{field}
	}
	return []string{FieldFields, sum, field}
}

// Get is a field of one sum among the fields of a ledger's document; nil where it is missing.
func Get(fields map[string]*firestorepb.Value, sum, field string) *firestorepb.Value {
	path := names(sum, field)
	for _, name := range path[:len(path)-1] {
		fields = fields[name].GetMapValue().GetFields()
	}
	return fields[path[len(path)-1]]
}

// Set sets a field of one sum among the fields of a ledger's document.
func Set(fields map[string]*firestorepb.Value, sum, field string, value *firestorepb.Value) {
	path := names(sum, field)
	for _, name := range path[:len(path)-1] {
		if fields[name] == nil {
			fields[name] = store.Map(map[string]*firestorepb.Value{})
		}
		fields = fields[name].GetMapValue().GetFields()
	}
	fields[path[len(path)-1]] = value
}

// maxOps is how many ids of commands a ledger remembers. A command asks for its own id right after a doubtful answer,
// so a few would do.
const maxOps = 32

// ErrDamaged says that a ledger's document is not what this package writes. Delete it, and the counter is adopted again.
var ErrDamaged = errors.New("ledger is damaged")

// Of reports whether a ledger's document is that of a counter's document, and not of an earlier one under the same id:
// Firestore leaves everything below a document that was deleted by hand, and a snippet that makes the counter again knows
// of no ledger. Create times alone would not tell: what was restored from a backup has others. It is asked before the ledger
// is decoded, so that a damaged one of an earlier counter stops nothing. A document that is missing, nil, has no other.
//
// Where the documents are the app's own, counts belong to the path: whoever sets one without merging loses what we keep in it,
// and one that is made again goes on with what is below it, until that is removed.
func Of(names layout.Layout, ledger, counter *firestorepb.Document) bool {
	if ledger == nil || counter == nil {
		return false
	}
	return names.Hosted || counter.GetFields()[layout.LedgerID].GetStringValue() == ledger.GetFields()[FieldID].GetStringValue()
}

// Fields are all fields of a new ledger, for creating it.
func (l *Ledger) Fields() map[string]*firestorepb.Value {
	fields := map[string]*firestorepb.Value{
		FieldOps:     opsValue(l.Ops),
		FieldFlushes: store.Int(l.Flushes),
		FieldID:      store.String(l.ID),
	}
	for name, sum := range l.Sums {
		Set(fields, name, FieldShards, entriesValue(sum.Shards))
		Set(fields, name, FieldBase, store.Int(sum.Base))
		if sum.Field != "" {
			Set(fields, name, FieldField, store.String(sum.Field))
		}
		if sum.Replaced != nil {
			Set(fields, name, FieldReplaced, store.Int(*sum.Replaced))
		}
	}
	return fields
}

// Fields are the fields and the update mask that change just these entries and leave all others alone, so that a flush
// sends what changed and not the whole ledger.
func (d Diff) Fields() (fields map[string]*firestorepb.Value, mask []string) {
	fields = map[string]*firestorepb.Value{}
	for name, sum := range d.Sums {
		mask = slices.Grow(mask, len(sum.Entries)+len(sum.Removed)+2)
		if len(sum.Entries) > 0 {
			Set(fields, name, FieldShards, entriesValue(sum.Entries))
		}
		shards := PathOf(name, FieldShards) + "."
		for key := range sum.Entries {
			mask = append(mask, shards+layout.FieldPath(key))
		}
		for _, key := range sum.Removed {
			mask = append(mask, shards+layout.FieldPath(key))
		}
		if !sum.Floor.IsZero() {
			Set(fields, name, FieldFloor, store.Time(sum.Floor))
			mask = append(mask, PathOf(name, FieldFloor))
		}
		if sum.New {
			Set(fields, name, FieldBase, store.Int(0))
			mask = append(mask, PathOf(name, FieldBase))
		}
	}
	return fields, mask
}

func entriesValue(entries map[string]Entry) *firestorepb.Value {
	values := make(map[string]*firestorepb.Value, len(entries))
	for key, e := range entries {
		values[key] = store.Map(map[string]*firestorepb.Value{entryCount: store.Int(e.Count), entryAsOf: store.Time(e.AsOf)})
	}
	return store.Map(values)
}

// OpsWith is the ops field with one more id, and without the oldest ones beyond [maxOps].
func (l *Ledger) OpsWith(id string) *firestorepb.Value {
	ops := append(slices.Clip(l.Ops), id)
	return opsValue(ops[max(0, len(ops)-maxOps):])
}

func opsValue(ids []string) *firestorepb.Value {
	values := make([]*firestorepb.Value, len(ids))
	for i, id := range ids {
		values[i] = store.String(id)
	}
	return store.Array(values...)
}

// Decode reads a ledger's document. A field of another type than ours is an [ErrDamaged]: something else wrote it, and
// guessing would make a total that can't be explained, or import a counter twice.
func Decode(doc *firestorepb.Document) (*Ledger, error) {
	fields := doc.GetFields()
	l := &Ledger{
		ID:       fields[FieldID].GetStringValue(),
		Sums:     map[string]*Sum{},
		Flushes:  fields[FieldFlushes].GetIntegerValue(),
		Imported: map[string]int64{},
		Created:  doc.GetCreateTime().AsTime(),
		Updated:  doc.GetUpdateTime().AsTime(),
	}
	damaged := ""
	want := func(field string, ok bool) {
		if !ok {
			damaged = field
		}
	}
	want(FieldID, is[text](fields[FieldID]))
	want(FieldFlushes, is[integer](fields[FieldFlushes]))
	want(FieldOps, is[array](fields[FieldOps]))
	want(FieldImported, is[mapping](fields[FieldImported]))
	want(FieldFields, is[mapping](fields[FieldFields]))
	if v := fields[FieldGone]; v != nil {
		want(FieldGone, is[timestamp](v))
		l.Gone = v.GetTimestampValue().AsTime()
	}
	for _, v := range fields[FieldOps].GetArrayValue().GetValues() {
		want(FieldOps, is[text](v))
		l.Ops = append(l.Ops, v.GetStringValue())
	}
	for source, v := range fields[FieldImported].GetMapValue().GetFields() {
		want(FieldImported, is[integer](v))
		l.Imported[source] = v.GetIntegerValue()
	}
	if fields[FieldShards] != nil || fields[FieldBase] != nil {
		l.Sums[layout.Total] = decodeSum(doc, fields, want)
	}
	for name, v := range fields[FieldFields].GetMapValue().GetFields() {
		want(FieldFields, is[mapping](v) && v.GetMapValue().GetFields()[FieldBase] != nil)
		l.Sums[name] = decodeSum(doc, v.GetMapValue().GetFields(), want)
	}
	l.Counted = decodeCounted(fields[FieldCounted], want)
	if damaged != "" {
		return nil, fmt.Errorf("%w: %s: field %q is of another type", ErrDamaged, doc.GetName(), damaged)
	}
	return l, nil
}

// decodeSum reads what a ledger's document has of one field. want is called with whether each field is of its type.
func decodeSum(doc *firestorepb.Document, fields map[string]*firestorepb.Value, want func(string, bool)) *Sum {
	s := &Sum{
		Base:   fields[FieldBase].GetIntegerValue(),
		Field:  fields[FieldField].GetStringValue(),
		Floor:  fields[FieldFloor].GetTimestampValue().AsTime(),
		Shards: make(map[string]Entry, len(fields[FieldShards].GetMapValue().GetFields())),
	}
	if created := doc.GetCreateTime().AsTime(); created.After(s.Floor) {
		s.Floor = created
	}
	want(FieldBase, is[integer](fields[FieldBase]))
	want(FieldField, is[text](fields[FieldField]))
	want(FieldFloor, is[timestamp](fields[FieldFloor]))
	want(FieldShards, is[mapping](fields[FieldShards]))
	if v := fields[FieldReplaced]; v != nil {
		want(FieldReplaced, is[integer](v))
		s.Replaced = new(v.GetIntegerValue())
	}
	for key, v := range fields[FieldShards].GetMapValue().GetFields() {
		entry := v.GetMapValue().GetFields()
		count, asOf := entry[entryCount], entry[entryAsOf]
		want(FieldShards, count != nil && is[integer](count) && asOf != nil && is[timestamp](asOf))
		s.Shards[key] = Entry{Count: count.GetIntegerValue(), AsOf: asOf.GetTimestampValue().AsTime()}
	}
	return s
}

type (
	integer   = *firestorepb.Value_IntegerValue
	text      = *firestorepb.Value_StringValue
	timestamp = *firestorepb.Value_TimestampValue
	array     = *firestorepb.Value_ArrayValue
	mapping   = *firestorepb.Value_MapValue
)

// is reports whether a value is of a type, or missing.
func is[T any](v *firestorepb.Value) bool {
	_, ok := v.GetValueType().(T)
	return v == nil || ok
}

// maxKey is how long a shard's id may be to name its entry, in bytes. With longer ones a ledger would be full of names.
const maxKey = 100

// Key is the name of a shard's entry in [Ledger.Shards]: the shard's id, or where that is long or can't be a field's name
// (__x__ is Firestore's own) a hash of it behind a slash, which no id has in it.
func Key(shard string) string {
	if len(shard) <= maxKey && !(strings.HasPrefix(shard, "__") && strings.HasSuffix(shard, "__")) {
		return shard
	}
	hash := sha256.Sum256([]byte(shard))
	return "/" + hex.EncodeToString(hash[:])
}
