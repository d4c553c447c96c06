package engine

import (
	"cmp"
	"slices"
	"strings"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator/internal/document"
	"github.com/firestore-counters/counters/emulator/internal/locks"
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
	limit          int             // -1: none
	fields         []document.Path // nil: all
	keyOrdered     bool            // the query itself orders by name
	missing        bool            // documents that don't exist, but have some below them, are of interest too
}

type order struct {
	path document.Path
	desc bool
}

// cursor is a place in the order of results: just before or just after all that begin with its values.
type cursor struct {
	values []*pb.Value
	before bool
}

func parseQuery(database, parent string, in *pb.StructuredQuery) (*query, error) {
	if err := document.CheckParent(database, parent); err != nil {
		return nil, err
	}
	if in == nil {
		return nil, invalid("only structured queries are supported")
	}
	if in.GetFindNearest() != nil {
		return nil, status.Error(codes.Unimplemented, "Vector search (find_nearest) isn't covered here: use the official emulator for it.")
	}
	if len(in.GetFrom()) > 1 {
		return nil, invalid("StructuredQuery.from cannot have more than one collection selector.")
	}
	q := &query{parent: parent, limit: -1}
	if len(in.GetFrom()) == 1 { // without, all collections right below the parent
		q.collection, q.allDescendants = in.From[0].GetCollectionId(), in.From[0].GetAllDescendants()
	}
	if q.collection != "" {
		if err := checkSelector(q.collection); err != nil {
			return nil, err
		}
	}
	if q.offset = int(in.GetOffset()); q.offset < 0 {
		return nil, invalid("offset is negative")
	}
	if l := in.GetLimit(); l != nil {
		if q.limit = int(l.Value); q.limit < 0 {
			return nil, invalid("limit is negative")
		}
	}
	var shape filterShape
	var err error
	if q.where, shape, err = parseFilter(in.GetWhere()); err != nil {
		return nil, err
	}
	inequalities := inequalityPaths(in.GetWhere(), nil)
	if err := q.parseOrders(in.GetOrderBy(), inequalities); err != nil {
		return nil, err
	}
	if err := q.checkKeys(shape, inequalities); err != nil {
		return nil, err
	}
	if err := q.checkIndex(database, shape); err != nil {
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
func (q *query) parseOrders(in []*pb.StructuredQuery_Order, inequalities []document.Path) error {
	for _, o := range in {
		path, err := document.ParsePath(o.GetField().GetFieldPath())
		if err != nil {
			return err
		}
		switch {
		case q.ordersBy(document.Path{document.NameField}):
			return errAfterKey()
		case q.ordersBy(path):
			return invalid("order by clause cannot contain duplicate fields %s", path)
		}
		q.orders = append(q.orders, order{path, o.GetDirection() == pb.StructuredQuery_DESCENDING})
		q.keyOrdered = path.IsName()
	}
	return q.completeOrders(inequalities)
}

// completeOrders appends the fields that the order lacks, by name, and then the document's name.
func (q *query) completeOrders(fields []document.Path) error {
	fields = slices.Clone(fields)
	slices.SortFunc(fields, func(a, b document.Path) int { return cmp.Compare(a.String(), b.String()) })
	key := document.Path{document.NameField}
	for _, path := range fields {
		switch {
		case q.ordersBy(path) || path.IsName():
		case q.ordersBy(key):
			return errAfterKey()
		default:
			q.orders = append(q.orders, order{path, q.descending()})
		}
	}
	if !q.ordersBy(key) {
		q.orders = append(q.orders, order{key, q.descending()})
	}
	return nil
}

func errAfterKey() error { return invalid("order by clause cannot contain more fields after the key") }

func (q *query) ordersBy(path document.Path) bool {
	return slices.ContainsFunc(q.orders, func(o order) bool { return slices.Equal(o.path, path) })
}

// descending is the last direction given.
func (q *query) descending() bool { return len(q.orders) > 0 && q.orders[len(q.orders)-1].desc }

// orderForSums puts the fields that are summed or averaged into the order, where the index has them: which documents a
// limit takes depends on it.
func (q *query) orderForSums(fields []document.Path) error {
	last := len(q.orders) - 1
	missing := slices.DeleteFunc(slices.Clone(fields), q.ordersBy)
	if len(missing) == 0 {
		return nil
	}
	if q.keyOrdered {
		return invalid("This query requires an index that has fields %v after __name__ and Firestore does not currently support such an index. "+
			"Please try the query again with additional ordering on those fields.", missing)
	}
	q.orders = q.orders[:last:last] // without the name, which comes last again
	return q.completeOrders(missing)
}

// checkKeys refuses a filter that names documents beside inequalities of their fields: no index serves it.
func (q *query) checkKeys(shape filterShape, inequalities []document.Path) error {
	if shape.keyEquality && len(inequalities) > 0 && !slices.ContainsFunc(inequalities, document.Path.IsName) {
		return invalid("Equality on key is not allowed if there are other inequality fields and key does not appear in inequalities.")
	}
	return nil
}

// checkIndex refuses queries of several collections for which Firestore can have no index.
func (q *query) checkIndex(database string, shape filterShape) error {
	plain := q.byNameOnly() && !q.orders[0].desc // the order of documents as they are stored
	if q.allDescendants && q.parent != database+"/documents" && (!plain || shape.field != "") {
		return invalid("collection group queries are only allowed at the root parent")
	}
	if q.collection != "" {
		return nil
	}
	switch {
	case !plain:
		return invalid("kind is required for all orders except __key__ ascending")
	case shape.field != "":
		return invalid("kind is required for filter: %s", shape.field)
	}
	return nil
}

// checkSelector refuses what can't be the id of a query's collection.
func checkSelector(id string) error {
	if strings.Contains(id, "/") {
		return invalid("Collection id %q is invalid because it contains \"/\".", id)
	}
	_, numeric := document.NumericID(id)
	if numeric || id == "." || id == ".." || document.Reserved(id) {
		return invalid("Collection id %q is invalid because it is reserved.", id)
	}
	return document.CheckID(id, id)
}

// parseCursor reads a cursor. Its values are of the orders that the query names, not of those that complete them.
func (q *query) parseCursor(in *pb.Cursor, named int) (*cursor, error) {
	if in == nil {
		return nil, nil
	}
	if len(in.Values) > named {
		return nil, invalid("Cursor has too many values.")
	}
	for i, v := range in.Values {
		if q.orders[i].path.IsName() && document.RankOf(v) != document.RankReference {
			return nil, invalid("Cursor __key__ value is not a document reference.")
		}
	}
	return &cursor{values: in.Values, before: in.Before}, nil
}

func (q *query) parseSelect(in *pb.StructuredQuery_Projection) error {
	if len(in.GetFields()) == 0 {
		return nil
	}
	q.fields = []document.Path{}
	for _, f := range in.Fields {
		path, err := document.ParsePath(f.GetFieldPath())
		if err != nil {
			return err
		}
		if !path.IsName() {
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
		if !o.path.IsName() && document.Lookup(doc.Fields, o.path) == nil {
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
	c := document.Compare(a, b)
	if o.desc {
		return -c
	}
	return c
}

// compare is the order of the query's results.
func (q *query) compare(a, b *pb.Document) int {
	for _, o := range q.orders {
		c := 0
		if o.path.IsName() {
			c = document.CompareNames(a.Name, b.Name)
		} else {
			c = document.Compare(document.Lookup(a.Fields, o.path), document.Lookup(b.Fields, o.path))
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
func (q *query) byNameOnly() bool { return q.orders[0].path.IsName() }

// fieldOf is a document's value in a filter or order; its name is a reference to it.
func fieldOf(doc *pb.Document, path document.Path) *pb.Value {
	if path.IsName() {
		return &pb.Value{ValueType: &pb.Value_ReferenceValue{ReferenceValue: doc.Name}}
	}
	return document.Lookup(doc.Fields, path)
}

// wants are the locks of a query in a transaction: of all that could come to match, too.
func (q *query) wants(mode locks.Mode) []locks.Want {
	switch {
	case q.collection == "" || q.missing:
		return []locks.Want{{Resource: locks.Resource{Kind: locks.Everything}, Mode: mode}}
	case q.allDescendants:
		return []locks.Want{{Resource: locks.Resource{Kind: locks.Group, Name: q.collection}, Mode: mode}}
	}
	return []locks.Want{{Resource: locks.Resource{Kind: locks.Collection, Name: q.parent + "/" + q.collection}, Mode: mode}}
}
