// Package versions keeps every document as a chain of immutable versions, newest first, so that a
// reader sees any moment of the last hour without a lock; and bounds how much of the past there is.
package versions

import (
	"slices"
	"sync/atomic"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/emulator/internal/document"
)

// Tree is all documents of a database, with their versions. It is guarded by its owner's lock, for
// reading or writing; what a reader has found is read without.
type Tree struct {
	Nodes       map[string]*Node                  // full resource name → document
	Collections map[string]*Collection            // full resource name → collection
	Groups      map[string]map[string]*Collection // collection id → full resource name → collection
	Horizon     atomic.Int64                      // microseconds; reads before this time can't be answered any more
	history     history
}

// New makes a tree without documents.
func New() *Tree {
	return &Tree{
		Nodes:       make(map[string]*Node),
		Collections: make(map[string]*Collection),
		Groups:      make(map[string]map[string]*Collection),
	}
}

// Node finds a document's node, or makes it.
func (t *Tree) Node(name string) *Node {
	n := t.Nodes[name]
	if n == nil {
		path, id := document.SplitParent(name)
		n = &Node{Name: name, id: id, Collection: t.collection(path)}
		n.Collection.add(n)
		t.Nodes[name] = n
	}
	return n
}

func (t *Tree) collection(name string) *Collection {
	c := t.Collections[name]
	if c == nil {
		parent, id := document.SplitParent(name)
		c = &Collection{Name: name, Parent: parent, ID: id}
		t.Collections[name] = c
		group := t.Groups[id]
		if group == nil {
			group = make(map[string]*Collection)
			t.Groups[id] = group
		}
		group[name] = c
	}
	return c
}

// Put makes a document another one from a time on; nil: it is deleted. size is counted as Firestore
// does.
func (t *Tree) Put(n *Node, at int64, doc *pb.Document, size int) {
	v := &version{time: at, doc: doc, size: size}
	if prev := n.head.Load(); prev != nil {
		v.prev.Store(prev)
		t.history.push(superseded{node: n, by: v, size: prev.size})
	}
	n.head.Store(v)
}

// forget removes a deleted document's name.
func (t *Tree) forget(n *Node) {
	delete(t.Nodes, n.Name)
	c := n.Collection
	c.drop(n)
	if c.count == 0 {
		delete(t.Collections, c.Name)
		if group := t.Groups[c.ID]; len(group) > 1 {
			delete(group, c.Name)
		} else {
			delete(t.Groups, c.ID)
		}
	}
}

// version is what a document was from one commit to the next. It never changes, but for losing its
// past.
type version struct {
	time int64        // commit time, microseconds
	doc  *pb.Document // nil: deleted
	size int
	prev atomic.Pointer[version]
}

// Node is a document's name with all of its versions.
type Node struct {
	Name       string // full resource name
	id         string
	Collection *Collection
	Gone       bool                    // dropped by its collection; guarded by the database's lock
	head       atomic.Pointer[version] // set under the database's lock, read without
}

// At is the document as of a time; nil where there was none.
func (n *Node) At(time int64) *pb.Document {
	doc, _ := n.SizeAt(time)
	return doc
}

// SizeAt is [Node.At] and the document's size, as Firestore counts it.
func (n *Node) SizeAt(time int64) (*pb.Document, int) {
	for v := n.head.Load(); v != nil; v = v.prev.Load() {
		if v.time <= time {
			return v.doc, v.size
		}
	}
	return nil, 0
}

// Changed is when the document became what it is; 0 where it never was.
func (n *Node) Changed() int64 {
	if n == nil || n.head.Load() == nil {
		return 0
	}
	return n.head.Load().time
}

// Current is the document now; exact under the database's lock only.
func (n *Node) Current() *pb.Document {
	if n == nil {
		return nil
	}
	if v := n.head.Load(); v != nil {
		return v.doc
	}
	return nil
}

// Collection holds the nodes of one collection. Nodes come in any order; they are sorted when they
// are listed.
type Collection struct {
	Name   string // full resource name
	Parent string // full resource name of the document above, or of the root
	ID     string
	sorted []*Node // by id; replaced, never changed, so that a reader may keep it
	fresh  []*Node // not sorted in yet
	gone   int     // nodes of sorted that have been dropped
	count  int     // nodes
}

func (c *Collection) add(n *Node) {
	c.fresh = append(c.fresh, n)
	c.count++
}

// drop forgets a node whose document is long deleted. Until the next look it stays in the list, as
// a deleted document.
func (c *Collection) drop(n *Node) {
	n.Gone = true
	c.gone++
	c.count--
}

// All are the collection's nodes in any order, as a list of the caller's own.
func (c *Collection) All() []*Node { return append(slices.Clone(c.sorted), c.fresh...) }

// Nodes is the list of nodes by id. The caller holds the database's lock for writing, and may keep
// the list.
func (c *Collection) Nodes() []*Node {
	if len(c.fresh) == 0 && c.gone == 0 {
		return c.sorted
	}
	byID := func(a, b *Node) int { return document.CompareIDs(a.id, b.id) }
	slices.SortFunc(c.fresh, byID)
	merged := make([]*Node, 0, c.count)
	old, fresh := c.sorted, c.fresh
	for len(old) > 0 || len(fresh) > 0 {
		var n *Node
		if len(fresh) == 0 || len(old) > 0 && byID(old[0], fresh[0]) <= 0 {
			n, old = old[0], old[1:]
		} else {
			n, fresh = fresh[0], fresh[1:]
		}
		if !n.Gone {
			merged = append(merged, n)
		}
	}
	c.sorted, c.fresh, c.gone = merged, nil, 0
	return merged
}
