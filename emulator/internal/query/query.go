package query

import (
	"cmp"
	"slices"
	"strings"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator/internal/document"
)

// Query is a checked StructuredQuery.
type Query struct {
	Parent         string // full name of a document, or of the root of documents
	Collection     string // collection id; "" for any
	AllDescendants bool
	where          filter // nil: all
	Orders         []Order
	Start, End     *Cursor
	Offset         int
	Limit          int             // -1: none
	Fields         []document.Path // nil: all
	keyOrdered     bool            // the query itself orders by name
	keyFiltered    bool            // a filter names documents
	below          bool            // all descendants of a document are of interest, not those of the root
	equal          map[string]bool // fields that are compared for equality, whichever filter else holds
	least, most    string          // names that a filter asks to lie between; "" is no bound
	Missing        bool            // documents that don't exist, but have some below them, are of interest too
}

// Order is a field that results are ordered by.
type Order struct {
	Path document.Path
	Desc bool
}

// Cursor is a place in the order of results: just before or just after all that begin with its
// values.
type Cursor struct {
	Values []*pb.Value
	before bool
}

// Parse checks a query of what is below a parent: a document of the database, or the root of its
// documents.
func Parse(database, parent string, in *pb.StructuredQuery) (*Query, error) {
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
	q := &Query{Parent: parent, Limit: -1}
	if len(in.GetFrom()) == 1 { // without, all collections right below the parent
		q.Collection, q.AllDescendants = in.From[0].GetCollectionId(), in.From[0].GetAllDescendants()
	}
	if q.Collection != "" {
		if err := checkSelector(q.Collection); err != nil {
			return nil, err
		}
	}
	if q.Offset = int(in.GetOffset()); q.Offset < 0 {
		return nil, invalid("offset is negative")
	}
	if l := in.GetLimit(); l != nil {
		if q.Limit = int(l.Value); q.Limit < 0 {
			return nil, invalid("limit is negative")
		}
	}
	var shape filterShape
	var err error
	if q.where, shape, err = parseFilter(in.GetWhere()); err != nil {
		return nil, err
	}
	q.keyFiltered, q.equal = shape.key, shape.equal
	q.least, q.most = namesBetween(in.GetWhere())
	q.below = q.AllDescendants && parent != database+"/documents"
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
	for _, name := range shape.names {
		if err := document.CheckName(database, name); err != nil {
			return nil, err
		}
	}
	if q.Start, err = q.parseCursor(database, in.GetStartAt(), len(in.GetOrderBy())); err != nil {
		return nil, err
	}
	if q.End, err = q.parseCursor(database, in.GetEndAt(), len(in.GetOrderBy())); err != nil {
		return nil, err
	}
	return q, q.parseSelect(in.GetSelect())
}

// parseOrders completes the order as Firestore does: fields with inequality filters that it lacks
// are appended by name, then the document's name, all in the last direction given.
func (q *Query) parseOrders(in []*pb.StructuredQuery_Order, inequalities []document.Path) error {
	for _, o := range in {
		path, err := document.ParseFieldPath(o.GetField().GetFieldPath())
		if err != nil {
			return err
		}
		switch {
		case q.ordersBy(document.Path{document.NameField}):
			return errAfterKey()
		case q.ordersBy(path):
			return invalid("order by clause cannot contain duplicate fields %s", path)
		}
		q.Orders = append(q.Orders, Order{path, o.GetDirection() == pb.StructuredQuery_DESCENDING})
		q.keyOrdered = path.IsName()
	}
	return q.completeOrders(inequalities)
}

// completeOrders appends the fields that the order lacks, by name, and then the document's name.
func (q *Query) completeOrders(fields []document.Path) error {
	fields = slices.Clone(fields)
	slices.SortFunc(fields, func(a, b document.Path) int { return cmp.Compare(a.String(), b.String()) })
	key := document.Path{document.NameField}
	for _, path := range fields {
		switch {
		case q.ordersBy(path) || path.IsName():
		case q.ordersBy(key):
			return errAfterKey()
		default:
			q.Orders = append(q.Orders, Order{path, q.descending()})
		}
	}
	if !q.ordersBy(key) {
		q.Orders = append(q.Orders, Order{key, q.descending()})
	}
	return nil
}

func errAfterKey() error { return invalid("order by clause cannot contain more fields after the key") }

func (q *Query) ordersBy(path document.Path) bool {
	return slices.ContainsFunc(q.Orders, func(o Order) bool { return slices.Equal(o.Path, path) })
}

// descending is the last direction given.
func (q *Query) descending() bool { return len(q.Orders) > 0 && q.Orders[len(q.Orders)-1].Desc }

// OrderForSums puts the fields that are summed or averaged into the order, where the index has
// them: which documents a limit takes depends on it. It refuses where no index can have them: what
// goes by names has nothing behind the name. A field that is compared for equality is before it.
func (q *Query) OrderForSums(fields []document.Path) error {
	missing := slices.DeleteFunc(slices.Clone(fields), q.ordersBy)
	byName := q.keyFiltered || q.below
	if q.keyOrdered && !byName {
		byName = slices.ContainsFunc(missing, func(p document.Path) bool { return !q.equal[p.String()] })
	}
	switch {
	case len(missing) == 0:
		return nil
	case byName:
		names := make([]string, len(missing))
		for i, p := range missing {
			names[i] = p.String()
		}
		return invalid("This query requires an index that has fields [%s] after __name__ and Firestore does not currently support such an index. "+
			"Please try the query again with additional ordering on those fields.", strings.Join(names, ", "))
	case q.keyOrdered || !q.Windowed():
		return nil
	}
	last := len(q.Orders) - 1
	q.Orders = q.Orders[:last:last] // without the name, which comes last again
	return q.completeOrders(missing)
}

