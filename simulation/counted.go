package simulation

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/store"
)

// CountedField is a field of a counter's document that counts the documents of a collection below
// it, or sums up a field of theirs.
type CountedField struct {
	Name       string
	Collection string
	Sum        string // field that is summed up; "" counts documents
	Where      string // field that has to be true; "" is all documents
	Average    bool   // of the field, and not its sum
	Double     bool   // the sum is a double
	Wildcard   string // of the counters' path: documents at the root name their counter by it
}

// String is the field as FIELDS has it.
func (f CountedField) String() string {
	what, where := "count("+f.Collection, ""
	switch {
	case f.Average:
		what = "avg(" + f.Collection + "." + f.Sum
	case f.Sum != "":
		what = "sum(" + f.Collection + "." + f.Sum
	case f.Wildcard != "":
		what, where = "count(/"+f.Collection, " where "+countedOn+"=={"+f.Wildcard+"}"
	}
	if f.Where != "" {
		where = " where " + f.Where + "==true"
	}
	if f.Double {
		return f.Name + "=" + what + where + ") as double"
	}
	return f.Name + "=" + what + where + ")"
}

// key names the field in notes. Like [docOf] it says again what the system's own code does.
func (f CountedField) key() string {
	hash := sha256.Sum256([]byte(f.String()))
	return hex.EncodeToString(hash[:8])
}

// Definitions of fields that count documents, and the collections and the names in them.
var (
	allComments    = CountedField{Name: "comments", Collection: "comments"}
	publicComments = CountedField{Name: "public", Collection: "comments", Where: "public"}
	stars          = CountedField{Name: "stars", Collection: "ratings", Sum: "stars"}
	publicStars    = CountedField{Name: "good", Collection: "ratings", Sum: "stars", Where: "public"}

	rating             = CountedField{Name: "rating", Collection: "ratings", Sum: "score", Average: true}
	score              = CountedField{Name: "score", Collection: "ratings", Sum: "score", Double: true}
	countedCollections = []string{"comments", "ratings"}
	countedNames       = []string{"comments", "public", "stars", "good", "rating", "score", "replies"}
)

// drawDoubles draws which fields hold doubles, and whether documents of a collection of its own are
// counted that name their counter, from dice of its own.
func (p *Plan) drawDoubles() {
	r := dice(p.Seed, "doubles", 0)
	for _, f := range []CountedField{rating, score} {
		if r.IntN(2) == 0 && len(p.Counted) > 0 {
			p.Counted = append(p.Counted, f)
		}
	}
	if r.IntN(2) == 0 && len(p.Counted) > 0 {
		p.Counted = append(p.Counted, p.replies())
	}
}

// drawCounted draws which fields count documents, in about a third of all plans.
func (p *Plan) drawCounted() {
	r := dice(p.Seed, "counted", 0)
	if r.IntN(3) > 0 {
		return
	}
	p.Counted = []CountedField{allComments}
	for _, f := range []CountedField{publicComments, stars, publicStars} {
		if r.IntN(2) == 0 {
			p.Counted = append(p.Counted, f)
		}
	}
	if p.Older = p.Older || r.IntN(3) == 0; p.Older {
		p.OlderCounted = [][]CountedField{
			nil, {allComments}, {{Name: "comments", Collection: "comments", Where: "public"}}, // another definition of the same field
		}[r.IntN(3)]
	}
	p.Documents = time.Duration(between(r, 0.5, 10) / p.Rate * float64(time.Second))
	p.Environ = append(p.Environ,
		fmt.Sprintf("RECOUNT_MAX=%s", []string{"1s", "10s", "1m"}[r.IntN(3)]),
		fmt.Sprintf("RECOUNT_AGE=%s", between(r, 10*time.Minute, 24*time.Hour).Round(time.Second)),
		fmt.Sprintf("RECOUNT_READS=%d", []int{1, 10_000, 10_000}[r.IntN(3)]))
}

// list is FIELDS: the first field, likes where they are counted, and what counts documents.
func list(likes bool, counted []CountedField) string {
	fields := []string{"total=count"}
	if likes {
		fields = append(fields, "likes")
	}
	for _, f := range counted {
		fields = append(fields, f.String())
	}
	return "FIELDS=" + strings.Join(fields, ",")
}

// Counting says which fields count documents, by the newest revision and by the older one, and what
// a reconcile of all counters counts again.
type Counting struct {
	Fields, Older []CountedField
	RecountAge    time.Duration
	RecountReads  int64
}

// AppChanges is the app about to write or to delete a document that is counted.
type AppChanges struct{ Doc Doc }

// Acknowledged is the event of a shard or of a document that is counted, acknowledged by an
// instance. An event is named by its document and by the time of its commit, in microseconds.
type Acknowledged struct {
	Doc    Doc
	Of     int64
	Fields []string // that the event is about, and that the instance shows as the newest revision does
}

