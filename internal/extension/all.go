package extension

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"golang.org/x/sync/errgroup"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// listed is how many documents are listed at a time.
const listed = 300

// ImportAllOptions say how [ImportAll] goes about it.
type ImportAllOptions struct {
	DryRun   bool // only look
	Parallel int  // documents at a time; at least 1
	// Report is called with each document that is looked at, one call at a time; may be nil.
	Report func(Document)
}

// Document is what [ImportAll] found and did on one document.
type Document struct {
	Path string `json:"path"`
	// What became of it.
	Outcome Outcome `json:"outcome"`
	Value   int64   `json:"value"`  // what it shows from now on; of a dry run what it shows now
	Added   int64   `json:"added"`  // moved to it from the extension's shards
	Shards  int     `json:"shards"` // the extension's, which may hold something
	Error   string  `json:"error,omitempty"`
}

// Outcome is what became of a document.
type Outcome string

// Outcomes of a document.
const (
	Taken    Outcome = "imported" // or would be
	Before   Outcome = "before"   // it was imported before, and nothing waits since
	Nothing  Outcome = "nothing"  // it has neither a number in the field nor shards of the extension's
	Orphaned Outcome = "orphaned" // there are shards of the extension's below it, and it doesn't exist
	Failed   Outcome = "failed"   // see Error
)

// ImportAll takes over one field of all documents of the counters' path, in place, as [Import] does
// with each. It may end anywhere and run again: what was imported and has nothing new costs two
// reads then. Documents that fail are reported, and the others go on. Errors: [ErrInvalidSource]
// where the field is not a counted one of the app's own documents, [ErrRuns], and those of reading
// what there is.
func ImportAll(ctx context.Context, db *store.DB, field string, opts ImportAllOptions) error {
	source := func(path string) Source { return Source{Path: path, Field: field} }
	if _, counted := db.Layout.Field(field); !counted || !db.Layout.Hosted {
		return fmt.Errorf("%w: %s is imported in place where it is counted (FIELDS) in documents of the app's own (HOSTED=true)", ErrInvalidSource, field)
	}
	if !opts.DryRun {
		if err := Stopped(ctx, db); err != nil {
			return err
		}
	}
	waiting, err := waitingBelow(ctx, db)
	if err != nil {
		return err
	}

	var mu sync.Mutex
	report := func(d Document) {
		mu.Lock()
		defer mu.Unlock()
		if opts.Report != nil {
			opts.Report(d)
		}
	}
	group, working := errgroup.WithContext(ctx)
	group.SetLimit(max(1, opts.Parallel))
	err = eachDocument(working, db, field, func(doc *firestorepb.Document) {
		path := strings.TrimPrefix(doc.GetName(), db.Layout.Database+"/documents/")
		id, _ := db.Layout.Path.ID(path)
		d := Document{Path: path, Shards: waiting[path]}
		delete(waiting, path)
		group.Go(func() error {
			err := d.take(working, db, id, source(path), doc, opts)
			switch {
			case errors.Is(err, ErrRuns), working.Err() != nil && err != nil:
				return err // of all of them
			case err != nil:
				d.Outcome, d.Error = Failed, err.Error()
			}
			report(d)
			return nil
		})
	})
	if failed := group.Wait(); failed != nil {
		return failed
	}
	if err != nil {
		return err
	}
	for path, shards := range waiting {
		report(Document{Path: path, Outcome: Orphaned, Shards: shards})
	}
	return ctx.Err()
}

// take imports a document, unless there is nothing to import.
func (d *Document) take(ctx context.Context, db *store.DB, id string, source Source, doc *firestorepb.Document, opts ImportAllOptions) error {
	if err := (importer{db: db}).keeps(source, doc); err != nil {
		return err
	}
	shown := fieldSum{field: []string{source.Field}}
	if shown.add(doc.GetFields()); shown.err != nil {
		return shown.err
	}
	d.Value = shown.total()
	if !shown.counted && d.Shards == 0 {
		d.Outcome = Nothing
		return nil
	}
	// The map says that it is counted by us, and only the base whether that began with an import.
	before := false
	if _, ours := doc.GetFields()[layout.Rollup]; ours {
		var err error
		if before, err = (importer{db: db, counter: id}).hasImported(ctx, source); err != nil {
			return err
		}
	}
	if before && d.Shards == 0 {
		d.Outcome = Before
		return nil
	}
	d.Outcome = Taken
	if opts.DryRun {
		return nil
	}
	done, err := Import(ctx, db, id, source)
	if errors.Is(err, book.ErrNotFound) {
		d.Outcome = Nothing // It was deleted meanwhile.
		return nil
	}
	d.Value, d.Added = done.Value, done.Added
	if before && done.Added == 0 {
		d.Outcome = Before // Its shards are there, and hold nothing new.
	}
	return err
}

// eachDocument calls found with each document of the counters' path, with the field and our own map
// in it, and nothing else.
func eachDocument(ctx context.Context, db *store.DB, field string, found func(*firestorepb.Document)) error {
	q := store.Query{Collection: db.Layout.Document(db.Layout.Path.Collection()), Group: true, Limit: listed, Fields: []string{layout.FieldPath(field), layout.FieldPath(layout.Rollup)}}
	if !db.Layout.Path.Nested() {
		q.Collection, q.Group = db.Layout.Counters(), false
	}
	for doc, err := range db.All(ctx, q) {
		if err != nil {
			return err
		}
		if _, is := db.Layout.Path.ID(strings.TrimPrefix(doc.GetName(), db.Layout.Database+"/documents/")); is {
			found(doc)
		}
	}
	return nil
}

// waitingBelow are how many shards of the extension's there are below each document of the counters'
// path.
func waitingBelow(ctx context.Context, db *store.DB) (map[string]int, error) {
	waiting := map[string]int{}
	for shard, err := range db.All(ctx, store.Query{Collection: db.Layout.Document(shardsID), Group: true, Limit: 1000, Names: true}) {
		if err != nil {
			return nil, err
		}
		document, _, _ := strings.Cut(strings.TrimPrefix(shard.GetName(), db.Layout.Database+"/documents/"), "/"+shardsID+"/")
		if _, is := db.Layout.Path.ID(document); is {
			waiting[document]++
		}
	}
	return waiting, nil
}
