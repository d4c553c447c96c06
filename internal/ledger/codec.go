package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/firestore-counters/counters/internal/store"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
)

// Fields of a ledger.
const (
	FieldShards   = "shards"
	FieldBase     = "base"
	FieldOps      = "ops"
	FieldReplaced = "replaced_total"
	FieldFlushes  = "flushes"
	FieldID       = "id"
	FieldImported = "imported"
	FieldFloor    = "floor" // where it is not the document's create time
	entryCount    = "count"
	entryAsOf     = "as_of"
)

// MaxOps is how many ids of commands a ledger remembers. A command asks for its own id right after a doubtful answer,
// so a few would do.
const MaxOps = 32

// ErrDamaged says that a ledger's document is not what this package writes. Delete it, and the counter is adopted again.
var ErrDamaged = errors.New("ledger is damaged")

// Of reports whether a ledger's document is that of a counter's document, and not of an earlier one under the same id:
// Firestore leaves everything below a document that was deleted by hand, and a snippet that makes the counter again knows
// of no ledger. Create times would not tell: what was restored from a backup has others. It is asked before the ledger is
// decoded, so that a damaged one of an earlier counter stops nothing. A missing document, nil, has and is none.
func Of(ledger, counter *firestorepb.Document) bool {
	return ledger != nil && counter != nil && counter.GetFields()[store.LedgerID].GetStringValue() == ledger.GetFields()[FieldID].GetStringValue()
}

// Fields are all fields of a new ledger, for creating it.
func (l *Ledger) Fields() map[string]*firestorepb.Value {
	fields, _ := Diff{Entries: l.Shards}.Fields()
	fields[FieldBase] = store.Int(l.Base)
	fields[FieldOps] = opsValue(l.Ops)
	fields[FieldFlushes] = store.Int(l.Flushes)
	fields[FieldID] = store.String(l.ID)
	if l.Replaced != nil {
		fields[FieldReplaced] = store.Int(*l.Replaced)
	}
	return fields
}

// Fields are the fields and the update mask that change just these entries and leave all others alone, so that a flush
// sends what changed and not the whole ledger.
func (d Diff) Fields() (fields map[string]*firestorepb.Value, mask []string) {
	shards := make(map[string]*firestorepb.Value, len(d.Entries))
	mask = make([]string, 0, len(d.Entries)+len(d.Removed)+1)
	for key, e := range d.Entries {
		shards[key] = store.Map(map[string]*firestorepb.Value{entryCount: store.Int(e.Count), entryAsOf: store.Time(e.AsOf)})
		mask = append(mask, store.FieldPath(FieldShards, key))
	}
	for _, key := range d.Removed {
		mask = append(mask, store.FieldPath(FieldShards, key))
	}
	fields = map[string]*firestorepb.Value{FieldShards: store.Map(shards)}
	if !d.Floor.IsZero() {
		fields[FieldFloor] = store.Time(d.Floor)
		mask = append(mask, FieldFloor)
	}
	return fields, mask
}

// OpsWith is the ops field with one more id, and without the oldest ones beyond [MaxOps].
func (l *Ledger) OpsWith(id string) *firestorepb.Value {
	ops := append(l.Ops[:len(l.Ops):len(l.Ops)], id)
	return opsValue(ops[max(0, len(ops)-MaxOps):])
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
		Base:     fields[FieldBase].GetIntegerValue(),
		Flushes:  fields[FieldFlushes].GetIntegerValue(),
		Floor:    fields[FieldFloor].GetTimestampValue().AsTime(),
		Shards:   map[string]Entry{},
		Imported: map[string]int64{},
		Updated:  doc.GetUpdateTime().AsTime(),
	}
	if created := doc.GetCreateTime().AsTime(); created.After(l.Floor) {
		l.Floor = created
	}
	damaged := ""
	want := func(field string, ok bool) {
		if !ok {
			damaged = field
		}
	}
	want(FieldID, is[text](fields[FieldID]))
	want(FieldBase, is[integer](fields[FieldBase]))
	want(FieldFlushes, is[integer](fields[FieldFlushes]))
	want(FieldFloor, is[timestamp](fields[FieldFloor]))
	want(FieldOps, is[array](fields[FieldOps]))
	want(FieldImported, is[mapping](fields[FieldImported]))
	want(FieldShards, is[mapping](fields[FieldShards]))
	if v := fields[FieldReplaced]; v != nil {
		want(FieldReplaced, is[integer](v))
		l.Replaced = new(v.GetIntegerValue())
	}
	for _, v := range fields[FieldOps].GetArrayValue().GetValues() {
		want(FieldOps, is[text](v))
		l.Ops = append(l.Ops, v.GetStringValue())
	}
	for source, v := range fields[FieldImported].GetMapValue().GetFields() {
		want(FieldImported, is[integer](v))
		l.Imported[source] = v.GetIntegerValue()
	}
	for key, v := range fields[FieldShards].GetMapValue().GetFields() {
		entry := v.GetMapValue().GetFields()
		count, asOf := entry[entryCount], entry[entryAsOf]
		want(FieldShards, count != nil && is[integer](count) && asOf != nil && is[timestamp](asOf))
		l.Shards[key] = Entry{Count: count.GetIntegerValue(), AsOf: asOf.GetTimestampValue().AsTime()}
	}
	if damaged != "" {
		return nil, fmt.Errorf("%w: %s: field %q is of another type", ErrDamaged, doc.GetName(), damaged)
	}
	return l, nil
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
