package simulation

import (
	"maps"
	"math/rand/v2"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/store"
)

// app does what an app does with its document: it edits it, sets it whole without what we keep in
// it, or writes back all that it has read before, stale totals and our map included.
func (w *world) app(r *rand.Rand) {
	id := w.any(r)
	if id == "" {
		return
	}
	switch r.IntN(4) {
	case 0:
		w.write(r, id, nil, store.Exists(true), nil)
	case 1:
		conn, err := newLink(w.plan.Seed, "app").connect(w.dial)
		if err != nil {
			return
		}
		doc, err := firestorepb.NewFirestoreClient(conn).GetDocument(w.ctx, &firestorepb.GetDocumentRequest{Name: counterName(id)})
		conn.Close()
		if err != nil {
			return
		}
		w.sleep(between(r, time.Millisecond, time.Minute))
		w.write(r, id, doc.GetFields(), store.Exists(true), nil)
	default:
		w.write(r, id, nil, store.Exists(true), []string{"title"})
	}
}

// write is the app's own write: of the whole document, or of the fields in mask.
func (w *world) write(r *rand.Rand, id string, fields map[string]*firestorepb.Value, condition *firestorepb.Precondition, mask []string) {
	title := r.Int64()
	w.rec.add(AppWrites{Counter: id, Title: title, Whole: mask == nil})
	if mask == nil {
		for _, field := range w.plan.Fields() {
			w.rec.add(Foreign{Counter: id, Field: field})
		}
	}
	fields = maps.Clone(fields)
	if fields == nil {
		fields = map[string]*firestorepb.Value{}
	}
	fields["title"] = store.Int(title)
	write := store.Update(counterName(id), condition, fields, nil)
	if mask == nil {
		write.UpdateMask = nil // all of it
	}
	_ = w.commit(newLink(w.plan.Seed, "app"), write)
}
