package rollup

import (
	"fmt"
	"mime"
	"slices"
	"strings"

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
func decode(names layout.Layout, contentType string, data []byte) (Change, error) {
	var event firestoredata.DocumentEventData
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return Change{}, fmt.Errorf("%w: content type %q: %w", ErrPoison, contentType, err)
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
		return Change{}, fmt.Errorf("%w: %w", ErrPoison, err)
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
		return Change{}, fmt.Errorf("%w: documents of two names, %q and %q", ErrPoison, before.GetName(), name)
	}
	c, err := named(names, name)
	if err != nil {
		return Change{}, err
	}
	if before != nil {
		// What it held doesn't matter, so it may be anything. When a deleted one was there does.
		c.Before, err = version(before, c.Shard != "")
		if err != nil && after == nil {
			return Change{}, fmt.Errorf("%w: old value: %w", ErrPoison, err)
		}
	}
	if after != nil {
		if c.After, err = version(after, c.Shard != ""); err != nil {
			return Change{}, fmt.Errorf("%w: %w", ErrPoison, err)
		}
		// One field that is not an integer keeps no other from being counted: a reconcile says what
		// is wrong with it.
		odd := func(field layout.Field) bool { return slices.Contains(c.After.Odd, field.Shard) }
		if c.Shard != "" && len(c.After.Counts) == 0 && !slices.ContainsFunc(names.Fields, func(f layout.Field) bool { return !odd(f) }) {
			return Change{}, fmt.Errorf("%w: %q has no integer in %s", ErrPoison, name, names.Fields)
		}
	}
	return c, nil
}

// named is the change of a document of which only the resource name is known.
func named(names layout.Layout, name string) (c Change, err error) {
	var ok bool
	if c.Counter, c.Shard, ok = names.ParseShard(name); ok {
		return c, nil
	}
	c.Shard = ""
	if c.Counter, c.Collection, c.Document, ok = names.ParseCounted(name); ok {
		return c, nil
	}
	return Change{}, fmt.Errorf("%w: document %q is none of %s in %s", ErrPoison, name, strings.Join(names.Patterns(), ", "), names.Database)
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
