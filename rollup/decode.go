package rollup

import (
	"cmp"
	"context"
	"fmt"
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
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// Decode reads the data of a Firestore document event (google.cloud.firestore.document.v1.*), a
// protocol buffer or JSON by its content type. A document may concern several counters, or none. Every
// error is an [ErrPoison]: the event is of another database, of no document that counts, or can't be
// read.
func (c *Client) Decode(contentType string, data []byte) ([]Change, error) {
	return decode(c.db.Layout, contentType, data)
}

// Named are the changes of a document of which only the path is known, such as counters/post-123/shards/7: a large
// event comes without its document (firebase/firebase-functions#1370). Errors are those of [Client.Decode].
func (c *Client) Named(path string) ([]Change, error) {
	return named(c.db.Layout, c.db.Layout.Document(path))
}

// lookFor reads the document of such a change, for the counter that it names now. The one that it named
// before learns of it from a reconcile by name.
func (c *Client) lookFor(ctx context.Context, change Change) (Change, error) {
	name := c.db.Layout.Document(change.Document)
	for _, counted := range c.db.Layout.ParseCounted(name) {
		if counted.Documents != change.Collection {
			continue
		}
		docs, _, err := c.db.Get(ctx, name)
		if err != nil {
			return change, fmt.Errorf("read %q: %w", change.Document, err)
		}
		if docs[0] == nil {
			break
		}
		if counter, ok := store.CounterIn(c.db.Layout, docs[0], counted.References); ok {
			change.Counter = counter
			return change, nil
		}
	}
	c.log.WarnContext(ctx, logProblem, "document", change.Document, "collection", change.Collection,
		"problem", "its event came without its data, and it names no counter now: if it did, reconcile that one by name")
	return change, nil
}

// look reads the shard of such a change. A missing shard holds nothing as of the time of the read.
func (c *Client) look(ctx context.Context, change Change) (Change, error) {
	docs, at, err := c.db.Get(ctx, c.db.Layout.Shard(change.Counter, change.Shard))
	if err != nil {
		return change, fmt.Errorf("read shard %q of counter %q: %w", change.Shard, change.Counter, err)
	}
	if docs[0] == nil {
		change.AsOf, change.Gone = at, true
		return change, nil
	}
	return change.after(docs[0], false), nil
}

// decode takes names from the documents in the event, never from its headers. A document that is no
// shard may be counted for two counters: the one that it named before, from which it is gone, and the
// one that it names now.
func decode(names layout.Layout, contentType string, data []byte) (list []Change, err error) {
	before, after, err := documents(contentType, data)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPoison, err)
	}
	doc := cmp.Or(after, before)
	if before != nil && before.GetName() != doc.GetName() {
		return nil, fmt.Errorf("%w: documents of two names, %q and %q", ErrPoison, before.GetName(), doc.GetName())
	}
	changes, err := named(names, doc.GetName())
	if err != nil {
		return nil, err
	}
	if err := doc.GetUpdateTime().CheckValid(); err != nil {
		return nil, fmt.Errorf("%w: update time of %q: %w", ErrPoison, doc.GetName(), err)
	}
	for _, c := range changes {
		c = c.after(doc, after == nil).since(before)
		if c.Counter != "" {
			if c.Shard != "" && !c.Gone && !countable(names, doc, before, c.Odd) && !tells(c.state()) {
				return nil, fmt.Errorf("%w: %q has no integer in %s", ErrPoison, doc.GetName(), names.Fields)
			}
			list = append(list, c)
			continue
		}
		references := names.CountedIn(c.Collection)[0].Counted.References()
		left, was := store.CounterIn(names, before, references)
		at, is := store.CounterIn(names, after, references)
		if is {
			c.Counter = at
			list = append(list, c)
		}
		if was && !(is && left == at) {
			c.Counter, c.Gone = left, true
			list = append(list, c)
		}
	}
	return list, nil
}

// after is the change by the document as it is now, or was before it was deleted.
func (c Change) after(doc *firestorepb.Document, gone bool) Change {
	c.AsOf, c.Gone = doc.GetUpdateTime().AsTime(), gone
	switch {
	case gone:
		c.AsOf = c.AsOf.Add(time.Microsecond)
	case c.Shard != "":
		s := book.ShardState(doc)
		c.Made, c.Counts, c.Odd, c.Blank = s.Made, s.Counts, s.Odd, s.Blank
	}
	return c
}

// since adds what the shard held before of fields that are no integers any more: that was counted,
// whatever else has been heard of it.
func (c Change) since(before *firestorepb.Document) Change {
	if before == nil || len(c.Odd)+len(c.Blank) == 0 {
		return c
	}
	odd := book.ShardState(before).Odd
	c.WasOdd = slices.ContainsFunc(c.Blank, func(name string) bool { return slices.Contains(odd, name) })
	for _, name := range slices.Concat(c.Odd, c.Blank) {
		n, ok := store.Integer(before.GetFields()[name]) // 0 of one that is missing
		if ok {
			ledger.Put(&c.Was, name, n)
		}
	}
	return c
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
	return docs[2], docs[1], nil
}

// countable reports whether a shard has an integer, or had one, or has a shown field that is no odd number. One in
// another field counts, too, and so does a 0, and one that has left: the ledger may have more of it.
func countable(names layout.Layout, shard, before *firestorepb.Document, odd []string) bool {
	for _, doc := range []*firestorepb.Document{shard, before} {
		for name, value := range doc.GetFields() {
			if _, ok := store.Integer(value); ok && layout.CountsField(name) {
				return true
			}
		}
	}
	return slices.ContainsFunc(names.Fields, func(f layout.Field) bool { return !slices.Contains(odd, f.Shard) })
}

// named are the changes of a document by its resource name alone.
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
