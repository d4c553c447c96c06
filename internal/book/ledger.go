package book

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// Fields of a ledger's document. Those that fan out are exempt from indexes:
// firestore.indexes.json.
const (
	LedgerStates   = "states"   // :: ledger.Key → {as_of, counts}
	LedgerAnswers  = "answers"  // :: layout.Field.Key → {read_time, value or double, odd}
	LedgerBase     = "base"     // :: field of the shards → integer
	LedgerReplaced = "replaced" // :: shown field → integer
	LedgerFloor    = "floor"    // where it is not the document's create time
	LedgerMade     = "made_at"  // long before the document's create time in a [ledger.Ledger.Restored] one
	LedgerGone     = "gone_at"
	LedgerEnding   = "ending"
	LedgerSums     = "sums" // :: layout.Field.Key → integer
	LedgerUneven   = "uneven_at"
	LedgerFlushes  = "flushes"
	LedgerOps      = "ops" // :: id → when it was applied
	LedgerImported = "imported"
	LedgerLimits   = layout.Limits // :: field of the shards → integer
	LedgerFormat   = "format"      // see ledgerFormat
	LedgerShards   = "shards"      // id of the collection of the shards that it holds states of

	stateAsOf, stateCounts                 = "as_of", "counts"
	answerReadTime, answerValue, answerOdd = "read_time", "value", "odd"
	// of a field that is no integer, in the place of value: a double, or null
	answerDouble = "double"
)

// restoredAfter is longer than a transaction's commit takes. If a ledger says that it was made so much
// earlier than its document, a backup was restored.
const restoredAfter = 5 * time.Minute

// LedgerBack are the paths that say that the document is missing.
var LedgerBack = []string{LedgerGone, LedgerEnding}

// ledgerFormat is the version of the fields' meaning. New fields alone don't change it. A ledger
// without a version is read as version 1 if it has no fields but those in unversioned.
const ledgerFormat = 1

// unversioned are the fields that a ledger without a version may have. If it has others, it is of an
// earlier format, and what it counted is in fields that nothing reads.
var unversioned = []string{
	LedgerStates, LedgerAnswers, LedgerBase, LedgerReplaced, LedgerFloor, LedgerGone, LedgerEnding, LedgerSums, LedgerFlushes, LedgerOps, LedgerImported,
	LedgerUneven, LedgerLimits,
}

// ErrDamaged says that a ledger can't be used: something else wrote it, or it is an [ErrFormat] or
// [ErrOthers]. counters reconcile --rebuild-ledgers makes it again. If it is deleted, the next roll-up
// does.
var ErrDamaged = errors.New("ledger is damaged")

var (
	// ErrFormat says that another revision wrote the ledger, in a format that this one can't read.
	ErrFormat error = unusable("ledger is of another format")
	// ErrOthers says that a ledger is of shards in another collection: a deployment with another SHARDS
	// counts for the same documents.
	ErrOthers error = unusable("ledger is another deployment's")
)

// unusable is an [ErrDamaged] that nothing has damaged.
type unusable string

func (e unusable) Error() string        { return string(e) }
func (e unusable) Is(target error) bool { return target == ErrDamaged }

// encode are all fields of a ledger, for making it.
func encode(l *ledger.Ledger) map[string]*firestorepb.Value {
	fields, _ := encodeDiff(ledger.Diff{States: l.States, Answers: l.Answers, Base: l.Base, Replaced: l.Replaced, Floor: l.Floor, Gone: l.Gone})
	setIntegers(fields, LedgerImported, l.Imported)
	setIntegers(fields, LedgerLimits, l.Limits)
	if len(l.Ops) > 0 {
		ops := make(map[string]*firestorepb.Value, len(l.Ops))
		for id, at := range l.Ops {
			ops[id] = store.Time(at)
		}
		fields[LedgerOps] = store.Map(ops)
	}
	fields[LedgerFlushes] = store.Int(l.Flushes)
	return fields
}

