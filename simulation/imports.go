package simulation

import (
	"cmp"
	"context"
	"math/rand/v2"
	"path"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"

	"github.com/firestore-counters/counters/internal/extension"
	"github.com/firestore-counters/counters/internal/store"
)

// A source is a counter of another kind, one of Firebase's Distributed Counter extension. Its
// clients add to shards of their own below the document that is counted on, and the extension's
// workers move that to partial sums, and to the document. An import takes it over: into a counter
// beside it, while all of that goes on, or in place, where the document is the counter's own and
// the extension is gone, but not its clients. There the roll-up may take it over live, too.
//
// What clients add names itself as increments do, by bits that no other call adds: so a source's
// number says what it holds.

// drawImports draws whether counters are taken over, from dice of its own.
func (p *Plan) drawImports() {
	r := dice(p.Seed, "imports", 0)
	if r.IntN(2) == 0 {
		return
	}
	p.Mix.Old, p.Mix.Import = between(r, 5.0, 30), between(r, 3.0, 20)
	p.InPlace = p.Hosted && r.IntN(3) > 0
	if p.Workers = between(r, time.Second, 5*time.Minute); p.InPlace && r.IntN(3) == 0 {
		p.Workers = 0 // it has been gone for long
	}
}

// live is the setting with which the roll-up takes over what clients of the extension add.
const live = "EXTENSION=true"

// drawLive draws whether the system has taken the extension's place, from dice of its own. Imports of the same
// documents may go on beside, and in some worlds the extension is uninstalled later than that.
func (p *Plan) drawLive() {
	r := dice(p.Seed, "live", 0)
	on, often, imports, workers := r.IntN(2) == 0, between(r, 5.0, 50), r.IntN(3) == 0, r.IntN(3) == 0
	if !p.Hosted || !on {
		return
	}
	if p.Live, p.InPlace, p.Mix.Old = true, true, often; !imports {
		p.Mix.Import = 0
	}
	if !workers {
		p.Workers = 0
	}
	p.Environ = append(p.Environ, live)
}

// source is what a field of a counter is imported from.
func (p Plan) source(id, field string) extension.Source {
	if p.InPlace {
		return extension.Source{Path: counterPath(id), Field: cmp.Or(field, "total")}
	}
	return extension.Source{Path: "pages/" + sourceOf(id), Field: cmp.Or(field, "visits")}
}

const (
	oldState     = database + "/documents/_firebase_ext_/sharded_counter"
	oldUninstall = 5 * time.Minute // for so long nothing must have been written there
)

// inherited is what the app's document holds when it is made: the numbers that the extension has
// come to.
func (w *world) inherited(r *rand.Rand) map[string]*firestorepb.Value {
	if !w.plan.InPlace {
		return nil
	}
	fields := map[string]*firestorepb.Value{}
	for _, field := range w.plan.Fields() {
		if r.IntN(2) == 0 {
			fields[cmp.Or(field, "total")] = store.Int(r.Int64N(1000))
		}
	}
	return fields
}

// old is a client of the extension's that adds to a shard. Sometimes it is a worker that has added
// it up already, to a partial sum or to the document.
func (w *world) old(r *rand.Rand, adds []Add, intent int) {
	l := w.newLink("old")
	defer w.forget(l)
	call := w.begin(Begin{Kind: Old, Intent: intent, Adds: adds})
	source := database + "/documents/" + w.plan.source(adds[0].Counter, "").Path
	amounts := map[string]int64{}
	for _, add := range adds {
		amounts[w.plan.source(add.Counter, add.Field).Field] = add.By
	}
	write := addTo(source+"/_counter_shards_/"+string(rune('a'+r.IntN(4))), amounts)
	switch r.IntN(8) {
	case 0:
		write = addPartial(source, r, amounts)
	case 1:
		if !w.plan.InPlace { // there the document has left the extension
			write = addTo(source, amounts)
		}
	}
	if w.plan.Live && !w.plan.Named && r.IntN(3) == 0 { // as clients for Android and iOS add, and a double has 53 bits
		for _, t := range write.GetUpdateTransforms() {
			if n := t.GetIncrement(); n != nil {
				t.TransformType = &firestorepb.DocumentTransform_FieldTransform_Increment{Increment: store.Double(float64(n.GetIntegerValue()))}
			}
		}
	}
	err := w.commit(l, write)
	end := End{Call: call, Outcome: Unknown}
	if err == nil {
		end.Outcome = OK
	}
	w.rec.add(end)
}

// addTo adds to fields of a document, which it makes where it isn't there.
func addTo(name string, amounts map[string]int64) *firestorepb.Write {
	var transforms []*firestorepb.DocumentTransform_FieldTransform
	for field, n := range amounts {
		transforms = append(transforms, store.Increment(field, n))
	}
	return store.Update(name, nil, nil, nil, transforms...)
}