// Missed is the event of a document that is counted, which comes late or never.
type Missed struct {
	Doc Doc
	Of  int64
}

// GaveUp is an instance saying that it acknowledges events of a collection which it could not
// count, because its queries took all of their time over two connections.
type GaveUp struct{ Counter, Collection string }

// givenUp is a log that records what was given up.
type givenUp struct{ rec *recorder }

func (givenUp) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelError }
func (l givenUp) WithAttrs([]slog.Attr) slog.Handler             { return l }
func (l givenUp) WithGroup(string) slog.Handler                  { return l }

func (l givenUp) Handle(_ context.Context, r slog.Record) error {
	attrs := map[string]string{}
	r.Attrs(func(a slog.Attr) bool { attrs[a.Key] = a.Value.String(); return true })
	if r.Message == "recount failed" && attrs["acknowledged"] != "" {
		collection, _, _ := strings.Cut(attrs["collection"], " ") // /replies where on=={post}
		l.rec.add(GaveUp{Counter: attrs["counter"], Collection: strings.TrimPrefix(collection, "/")})
	}
	return nil
}

// countedDoc names a document that is counted. Its place in a Doc is that of a shard: comments/d1.
func countedDoc(counter, collection, id string) Doc {
	return Doc{Kind: "counted", Counter: counter, Shard: collection + "/" + id}
}

// collection is that of a document that is counted.
func (d Doc) collection() string {
	collection, _, _ := strings.Cut(d.Shard, "/")
	return collection
}

// countedChange is a change of a document that is counted.
func countedChange(change emulator.Change, doc Doc) Change {
	of := func(doc *firestorepb.Document) *Document {
		if doc == nil {
			return nil
		}
		d := &Document{Updated: doc.GetUpdateTime().AsTime().UnixMicro(), Data: map[string]any{}}
		for name, value := range doc.GetFields() {
			d.Data[name] = plain(value)
		}
		return d
	}
	return Change{Doc: doc, Before: of(change.Old), After: of(change.New)}
}

// none is the average of no documents, which is null.
const none = "null"

// plain is a number or a bool, and what is neither as its text.
func plain(v *firestorepb.Value) any {
	switch v := v.GetValueType().(type) {
	case *firestorepb.Value_IntegerValue:
		return v.IntegerValue
	case *firestorepb.Value_DoubleValue:
		if math.IsNaN(v.DoubleValue) || math.IsInf(v.DoubleValue, 0) {
			return fmt.Sprint(v.DoubleValue) // no number, in JSON either
		}
		return v.DoubleValue
	case *firestorepb.Value_BooleanValue:
		return v.BooleanValue
	case *firestorepb.Value_NullValue:
		return none
	}
	return v.String()
}

// withCounted adds to what a document of a counter's holds what the fields that count documents
// hold there.
func (d *Document) withCounted(fields map[string]*firestorepb.Value) {
	for _, name := range countedNames {
		if v := fields[name]; v != nil {
			if d.Data == nil {
				d.Data = map[string]any{}
			}
			d.Data[name] = plain(v)
		}
	}
}

// lost records that an event comes late, or never.
func (w *world) lost(docs []Doc, of time.Time) {
	for _, doc := range docs {
		if doc.Kind == "counted" {
			w.rec.add(Missed{Doc: doc, Of: of.UnixMicro()})
		} else {
			w.rec.add(Dropped{Counter: doc.Counter, Shard: doc.Shard, Of: of.UnixMicro()})
		}
	}
}

// acknowledged records that an instance has acknowledged an event.
func (w *world) acknowledged(by *instance, docs []Doc, of time.Time) {
	for _, doc := range docs {
		fields := by.sums
		if doc.Kind == "counted" {
			fields = nil
			for _, f := range w.plan.Counted {
				if f.Collection == doc.collection() && slices.Contains(by.counted, f.String()) {
					fields = append(fields, f.Name)
				}
			}
		}
		w.rec.add(Acknowledged{Doc: doc, Of: of.UnixMicro(), Fields: fields})
	}
}

// many makes as many documents below one counter as are planned, some hundreds in a commit.
func (w *world) many() {
	id := w.plan.id("quiet-0")
	l := newLink(w.plan.Seed, "app")
	for from := 0; from < w.plan.Many; from += 400 {
		var writes []*firestorepb.Write
		for n := from; n < min(from+400, w.plan.Many); n++ {
			doc := countedDoc(id, "comments", "m"+strconv.Itoa(n))
			writes = append(writes, store.Create(counterName(id)+"/"+doc.Shard, map[string]*firestorepb.Value{"public": store.Bool(n%3 == 0)}))
			w.rec.add(AppChanges{Doc: doc})
		}
		_ = w.commit(l, writes...)
	}
}

