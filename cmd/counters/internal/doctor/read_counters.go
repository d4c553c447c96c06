package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/firestore-counters/counters/cmd/internal/terminal"
	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/extension"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

const firestoreAPI = "firestore.googleapis.com"

// parallel is how many counters are read side by side.
const parallel = 8

// counters reads the first counters, with their shards and bases.
func (r *Reader) counters(ctx context.Context, d *Deployment) error {
	if d.Database != nil && d.Database.Object == nil || d.Target.Most <= 0 {
		return nil
	}
	db, err := store.Open(ctx, d.Target.Place, r.Firestore...)
	if err != nil {
		return err
	}
	defer db.Close()
	ids, more, err := firstIDs(ctx, db, d.Target.Most)
	if err != nil {
		return err
	}
	noted, err := db.Notes(ctx, 10)
	if err != nil {
		return err
	}
	var runs error
	if db.Layout.Extension {
		if runs = extension.Stopped(ctx, db); runs != nil && !errors.Is(runs, extension.ErrRuns) {
			return runs
		}
	}
	read := make([]*Counter, len(ids))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i, id := range ids {
		group.Go(func() (err error) {
			if read[i], err = readCounter(ctx, db, id); err != nil {
				return fmt.Errorf("read counter %q: %w", id, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	d.Counters = &Counters{More: more, Noted: noted, Extension: runs}
	for _, c := range read {
		if c != nil {
			d.Counters.Read = append(d.Counters.Read, *c)
		}
	}
	return nil
}

// firstIDs lists the counters with the first ids, those without a document of their own included: a
// snippet may have made shards only.
func firstIDs(ctx context.Context, db *store.DB, n int) (ids []string, more bool, err error) {
	for id, err := range db.IDs(ctx, min(n+1, 300)) {
		if err != nil || len(ids) == n {
			return ids, true, err
		}
		ids = append(ids, id)
	}
	return ids, false, nil
}

// readCounter reads everything about one counter as of one time. It returns nil for what is left of
// a deleted one, and for a document of the app's own that nothing was counted of yet.
func readCounter(ctx context.Context, db *store.DB, id string) (*Counter, error) {
	books, _, err := book.In(db).Get(ctx, db, []string{id})
	if err != nil {
		return nil, err
	}
	c := &Counter{Book: books[0], Recounts: map[string]Recount{}}
	if c.Shards, err = book.In(db).Shards(ctx, db, id, c.At); err != nil {
		return nil, err
	}
	for _, field := range db.Layout.Counted {
		if c.Recounts[field.Name], err = readRecount(ctx, db, id, field, c.At); err != nil {
			return nil, err
		}
	}
	nothing := !c.HasBase() && len(c.Shards) == 0
	switch {
	case c.Deleting():
	case db.Layout.Hosted && nothing, nothing && c.CheckOurs() != nil, !db.Layout.Hosted && c.Doc == nil && (c.HasBase() || nothing):
		return nil, nil
	}
	return c, nil
}

// recountPatience is how long the documents of one collection may take to be counted, so that a
// large one keeps no other counter from being read. Rollup waits longer.
const recountPatience = patience / 3

func readRecount(ctx context.Context, db *store.DB, id string, field layout.Field, at time.Time) (Recount, error) {
	patient, cancel := context.WithTimeout(ctx, recountPatience)
	defer cancel()
	recount, err := db.Aggregate(patient, id, field.Counted, at)
	switch code := status.Code(err); {
	case code == codes.FailedPrecondition:
		return Recount{Refused: firstLine(err)}, nil
	case code == codes.InvalidArgument:
		return Recount{Refused: firstLine(err), Never: true}, nil
	case ctx.Err() == nil && (code == codes.DeadlineExceeded || errors.Is(err, context.DeadlineExceeded)):
		return Recount{Slow: true}, nil
	case err != nil:
		return Recount{}, fmt.Errorf("count the documents of %s: %w", field.Name, err)
	}
	r := Recount{Held: valueOf(recount.Value)}
	if r.Bad != "" && field.Integer() && field.Counted.Sum != "" {
		var all bool
		if r.Fractions, all, err = fractions(ctx, db, id, field.Counted, at); err != nil {
			return r, fmt.Errorf("look for fractions in %s: %w", field.Name, err)
		}
		if !all {
			r.Searched = searched
		}
	}
	return r, nil
}

// held is what a document has in a field.
func held(doc *firestorepb.Document, field string) Held {
	value, there := doc.GetFields()[field]
	if !there {
		return Held{}
	}
	return valueOf(value)
}

func valueOf(value *firestorepb.Value) Held {
	h := Held{There: true, Kept: !book.Overwritable(value), List: value.GetArrayValue() != nil, Number: store.Number(value)}
	var ok bool
	if h.Count, ok = store.Integer(value); !ok {
		h.Bad, h.Nearest = fmt.Sprintf("%.200s", value), nearest(value)
	}
	if h.List { // of 20,000 ids, say
		h.Bad = "a list"
	}
	_, double := value.GetValueType().(*firestorepb.Value_DoubleValue)
	h.Double = ok && double
	return h
}

// nearest is the integer nearest to a number that is none: a fraction, or beyond 2⁵³. It is nil of
// anything else.
func nearest(value *firestorepb.Value) *int64 {
	f := value.GetDoubleValue()
	if _, double := value.GetValueType().(*firestorepb.Value_DoubleValue); !double || math.IsNaN(f) || math.Abs(f) >= math.MaxInt64 {
		return nil
	}
	n := int64(math.Round(f))
	return &n
}

const (
	// searched is how many documents are read at most to find those by which a sum is no integer:
	// each is a billed read.
	searched = 3000
	// shownFractions is how many of them are named.
	shownFractions = 3
)

// fractions names documents that are summed up and hold what is no integer, such as "ratings/alice
// holds 0.5". It reports false where there are more documents than it reads.
func fractions(ctx context.Context, db *store.DB, id string, of *layout.Aggregation, at time.Time) (found []string, all bool, err error) {
	q := store.Query{Collection: db.CollectionOf(id, of), Group: of.From == layout.Group, At: at, Limit: 300}
	for read := 0; read < searched; read += q.Limit {
		docs, err := db.Documents(ctx, q)
		if err != nil {
			return nil, false, err
		}
		for _, doc := range docs {
			value := store.ValueAt(doc.GetFields(), of.Sum)
			_, integer := store.Integer(value)
			if _, double := value.GetValueType().(*firestorepb.Value_DoubleValue); !double || integer || !among(db, id, doc, of) {
				continue // what is no number is not in the sum
			}
			if found = append(found, fmt.Sprintf("%s holds %v", terminal.Quote(strings.TrimPrefix(doc.GetName(), db.Layout.Counter(id)+"/")), value.GetDoubleValue())); len(found) == shownFractions {
				return found, true, nil
			}
		}
		if len(docs) < q.Limit {
			return found, true, nil
		}
		q.After = docs[len(docs)-1].GetName()
	}
	return found, false, nil
}

// among reports whether a document is one of those that are counted for a counter.
func among(db *store.DB, counter string, doc *firestorepb.Document, of *layout.Aggregation) bool {
	return !slices.ContainsFunc(of.Where, func(f layout.Filter) bool {
		value := store.ValueAt(doc.GetFields(), f.Field)
		return !slices.ContainsFunc(db.Alternatives(counter, of, f), func(want *firestorepb.Value) bool { return compares(value, f.Op, want) })
	})
}

// compares reports whether a value is one that a condition takes. Values of two types never are.
func compares(value *firestorepb.Value, op layout.Operator, want *firestorepb.Value) bool {
	var order int
	switch want := want.GetValueType().(type) {
	case *firestorepb.Value_IntegerValue:
		f, ok := store.Float(value)
		if !ok {
			return false
		}
		order = cmp.Compare(f, float64(want.IntegerValue))
	case *firestorepb.Value_StringValue:
		text, ok := value.GetValueType().(*firestorepb.Value_StringValue)
		if !ok {
			return false
		}
		order = cmp.Compare(text.StringValue, want.StringValue)
	default:
		return proto.Equal(value, &firestorepb.Value{ValueType: want})
	}
	switch op {
	case layout.AtLeast:
		return order >= 0
	case layout.AtMost:
		return order <= 0
	case layout.Above:
		return order > 0
	case layout.Less:
		return order < 0
	}
	return order == 0
}
