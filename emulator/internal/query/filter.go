package query

import (
	"cmp"
	"math"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/emulator/internal/document"
)

// filter reports whether a document matches.
type filter func(*pb.Document) bool

const (
	maxIn           = 30 // values of in and array-contains-any
	maxNotIn        = 10
	maxDisjunctions = 30
)

// filterShape is what decides whether a combination of filters is allowed.
type filterShape struct {
	disjunctions             int
	notIn, notEqual          int
	arrayContains, anyOf, or bool
	keyEquality              bool            // a document is named
	key                      bool            // names are compared
	names                    []string        // that are compared with
	equal                    map[string]bool // fields that every document has the same value of; nil: none
	field                    string          // a field that is not the name; "": there is none
}

func parseFilter(in *pb.StructuredQuery_Filter) (filter, filterShape, error) {
	if in == nil {
		return nil, filterShape{}, nil
	}
	f, shape, err := compileFilter(in)
	if err != nil {
		return nil, shape, err
	}
	switch {
	case shape.disjunctions > maxDisjunctions:
		return nil, shape, invalid("Too many disjunctions after normalization. Result had %d disjunctions which is more than the maximum of %d",
			shape.disjunctions, maxDisjunctions)
	case shape.notIn+shape.notEqual > 1:
		return nil, shape, invalid("Only a single 'NOT_EQUAL', 'NOT_IN', 'IS_NOT_NAN', or 'IS_NOT_NULL' filter allowed per query.")
	case shape.notIn > 0 && (shape.or || shape.anyOf):
		return nil, shape, invalid("'NOT_IN' cannot be used in the same query with 'IN', 'ARRAY_CONTAINS_ANY' or 'OR'.")
	}
	return f, shape, nil
}

func compileFilter(in *pb.StructuredQuery_Filter) (filter, filterShape, error) {
	switch t := in.GetFilterType().(type) {
	case *pb.StructuredQuery_Filter_CompositeFilter:
		return compileComposite(t.CompositeFilter)
	case *pb.StructuredQuery_Filter_FieldFilter:
		return compileField(t.FieldFilter)
	case *pb.StructuredQuery_Filter_UnaryFilter:
		return compileUnary(t.UnaryFilter)
	}
	return nil, filterShape{}, invalid("A filter has no type.")
}

func compileComposite(in *pb.StructuredQuery_CompositeFilter) (filter, filterShape, error) {
	op := in.GetOp()
	and := op == pb.StructuredQuery_CompositeFilter_AND
	if !and && op != pb.StructuredQuery_CompositeFilter_OR {
		return nil, filterShape{}, invalid("Unsupported CompositeFilter operator.")
	}
	if len(in.GetFilters()) == 0 { // no filter at all
		return func(*pb.Document) bool { return true }, filterShape{disjunctions: 1}, nil
	}
	var parts []filter
	shape := filterShape{or: !and && len(in.Filters) > 1}
	if and {
		shape.disjunctions = 1
	}
	for _, sub := range in.Filters {
		f, s, err := compileFilter(sub)
		if err != nil {
			return nil, shape, err
		}
		if and && shape.arrayContains && s.arrayContains {
			return nil, shape, invalid("A maximum of 1 'ARRAY_CONTAINS' filter is allowed per disjunction.")
		}
		parts = append(parts, f)
		if and {
			// Capped, as a nest of ors and ands can multiply beyond an int.
			shape.disjunctions = min(shape.disjunctions*s.disjunctions, math.MaxInt16)
		} else {
			shape.disjunctions = min(shape.disjunctions+s.disjunctions, math.MaxInt16)
		}
		shape.notIn += s.notIn
		shape.notEqual += s.notEqual
		shape.arrayContains = shape.arrayContains || s.arrayContains
		shape.anyOf = shape.anyOf || s.anyOf
		shape.or = shape.or || s.or
		shape.keyEquality = shape.keyEquality || s.keyEquality
		shape.key = shape.key || s.key
		shape.names = append(shape.names, s.names...)
		for name := range s.equal {
			if and || len(in.Filters) == 1 {
				if shape.equal == nil {
					shape.equal = make(map[string]bool)
				}
				shape.equal[name] = true
			}
		}
		shape.field = cmp.Or(shape.field, s.field)
	}
	return func(doc *pb.Document) bool {
		for _, f := range parts {
			if f(doc) != and {
				return !and
			}
		}
		return and
	}, shape, nil
}

