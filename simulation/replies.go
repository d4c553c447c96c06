package simulation

import (
	"math/rand/v2"
	"slices"
	"strings"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/store"
)

// Replies are in a collection of their own at the root, and name in a field the counter that they
// belong to: by its id, by its document's path, or by a reference. The app moves them from one
// counter to another, and some are nobody's.
const (
	repliesAt = "replies"
	countedOn = "on"
)

// replies is the field that counts them.
func (p Plan) replies() CountedField {
	f := CountedField{Name: "replies", Collection: repliesAt, Wildcard: "counter"}
	if p.Counters == nestedCounters {
		f.Wildcard = "post"
	}
	return f
}

// refers reports whether replies are counted.
func (p Plan) refers() bool { return slices.Contains(p.Counted, p.replies()) }

func replyName(doc Doc) string { return database + "/documents/" + doc.Shard }

// isReply reports whether that is the name of a reply.
func isReply(name string) bool {
	_, path, _ := strings.Cut(name, "/documents/")
	id, is := strings.CutPrefix(path, repliesAt+"/")
	return is && !strings.Contains(id, "/")
}

// replyOf is a reply, whatever counter it names.
func replyOf(name string) Doc {
	_, path, _ := strings.Cut(name, "/documents/")
	return Doc{Kind: "counted", Shard: path}
}

// reply is a write of a reply to a counter, or its deletion.
func (w *world) reply(r *rand.Rand, doc Doc, counter string) *firestorepb.Write {
	if r.IntN(5) == 0 {
		return store.Delete(replyName(doc))
	}
	fields := map[string]*firestorepb.Value{}
	switch r.IntN(6) {
	case 0, 1:
		fields[countedOn] = store.String(counterPath(counter))
	case 2, 3:
		fields[countedOn] = &firestorepb.Value{ValueType: &firestorepb.Value_ReferenceValue{ReferenceValue: counterName(counter)}}
	case 4: // below teams an id alone is nobody's
		fields[countedOn] = store.String(called(counter))
	default:
		fields[countedOn] = store.Int(1)
	}
	return &firestorepb.Write{Operation: &firestorepb.Write_Update{Update: &firestorepb.Document{Name: replyName(doc), Fields: fields}}}
}

// namedBy is the counter that a reply names. How it does that is read here again, as names are.
func namedBy(reply *firestorepb.Document, nested bool) (id string, ok bool) {
	var path string
	switch v := reply.GetFields()[countedOn].GetValueType().(type) {
	case *firestorepb.Value_StringValue:
		path = v.StringValue
	case *firestorepb.Value_ReferenceValue:
		_, path, _ = strings.Cut(v.ReferenceValue, "/documents/")
	}
	if !strings.Contains(path, "/") {
		return path, path != "" && !nested
	}
	id, below, ok := counterOf(strings.Split(path, "/"))
	return id, ok && len(below) == 0
}

// repliesOf are the changes that a change of a reply is for counters: to the one that it named
// before, and names no longer, it was deleted.
func repliesOf(change emulator.Change, nested bool) (changes []Change) {
	whole := countedChange(change, replyOf(change.Name))
	of := func(id string, before, after *Document) {
		changes = append(changes, Change{Doc: Doc{Kind: "counted", Counter: id, Shard: whole.Doc.Shard}, Before: before, After: after})
	}
	left, had := namedBy(change.Old, nested)
	at, has := namedBy(change.New, nested)
	if had && has && left == at {
		of(at, whole.Before, whole.After)
		return changes
	}
	if had {
		of(left, whole.Before, nil)
	}
	if has {
		of(at, nil, whole.After)
	}
	return changes
}

func docsOf(changes []Change) (docs []Doc) {
	for _, ch := range changes {
		docs = append(docs, ch.Doc)
	}
	return docs
}
