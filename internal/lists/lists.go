// Package lists takes over lists of user ids that an app keeps in a field of its documents, such as
// likes: ["uid-1", "uid-2"]: the users become members of the field, and then the number of members takes the place of
// the list.
//
// Nothing is lost wherever that ends. The list stays as it is until all of its ids are members, and the commit that
// replaces it is on condition of the document's version. A document beside the base is there meanwhile. Its id is in
// each membership that the import makes, also in another run: so who has left the list before it is replaced leaves
// the members, unless they joined by themselves.
package lists

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
	"github.com/firestore-counters/counters/shards"
)

// ErrNotIDs says that a list holds what can be no member's id.
var ErrNotIDs = errors.New("not a list of user ids")

// Options say how [Import] goes about it.
type Options struct {
	DryRun   bool // only look
	Parallel int  // documents at a time; at least 1
	// Report is called with each document that is looked at, one call at a time.
	Report func(Document)
}

// Document is what [Import] found and did on one document.
type Document struct {
	Path       string  `json:"path"`
	Outcome    Outcome `json:"outcome"`
	Members    int     `json:"members"`    // ids in its list, each once
	Duplicates int     `json:"duplicates"` // ids that were there before in the list
	Joined     int     `json:"joined"`     // of the members: this run has made them that
	Left       int     `json:"left"`       // who had left the list before it was replaced
	Total      int64   `json:"total"`      // what its field shows from now on
	Error      string  `json:"error,omitempty"`
}

// Outcome is what became of a document.
type Outcome string

// Outcomes of a document.
const (
	Taken   Outcome = "imported" // or would be
	Number  Outcome = "number"   // its field holds one already
	Nothing Outcome = "nothing"  // it hasn't the field, or was deleted meanwhile
	Failed  Outcome = "failed"   // see Error
)

// callsAtOnce is how many members join at a time, of all documents together. Those of a counter share commits.
const callsAtOnce = 2000

// Import takes over the lists in one field of all documents of the counters' path. It may end anywhere and run again:
// nobody is counted twice. Documents that fail are reported, and the others go on. Errors are those of listing them.
func Import(ctx context.Context, db *store.DB, client *shards.Client, field string, opts Options) error {
	i := importer{db: db, client: client, field: field, dry: opts.DryRun, calls: make(chan struct{}, callsAtOnce)}
	var mu sync.Mutex
	group, working := errgroup.WithContext(ctx)
	group.SetLimit(max(1, opts.Parallel))
	q := store.Query{Collection: db.Layout.Document(db.Layout.Path.Collection()), Group: true, Limit: 300, Names: true}
	if !db.Layout.Path.Nested() {
		q.Collection, q.Group = db.Layout.Counters(), false
	}
	for doc, err := range db.All(working, q) {
		if err != nil {
			return errors.Join(fmt.Errorf("list documents: %w", err), group.Wait())
		}
		path := strings.TrimPrefix(doc.GetName(), db.Layout.Database+"/documents/")
		id, is := db.Layout.Path.ID(path)
		if !is {
			continue
		}
		group.Go(func() error {
			d, err := i.document(working, id)
			if err != nil && working.Err() != nil {
				return err
			}
			if d.Path = path; err != nil {
				d.Outcome, d.Error = Failed, err.Error()
			}
			mu.Lock()
			defer mu.Unlock()
			opts.Report(d)
			return nil
		})
	}
	return errors.Join(group.Wait(), ctx.Err())
}

// importer takes over the lists in one field.
type importer struct {
	db     *store.DB
	client *shards.Client
	field  string
	dry    bool
	calls  chan struct{} // holds one for each that is on its way
}