// checkKeys refuses a filter that names documents beside inequalities of their fields: no index
// serves it.
func (q *Query) checkKeys(shape filterShape, inequalities []document.Path) error {
	if shape.keyEquality && len(inequalities) > 0 && !slices.ContainsFunc(inequalities, document.Path.IsName) {
		return invalid("Equality on key is not allowed if there are other inequality fields and key does not appear in inequalities.")
	}
	return nil
}

// checkIndex refuses queries of several collections for which Firestore can have no index.
func (q *Query) checkIndex(database string, shape filterShape) error {
	plain := q.ByNameOnly() && !q.Orders[0].Desc // the order of documents as they are stored
	if q.AllDescendants && q.Parent != database+"/documents" {
		switch {
		case !q.ByNameOnly() || shape.field != "":
			return invalid("collection group queries are only allowed at the root parent")
		case !plain && q.Collection != "":
			return status.Error(codes.FailedPrecondition, "collection group queries are only allowed if they're at the root or they're an ascending primary key scan")
		}
	}
	if q.Collection != "" {
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

// parseCursor reads a cursor. Its values are of the orders that the query names, not of those that
// complete them.
func (q *Query) parseCursor(database string, in *pb.Cursor, named int) (*Cursor, error) {
	if in == nil {
		return nil, nil
	}
	if len(in.Values) > named {
		return nil, invalid("Cursor has too many values.")
	}
	for i, v := range in.Values {
		if err := document.CheckOperand(v); err != nil {
			return nil, err
		}
		if !q.Orders[i].Path.IsName() {
			continue
		}
		if document.RankOf(v) != document.RankReference {
			return nil, invalid("Cursor __key__ value is not a document reference.")
		}
		if err := document.CheckName(database, v.GetReferenceValue()); err != nil {
			return nil, err
		}
	}
	return &Cursor{Values: in.Values, before: in.Before}, nil
}

func (q *Query) parseSelect(in *pb.StructuredQuery_Projection) error {
	if len(in.GetFields()) == 0 {
		return nil
	}
	q.Fields = []document.Path{}
	for _, f := range in.Fields {
		path, err := document.ParseFieldPath(f.GetFieldPath())
		if err != nil {
			return err
		}
		if !path.IsName() {
			q.Fields = append(q.Fields, path)
		}
	}
	return nil
}

// Covers reports whether the query looks at a collection, given by what is above it and its id.
func (q *Query) Covers(parent, id string) bool {
	if q.Collection != "" && id != q.Collection {
		return false
	}
	if parent == q.Parent {
		return true
	}
	return q.AllDescendants && strings.HasPrefix(parent, q.Parent) && parent[len(q.Parent)] == '/'
}

// Names are the bounds that a query that orders by name has: no document before the one or behind the
// other is among the results. "" is no bound.
func (q *Query) Names() (least, most string) {
	least, most = q.least, q.most
	first, last := q.Start.name(), q.End.name()
	if q.Orders[0].Desc {
		first, last = last, first
	}
	if first != "" && (least == "" || document.CompareNames(first, least) > 0) {
		least = first
	}
	if last != "" && (most == "" || document.CompareNames(last, most) < 0) {
		most = last
	}
	return least, most
}

// name is what the cursor of an order by name points at.
func (c *Cursor) name() string {
	if c == nil || len(c.Values) == 0 {
		return ""
	}
	return c.Values[0].GetReferenceValue()
}

// Matches reports whether a document of a collection that the query covers is among the results,
// but for the window.
func (q *Query) Matches(doc *pb.Document) bool {
	for _, o := range q.Orders {
		if !o.Path.IsName() && document.Lookup(doc.Fields, o.Path) == nil {
			return false // a document is in no index of a field that it lacks
		}
	}
	if q.where != nil && !q.where(doc) {
		return false
	}
	if q.Start != nil {
		if c := q.comparePlace(doc, q.Start); c < 0 || c == 0 && !q.Start.before {
			return false
		}
	}
	if q.End != nil {
		if c := q.comparePlace(doc, q.End); c > 0 || c == 0 && q.End.before {
			return false
		}
	}
	return true
}

// comparePlace compares a document with the values of a cursor, as far as these go.
func (q *Query) comparePlace(doc *pb.Document, at *Cursor) int {
	for i, v := range at.Values {
		if c := q.Orders[i].compare(FieldOf(doc, q.Orders[i].Path), v); c != 0 {
			return c
		}
	}
	return 0
}

func (o Order) compare(a, b *pb.Value) int {
	c := document.Compare(a, b)
	if o.Desc {
		return -c
	}
	return c
}

// Compare is the order of the query's results.
func (q *Query) Compare(a, b *pb.Document) int {
	for _, o := range q.Orders {
		var c int
		if o.Path.IsName() {
			c = document.CompareNames(a.Name, b.Name)
		} else {
			c = document.Compare(document.Lookup(a.Fields, o.Path), document.Lookup(b.Fields, o.Path))
		}
		if c != 0 {
			if o.Desc {
				return -c
			}
			return c
		}
	}
	return 0
}

// Windowed reports whether one document's change can bring another one in or out.
func (q *Query) Windowed() bool { return q.Limit >= 0 || q.Offset > 0 }

// ByNameOnly reports whether results come in the order of their names.
func (q *Query) ByNameOnly() bool { return q.Orders[0].Path.IsName() }

// FieldOf is a document's value in a filter or order; its name is a reference to it.
func FieldOf(doc *pb.Document, path document.Path) *pb.Value {
	if path.IsName() {
		return &pb.Value{ValueType: &pb.Value_ReferenceValue{ReferenceValue: doc.Name}}
	}
	return document.Lookup(doc.Fields, path)
}
