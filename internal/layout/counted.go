package layout

import (
	"fmt"
	"slices"
	"strings"
)

// Patterns are triggers' path patterns for all documents that change a count: first the shards, and then one for each
// of [Layout.Collections].
func (l Layout) Patterns() []string {
	patterns := []string{l.Path.String() + "/" + l.Shards + "/{shard}"}
	for _, source := range l.Collections() {
		patterns = append(patterns, l.PatternOf(source))
	}
	return patterns
}

// Collections are those, besides the shards, whose documents change a count, each once: those that queries count, as
// [Aggregation.Source] writes them, and the extension's shards.
func (l Layout) Collections() []string {
	all := distinct(l.Counted, (*Aggregation).Source)
	if l.Extension {
		all = append(all, ExtensionShards)
	}
	return all
}

// CollectionGroups are the ids of these collections, each once.
func (l Layout) CollectionGroups() []string {
	return distinct(l.Counted, func(a *Aggregation) string { return a.Collection })
}

func distinct(counted Fields, of func(*Aggregation) string) (names []string) {
	for _, field := range counted {
		if name := of(field.Counted); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// PatternOf is the trigger's path pattern for the documents of one of [Layout.Collections].
func (l Layout) PatternOf(source string) string {
	for scope := Group; scope > Below; scope-- { // which has no prefix
		if id, is := strings.CutPrefix(source, prefixes[scope]); is {
			return map[Scope]string{Root: "", Group: anywhere + "/"}[scope] + id + "/{document}"
		}
	}
	return l.Path.String() + "/" + source + "/{document}"
}

// anywhere stands for any parents, or none, in a trigger's path pattern.
const anywhere = "{parents=**}"

// FieldsThatCount are the fields whose queries must be asked when one of these documents changes: see
// [Aggregation.Documents].
func (l Layout) FieldsThatCount(documents string) Fields {
	return slices.DeleteFunc(slices.Clone(l.Counted), func(f Field) bool { return f.Counted.Documents() != documents })
}

// CountedDocument is a document that queries count.
type CountedDocument struct {
	Documents string // see [Aggregation.Documents]
	// the counter that it concerns; empty if the document itself names its counter, by References
	Counter    string
	Document   string   // its id; its path if it names its counter itself
	References []Filter // the fields in which it names its counter
}

// ParseCounted says by a document's resource name how queries count it. It is nil if none does, and
// for names that no document can have.
func (l Layout) ParseCounted(name string) (counted []CountedDocument) {
	path, ok := strings.CutPrefix(name, l.root())
	if !ok {
		return nil
	}
	parts := strings.Split(path, "/")
	n := len(parts) - 2
	if len(parts)%2 != 0 || slices.ContainsFunc(parts, func(part string) bool { return ValidateID(part) != nil }) {
		return nil
	}
	for _, field := range l.Counted {
		a := field.Counted
		if a.Collection != parts[n] || a.From == Root && n > 0 ||
			slices.ContainsFunc(counted, func(c CountedDocument) bool { return c.Documents == a.Documents() }) {
			continue
		}
		c := CountedDocument{Documents: a.Documents(), Document: parts[n+1], References: a.References()}
		switch {
		case a.From == Below:
			if c.Counter, ok = l.Path.ID(strings.Join(parts[:n], "/")); !ok {
				continue
			}
		case len(c.References) == 0:
			c.Counter = l.Path.only() // otherwise FIELDS would have been refused
		default:
			c.Document = path
		}
		counted = append(counted, c)
	}
	return counted
}

// CounterOf is the counter that a document names. Field returns a field of the document: a text, or the
// path of a reference. CounterOf reports false if the document names no counter, or two.
func (l Layout) CounterOf(references []Filter, field func(path string) (text string, ok bool)) (counter string, ok bool) {
	p := l.Path
	named := make([]string, len(p.wildcards))
	for _, f := range references {
		text, ok := field(f.Field)
		if !ok {
			return "", false
		}
		named[slices.Index(p.wildcards, string(f.Value.(Wildcard)))] = text
	}
	if last := named[len(named)-1]; strings.Contains(last, "/") {
		counter, ok = p.ID(last)
	} else {
		values := make([]string, len(named))
		for i, text := range named {
			values[i] = text[strings.LastIndexByte(text, '/')+1:]
		}
		counter = strings.Join(values, "/")
		ok = p.Validate(counter) == nil
	}
	if !ok {
		return "", false
	}
	for _, f := range references {
		text, _ := field(f.Field)
		if id, path := l.Refer(counter, f.Value.(Wildcard), references); text != path && (text != id || id == "") {
			return "", false
		}
	}
	return counter, true
}

// Refer returns how documents name a counter by one of its wildcards: by the id there, or by the path
// of the document there, as a text or as a reference. If the documents don't name all wildcards, an id
// is ambiguous and Refer leaves it empty: only paths say which counter is meant.
func (l Layout) Refer(counter string, wildcard Wildcard, references []Filter) (id, path string) {
	i := slices.Index(l.Path.wildcards, string(wildcard))
	values := strings.Split(counter, "/")
	parts := strings.Split(l.Path.Document(counter), "/")
	if len(references) == len(l.Path.wildcards) {
		id = values[i]
	}
	return id, strings.Join(parts[:2*i+2], "/")
}

// IndexFields are the fields of an index that answers the aggregation without reading other documents. Fields that are
// compared for equality come first, then those in a range or summed up. It is empty if the aggregation counts a whole
// collection.
func (a *Aggregation) IndexFields() (fields []string) {
	add := func(field string) {
		if !slices.Contains(fields, field) {
			fields = append(fields, field)
		}
	}
	for _, ranges := range []bool{false, true} {
		for _, f := range a.Where {
			if f.Op.Range() == ranges {
				add(f.Field)
			}
		}
	}
	if a.Sum != "" {
		add(a.Sum)
	}
	return fields
}

// Index is that index where Firestore doesn't make it by itself, in a database of the Standard edition: the fields of a
// composite index, or one field of a collection group. It is empty if no index is missing.
func (a *Aggregation) Index() (fields []string) {
	fields = a.IndexFields()
	merges := a.Sum == "" && !slices.ContainsFunc(a.Where, func(f Filter) bool { return f.Op.Range() }) // indexes of equalities are merged
	if a.From != Group && (merges || len(fields) < 2) {
		return nil
	}
	return fields
}

// Aggregation is the definition of a field that counts documents, or adds up or averages one of their
// fields. The documents are in a collection below the counter's document, in a collection at the root,
// or in all collections with the same id.
//
//	count(comments)
//	count(/comments where post=={post})
//	count(**/comments where post=={post})
//	sum(ratings.stars)
//	sum(ratings.score) as double
//	avg(ratings.stars)
//	count(comments where public==true)
type Aggregation struct {
	Collection string // id
	From       Scope  // where it is
	Sum        string // path of the field that is summed up; empty for a count
	Average    bool   // the sum divided by the number of documents with the field: a double, or null for none
	Double     bool   // the sum is always a double; otherwise it is an integer
	Where      []Filter
}

// Scope is where the collection of an [Aggregation] is.
type Scope int

const (
	Below Scope = iota // directly below the counter's document
	Root               // at the root of the database
	Group              // anywhere: all collections of that id
)

// prefixes are how a scope is written, before the collection's id.
var prefixes = [...]string{Below: "", Root: "/", Group: "**/"}

// Filter is a condition on the documents that are counted.
type Filter struct {
	Field string   // path
	Op    Operator // how it compares with the value
	Value any      // a bool, int64 or string; a [Wildcard]; for [In] a []any of bools, int64s and strings
}

// Operator is how a field compares with a value.
type Operator string

const (
	Equal   Operator = "=="
	In      Operator = "in"
	AtLeast Operator = ">="
	AtMost  Operator = "<="
	Above   Operator = ">"
	Less    Operator = "<"
)

// operators are in the order in which they are read: > comes after >=.
var operators = []Operator{Equal, AtLeast, AtMost, Above, Less, In}

// Range reports whether the operator takes a range of values.
func (o Operator) Range() bool { return o != Equal && o != In }

// Wildcard is the name of a wildcard in the counters' path, as the value of a [Filter]. A document of
// a counter has the wildcard's value in that field, or the path of the document there, as a text or as
// a reference.
type Wildcard string

// References are the conditions with a [Wildcard]: documents name their counter by them.
func (a *Aggregation) References() (refs []Filter) {
	for _, f := range a.Where {
		if _, is := f.Value.(Wildcard); is {
			refs = append(refs, f)
		}
	}
	return refs
}

// Source is the collection as it is written: comments, /comments or **/comments. Each has a
// trigger.
func (a *Aggregation) Source() string { return prefixes[a.From] + a.Collection }

// Documents names the documents that concern a counter: the source, and how they name the counter. A
// change of one of them concerns all aggregations with the same Documents.
func (a *Aggregation) Documents() string { return a.Source() + conditions(a.References()) }

// String is the aggregation as [ParseFields] reads it.
func (a *Aggregation) String() string {
	var b strings.Builder
	switch {
	case a.Average:
		fmt.Fprintf(&b, "avg(%s.%s", a.Source(), a.Sum)
	case a.Sum != "":
		fmt.Fprintf(&b, "sum(%s.%s", a.Source(), a.Sum)
	default:
		fmt.Fprintf(&b, "count(%s", a.Source())
	}
	b.WriteString(conditions(a.Where) + ")")
	if a.Double {
		b.WriteString(asDouble)
	}
	return b.String()
}

// conditions are filters as text, with their where and and.
func conditions(filters []Filter) string {
	var b strings.Builder
	for i, f := range filters {
		b.WriteString([]string{" where ", " and "}[min(i, 1)] + f.Field)
		if f.Op == In {
			b.WriteString(" in ")
		} else {
			b.WriteString(string(f.Op))
		}
		b.WriteString(literalText(f.Value))
	}
	return b.String()
}

// literalText is a filter's value as text.
func literalText(value any) string {
	list, is := value.([]any)
	if !is {
		return single(value)
	}
	items := make([]string, len(list))
	for i, item := range list {
		items[i] = single(item)
	}
	return "[" + strings.Join(items, ",") + "]"
}

// single is a literal that is no list.
func single(value any) string {
	switch value := value.(type) {
	case string:
		quote := `"`
		if strings.Contains(value, quote) {
			quote = "'"
		}
		return quote + value + quote
	case Wildcard:
		return "{" + string(value) + "}"
	}
	return fmt.Sprint(value)
}

// asDouble follows a sum that is a double.
const asDouble = " as double"

// Dotted is a path such as ratings.stars in the form that update masks and queries take.
func Dotted(path string) string { return FieldPath(strings.Split(path, ".")...) }
