package rollup

import (
	"fmt"
	"mime"
	"strings"

	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// decode reads the data of a Firestore document event (google.cloud.firestore.document.v1.*), as protocol buffer or
// JSON by its content type. Names are taken from the documents in the event, never from its headers. Every error is an
// [ErrPoison].
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
	fields := names.Fields
	var c Change
	var ok bool
	if c.Counter, c.Shard, ok = names.ParseShard(name); !ok {
		// Of a document that is counted, only the time matters.
		if c.Counter, c.Collection, c.Document, ok = names.ParseCounted(name); !ok {
			return Change{}, fmt.Errorf("%w: document %q is none of %s in %s", ErrPoison, name, strings.Join(names.Patterns(), ", "), names.Database)
		}
		fields, c.Shard = nil, ""
	}
	if before != nil {
		// What it held doesn't matter to the ledger, so it may be anything. When a deleted one was there does.
		c.Before, err = version(before, fields)
		if err != nil && after == nil {
			return Change{}, fmt.Errorf("%w: old value: %w", ErrPoison, err)
		}
	}
	if after != nil {
		if c.After, err = version(after, fields); err != nil {
			return Change{}, fmt.Errorf("%w: %w", ErrPoison, err)
		}
		// One field that is not an integer keeps no other from being counted: a reconcile says what is wrong with it.
		if len(c.After.Counts) == 0 && len(fields) > 0 {
			return Change{}, fmt.Errorf("%w: %q has no integer in %s", ErrPoison, name, names.Fields)
		}
	}
	if c.Before != nil {
		for _, field := range fields {
			c.Before.Counts[field.Name] += 0 // there, and 0 where it was not an integer
		}
	}
	return c, nil
}

// version is a document's, with the fields that are integers. Its error says that there is no update time.
func version(doc *firestoredata.Document, fields layout.Fields) (*Version, error) {
	if err := doc.GetUpdateTime().CheckValid(); err != nil {
		return nil, fmt.Errorf("update time of %q: %w", doc.GetName(), err)
	}
	v := &Version{Counts: make(map[string]int64, len(fields)), Updated: doc.GetUpdateTime().AsTime()}
	for _, field := range fields {
		value, there := doc.GetFields()[field.Shard]
		if count, ok := eventInteger(value); ok || !there {
			v.Counts[field.Name] = count
		}
	}
	return v, nil
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
