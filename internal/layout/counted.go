package layout

import (
	"fmt"
	"slices"
	"strings"
)

// This file is about documents that queries count: their collections, and the counters they concern.

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
	for scope := Group; scope > Below; scope-- {
		if id, is := strings.CutPrefix(source, prefixes[scope]); is {
			return map[Scope]string{Root: "", Group: anywhere + "/"}[scope] + id + "/{document}"
		}
	}
	return l.Path.String() + "/" + source + "/{document}"
}

// anywhere stands for any parents, or none, in a trigger's path pattern.
const anywhere = "{parents=**}"

// CountedIn are the fields whose queries must be asked when one of these documents changes: see
// [Aggregation.Documents].
func (l Layout) CountedIn(documents string) (fields Fields) {
	for _, field := range l.Counted {
		if field.Counted.Documents() == documents {
			fields = append(fields, field)
		}
	}
	return fields
}

// Counted is a document that queries count.
type Counted struct {
	Documents string // see [Aggregation.Documents]
	// the counter that it concerns; empty if the document itself names its counter, by References
	Counter    string
	Document   string   // its id; its path if it names its counter itself
	References []Filter // the fields in which it names its counter
}

// ParseCounted says by a document's resource name how queries count it. It is nil if none does, and
// for names that no document can have.
func (l Layout) ParseCounted(name string) (counted []Counted) {
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
			slices.ContainsFunc(counted, func(c Counted) bool { return c.Documents == a.Documents() }) {
			continue
		}
		c := Counted{Documents: a.Documents(), Document: parts[n+1], References: a.References()}
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

// AllowedFields says what a counted field must be instead, with counters at that path; "" if all fields
// are allowed.
func AllowedFields(path Path, fields Fields) string {
	for _, field := range fields {
		if a := field.Counted; a != nil {
			if want := a.mustHave(path); want != "" {
				return want + " in " + field.String()
			}
		}
	}
	return ""
}

// mustHave says what the field must have instead, as the begin of a sentence that " in" and the field end; "" if it may
// stay as it is.
func (a *Aggregation) mustHave(path Path) string {
	refs := a.References()
	if a.From == Below {
		if len(refs) > 0 {
			return "no " + literal(refs[0].Value) + ": documents below a counter's are its own; /" + a.Collection + " is the collection at the root"
		}
		return ""
	}
	if slices.Contains(path.collections, a.Collection) {
		return fmt.Sprintf("another collection than %s, in which counters are: each roll-up would have it counted again,", a.Collection)
	}
	if path.Whole() && len(refs) > 0 {
		return fmt.Sprintf("no %s: %s has no wildcards, and all documents are counted for it", literal(refs[0].Value), path)
	}
	var named []string
	for _, f := range refs {
		name := string(f.Value.(Wildcard))
		if !slices.Contains(path.wildcards, name) || slices.Contains(named, name) {
			return fmt.Sprintf("each of {%s} once, as %s has them,", strings.Join(path.wildcards, "}, {"), path)
		}
		named = append(named, name)
	}
	if !path.Whole() && !slices.Contains(named, path.wildcards[len(path.wildcards)-1]) {
		last := path.wildcards[len(path.wildcards)-1]
		return fmt.Sprintf("a condition by which a document names its counter, such as where %[1]s=={%[1]s},", last)
	}
	return ""
}

// Asks are the fields of an index that answers the aggregation without reading other documents. Fields that are
// compared for equality come first, then those in a range or summed up. It is empty if the aggregation counts a whole
// collection.
func (a *Aggregation) Asks() (fields []string) {
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
	fields = a.Asks()
	merges := a.Sum == "" && !slices.ContainsFunc(a.Where, func(f Filter) bool { return f.Op.Range() }) // indexes of equalities are merged
	if a.From != Group && (merges || len(fields) < 2) {
		return nil
	}
	return fields
}
