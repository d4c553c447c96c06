package book

import (
	"errors"
	"fmt"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/store"
)

// Base is what a counter's totals hold beyond their sources. It is written by commands, and with the first
// answer of a field.
type Base struct {
	Counts   map[string]int64 // :: field of the shards → what its total holds beyond them; 0 of one that is shown
	Replaced map[string]int64 // :: shown field → the number that stood there before it was first shown; rarely any
	Sources  map[string]int64 // :: what counts are taken over from → what of it is in the base
	Swept    string           // how far somebody has come who tidies up below the counter, a few documents at a time
	Gone     time.Time        // when it was last noted that the counter's document is missing; zero if it is there
	Ending   time.Time        // since when the counter is being deleted, see [Book.End]; zero if it isn't
}

// Fields of the base's document. Those that are maps are exempt from indexes: firestore.indexes.json.
const (
	BaseCounts   = "base"
	BaseReplaced = "replaced"
	BaseSources  = "imported"
	baseSwept    = "swept"
	baseGone     = "gone_at"
	baseEnding   = "ending"
	baseFormat   = "format"
	baseShards   = "shards"   // id of the collection of the shards
	baseHosted   = "hosted"   // whether the document is the app's own
	baseCounters = "counters" // the path that the counter was made by
)

// formatNow is the version of the fields' meaning. New fields alone don't change it.
const formatNow = 2

// ErrDamaged says that a base can't be used: something else wrote it, or it is an [ErrFormat] or [ErrOthers].
// Delete it, and the next roll-up makes one that holds nothing beyond the shards; then rebase the counter.
var ErrDamaged = errors.New("base is damaged")

var (
	// ErrFormat says that another version wrote the base, in a format that this one can't read.
	ErrFormat error = unusable("base is of another format")
	// ErrOthers says that a counter is counted with another HOSTED, SHARDS or COUNTERS. A [SettingError]
	// says which.
	ErrOthers error = unusable("the counter is another deployment's")
)

// unusable is an [ErrDamaged] that nothing has damaged.
type unusable string

func (e unusable) Error() string        { return string(e) }
func (e unusable) Is(target error) bool { return target == ErrDamaged }

// SettingError is an [ErrOthers]: it says which setting the counter is counted with, and that it is another
// here.
type SettingError struct {
	Want string // such as HOSTED=true
	Why  string
}

func (e *SettingError) Error() string { return fmt.Sprintf("set %s: %s", e.Want, e.Why) }

// Unwrap makes it an [ErrOthers].
func (e *SettingError) Unwrap() error { return ErrOthers }

// decodeBase reads a base of shards in a collection of that id; nil is a base of nothing. Its error is an
// [ErrDamaged].
func decodeBase(shards string, doc *firestorepb.Document) (base Base, err error) {
	if doc == nil {
		return base, nil
	}
	fields := doc.GetFields()
	if format := fields[baseFormat]; format.GetIntegerValue() != formatNow {
		return base, fmt.Errorf("%w: %s: %v, and this version writes %d", ErrFormat, doc.GetName(), format.GetIntegerValue(), formatNow)
	}
	if of := fields[baseShards].GetStringValue(); of != shards {
		return base, &SettingError{"SHARDS=" + of, fmt.Sprintf("the counter's shards are there, and SHARDS is %q here", shards)}
	}
	d := decoder{}
	base = Base{
		Counts: d.integers(fields[BaseCounts]), Replaced: d.integers(fields[BaseReplaced]), Sources: d.integers(fields[BaseSources]),
		Swept: fields[baseSwept].GetStringValue(), Gone: d.time(fields[baseGone]), Ending: endingOf(doc),
	}
	if d.damaged {
		return Base{}, fmt.Errorf("%w: %s: one of its fields is of another type", ErrDamaged, doc.GetName())
	}
	return base, nil
}

// endingOf is when a base became a mark. The first commit of a deletion writes true, each further one the time of the
// first, because a server's timestamp is in milliseconds: a shard that was made in the same one, before, would stay.
func endingOf(base *firestorepb.Document) time.Time {
	if ending := base.GetFields()[baseEnding]; !ending.GetBooleanValue() {
		return timeOf(ending)
	}
	return base.GetUpdateTime().AsTime()
}

// decoder reads values, and notes whether one has the wrong type. A missing value is the zero value.
type decoder struct{ damaged bool }

func (d *decoder) time(v *firestorepb.Value) time.Time {
	_, ok := v.GetValueType().(*firestorepb.Value_TimestampValue)
	d.damaged = d.damaged || v != nil && !ok
	return timeOf(v)
}

// timeOf is a value's time; zero if it is none.
func timeOf(v *firestorepb.Value) time.Time {
	if at := v.GetTimestampValue(); at != nil {
		return at.AsTime()
	}
	return time.Time{}
}

func (d *decoder) integers(v *firestorepb.Value) map[string]int64 {
	fields, ok := v.GetValueType().(*firestorepb.Value_MapValue)
	if d.damaged = d.damaged || v != nil && !ok; !ok {
		return nil
	}
	integers := make(map[string]int64, len(fields.MapValue.GetFields()))
	for name, v := range fields.MapValue.GetFields() {
		if d.damaged = d.damaged || !store.IsInteger(v); !d.damaged {
			integers[name] = v.GetIntegerValue()
		}
	}
	return integers
}

// changes are the fields that a base's document must have set and removed, so that it holds is instead of was.
func (was Base) changes(is Base) (set map[string]*firestorepb.Value, removed []string) {
	for _, m := range []struct {
		name    string
		was, is map[string]int64
	}{{BaseCounts, was.Counts, is.Counts}, {BaseReplaced, was.Replaced, is.Replaced}, {BaseSources, was.Sources, is.Sources}} {
		entries := map[string]*firestorepb.Value{}
		for entry, n := range m.is {
			if old, has := m.was[entry]; !has || old != n {
				entries[entry] = store.Int(n)
			}
		}
		if len(entries) > 0 {
			put(&set, m.name, store.Map(entries))
		}
	}
	if is.Swept != was.Swept {
		put(&set, baseSwept, store.String(is.Swept))
	}
	if is.Gone.IsZero() && !was.Gone.IsZero() {
		removed = append(removed, baseGone)
	}
	return set, removed
}
