package engine

import (
	"maps"
	"slices"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator/internal/document"
	"github.com/firestore-counters/counters/emulator/internal/query"
	"github.com/firestore-counters/counters/emulator/internal/versions"
)

// target is one thing that a listener looks at: a query, or documents by name.
type target struct {
	id     int32
	watch  *Watch
	query  *query.Query
	names  []string
	once   bool  // to be removed when its first state has been sent
	expect int   // how many documents the client thought that there were then; -1: it doesn't say
	resume int64 // the time that the client has seen everything of; 0: it knows nothing, -1: it knows what we can't say

	// Guarded by the database's lock.
	live    bool                  // its first state is being sent, or has been
	touched map[string]*versions. // documents that changed since the listener looked last
		Node

	known map[string]*pb.Document // what the client has been sent; for the goroutine of Next
}

func newTarget(w *Watch, in *pb.Target) (*target, error) {
	t := &target{id: in.GetTargetId(), watch: w, once: in.GetOnce(), expect: -1, touched: make(map[string]*versions.Node)}
	switch r := in.GetResumeType().(type) {
	case *pb.Target_ResumeToken:
		if len(r.ResumeToken) > 0 {
			at, ok := decodeToken(r.ResumeToken)
			if t.resume = at; !ok || at <= 0 {
				t.resume = -1
			}
		}
	case *pb.Target_ReadTime:
		if err := r.ReadTime.CheckValid(); err != nil {
			return nil, invalid("Invalid read_time of a target: %v.", err)
		}
		t.resume = max(micros(r.ReadTime), -1)
	}
	if n := in.GetExpectedCount(); n != nil {
		t.expect = int(n.GetValue())
	}
	var err error
	switch k := in.GetTargetType().(type) {
	case *pb.Target_Documents:
		if len(k.Documents.GetDocuments()) == 0 {
			return nil, invalid("A target of documents names none.")
		}
		t.names, err = distinctDocuments(w.db.name, k.Documents.Documents)
	case *pb.Target_Query:
		t.query, err = query.Parse(w.db.name, k.Query.GetParent(), k.Query.GetStructuredQuery())
	case nil:
		err = invalid("A target has neither a query nor documents.")
	default:
		err = status.Errorf(codes.Unimplemented, "A target of type %T isn't covered.", k)
	}
	return t, err
}

// begin sends the target's first state: all of it, or what has changed since the client's token.
func (t *target) begin(r *responses) {
	db := t.watch.db
	now := t.resultsAt(r.at)
	known := map[string]*pb.Document{}
	resumed := false
	if t.resume > 0 && t.resume <= r.at && db.checkKept(t.resume) == nil {
		for _, doc := range t.resultsAt(t.resume) {
			known[doc.Name] = doc
		}
		resumed = db.checkKept(t.resume) == nil
	}
	if !resumed {
		known = map[string]*pb.Document{}
		if t.resume != 0 {
			r.change(pb.TargetChange_RESET, t.id)
		}
		r.reads += t.unfound(r, now)
	}
	wrong := resumed && t.expect >= 0 && t.expect != len(known) // it missed something, and doesn't know what
	t.known = known
	t.send(r, now)
	if wrong {
		r.filter(t.id, len(now))
	}
}

// unfound says which of the documents that the client named don't exist. It returns the reads that
// Firestore bills for having found nothing.
func (t *target) unfound(r *responses, now []*pb.Document) int {
	if t.query != nil {
		if len(now) == 0 {
			return 1
		}
		return 0
	}
	found := make(map[string]bool, len(now))
	for _, doc := range now {
		found[doc.Name] = true
	}
	missing := 0
	for _, name := range t.names {
		if !found[name] {
			missing++
			r.deleted(t.id, name)
		}
	}
	return missing
}

// resultsAt are the target's documents as of a time, in its order.
func (t *target) resultsAt(at int64) []*pb.Document {
	if t.query != nil {
		docs, _, _ := t.watch.db.resultsAt(t.query, at)
		return docs
	}
	docs := t.watch.db.documentsAt(t.names, at)
	return slices.DeleteFunc(docs, func(d *pb.Document) bool { return d == nil })
}

// update sends what became of documents that were touched.
func (t *target) update(r *responses, touched map[string]*versions.Node) {
	if t.query != nil && t.query.Windowed() {
		t.send(r, t.resultsAt(r.at)) // others may have moved into the window, or out of it
		return
	}
	for _, name := range slices.Sorted(maps.Keys(touched)) {
		doc := touched[name].At(r.at)
		if doc != nil && t.query != nil && (!t.query.Covers(touched[name].Collection.Parent, touched[name].Collection.ID) || !t.query.Matches(doc)) {
			t.gone(r, name, doc)
			continue
		}
		if doc == nil {
			t.gone(r, name, nil)
			continue
		}
		t.present(r, doc)
	}
}

// send goes from what the client knows to the results, which are complete.
func (t *target) send(r *responses, results []*pb.Document) {
	present := make(map[string]bool, len(results))
	for _, doc := range results {
		present[doc.Name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(t.known)) {
		if !present[name] {
			t.gone(r, name, t.watch.db.lookup(name, r.at))
		}
	}
	for _, doc := range results {
		t.present(r, doc)
	}
}

// present sends a document that is among the results, unless the client knows it like this.
func (t *target) present(r *responses, doc *pb.Document) {
	if t.known[doc.Name] == doc {
		return // versions are never changed: the same one is the same document
	}
	t.known[doc.Name] = doc
	if t.query != nil && t.query.Fields != nil {
		doc = document.Project(doc, t.query.Fields)
	}
	r.matching(t.id, doc)
}

// gone sends that a document is not among the results, if the client thinks that it is. doc is what
// it has become; nil: it does not exist.
func (t *target) gone(r *responses, name string, doc *pb.Document) {
	if t.known[name] == nil {
		return
	}
	delete(t.known, name)
	if doc == nil {
		r.deleted(t.id, name)
		return
	}
	r.left(t.id, doc)
}
