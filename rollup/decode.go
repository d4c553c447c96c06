package rollup

import (
	"fmt"
	"mime"
	"slices"
	"strings"
	"time"

	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// decode reads the data of a Firestore document event (google.cloud.firestore.document.v1.*), as
// protocol buffer or JSON by its content type. Names are taken from the documents in the event,
// never from its headers. Every error is an [ErrPoison].
//
// One document may be a shard, or be counted by several queries, for several counters: for the one
// that it named before, and the one that it names now. One that names none concerns nobody.
func decode(names layout.Layout, contentType string, data []byte) ([]Change, error) {
	var event firestoredata.DocumentEventData
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, fmt.Errorf("%w: content type %q: %w", ErrPoison, contentType, err)
	}
	switch mediaType {
	case "application/protobuf", "application/x-protobuf":
		err = proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(data, &event)
	case "application/json":
		err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(data, &event)
	default:
		err = fmt.Errorf("content type %q: want application/protobuf or application/json", contentType)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPoison, err)
	}

	before, after := event.GetOldValue(), event.GetValue()
	// An empty message stands for no document, in JSON above all.
	if before.GetName() == "" {
		before = nil
	}
	if after.GetName() == "" {
		after = nil
	}
	name := after.GetName()
	if after == nil {
		name = before.GetName()
	}
	if before != nil && after != nil && before.GetName() != name {
		return nil, fmt.Errorf("%w: documents of two names, %q and %q", ErrPoison, before.GetName(), name)
	}
	changes, err := named(names, name)
	if err != nil {
		return nil, err
	}
	if changes[0].Shard != "" {
		c, err := ofShard(names, changes[0], before, after)
		if err != nil {
			return nil, err
		}
		return []Change{c}, nil
	}
	return concerned(names, changes, before, after)
}

// ofShard is the change of a shard.
func ofShard(names layout.Layout, c Change, before, after *firestoredata.Document) (Change, error) {
	var err error
	name := names.Shard(c.Counter, c.Shard)
	if before != nil {
		// What it held doesn't matter, so it may be anything. When a deleted one was there does.
		c.Before, err = version(before, true)
		if err != nil && after == nil {
			return Change{}, fmt.Errorf("%w: old value: %w", ErrPoison, err)
		}
	}
	if after != nil {
		if c.After, err = version(after, true); err != nil {
			return Change{}, fmt.Errorf("%w: %w", ErrPoison, err)
		}
		// One field that is not an integer keeps no other from being counted: a reconcile says what
		// is wrong with it.
		odd := func(field layout.Field) bool { return slices.Contains(c.After.Odd, field.Shard) }
		if len(c.After.Counts) == 0 && !slices.ContainsFunc(names.Fields, func(f layout.Field) bool { return !odd(f) }) && !hasZero(after) {
			return Change{}, fmt.Errorf("%w: %q has no integer in %s", ErrPoison, name, names.Fields)
		}
	}
	return c, nil
}

// hasZero reports whether a shard holds a 0, which is an integer too: another revision may show it,
// and the ledger may have more of it.
func hasZero(shard *firestoredata.Document) bool {
	for name, value := range shard.GetFields() {
		if n, ok := eventInteger(value); ok && n == 0 && layout.CountsField(name) {
			return true
		}
	}
	return false
}

// concerned are the changes of a document that queries count. To the counter that it named before,
// and names no longer, it was deleted, and to the one that it names now it was created.
func concerned(names layout.Layout, changes []Change, before, after *firestoredata.Document) (list []Change, err error) {
	var old, now *Version
	if before != nil {
		if old, err = version(before, false); err != nil && after == nil {
			return nil, fmt.Errorf("%w: old value: %w", ErrPoison, err)
		}
	}
	if after != nil {
		if now, err = version(after, false); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrPoison, err)
		}
	}
	for _, c := range changes {
		if !c.nobody() {
			c.Before, c.After = old, now
			list = append(list, c)
			continue
		}
		left, gone := namedBy(names, c, before)
		at, there := namedBy(names, c, after)
		if there {
			c.Counter, c.After = at, now
			if gone && left == at {
				c.Before = old
			}
			list = append(list, c)
		}
		if gone && !(there && left == at) {
			if old == nil { // it has no time
				old = &Version{Updated: now.Updated.Add(-time.Microsecond)}
			}
			c.Counter, c.Before, c.After = left, old, nil
			list = append(list, c)
		}
	}
	return list, nil
}

// namedBy is the counter that a document in an event names.
func namedBy(names layout.Layout, c Change, doc *firestoredata.Document) (counter string, ok bool) {
	if doc == nil {
		return "", false
	}
	fields := names.CountedIn(c.Collection)
	return names.CounterOf(fields[0].Counted.References(), func(path string) (string, bool) {
		list := strings.Split(path, ".")
		fields := doc.GetFields()
		for _, name := range list[:len(list)-1] {
			fields = fields[name].GetMapValue().GetFields()
		}
		switch v := fields[list[len(list)-1]].GetValueType().(type) {
		case *firestoredata.Value_StringValue:
			return v.StringValue, true
		case *firestoredata.Value_ReferenceValue:
			return strings.CutPrefix(v.ReferenceValue, names.Document(""))
		}
		return "", false
	})
}

// named are the changes of a document of which only the resource name is known. Those of a document
// that names its counter itself have none.
func named(names layout.Layout, name string) (changes []Change, err error) {
	if counter, shard, ok := names.ParseShard(name); ok {
		return []Change{{Counter: counter, Shard: shard}}, nil
	}
	for _, counted := range names.ParseCounted(name) {
		changes = append(changes, Change{Counter: counted.Counter, Collection: counted.Documents, Document: counted.Document})
	}
	if len(changes) > 0 {
		return changes, nil
	}
	return nil, fmt.Errorf("%w: document %q is none of %s in %s", ErrPoison, name, strings.Join(names.Patterns(), ", "), names.Database)
}

// version is a document's, with the integers of a shard. Its error says that there is
// no update time.
func version(doc *firestoredata.Document, shard bool) (*Version, error) {
	if err := doc.GetUpdateTime().CheckValid(); err != nil {
		return nil, fmt.Errorf("update time of %q: %w", doc.GetName(), err)
	}
	var s ledger.State
	if shard {
		for name, value := range doc.GetFields() {
			n, ok := eventInteger(value)
			s.Set(name, n, ok)
		}
	}
	return &Version{Counts: s.Counts, Odd: s.Odd, Updated: doc.GetUpdateTime().AsTime()}, nil
}

// eventInteger is [store.Integer] of a value in an event, which has types of its own.
func eventInteger(v *firestoredata.Value) (int64, bool) {
	switch n := v.GetValueType().(type) {
	case *firestoredata.Value_IntegerValue:
		return n.IntegerValue, true
	case *firestoredata.Value_DoubleValue:
		return store.Integer(store.Double(n.DoubleValue))
	}
	return 0, false
}
