package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

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
// decoded, so that a damaged one of an earlier counter is in no one's way. A missing document, nil, has and is none.
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
// guessing would make a total that no one can explain, or import a counter twice.
func Decode(doc *firestorepb.Document) (*Ledger, error) {
	var d decoder
	fields := doc.GetFields()
	l := &Ledger{
		ID:       value(&d, FieldID, fields[FieldID], text),
		Base:     value(&d, FieldBase, fields[FieldBase], integer),
		Flushes:  value(&d, FieldFlushes, fields[FieldFlushes], integer),
		Floor:    value(&d, FieldFloor, fields[FieldFloor], timestamp),
		Shards:   map[string]Entry{},
		Imported: map[string]int64{},
		Updated:  doc.GetUpdateTime().AsTime(),
	}
	if created := doc.GetCreateTime().AsTime(); created.After(l.Floor) {
		l.Floor = created
	}
	if v := fields[FieldReplaced]; v != nil {
		replaced := value(&d, FieldReplaced, v, integer)
		l.Replaced = &replaced
	}
	for _, v := range value(&d, FieldOps, fields[FieldOps], array) {
		l.Ops = append(l.Ops, value(&d, FieldOps, v, text))
	}
	for source, v := range value(&d, FieldImported, fields[FieldImported], mapping) {
		l.Imported[source] = value(&d, FieldImported, v, integer)
	}
	for key, v := range value(&d, FieldShards, fields[FieldShards], mapping) {
		entry := value(&d, FieldShards, v, mapping)
		if entry[entryCount] == nil || entry[entryAsOf] == nil {
			d.fail(FieldShards)
		}
		l.Shards[key] = Entry{
			Count: value(&d, FieldShards, entry[entryCount], integer),
			AsOf:  value(&d, FieldShards, entry[entryAsOf], timestamp),
		}
	}
	if d.err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, doc.GetName(), d.err)
	}
	return l, nil
}

// decoder remembers the first thing that was not as it should be.
type decoder struct{ err error }

func (d *decoder) fail(field string) {
	if d.err == nil {
		d.err = fmt.Errorf("field %q is of another type", field)
	}
}

// value is a value of a field, as one of the functions below reads it, or the zero value where there is none.
func value[T any](d *decoder, field string, v *firestorepb.Value, read func(*firestorepb.Value) (T, bool)) (t T) {
	if v == nil {
		return t
	}
	t, ok := read(v)
	if !ok {
		d.fail(field)
	}
	return t
}

func integer(v *firestorepb.Value) (int64, bool) {
	_, ok := v.GetValueType().(*firestorepb.Value_IntegerValue)
	return v.GetIntegerValue(), ok
}

func text(v *firestorepb.Value) (string, bool) {
	_, ok := v.GetValueType().(*firestorepb.Value_StringValue)
	return v.GetStringValue(), ok
}

func timestamp(v *firestorepb.Value) (time.Time, bool) {
	_, ok := v.GetValueType().(*firestorepb.Value_TimestampValue)
	return v.GetTimestampValue().AsTime(), ok
}

func array(v *firestorepb.Value) ([]*firestorepb.Value, bool) {
	_, ok := v.GetValueType().(*firestorepb.Value_ArrayValue)
	return v.GetArrayValue().GetValues(), ok
}

func mapping(v *firestorepb.Value) (map[string]*firestorepb.Value, bool) {
	_, ok := v.GetValueType().(*firestorepb.Value_MapValue)
	return v.GetMapValue().GetFields(), ok
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
