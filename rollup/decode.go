package rollup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"mime"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/internal/extension"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// Change is what an event says: fields of a counter have changed.
type Change struct {
	// id of the counter; empty if the document itself names it, and did not come along
	Counter string
	// Fields are names of fields in the counter's document, sorted, at least one; of a shard of the extension's what
	// stands for that, because it may hold any of them.
	Fields []string
	// At is the time of the write; zero where nobody knows, as of a deletion, or of a document that did not come
	// along. Neither our clock nor the event's is asked.
	At time.Time
	// Gone: the document was deleted, or names another counter now. Of nothing else no counter is made.
	Gone  bool
	Delta map[string]int64 // by how much one document has changed fields of shards, by their names in the counter's

	Shard string // id of the shard; empty of another document
	// Extension is the id of a shard in which clients of Firebase's extension have counted; empty of another document.
	Extension string
	// which documents the query counts, as FIELDS has it: comments, or /comments where post=={post}; empty for a shard
	Collection string
	Document   string // id of that document; its path where it names its counter itself
}

// moves reports whether a number has changed, as far as the event says.
func (c Change) moves() bool {
	for _, by := range c.Delta {
		if by != 0 {
			return true
		}
	}
	return c.Shard == ""
}

// ofExtension begins what stands for a shard of the extension's among the names of fields. Its id follows.
const ofExtension = layout.ExtensionShards + "/"

// Decode reads the data of a Firestore document event (google.cloud.firestore.document.v1.*), a protocol buffer or JSON
// by its content type. A document may concern several counters, or none. Every error is an [ErrPoison], or an
// [ErrUnreadable].
func (c *Client) Decode(contentType string, data []byte) ([]Change, error) {
	return decode(c.db.Layout, contentType, data)
}

// Named are the changes of a document of which only the path is known: a large event comes without its document
// (firebase/firebase-functions#1370). Errors are those of [Client.Decode].
func (c *Client) Named(path string) ([]Change, error) {
	return named(c.db.Layout, c.db.Layout.Document(path))
}

// findCounter reads the document of such a change, for the counter that it names now. The one that it named
// before learns of it from a reconcile by name.
func (c *Client) findCounter(ctx context.Context, change Change) (Change, error) {
	if err := c.promiseRead(ctx); err != nil {
		return change, err
	}
	docs, _, err := c.db.Get(ctx, c.db.Layout.Document(change.Document))
	c.db.Budget.Release(oneRead)
	if err != nil {
		return change, fmt.Errorf("read %q: %w", change.Document, err)
	}
	var names bool
	if change.Counter, names = store.CounterIn(c.db.Layout, docs[0], referencesIn(c.db.Layout, change.Collection)); !names {
		c.log.WarnContext(ctx, logProblem, "document", change.Document, "collection", change.Collection,
			"problem", "its event came without its data, and it names no counter now: if it did, reconcile that one by name")
	}
	return change, nil
}

// oneRead is what a look at a document takes.
var oneRead = ceiling.Amounts{ceiling.Reads: 1}

// promiseRead promises a look its read. While there is none, one look waits, in turns with refreshes, and others are
// refused: those who wait would take the requests that an instance has at once. Errors: [ErrBusy], and ctx's.
func (c *Client) promiseRead(ctx context.Context) error {
	if c.db.Budget.Promise(oneRead) == 0 {
		return nil
	}
	select {
	case c.readTurn <- struct{}{}:
		defer func() { <-c.readTurn }()
	default:
		return ErrBusy
	}
	if !c.db.Budget.Await(ctx, oneRead) {
		return ctx.Err()
	}
	return nil
}

// referencesIn are the fields in which documents of a collection name their counter.
func referencesIn(names layout.Layout, collection string) []layout.Filter {
	return names.FieldsThatCount(collection)[0].Counted.References()
}