// documents does what an app does with the documents that are counted: it makes, edits and deletes
// some, of counters that are in use, that were or will be, and of some that nothing is counted in
// but these.
func (w *world) documents(all *sync.WaitGroup, r *rand.Rand) {
	id := w.anyCounted(r)
	if strings.HasPrefix(called(id), "quiet-") && r.IntN(6) == 0 {
		again := r.IntN(2) == 0
		r := rand.New(rand.NewPCG(r.Uint64(), 0))
		all.Go(func() {
			if again {
				w.remove(r, id)
			}
			w.create(r, id)
		})
		return
	}
	var writes []*firestorepb.Write
	for range cmp.Or(max(0, r.IntN(8)-5), 1) {
		collection := countedCollections[r.IntN(3)/2]
		doc := countedDoc(id, collection, "d"+strconv.Itoa(r.IntN(8)))
		if w.plan.refers() && r.IntN(3) == 0 {
			reply := countedDoc("", repliesAt, "d"+strconv.Itoa(r.IntN(8)))
			writes = slices.DeleteFunc(writes, func(w *firestorepb.Write) bool { return documentOfWrite(w) == replyName(reply) })
			writes = append(writes, w.reply(r, reply, id))
			w.rec.add(AppChanges{Doc: reply})
			continue
		}
		if slices.ContainsFunc(writes, func(w *firestorepb.Write) bool { return documentOfWrite(w) == counterName(id)+"/"+doc.Shard }) {
			continue
		}
		writes = append(writes, w.document(r, doc))
		w.rec.add(AppChanges{Doc: doc})
	}
	_ = w.commit(newLink(w.plan.Seed, "app"), writes...)
}

func documentOfWrite(w *firestorepb.Write) string {
	return cmp.Or(w.GetDelete(), w.GetUpdate().GetName())
}

// document is a write of a document that is counted: all of it, one field that a filter looks at,
// or its deletion.
func (w *world) document(r *rand.Rand, doc Doc) *firestorepb.Write {
	name := counterName(doc.Counter) + "/" + doc.Shard
	fields := map[string]*firestorepb.Value{"public": store.Bool(r.IntN(2) == 0)}
	kind, rating, half := r.IntN(10), r.Int64N(6), r.IntN(40) == 0
	switch {
	case kind < 3:
		return store.Delete(name)
	case kind < 5:
		return store.Update(name, nil, fields, nil)
	case half && w.settings.RecountReads > 1:
		// The sum is no integer until another value takes its place. Reconciles count it again each
		// time, and would have no read left for others.
		fields["stars"] = store.Double(float64(rating) + 0.5)
	case kind < 6:
		fields["stars"] = store.Double(float64(rating))
	case kind < 9:
		fields["stars"] = store.Int(rating)
	}
	switch r.IntN(8) { // halves, whose sums are exact
	case 0:
		fields["score"] = store.Int(rating)
	case 1:
		fields["score"] = store.String("none") // which is in no sum
	case 2:
	default:
		fields["score"] = store.Double(float64(rating) - 0.5)
	}
	return &firestorepb.Write{Operation: &firestorepb.Write_Update{Update: &firestorepb.Document{Name: name, Fields: fields}}}
}

// anyCounted is the id of a counter that documents are written below.
func (w *world) anyCounted(r *rand.Rand) string {
	where, n := r.IntN(10), r.IntN(4)
	w.load.mu.Lock()
	made := w.load.made
	w.load.mu.Unlock()
	switch {
	case where < 2:
		return w.plan.id("quiet-" + strconv.Itoa(n))
	case where == 2:
		return w.subject(made + 1) // the next one
	case where == 3:
		return w.subject(1 + r.IntN(made+1))
	}
	return cmp.Or(w.any(r), w.subject(1))
}

// settleCounted has the fields that count documents counted again, wherever an event was lost: by
// the counters' names, or by the walk over all once nothing has counted them for long enough.
func (w *world) settleCounted(epoch int) {
	if len(w.plan.Counted) == 0 {
		return
	}
	var names []string
	for n := range w.load.made + 1 {
		names = append(names, w.subject(n+1))
	}
	for n := range 4 {
		names = append(names, w.plan.id("quiet-"+strconv.Itoa(n)))
	}
	ok := true
	if dice(w.plan.Seed, "settle", uint64(epoch)).IntN(2) == 0 {
		// In portions: forty ids of 1,500 bytes are more than a request's body may hold.
		for some := range slices.Chunk(names, 20) {
			ok = ok && w.reconcile(some, never)
		}
	} else {
		w.sleep(w.settings.RecountAge)
		for range names { // each counts at least one of them again, however few reads it may take
			ok = ok && w.reconcile(nil, never)
		}
	}
	if ok && w.sleep(time.Second) {
		w.rec.add(Settled{Counted: true})
	} else {
		w.rec.add(Stuck{What: "reconcile of fields that count documents fails although nothing goes wrong"})
	}
}