func compileField(in *pb.StructuredQuery_FieldFilter) (filter, filterShape, error) {
	shape := filterShape{disjunctions: 1}
	path, err := document.ParseFieldPath(in.GetField().GetFieldPath())
	if err != nil {
		return nil, shape, err
	}
	operand := in.GetValue()
	op := in.GetOp()
	if err := checkOperand(path, op, operand); err != nil {
		return nil, shape, err
	}
	switch op {
	case pb.StructuredQuery_FieldFilter_IN, pb.StructuredQuery_FieldFilter_ARRAY_CONTAINS_ANY:
		shape.anyOf = true
		shape.disjunctions = len(operand.GetArrayValue().GetValues())
		err = checkOperands(op, operand, maxIn)
	case pb.StructuredQuery_FieldFilter_NOT_IN:
		shape.notIn = 1
		err = checkOperands(op, operand, maxNotIn)
	case pb.StructuredQuery_FieldFilter_NOT_EQUAL:
		shape.notEqual = 1
	}
	if err != nil {
		return nil, shape, err
	}
	switch op {
	case pb.StructuredQuery_FieldFilter_ARRAY_CONTAINS, pb.StructuredQuery_FieldFilter_ARRAY_CONTAINS_ANY:
		shape.arrayContains = true
	}
	if shape.key = path.IsName(); !shape.key {
		shape.field = path.String()
		if op == pb.StructuredQuery_FieldFilter_EQUAL {
			shape.equal = map[string]bool{shape.field: true}
		}
	} else {
		shape.keyEquality = op == pb.StructuredQuery_FieldFilter_EQUAL || op == pb.StructuredQuery_FieldFilter_IN
		if shape.names, err = namesOf(op, operand); err != nil {
			return nil, shape, err
		}
	}
	test, err := fieldTest(op, operand)
	if err != nil {
		return nil, shape, err
	}
	return func(doc *pb.Document) bool {
		v := FieldOf(doc, path)
		return v != nil && test(v)
	}, shape, nil
}

// checkOperand refuses to compare with what can't be stored, or is too large for an index. Of several
// values each is a comparison of its own; names are in an index of their own.
func checkOperand(path document.Path, op pb.StructuredQuery_FieldFilter_Operator, operand *pb.Value) error {
	if err := document.CheckOperand(operand); err != nil || path.IsName() {
		return err
	}
	values := []*pb.Value{operand}
	switch op {
	case pb.StructuredQuery_FieldFilter_IN, pb.StructuredQuery_FieldFilter_NOT_IN, pb.StructuredQuery_FieldFilter_ARRAY_CONTAINS_ANY:
		values = operand.GetArrayValue().GetValues()
	}
	for _, v := range values {
		if !document.Indexed(v) {
			return invalid("A value is too large to be used in a query.")
		}
	}
	return nil
}

func checkOperands(op pb.StructuredQuery_FieldFilter_Operator, operand *pb.Value, most int) error {
	n := len(operand.GetArrayValue().GetValues())
	switch {
	case operand.GetArrayValue() == nil:
		return invalid("'%v' requires an ArrayValue.", op)
	case n == 0:
		return invalid("'%v' requires an non-empty ArrayValue.", op)
	case n > most:
		return invalid("'%v' supports up to %d comparison values.", op, most)
	}
	return nil
}