// document takes over the list of one document.
func (i importer) document(ctx context.Context, id string) (d Document, err error) {
	t := taking{importer: i}
	if t.counter, err = i.client.Counter(id); err != nil {
		return d, err
	}
	for again := true; again; {
		doc, err := t.read(ctx)
		if err != nil {
			return d, err
		}
		var ids []string
		switch {
		case doc.isList():
			if ids, d.Duplicates, err = idsOf(doc.value.GetArrayValue()); err != nil {
				return d, err
			}
		case !book.Overwritable(doc.value):
			return d, fmt.Errorf("%w: %s holds something else; delete it, or show the total in another field (FIELDS)", ErrNotIDs, i.field)
		default:
			if d.Outcome = Nothing; doc.isNumber() {
				d.Outcome = Number
			}
			if doc.run != "" && !i.dry { // the app has the last word: a later list is another import's
				_, err = i.db.Commit(ctx, store.Delete(i.db.Layout.ListOf(id, i.field)))
			}
			return d, err
		}
		if d.Outcome, d.Members = Taken, len(ids); i.dry {
			return d, nil
		}
		switch again, err = t.step(ctx, doc, ids, &d); {
		case errors.Is(err, shards.ErrNotFound): // it was deleted
			d.Outcome = Nothing
			_, err = i.db.Commit(ctx, store.Delete(i.db.Layout.ListOf(id, i.field)))
			return d, err
		case err != nil:
			return d, err
		}
	}
	return d, nil
}

// taking is a list that is being taken over.
type taking struct {
	importer
	counter shards.Counter
	run     string // the import's id, which all runs have until the list is replaced
	// :: id of a member, as far as this run knows → whether this import has made it one
	members map[string]bool
}

// step takes over what is in the list and no member yet, or lets go who has left it, or begins, or ends. It reports
// whether there must be another step.
func (t *taking) step(ctx context.Context, doc reading, ids []string, d *Document) (again bool, err error) {
	if doc.run == "" {
		return true, t.begin(ctx)
	}
	if doc.run != t.run { // of an earlier run, or of another one beside this
		if err := t.resume(ctx, doc.run); err != nil {
			return false, err
		}
	}
	var came, left []string
	listed := make(map[string]bool, len(ids))
	for _, id := range ids {
		listed[id] = true
		if _, is := t.members[id]; !is {
			came = append(came, id)
		}
	}
	for id, ours := range t.members {
		if ours && !listed[id] {
			left = append(left, id)
		}
	}
	if len(came)+len(left) == 0 {
		done, err := t.replace(ctx, doc, d)
		return !done, err
	}
	err = t.each(ctx, came, func(ctx context.Context, id string) (func(), error) {
		counted, err := t.counter.JoinFrom(ctx, t.field, id, t.run)
		return func() {
			if t.members[id] = counted; counted {
				d.Joined++
			}
		}, err
	})
	if err != nil {
		return false, err
	}
	return true, t.each(ctx, left, func(ctx context.Context, id string) (func(), error) {
		counted, err := t.counter.LeaveFrom(ctx, t.field, id, t.run)
		return func() {
			if delete(t.members, id); counted {
				d.Left++
			}
		}, err
	})
}

// begin makes the document that is there while the list is taken over, unless it is there, or there is no list.
func (t *taking) begin(ctx context.Context) error {
	run := rand.Text()
	made, err := t.db.CommitIf(ctx, patience, func(ctx context.Context) ([]*firestorepb.Write, error) {
		doc, err := t.read(ctx)
		if err != nil || !doc.isList() || doc.run != "" {
			return nil, err
		}
		return []*firestorepb.Write{
			store.Update(t.db.Layout.Counter(t.counter.ID()), store.IfVersion(doc.version), nil, nil), // it is there for its condition
			store.Create(t.db.Layout.ListOf(t.counter.ID(), t.field), map[string]*firestorepb.Value{runID: store.String(run)}),
		}, nil
	})
	if made != nil {
		t.run, t.members = run, map[string]bool{}
	}
	return err
}

// resume reads the members, and whom this import has made one.
func (t *taking) resume(ctx context.Context, run string) error {
	t.run, t.members = run, map[string]bool{}
	for m, err := range t.counter.Members(ctx, t.field) {
		if err != nil {
			return err
		}
		if m.Until.IsZero() { // or else it joins for good
			t.members[m.Member] = m.From == run
		}
	}
	return nil
}

