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
	entryCount    = "count"
	entryAsOf     = "as_of"
	entryShard    = "shard" // its id, where that can't be the entry's name
)

// MaxOps is how many ids of commands a ledger remembers. A command asks for its own id right after a doubtful answer,
// so a few would do.
const MaxOps = 32

// ErrDamaged says that a ledger is not one of ours any more. Delete it, and the counter is adopted again.
var ErrDamaged = errors.New("ledger is damaged")

// Of reports whether a ledger's document is that of a counter's document, and not of an earlier one under the same id:
// Firestore leaves everything below a document that was deleted by hand, and a snippet that makes the counter again knows
// of no ledger. Create times would not tell: what was restored from a backup has others. It is asked before the ledger is
// decoded, so that a damaged one of an earlier counter is in no one's way. A missing document, nil, has and is none.
func Of(ledger, counter *firestorepb.Document) bool {
	return ledger != nil && counter != nil && counter.GetFields()[store.LedgerID].GetStringValue() == ledger.GetFields()[FieldID].GetStringValue()
}

// Fields are all fields of the ledger, for creating it.
func (l *Ledger) Fields() map[string]*firestorepb.Value {
	shards := make(map[string]*firestorepb.Value, len(l.Shards))
	for id, e := range l.Shards {
		key, value := e.field(id)
		shards[key] = value
	}
	fields := map[string]*firestorepb.Value{FieldShards: store.Map(shards), FieldBase: store.Int(l.Base), FieldOps: opsValue(l.Ops), FieldFlushes: store.Int(l.Flushes), FieldID: store.String(l.ID)}
	if l.Replaced != nil {
		fields[FieldReplaced] = store.Int(*l.Replaced)
	}
	return fields
}

// EntryFields are the fields and the update mask that set just these entries and leave all others alone, so that a
// flush sends what changed and not the whole ledger.
func EntryFields(entries map[string]Entry) (fields map[string]*firestorepb.Value, mask []string) {
	shards := make(map[string]*firestorepb.Value, len(entries))
	mask = make([]string, 0, len(entries))
	for id, e := range entries {
		key, value := e.field(id)
		shards[key] = value
		mask = append(mask, store.FieldPath(FieldShards, key))
	}
	return map[string]*firestorepb.Value{FieldShards: store.Map(shards)}, mask
}

// OpsWith is the ops field with one more id, and without the oldest ones beyond [MaxOps].
func (l *Ledger) OpsWith(id string) *firestorepb.Value {
	ops := append(l.Ops[:len(l.Ops):len(l.Ops)], id)
	return opsValue(ops[max(0, len(ops)-MaxOps):])
}

// field is the entry of a shard as a field of the ledger's map.
func (e Entry) field(id string) (key string, value *firestorepb.Value) {
	key, hashed := entryKey(id)
	fields := map[string]*firestorepb.Value{entryCount: store.Int(e.Count), entryAsOf: store.Time(e.AsOf)}
	if hashed {
		fields[entryShard] = store.String(id)
	}
	return key, store.Map(fields)
}

func opsValue(ids []string) *firestorepb.Value {
	values := make([]*firestorepb.Value, len(ids))
	for i, id := range ids {
		values[i] = store.String(id)
	}
	return store.Array(values...)
}

// Decode reads a ledger's document. A field of another type than ours is an error: somebody else wrote it, and
// guessing would make a total that nobody can explain.
func Decode(doc *firestorepb.Document) (*Ledger, error) {
	base, ok := integer(doc.GetFields()[FieldBase])
	if !ok {
		return nil, fmt.Errorf("%w: the base of %s is not an integer", ErrDamaged, doc.GetName())
	}
	l := &Ledger{
		ID:      doc.GetFields()[FieldID].GetStringValue(),
		Base:    base,
		Flushes: doc.GetFields()[FieldFlushes].GetIntegerValue(),
		Created: doc.GetCreateTime().AsTime(),
		Updated: doc.GetUpdateTime().AsTime(),
	}
	for _, v := range doc.GetFields()[FieldOps].GetArrayValue().GetValues() {
		l.Ops = append(l.Ops, v.GetStringValue())
	}
	if v, ok := doc.GetFields()[FieldReplaced].GetValueType().(*firestorepb.Value_IntegerValue); ok {
		l.Replaced = &v.IntegerValue
	}
	imported := doc.GetFields()[FieldImported].GetMapValue().GetFields()
	l.Imported = make(map[string]int64, len(imported))
	for source, v := range imported {
		l.Imported[source] = v.GetIntegerValue()
	}
	shards := doc.GetFields()[FieldShards].GetMapValue().GetFields()
	l.Shards = make(map[string]Entry, len(shards))
	for key, v := range shards {
		count, ok1 := v.GetMapValue().GetFields()[entryCount].GetValueType().(*firestorepb.Value_IntegerValue)
		asOf, ok2 := v.GetMapValue().GetFields()[entryAsOf].GetValueType().(*firestorepb.Value_TimestampValue)
		if !ok1 || !ok2 {
			return nil, fmt.Errorf("%w: entry %q of %s is not {count, as_of}", ErrDamaged, key, doc.GetName())
		}
		if id := v.GetMapValue().GetFields()[entryShard].GetStringValue(); id != "" {
			key = id
		}
		l.Shards[key] = Entry{Count: count.IntegerValue, AsOf: asOf.TimestampValue.AsTime()}
	}
	return l, nil
}

// longestKey is how long a shard's id may be to name its entry, in bytes: Firestore takes field paths of 1,500 bytes, and
// ids of as many.
const longestKey = 1400

// entryKey is the name of a shard's entry: its id, or where that can't be a field's name (__x__ is Firestore's own) a
// hash of it behind a slash, which no id has in it. Such an entry says whose it is.
func entryKey(id string) (key string, hashed bool) {
	if len(id) <= longestKey && !(strings.HasPrefix(id, "__") && strings.HasSuffix(id, "__")) {
		return id, false
	}
	hash := sha256.Sum256([]byte(id))
	return "/" + hex.EncodeToString(hash[:]), true
}

// integer is an integer value, and 0 where there is none.
func integer(v *firestorepb.Value) (n int64, ok bool) {
	if v == nil {
		return 0, true
	}
	i, ok := v.GetValueType().(*firestorepb.Value_IntegerValue)
	if !ok {
		return 0, false
	}
	return i.IntegerValue, true
}
