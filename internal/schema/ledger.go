package schema

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
)

// Fields of a ledger.
const (
	LedgerShards   = "shards"
	LedgerBase     = "base"
	LedgerOps      = "ops"
	LedgerReplaced = "replaced_total"
	LedgerFlushes  = "flushes"
	LedgerDocID    = "id"
	LedgerImported = "imported"
	entryCount     = "count"
	entryAsOf      = "as_of"
	entryShard     = "shard" // its id, where that can't be the entry's name
)

// MaxOps is how many ids of commands a ledger remembers. A command asks for its own id right after a doubtful answer,
// so a few would do.
const MaxOps = 32

// LedgerDoc is the document that says what a counter's total is made of: per shard, the newest state that is counted
// in it.
type LedgerDoc struct {
	ID       string           // which the counter's document names too: see [LedgerDoc.Of]
	Shards   map[string]Entry // :: shard id → the newest state counted
	Base     int64            // what total holds beyond the shards
	Ops      []string         // ids of the last commands that were applied, oldest first
	Replaced *int64           // the total that adoption replaced, where there was one
	Flushes  int64            // how often it was rolled up: tells an instance how many others write it
	Imported map[string]int64 // :: hash of a counter of another kind → what base holds of it; a new ledger has none

	Created time.Time // the document's create_time: nothing older is counted for a shard that Shards doesn't know
	Updated time.Time // the document's update_time: every commit's precondition
}

// Entry is one shard's newest counted state.
type Entry struct {
	Count int64
	AsOf  time.Time // the shard's own update_time, in microseconds
}

// ErrLedger says that a ledger is not one of ours any more. Delete it, and the counter is adopted again.
var ErrLedger = errors.New("ledger is damaged")

// Of reports whether this is the ledger of that counter, and not of an earlier one under the same id: Firestore leaves
// everything below a document that was deleted by hand, and a snippet that makes the counter again knows of no ledger.
// Create times would not tell: what was restored from a backup has others.
func (l *LedgerDoc) Of(counter *firestorepb.Document) bool {
	return counter.GetFields()[LedgerID].GetStringValue() == l.ID
}

// Sum is what the total should be: base plus every shard's count.
func (l *LedgerDoc) Sum() int64 {
	sum := l.Base
	for _, e := range l.Shards {
		sum += e.Count
	}
	return sum
}

// Fields are all fields of the ledger, for creating it.
func (l *LedgerDoc) Fields() map[string]*firestorepb.Value {
	shards := make(map[string]*firestorepb.Value, len(l.Shards))
	for id, e := range l.Shards {
		key, value := e.field(id)
		shards[key] = value
	}
	fields := map[string]*firestorepb.Value{LedgerShards: Map(shards), LedgerBase: Int(l.Base), LedgerOps: opsValue(l.Ops), LedgerFlushes: Int(l.Flushes), LedgerDocID: String(l.ID)}
	if l.Replaced != nil {
		fields[LedgerReplaced] = Int(*l.Replaced)
	}
	return fields
}

// Data is the same as [LedgerDoc.Fields], for the high-level client, whose transactions take no protocol buffers.
func (l *LedgerDoc) Data() map[string]any {
	shards := make(map[string]any, len(l.Shards))
	for id, e := range l.Shards {
		key, hashed := entryKey(id)
		entry := map[string]any{entryCount: e.Count, entryAsOf: e.AsOf}
		if hashed {
			entry[entryShard] = id
		}
		shards[key] = entry
	}
	data := map[string]any{LedgerShards: shards, LedgerBase: l.Base, LedgerOps: append([]string{}, l.Ops...), LedgerFlushes: l.Flushes, LedgerDocID: l.ID}
	if l.Replaced != nil {
		data[LedgerReplaced] = *l.Replaced
	}
	return data
}

// EntryFields are the fields and the update mask that set just these entries and leave all others alone, so that a
// flush sends what changed and not the whole ledger.
func EntryFields(entries map[string]Entry) (fields map[string]*firestorepb.Value, mask []string) {
	shards := make(map[string]*firestorepb.Value, len(entries))
	mask = make([]string, 0, len(entries))
	for id, e := range entries {
		key, value := e.field(id)
		shards[key] = value
		mask = append(mask, FieldPath(LedgerShards, key))
	}
	return map[string]*firestorepb.Value{LedgerShards: Map(shards)}, mask
}

// OpsWith is the ops field with one more id, and without the oldest ones beyond [MaxOps].
func (l *LedgerDoc) OpsWith(id string) *firestorepb.Value {
	ops := append(l.Ops[:len(l.Ops):len(l.Ops)], id)
	return opsValue(ops[max(0, len(ops)-MaxOps):])
}

// field is the entry of a shard as a field of the ledger's map.
func (e Entry) field(id string) (key string, value *firestorepb.Value) {
	key, hashed := entryKey(id)
	fields := map[string]*firestorepb.Value{entryCount: Int(e.Count), entryAsOf: Time(e.AsOf)}
	if hashed {
		fields[entryShard] = String(id)
	}
	return key, Map(fields)
}

func opsValue(ids []string) *firestorepb.Value {
	values := make([]*firestorepb.Value, len(ids))
	for i, id := range ids {
		values[i] = String(id)
	}
	return Array(values...)
}

// DecodeLedger reads a ledger's document. A field of another type than ours is an error: somebody else wrote it, and
// guessing would make a total that nobody can explain.
func DecodeLedger(doc *firestorepb.Document) (*LedgerDoc, error) {
	base, ok := integer(doc.GetFields()[LedgerBase])
	if !ok {
		return nil, fmt.Errorf("%w: the base of %s is not an integer", ErrLedger, doc.GetName())
	}
	l := &LedgerDoc{
		ID:      doc.GetFields()[LedgerDocID].GetStringValue(),
		Base:    base,
		Flushes: doc.GetFields()[LedgerFlushes].GetIntegerValue(),
		Created: doc.GetCreateTime().AsTime(),
		Updated: doc.GetUpdateTime().AsTime(),
	}
	for _, v := range doc.GetFields()[LedgerOps].GetArrayValue().GetValues() {
		l.Ops = append(l.Ops, v.GetStringValue())
	}
	if v, ok := doc.GetFields()[LedgerReplaced].GetValueType().(*firestorepb.Value_IntegerValue); ok {
		l.Replaced = &v.IntegerValue
	}
	imported := doc.GetFields()[LedgerImported].GetMapValue().GetFields()
	l.Imported = make(map[string]int64, len(imported))
	for source, v := range imported {
		l.Imported[source] = v.GetIntegerValue()
	}
	shards := doc.GetFields()[LedgerShards].GetMapValue().GetFields()
	l.Shards = make(map[string]Entry, len(shards))
	for key, v := range shards {
		count, ok1 := v.GetMapValue().GetFields()[entryCount].GetValueType().(*firestorepb.Value_IntegerValue)
		asOf, ok2 := v.GetMapValue().GetFields()[entryAsOf].GetValueType().(*firestorepb.Value_TimestampValue)
		if !ok1 || !ok2 {
			return nil, fmt.Errorf("%w: entry %q of %s is not {count, as_of}", ErrLedger, key, doc.GetName())
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
