package engine

import (
	"cmp"
	"slices"
	"strings"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// query is a checked StructuredQuery.
type query struct {
	parent         string // full name of a document, or of the root of documents
	collection     string // collection id; "" for any
	allDescendants bool
	where          filter // nil: all
	orders         []order
	start, end     *cursor
	offset         int
	limit          int         // -1: none
	fields         []fieldPath // nil: all
	missing        bool        // documents that don't exist, but have some below them, are of interest too
}

type order struct {
	path fieldPath
	desc bool
}

// cursor is a place in the order of results: just before or just after all that begin with its values.
type cursor struct {
	values []*pb.Value
	before bool
}

func parseQuery(database, parent string, in *pb.StructuredQuery) (*query, error) {
	if err := checkParent(database, parent); err != nil {
		return nil, err
	}
	if in == nil {
		return nil, invalid("The request has no structured query.")
	}
	if in.GetFindNearest() != nil {
		return nil, status.Error(codes.Unimplemented, "Vector search (find_nearest) isn't covered.")
	}
	if len(in.GetFrom()) != 1 {
		return nil, invalid("A query has exactly one collection selector, not %d.", len(in.GetFrom()))
	}
	q := &query{parent: parent, collection: in.From[0].GetCollectionId(), allDescendants: in.From[0].GetAllDescendants(), limit: -1}
	if q.collection != "" {
		if err := checkCollectionID(parent, q.collection); err != nil {
			return nil, err
		}
		if strings.Contains(q.collection, "/") {
			return nil, invalid("A collection id can't contain a slash: %q.", q.collection)
		}
	}
	if q.offset = int(in.GetOffset()); q.offset < 0 {
		return nil, invalid("The offset of a query must not be negative.")
	}
	if l := in.GetLimit(); l != nil {
		if q.limit = int(l.Value); q.limit < 0 {
			return nil, invalid("The limit of a query must not be negative.")
		}
	}
	var err error
	if q.where, err = parseFilter(in.GetWhere()); err != nil {
		return nil, err
	}
	if err := q.parseOrders(in); err != nil {
		return nil, err
	}
	if q.start, err = q.parseCursor(in.GetStartAt(), len(in.GetOrderBy())); err != nil {
		return nil, err
	}
	if q.end, err = q.parseCursor(in.GetEndAt(), len(in.GetOrderBy())); err != nil {
		return nil, err
	}
	return q, q.parseSelect(in.GetSelect())
}

// parseOrders completes the order as Firestore does: fields with inequality filters that it lacks are appended by name,
// then the document's name, all in the last direction given.
func (q *query) parseOrders(in *pb.StructuredQuery) error {
	desc := false
	has := func(path fieldPath) bool {
		return slices.ContainsFunc(q.orders, func(o order) bool { return slices.Equal(o.path, path) })
	}
	for _, o := range in.GetOrderBy() {
		path, err := parseFieldPath(o.GetField().GetFieldPath())
		if err != nil {
			return err
		}
		if has(path) {
			return invalid("The query orders by %q twice.", path)
		}
		if has(fieldPath{nameField}) {
			return invalid("Nothing can be ordered by after __name__.")
		}
		desc = o.GetDirection() == pb.StructuredQuery_DESCENDING
		q.orders = append(q.orders, order{path, desc})
	}
	inequalities := inequalityPaths(in.GetWhere(), nil)
	slices.SortFunc(inequalities, func(a, b fieldPath) int { return cmp.Compare(a.String(), b.String()) })
	for _, path := range inequalities {
		if !has(path) && !has(fieldPath{nameField}) {
			q.orders = append(q.orders, order{path, desc})
		}
	}
	if !has(fieldPath{nameField}) {
		q.orders = append(q.orders, order{fieldPath{nameField}, desc})
	}
	return nil
}

// parseCursor reads a cursor. Its values are of the orders that the query names, not of those that complete them.
func (q *query) parseCursor(in *pb.Cursor, named int) (*cursor, error) {
	if in == nil || len(in.GetValues()) == 0 {
		return nil, nil
	}
	if len(in.Values) > named {
		return nil, invalid("Cursor has too many values: %d, and the query names %d orders.", len(in.Values), named)
	}
	for i, v := range in.Values {
		if q.orders[i].path.isName() && rankOf(v) != rankReference {
			return nil, invalid("A cursor's value for __name__ must be a reference.")
		}
	}
	return &cursor{values: in.Values, before: in.Before}, nil
}

func (q *query) parseSelect(in *pb.StructuredQuery_Projection) error {
	if len(in.GetFields()) == 0 {
		return nil
	}
	q.fields = []fieldPath{}
	for _, f := range in.Fields {
		path, err := parseFieldPath(f.GetFieldPath())
		if err != nil {
			return err
		}
		if !path.isName() {
			q.fields = append(q.fields, path)
		}
	}
	return nil
}

// covers tells whether the query looks at the collection.
func (q *query) covers(c *collection) bool {
	if q.collection != "" && c.id != q.collection {
		return false
	}
	if c.parent == q.parent {
		return true
	}
	return q.allDescendants && strings.HasPrefix(c.parent, q.parent) && c.parent[len(q.parent)] == '/'
}

// matches tells whether a document of a collection that the query covers is among the results, but for the window.
func (q *query) matches(doc *pb.Document) bool {
	for _, o := range q.orders {
		if !o.path.isName() && lookup(doc.Fields, o.path) == nil {
			return false // a document is in no index of a field that it lacks
		}
	}
	if q.where != nil && !q.where(doc) {
		return false
	}
	if q.start != nil {
		if c := q.comparePlace(doc, q.start); c < 0 || c == 0 && !q.start.before {
			return false
		}
	}
	if q.end != nil {
		if c := q.comparePlace(doc, q.end); c > 0 || c == 0 && q.end.before {
			return false
		}
	}
	return true
}

// comparePlace compares a document with the values of a cursor, as far as these go.
func (q *query) comparePlace(doc *pb.Document, at *cursor) int {
	for i, v := range at.values {
		if c := q.orders[i].compare(fieldOf(doc, q.orders[i].path), v); c != 0 {
			return c
		}
	}
	return 0
}

func (o order) compare(a, b *pb.Value) int {
	c := compareValues(a, b)
	if o.desc {
		return -c
	}
	return c
}

// compare is the order of the query's results.
func (q *query) compare(a, b *pb.Document) int {
	for _, o := range q.orders {
		c := 0
		if o.path.isName() {
			c = compareNames(a.Name, b.Name)
		} else {
			c = compareValues(lookup(a.Fields, o.path), lookup(b.Fields, o.path))
		}
		if c != 0 {
			if o.desc {
				return -c
			}
			return c
		}
	}
	return 0
}

// windowed tells whether one document's change can bring another one in or out.
func (q *query) windowed() bool { return q.limit >= 0 || q.offset > 0 }

// byNameOnly tells whether results come in the order of their names.
func (q *query) byNameOnly() bool { return q.orders[0].path.isName() }

// fieldOf is a document's value in a filter or order; its name is a reference to it.
func fieldOf(doc *pb.Document, path fieldPath) *pb.Value {
	if path.isName() {
		return &pb.Value{ValueType: &pb.Value_ReferenceValue{ReferenceValue: doc.Name}}
	}
	return lookup(doc.Fields, path)
}

// wants are the locks of a query in a transaction: of all that could come to match, too.
func (q *query) wants(mode lockMode) []want {
	switch {
	case q.collection == "" || q.missing:
		return []want{{resource{kind: lockEverything}, mode}}
	case q.allDescendants:
		return []want{{resource{lockGroup, q.collection}, mode}}
	}
	return []want{{resource{lockCollection, q.parent + "/" + q.collection}, mode}}
}
