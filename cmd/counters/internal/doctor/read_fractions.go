package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

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
	q := store.Query{Collection: db.CollectionOf(id, of.Collection), At: at, Limit: 300}
	for read := 0; read < searched; read += q.Limit {
		docs, err := db.Documents(ctx, q)
		if err != nil {
			return nil, false, err
		}
		for _, doc := range docs {
			value := valueAt(doc, of.Sum)
			_, integer := store.Integer(value)
			if _, double := value.GetValueType().(*firestorepb.Value_DoubleValue); !double || integer || !among(doc, of.Where) {
				continue // what is no number is not in the sum
			}
			if found = append(found, fmt.Sprintf("%s holds %v", strings.TrimPrefix(doc.GetName(), db.Counter(id)+"/"), value.GetDoubleValue())); len(found) == shownFractions {
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

// valueAt is what a document has at a path such as by.stars.
func valueAt(doc *firestorepb.Document, path string) *firestorepb.Value {
	names := strings.Split(path, ".")
	fields := doc.GetFields()
	for _, name := range names[:len(names)-1] {
		fields = fields[name].GetMapValue().GetFields()
	}
	return fields[names[len(names)-1]]
}

// among reports whether a document is one of those that are counted.
func among(doc *firestorepb.Document, where *layout.Filter) bool {
	if where == nil {
		return true
	}
	value := valueAt(doc, where.Field)
	switch want := where.Value.(type) {
	case bool:
		is, ok := value.GetValueType().(*firestorepb.Value_BooleanValue)
		return ok && is.BooleanValue == want
	case string:
		is, ok := value.GetValueType().(*firestorepb.Value_StringValue)
		return ok && is.StringValue == want
	default:
		n, ok := store.Integer(value)
		return ok && value != nil && n == want
	}
}