// decode takes names from the documents in the event, never from its headers. A document that is no shard may be
// counted for two counters: it is gone from the one that it named before.
func decode(names layout.Layout, contentType string, data []byte) (list []Change, err error) {
	before, after, err := documents(contentType, data)
	doc := cmp.Or(after, before)
	switch {
	case err != nil:
	case doc == nil:
		err = errors.New("it names no document")
	default:
		err = doc.GetUpdateTime().CheckValid()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	if before != nil && before.GetName() != doc.GetName() {
		return nil, fmt.Errorf("%w: documents of two names, %q and %q", ErrPoison, before.GetName(), doc.GetName())
	}
	changes, err := named(names, doc.GetName())
	if err != nil {
		return nil, err
	}
	for _, c := range changes {
		if c.Gone = after == nil; !c.Gone {
			c.At = doc.GetUpdateTime().AsTime()
		}
		if c.Extension != "" && !extension.Holds(names.Sharded, after) {
			continue // as after a take-over: what comes later has an event of its own
		}
		if c.Shard != "" {
			if c.Fields, c.Delta = Delta(names.Sharded, before, after); len(c.Fields) == 0 {
				continue // it changed nothing that is shown here
			}
		}
		if c.Counter != "" {
			list = append(list, c)
			continue
		}
		references := referencesIn(names, c.Collection)
		before, was := store.CounterIn(names, before, references)
		at, is := store.CounterIn(names, after, references)
		if is {
			c.Counter = at
			list = append(list, c)
		}
		if was && !(is && before == at) {
			c.Counter, c.Gone = before, true
			list = append(list, c)
		}
	}
	return list, nil
}

// Delta says which fields a change of a shard's document has changed, and by how much: after minus before, of which
// either may be nil. What is no number counts 0. It is all that is taken from an event: totals are asked for.
func Delta(fields layout.Fields, before, after *firestorepb.Document) (changed []string, delta map[string]int64) {
	for _, field := range fields {
		was, is := before.GetFields()[field.Shard], after.GetFields()[field.Shard]
		if proto.Equal(was, is) {
			continue
		}
		if delta == nil {
			delta = map[string]int64{}
		}
		now, _ := book.Whole(is)
		before, _ := book.Whole(was)
		delta[field.Name] = store.Sub(now, before)
	}
	return slices.Sorted(maps.Keys(delta)), delta
}

// documents are those before and after the change; nil if there was none, which may come as an empty
// message. On the wire they are Firestore's documents, in fields 2 and 1 of the event.
func documents(contentType string, data []byte) (before, after *firestorepb.Document, err error) {
	mediaType, _, err := mime.ParseMediaType(contentType)
	switch {
	case err != nil:
	case mediaType == "application/json":
		var event firestoredata.DocumentEventData
		if err = (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, &event); err == nil {
			data, err = proto.Marshal(&event)
		}
	case mediaType != "application/protobuf" && mediaType != "application/x-protobuf":
		err = fmt.Errorf("want application/protobuf or application/json")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("content type %q: %w", contentType, err)
	}
	docs := [3]*firestorepb.Document{{}, {}, {}} // by the number of their field
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeField(data)
		if n < 0 {
			return nil, nil, protowire.ParseError(n)
		}
		if number <= 2 && kind == protowire.BytesType {
			_, _, tag := protowire.ConsumeTag(data)
			doc, _ := protowire.ConsumeBytes(data[tag:n])
			if err := (proto.UnmarshalOptions{DiscardUnknown: true, Merge: true}).Unmarshal(doc, docs[number]); err != nil {
				return nil, nil, err
			}
		}
		data = data[n:]
	}
	for i, doc := range docs {
		if doc.GetName() == "" {
			docs[i] = nil
		}
	}
	const value, oldValue = 1, 2
	return docs[oldValue], docs[value], nil
}

// named are the changes of a document by its resource name alone.
func named(names layout.Layout, name string) (changes []Change, err error) {
	if counter, shard, ok := names.ParseShard(name); ok {
		if len(names.Sharded) == 0 {
			return nil, nil
		}
		return []Change{{Counter: counter, Shard: shard, Fields: slices.Sorted(slices.Values(names.Sharded.Names()))}}, nil
	}
	if counter, shard, ok := names.ParseExtensionShard(name); ok {
		return []Change{{Counter: counter, Extension: shard, Fields: []string{ofExtension + shard}}}, nil
	}
	for _, counted := range names.ParseCounted(name) {
		fields := slices.Sorted(slices.Values(names.FieldsThatCount(counted.Documents).Names()))
		changes = append(changes, Change{Counter: counted.Counter, Fields: fields, Collection: counted.Documents, Document: counted.Document})
	}
	if len(changes) > 0 {
		return changes, nil
	}
	return nil, fmt.Errorf("%w: document %q is none of %s in %s", ErrPoison, name, strings.Join(names.Patterns(), ", "), names.Database)
}