// namesOf are the names that documents' are compared with. It refuses anything but references.
func namesOf(op pb.StructuredQuery_FieldFilter_Operator, operand *pb.Value) (names []string, err error) {
	values := []*pb.Value{operand}
	switch op {
	case pb.StructuredQuery_FieldFilter_IN, pb.StructuredQuery_FieldFilter_NOT_IN:
		values = operand.GetArrayValue().GetValues()
	case pb.StructuredQuery_FieldFilter_ARRAY_CONTAINS, pb.StructuredQuery_FieldFilter_ARRAY_CONTAINS_ANY:
		return nil, invalid("the name __key__ is reserved")
	}
	for _, v := range values {
		if document.RankOf(v) != document.RankReference {
			return nil, invalid("__key__ filter value must be a Key")
		}
		names = append(names, v.GetReferenceValue())
	}
	return names, nil
}

// namesBetween are the bounds of names that a filter lets through. "" is no bound.
func namesBetween(in *pb.StructuredQuery_Filter) (least, most string) {
	if f := in.GetFieldFilter(); f != nil {
		if path, err := document.ParsePath(f.GetField().GetFieldPath()); err != nil || !path.IsName() {
			return "", ""
		}
		name := f.GetValue().GetReferenceValue()
		switch f.GetOp() {
		case pb.StructuredQuery_FieldFilter_GREATER_THAN, pb.StructuredQuery_FieldFilter_GREATER_THAN_OR_EQUAL:
			return name, ""
		case pb.StructuredQuery_FieldFilter_LESS_THAN, pb.StructuredQuery_FieldFilter_LESS_THAN_OR_EQUAL:
			return "", name
		case pb.StructuredQuery_FieldFilter_EQUAL:
			return name, name
		}
		return "", ""
	}
	if c := in.GetCompositeFilter(); c.GetOp() == pb.StructuredQuery_CompositeFilter_AND {
		for _, part := range c.GetFilters() {
			low, high := namesBetween(part)
			if low != "" && (least == "" || document.CompareNames(low, least) > 0) {
				least = low
			}
			if high != "" && (most == "" || document.CompareNames(high, most) < 0) {
				most = high
			}
		}
	}
	return least, most
}

// fieldTest makes the test of a field's value. Ranges match values of the operand's type only. Null
// and NaN compare with nothing, not even with themselves; filters without operand, which clients
// send instead, are there to find them.
func fieldTest(op pb.StructuredQuery_FieldFilter_Operator, operand *pb.Value) (func(*pb.Value) bool, error) {
	compares := func(v *pb.Value) bool { return !document.IsNull(v) && !document.IsNaN(v) }
	ranged := func(ok func(c int) bool) func(*pb.Value) bool {
		r := document.RankOf(operand)
		return func(v *pb.Value) bool {
			return document.RankOf(v) == r && compares(v) && compares(operand) && ok(document.Compare(v, operand))
		}
	}
	among := func(values []*pb.Value, v *pb.Value) bool { return compares(v) && document.Contains(values, v) }
	values := operand.GetArrayValue().GetValues()
	switch op {
	case pb.StructuredQuery_FieldFilter_LESS_THAN:
		return ranged(func(c int) bool { return c < 0 }), nil
	case pb.StructuredQuery_FieldFilter_LESS_THAN_OR_EQUAL:
		return ranged(func(c int) bool { return c <= 0 }), nil
	case pb.StructuredQuery_FieldFilter_GREATER_THAN:
		return ranged(func(c int) bool { return c > 0 }), nil
	case pb.StructuredQuery_FieldFilter_GREATER_THAN_OR_EQUAL:
		return ranged(func(c int) bool { return c >= 0 }), nil
	case pb.StructuredQuery_FieldFilter_EQUAL:
		return ranged(func(c int) bool { return c == 0 }), nil
	case pb.StructuredQuery_FieldFilter_NOT_EQUAL:
		return func(v *pb.Value) bool {
			return !document.IsNull(v) && !document.IsNull(operand) && (document.IsNaN(v) || document.Compare(v, operand) != 0)
		}, nil
	case pb.StructuredQuery_FieldFilter_ARRAY_CONTAINS:
		return func(v *pb.Value) bool { return among(v.GetArrayValue().GetValues(), operand) }, nil
	case pb.StructuredQuery_FieldFilter_IN:
		return func(v *pb.Value) bool { return among(values, v) }, nil
	case pb.StructuredQuery_FieldFilter_NOT_IN:
		none := document.Contains(values, document.Null())
		return func(v *pb.Value) bool { return !none && !document.IsNull(v) && !among(values, v) }, nil
	case pb.StructuredQuery_FieldFilter_ARRAY_CONTAINS_ANY:
		return func(v *pb.Value) bool {
			for _, e := range v.GetArrayValue().GetValues() {
				if among(values, e) {
					return true
				}
			}
			return false
		}, nil
	}
	return nil, invalid("Unknown FieldFilter operator.")
}