// addPartial appends to one of the partial sums of a source, whose ids begin with a tab.
func addPartial(source string, r *rand.Rand, amounts map[string]int64) *firestorepb.Write {
	data := map[string]*firestorepb.Value{}
	for field, n := range amounts {
		data[field] = store.Int(n)
	}
	return store.Update(source+"/_counter_shards_/\t"+string(rune('a'+r.IntN(2))), nil, nil, nil, &firestorepb.DocumentTransform_FieldTransform{
		FieldPath: "_updates_",
		TransformType: &firestorepb.DocumentTransform_FieldTransform_AppendMissingElements{AppendMissingElements: store.Array(store.Map(map[string]*firestorepb.Value{
			"_id_": store.Int(r.Int64()), "_data_": store.Map(data),
		})).GetArrayValue()},
	})
}

// work is a run of the extension: it moves what some shards and partial sums of a source hold to a
// partial sum, or to the document, in one commit on condition that they are as they were read. In
// place it has done so before, and only says, in the first minutes of a storm, that it has yet to
// be uninstalled.
func (w *world) work(r *rand.Rand, begun time.Time) {
	id := w.any(r)
	if id == "" {
		return
	}
	l := newLink(w.plan.Seed, "worker")
	if w.plan.InPlace {
		if time.Since(begun) < w.plan.Storm/5 {
			_ = w.commit(l, store.Update(oldState, nil, map[string]*firestorepb.Value{"timestamp": store.Time(time.Now().Add(w.plan.Ahead))}, nil))
		}
		return
	}
	conn, err := l.connect(w.dial)
	if err != nil {
		return
	}
	defer conn.Close()
	source := database + "/documents/" + w.plan.source(id, "").Path
	list, err := firestorepb.NewFirestoreClient(conn).ListDocuments(w.ctx, &firestorepb.ListDocumentsRequest{Parent: source, CollectionId: "_counter_shards_"})
	if err != nil {
		return
	}
	amounts := map[string]int64{}
	var writes []*firestorepb.Write
	to := source
	if r.IntN(2) == 0 {
		to = source + "/_counter_shards_/\t" + string(rune('a'+r.IntN(2)))
	}
	for _, doc := range list.GetDocuments() {
		if doc.GetName() == to || r.IntN(3) == 0 {
			continue
		}
		for _, field := range w.plan.Fields() {
			if n := oldAmount(doc, field); n != 0 {
				amounts[w.plan.source(id, field).Field] += n
			}
		}
		gone := store.Delete(doc.GetName())
		gone.CurrentDocument = store.IfVersion(doc.GetUpdateTime().AsTime())
		writes = append(writes, gone)
	}
	if len(amounts) == 0 {
		return
	}
	move := addTo(to, amounts)
	if to != source {
		move = addPartial(source, r, amounts)
		move.GetUpdate().Name = to
	}
	w.sleep(between(r, time.Millisecond, time.Second))
	_ = w.commit(l, append(writes, move)...)
}

// takeOver imports one field of a counter, as one or two people do who each have a command line.
func (w *world) takeOver(r *rand.Rand, id string) {
	field := w.plan.Fields()[r.IntN(len(w.plan.Fields()))]
	people := 1
	if r.IntN(4) == 0 {
		people = 2
	}
	var all sync.WaitGroup
	for range people {
		r := rand.New(rand.NewPCG(r.Uint64(), 0))
		all.Go(func() {
			w.commandOf(r, Begin{Kind: Import, Counter: id, Field: field}, func(ctx context.Context, i *instance, end *End) error {
				conn, err := i.link.connect(w.dial)
				if err != nil {
					return err
				}
				db, err := store.Open(ctx, placeOf(w.settings), option.WithGRPCConn(conn))
				if err != nil {
					return err
				}
				defer db.Close()
				done, err := extension.Import(ctx, db, id, w.plan.source(id, field))
				end.Value, end.Added = done.Value, done.Added
				return err
			})
		})
	}
	all.Wait()
}

// oldAmount is what a document of a source's holds of a field: its own document, a shard, or a
// partial sum.
func oldAmount(doc *firestorepb.Document, field string) (sum int64) {
	if field == "" {
		field = "total"
		if strings.Contains(doc.GetName(), "/documents/pages/") {
			field = "visits"
		}
	}
	if !strings.HasPrefix(path.Base(doc.GetName()), "\t") {
		return integer(doc.GetFields()[field])
	}
	for _, update := range doc.GetFields()["_updates_"].GetArrayValue().GetValues() {
		sum += integer(update.GetMapValue().GetFields()["_data_"].GetMapValue().GetFields()[field])
	}
	return sum
}