// encodeDiff are the fields that a flush sets, and the paths that it removes.
func encodeDiff(d ledger.Diff) (fields map[string]*firestorepb.Value, removed []string) {
	fields = map[string]*firestorepb.Value{}
	if len(d.States) > 0 {
		fields[LedgerStates] = states(d.States)
	}
	for _, key := range d.Removed {
		removed = append(removed, layout.FieldPath(LedgerStates, key))
	}
	if len(d.Answers) > 0 {
		answers := make(map[string]*firestorepb.Value, len(d.Answers))
		for key, a := range d.Answers {
			entry := map[string]*firestorepb.Value{answerReadTime: store.Time(a.ReadTime)}
			switch a.Value.(type) {
			case nil:
			case int64:
				entry[answerValue] = valueOf(a)
			default:
				entry[answerDouble] = valueOf(a)
			}
			if a.Odd {
				entry[answerOdd] = store.Bool(true)
			}
			answers[key] = store.Map(entry)
		}
		fields[LedgerAnswers] = store.Map(answers)
	}
	if !d.Floor.IsZero() {
		fields[LedgerFloor] = store.Time(d.Floor)
	}
	if !d.Uneven.IsZero() {
		fields[LedgerUneven] = store.Time(d.Uneven)
	} else if d.Even {
		removed = append(removed, LedgerUneven)
	}
	setIntegers(fields, LedgerBase, d.Base)
	setIntegers(fields, LedgerReplaced, d.Replaced)
	if !d.Gone.IsZero() {
		fields[LedgerGone] = store.Time(d.Gone)
	}
	if d.Back {
		removed = append(removed, LedgerBack...)
	}
	return fields, removed
}

// valueOf is what a query has said, as a Firestore value; nil where none has.
func valueOf(a ledger.Answer) *firestorepb.Value {
	switch value := a.Value.(type) {
	case int64:
		return store.Int(value)
	case float64:
		return store.Double(value)
	case ledger.None:
		return store.Null()
	}
	return nil
}

// Answer is what a query has said of a field.
func Answer(field layout.Field, said store.Aggregated) ledger.Answer {
	a := ledger.Answer{ReadTime: said.At}
	if n, ok := store.Integer(said.Value); !field.Integer() {
		a.Value = doubleOf(said.Value)
	} else if ok {
		a.Value = n
	}
	a.Odd = a.Value == nil
	return a
}

// doubleOf is a number as a double, [ledger.None] for null, and nil for anything else.
func doubleOf(v *firestorepb.Value) any {
	if _, null := v.GetValueType().(*firestorepb.Value_NullValue); null {
		return ledger.None{}
	}
	if f, ok := store.Float(v); ok {
		return f
	}
	return nil
}

func setIntegers(fields map[string]*firestorepb.Value, name string, set map[string]int64) {
	if len(set) > 0 {
		fields[name] = integers(set)
	}
}

func states(entries map[string]ledger.Entry) *firestorepb.Value {
	values := make(map[string]*firestorepb.Value, len(entries))
	for key, e := range entries {
		values[key] = store.Map(map[string]*firestorepb.Value{stateAsOf: store.Time(e.AsOf), stateCounts: integers(e.Counts)})
	}
	return store.Map(values)
}

func integers[M ~map[string]int64](counts M) *firestorepb.Value {
	values := make(map[string]*firestorepb.Value, len(counts))
	for name, n := range counts {
		values[name] = store.Int(n)
	}
	return store.Map(values)
}

// usable says why a ledger's document can't be read.
func usable(fields map[string]*firestorepb.Value, shards string) error {
	format, versioned := fields[LedgerFormat]
	of, named := fields[LedgerShards]
	switch {
	case !versioned:
		for name := range fields {
			if !slices.Contains(unversioned, name) {
				return fmt.Errorf("%w: it has no version, and a field %q of an earlier revision's", ErrFormat, name)
			}
		}
	case format.GetIntegerValue() != ledgerFormat:
		return fmt.Errorf("%w: this revision reads version %d, and it is of %v", ErrFormat, ledgerFormat, format)
	case named && of.GetStringValue() != shards:
		return fmt.Errorf("%w: it is of the shards in %q, and SHARDS is %q here", ErrOthers, of.GetStringValue(), shards)
	}
	return nil
}

