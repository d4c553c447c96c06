package engine

import (
	"slices"

	"github.com/firestore-counters/counters/emulator/internal/versions"
)

// listeners are the targets that look at a database, by what a change of a document is looked up
// with. All of it is guarded by the database's lock; a commit only marks what it has touched, and
// the listener does the rest.
type listeners struct {
	byDocument   map[string][]*target // full resource name
	byCollection map[string][]*target // full resource name
	byGroup      map[string][]*target // collection id
	everywhere   []*target
	count        int
}

func (l *listeners) init() {
	l.byDocument = make(map[string][]*target)
	l.byCollection = make(map[string][]*target)
	l.byGroup = make(map[string][]*target)
}

// mark tells every target that may care that a document has changed.
func (l *listeners) mark(n *versions.Node) {
	if l.count == 0 {
		return
	}
	for _, targets := range [...][]*target{l.byDocument[n.Name], l.byCollection[n.Collection.Name], l.byGroup[n.Collection.ID], l.everywhere} {
		for _, t := range targets {
			t.touched[n.Name] = n
			t.watch.signal()
		}
	}
}

func (l *listeners) add(t *target) {
	l.count++
	for _, name := range t.names {
		l.byDocument[name] = append(l.byDocument[name], t)
	}
	if q := t.query; q != nil {
		switch {
		case q.Collection == "":
			l.everywhere = append(l.everywhere, t)
		case q.AllDescendants:
			l.byGroup[q.Collection] = append(l.byGroup[q.Collection], t)
		default:
			name := q.Parent + "/" + q.Collection
			l.byCollection[name] = append(l.byCollection[name], t)
		}
	}
}

func (l *listeners) remove(t *target) {
	l.count--
	without := func(m map[string][]*target, key string) {
		left := slices.DeleteFunc(m[key], func(x *target) bool { return x == t })
		if m[key] = left; len(left) == 0 {
			delete(m, key)
		}
	}
	for _, name := range t.names {
		without(l.byDocument, name)
	}
	if q := t.query; q != nil {
		switch {
		case q.Collection == "":
			l.everywhere = slices.DeleteFunc(l.everywhere, func(x *target) bool { return x == t })
		case q.AllDescendants:
			without(l.byGroup, q.Collection)
		default:
			without(l.byCollection, q.Parent+"/"+q.Collection)
		}
	}
}