// each calls do for ids side by side, and what it returns one after the other.
func (t *taking) each(ctx context.Context, ids []string, do func(ctx context.Context, id string) (after func(), err error)) error {
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	for _, id := range ids {
		select {
		case t.calls <- struct{}{}:
		case <-ctx.Done():
			return errors.Join(group.Wait(), ctx.Err())
		}
		group.Go(func() error {
			defer func() { <-t.calls }()
			after, err := do(ctx, id)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			after()
			return nil
		})
	}
	return group.Wait()
}

// patience is how long a commit on a document goes on that its app and the roll-up write as well.
var patience = store.Patience{Conflicts: 20, Doubts: 12}

// replace puts the total into the place of a list whose ids are all members. It reports false if the list is another
// by now.
func (t *taking) replace(ctx context.Context, taken reading, d *Document) (done bool, err error) {
	names, id := t.db.Layout, t.counter.ID()
	field, _ := names.Field(t.field)
	err = book.In(t.db).Edit(ctx, id, func(ctx context.Context, e *book.Edit) (bool, error) {
		doc, err := t.read(ctx)
		if err != nil || doc.run != t.run || !proto.Equal(e.Doc.GetFields()[t.field], taken.value) {
			return false, err
		}
		sum, err := e.Sum(ctx, field)
		if err != nil {
			return false, err
		}
		e.Overwrite(field)
		e.Beside(store.DeleteIf(names.ListOf(id, t.field), store.Exists(true)))
		e.Applied = func() { done, d.Total = true, store.Add(sum, e.Base.Counts[field.Shard]) }
		return true, nil
	})
	return done, err
}

// reading is a document as it was read.
type reading struct {
	value   *firestorepb.Value // of the field; nil where it is missing
	version time.Time
	run     string // the id of the import that has begun; "" where none has
}

const runID = "id"

func (t *taking) read(ctx context.Context) (reading, error) {
	names, id := t.db.Layout, t.counter.ID()
	docs, _, err := t.db.GetPaths(ctx, []string{layout.FieldPath(t.field), runID}, names.Counter(id), names.ListOf(id, t.field))
	if err != nil {
		return reading{}, err
	}
	return reading{docs[0].GetFields()[t.field], docs[0].GetUpdateTime().AsTime(), docs[1].GetFields()[runID].GetStringValue()}, nil
}

func (r reading) isList() bool { return r.value.GetArrayValue() != nil }

func (r reading) isNumber() bool { _, is := store.Float(r.value); return is }

// idsOf are the ids in a list, each once, and how many come again. Its error names the first entries that can't be a
// member's id: nothing is taken over of such a list.
func idsOf(list *firestorepb.ArrayValue) (ids []string, duplicates int, err error) {
	const named = 3
	var wrong []string
	more := 0
	known := map[string]bool{}
	for i, value := range list.GetValues() {
		text, is := value.GetValueType().(*firestorepb.Value_StringValue)
		why := "it is no text"
		if is {
			why = ""
			if err := layout.ValidateID(text.StringValue); err != nil {
				why = err.Error()
			}
		}
		switch {
		case why != "" && len(wrong) == named:
			more++
		case why != "":
			wrong = append(wrong, fmt.Sprintf("entry %d: %.200s", i, why))
		case known[text.StringValue]:
			duplicates++
		default:
			known[text.StringValue] = true
			ids = append(ids, text.StringValue)
		}
	}
	if len(wrong) > 0 {
		and := ""
		if more > 0 {
			and = fmt.Sprintf(", and %d more", more)
		}
		return nil, 0, fmt.Errorf("%w: %s%s; take them out of the list, and import again", ErrNotIDs, strings.Join(wrong, "; "), and)
	}
	return ids, duplicates, nil
}
