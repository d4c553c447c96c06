package engine

import (
	"slices"
	"strings"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/emulator/internal/document"
	"github.com/firestore-counters/counters/emulator/internal/query"
	"github.com/firestore-counters/counters/emulator/internal/versions"
)

// walk goes through the documents that a query covers in the order of their names, or against it. It
// costs what is looked at: collections are in order, and so are the documents of each. Only a
// collection below one of its documents has its place inside of another.
type walk struct {
	db          *database
	q           *query.Query
	desc        bool
	least, most string // names between which documents may match; "" is no bound
	rest        versions.List[*versions.Collection]
	open        []opened // collections that it has come to, but for those that are exhausted
	early       map[*versions.Collection]bool
	alone       bool // all of what is open comes before all of the rest
}

type opened struct {
	of    *versions.Collection
	nodes versions.List[*versions.Node]
}

func (db *database) walk(q *query.Query) *walk {
	w := &walk{db: db, q: q, desc: q.Orders[0].Desc}
	w.least, w.most = q.Names()
	db.mu.Lock()
	defer db.mu.Unlock()
	if q.Collection != "" && !q.AllDescendants {
		if c := db.Collections[q.Parent+"/"+q.Collection]; c != nil {
			w.enter(c)
		}
		w.alone = true
		return w
	}
	w.rest = db.below(q.Collection, q.Parent)
	if w.most != "" {
		w.rest = w.rest.Until(func(c *versions.Collection) bool { return document.CompareNames(c.Name, w.most) > 0 })
	}
	if w.least != "" {
		w.rest = w.rest.From(func(c *versions.Collection) bool { return document.CompareNames(c.Name, w.least) > 0 })
		w.enterAbove(w.least) // which have documents behind it, though their own names are before it
	}
	return w
}

// below are the collections below a document or the root, at whatever depth: those with an id, or
// all. The caller holds the lock for writing.
func (db *database) below(id, parent string) versions.List[*versions.Collection] {
	is := func(c *versions.Collection) bool {
		return len(c.Name) > len(parent) && c.Name[len(parent)] == '/' && c.Name[:len(parent)] == parent
	}
	return db.Group(id).
		From(func(c *versions.Collection) bool { return is(c) || document.CompareNames(c.Name, parent) > 0 }).
		Until(func(c *versions.Collection) bool { return !is(c) })
}

// enter opens a collection. The caller holds the lock.
func (w *walk) enter(c *versions.Collection) {
	if w.early[c] || !w.q.Covers(c.Parent, c.ID) {
		return
	}
	nodes := c.Nodes()
	if w.least != "" {
		nodes = nodes.From(func(n *versions.Node) bool { return document.CompareNames(n.Name, w.least) >= 0 })
	}
	if w.most != "" {
		nodes = nodes.Until(func(n *versions.Node) bool { return document.CompareNames(n.Name, w.most) > 0 })
	}
	w.open = append(w.open, opened{c, nodes})
}

// enterAbove opens the collections that a document and those above it are in, before their turn.
func (w *walk) enterAbove(name string) {
	for len(name) > len(w.q.Parent) {
		collection, _ := document.SplitParent(name)
		if c := w.db.Collections[collection]; c != nil && !w.early[c] {
			w.enter(c)
			if w.early == nil {
				w.early = map[*versions.Collection]bool{}
			}
			w.early[c] = true
		}
		name, _ = document.SplitParent(collection)
	}
}

// next is the next document; nil behind the last.
func (w *walk) next() *versions.Node {
	for {
		var next *versions.Node
		at := 0
		for i := range w.open {
			n, ok := versions.End(&w.open[i].nodes, w.desc)
			if ok && (next == nil || document.CompareNames(n.Name, next.Name) > 0 == w.desc) {
				next, at = n, i
			}
		}
		if !w.alone || next == nil {
			if c, ok := versions.End(&w.rest, w.desc); ok && (next == nil || document.CompareNames(c.Name, next.Name) > 0 == w.desc) {
				w.come(c)
				continue
			}
		}
		if next != nil {
			versions.Cut(&w.open[at].nodes, w.desc)
		}
		return next
	}
}

// come opens the next collection of the rest. Against the order of names, those that it is below
// have documents behind it.
func (w *walk) come(c *versions.Collection) {
	versions.Cut(&w.rest, w.desc)
	w.open = slices.DeleteFunc(w.open, func(o opened) bool {
		_, ok := versions.End(&o.nodes, w.desc)
		return !ok
	})
	w.db.mu.Lock()
	w.enter(c)
	if w.desc {
		w.enterAbove(c.Parent)
	}
	w.db.mu.Unlock()
	next, ok := versions.End(&w.rest, w.desc)
	w.alone = len(w.open) == 1 && w.open[0].of == c && (!ok || !strings.HasPrefix(next.Name, c.Name+"/"))
}

// byName runs a query that orders by name, and stops as soon as its window is full: pages through
// large collections and groups cost what they hold.
func (db *database) byName(q *query.Query, at int64) (docs []*pb.Document, skipped, scanned int) {
	w := db.walk(q)
	for q.Limit < 0 || len(docs) < q.Limit {
		n := w.next()
		if n == nil {
			break
		}
		doc, size := n.SizeAt(at)
		scanned += size
		switch {
		case doc == nil || !q.Matches(doc):
		case skipped < q.Offset:
			skipped++
		default:
			docs = append(docs, doc)
		}
	}
	return docs, skipped, scanned
}