// Decode reads a ledger. It is an [ErrDamaged] if a field has another type than ours: to guess might
// import a counter twice.
func Decode(shards string, doc *firestorepb.Document) (*ledger.Ledger, error) {
	var d decoder
	fields := doc.GetFields()
	if err := usable(fields, shards); err != nil {
		return nil, fmt.Errorf("%w: %s", err, doc.GetName())
	}
	l := &ledger.Ledger{
		Base:     d.integers(fields[LedgerBase]),
		Replaced: d.integers(fields[LedgerReplaced]),
		Imported: d.integers(fields[LedgerImported]),
		Sums:     d.integers(fields[LedgerSums]),
		Limits:   d.integers(fields[LedgerLimits]),
		Floor:    d.time(fields[LedgerFloor]),
		Uneven:   d.time(fields[LedgerUneven]),
		Gone:     d.time(fields[LedgerGone]),
		Ending:   fields[LedgerEnding].GetBooleanValue(),
		Flushes:  d.integer(fields[LedgerFlushes]),
		Created:  doc.GetCreateTime().AsTime(),
		Updated:  doc.GetUpdateTime().AsTime(),
	}
	l.Restored = d.restored(doc)
	if l.Floor.IsZero() || l.Restored && l.Floor.Before(l.Created) { // what came before an import is in no backup
		l.Floor = l.Created
	}
	entries := d.mapping(fields[LedgerStates])
	l.States = make(map[string]ledger.Entry, len(entries))
	for key, v := range entries {
		entry := d.mapping(v)
		d.damaged = d.damaged || entry[stateAsOf] == nil
		l.States[key] = ledger.Entry{AsOf: d.time(entry[stateAsOf]), Counts: d.integers(entry[stateCounts])}
	}
	answers := d.mapping(fields[LedgerAnswers])
	l.Answers = make(map[string]ledger.Answer, len(answers))
	for key, v := range answers {
		entry := d.mapping(v)
		d.damaged = d.damaged || entry[answerReadTime] == nil
		a := ledger.Answer{ReadTime: d.time(entry[answerReadTime]), Odd: entry[answerOdd].GetBooleanValue()}
		if double := entry[answerDouble]; double != nil {
			a.Value = doubleOf(double)
			d.damaged = d.damaged || a.Value == nil
		} else if entry[answerValue] != nil {
			a.Value = d.integer(entry[answerValue])
		}
		l.Answers[key] = a
	}
	l.Ops = d.times(fields[LedgerOps])
	if d.damaged {
		return nil, fmt.Errorf("%w: %s: one of its fields is of another type", ErrDamaged, doc.GetName())
	}
	return l, nil
}

// decoder reads values, and notes whether one has the wrong type. A missing value is the zero value.
type decoder struct{ damaged bool }

func (d *decoder) integer(v *firestorepb.Value) int64 {
	_, ok := v.GetValueType().(*firestorepb.Value_IntegerValue)
	d.damaged = d.damaged || v != nil && !ok
	return v.GetIntegerValue()
}

func (d *decoder) time(v *firestorepb.Value) time.Time {
	at, ok := v.GetValueType().(*firestorepb.Value_TimestampValue)
	d.damaged = d.damaged || v != nil && !ok
	if !ok {
		return time.Time{}
	}
	return at.TimestampValue.AsTime()
}

// restored reports whether a ledger's document is the copy of a backup.
func (d *decoder) restored(doc *firestorepb.Document) bool {
	return doc.GetCreateTime().AsTime().Sub(d.time(doc.GetFields()[LedgerMade])) > restoredAfter
}

func (d *decoder) mapping(v *firestorepb.Value) map[string]*firestorepb.Value {
	_, ok := v.GetValueType().(*firestorepb.Value_MapValue)
	d.damaged = d.damaged || v != nil && !ok
	return v.GetMapValue().GetFields()
}

func (d *decoder) integers(v *firestorepb.Value) map[string]int64 {
	fields := d.mapping(v)
	integers := make(map[string]int64, len(fields))
	for name, v := range fields {
		integers[name] = d.integer(v)
	}
	return integers
}

func (d *decoder) times(v *firestorepb.Value) map[string]time.Time {
	fields := d.mapping(v)
	times := make(map[string]time.Time, len(fields))
	for name, v := range fields {
		times[name] = d.time(v)
	}
	return times
}

// ShardState is what a shard's document holds: every integer field of it.
func ShardState(doc *firestorepb.Document) ledger.State {
	s := ledger.State{Shard: store.IDOf(doc.GetName()), AsOf: doc.GetUpdateTime().AsTime(), Made: doc.GetCreateTime().AsTime()}
	for name, v := range doc.GetFields() {
		n, kind := kindOf(v)
		if _, limited := doc.GetFields()[layout.ShareOf(name)]; limited && kind == ledger.Blank {
			continue // its total is made of shards alone, also where the limit is removed before this is counted
		}
		s.Set(name, n, kind)
	}
	return s
}

// kindOf is what a field of a shard holds.
func kindOf(v *firestorepb.Value) (n int64, kind ledger.Kind) {
	if n, ok := store.Integer(v); ok {
		return n, ledger.Integer
	}
	if n, number := v.GetValueType().(*firestorepb.Value_DoubleValue); number && math.Abs(n.DoubleValue) < 1<<63 { // nor NaN
		return 0, ledger.Odd
	}
	return 0, ledger.Blank
}