func compileUnary(in *pb.StructuredQuery_UnaryFilter) (filter, filterShape, error) {
	shape := filterShape{disjunctions: 1}
	path, err := document.ParseFieldPath(in.GetField().GetFieldPath())
	if err != nil {
		return nil, shape, err
	}
	if path.IsName() {
		return nil, shape, invalid("__key__ filter value must be a Key")
	}
	shape.field = path.String()
	var test func(*pb.Value) bool
	switch in.GetOp() {
	case pb.StructuredQuery_UnaryFilter_IS_NULL:
		test = document.IsNull
	case pb.StructuredQuery_UnaryFilter_IS_NAN:
		test = document.IsNaN
	case pb.StructuredQuery_UnaryFilter_IS_NOT_NULL:
		shape.notEqual = 1
		test = func(v *pb.Value) bool { return !document.IsNull(v) }
	case pb.StructuredQuery_UnaryFilter_IS_NOT_NAN:
		shape.notEqual = 1
		test = func(v *pb.Value) bool { return !document.IsNull(v) && !document.IsNaN(v) }
	default:
		return nil, shape, invalid("Unknown operator %v of a unary filter.", in.GetOp())
	}
	return func(doc *pb.Document) bool {
		v := FieldOf(doc, path)
		return v != nil && test(v)
	}, shape, nil
}

// inequalityPaths are the distinct fields that a filter compares with anything but equality.
func inequalityPaths(in *pb.StructuredQuery_Filter, paths []document.Path) []document.Path {
	add := func(s string) {
		path, err := document.ParsePath(s)
		if err != nil {
			return // reported when the filter was compiled
		}
		for _, p := range paths {
			if p.String() == path.String() {
				return
			}
		}
		paths = append(paths, path)
	}
	switch t := in.GetFilterType().(type) {
	case *pb.StructuredQuery_Filter_CompositeFilter:
		for _, sub := range t.CompositeFilter.GetFilters() {
			paths = inequalityPaths(sub, paths)
		}
	case *pb.StructuredQuery_Filter_FieldFilter:
		switch t.FieldFilter.GetOp() {
		case pb.StructuredQuery_FieldFilter_EQUAL, pb.StructuredQuery_FieldFilter_IN,
			pb.StructuredQuery_FieldFilter_ARRAY_CONTAINS, pb.StructuredQuery_FieldFilter_ARRAY_CONTAINS_ANY:
		default:
			add(t.FieldFilter.GetField().GetFieldPath())
		}
	case *pb.StructuredQuery_Filter_UnaryFilter:
		switch t.UnaryFilter.GetOp() {
		case pb.StructuredQuery_UnaryFilter_IS_NOT_NAN, pb.StructuredQuery_UnaryFilter_IS_NOT_NULL:
			add(t.UnaryFilter.GetField().GetFieldPath())
		}
	}
	return paths
}
