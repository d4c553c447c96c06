package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/proto"

	"github.com/firestore-counters/counters/cmd/internal/terminal"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

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
