// Package versions keeps every document as a chain of immutable versions, newest first, so that a
// reader sees any moment of the last hour without a lock; and bounds how much of the past there is.
package versions

import (
	"sync/atomic"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/emulator/internal/document"
)

// Tree is all documents of a database, with their versions. It is guarded by its owner's lock, for
// reading or writing; what a reader has found is read without.
type Tree struct {
	Nodes       map[string]*Node                 // full resource name → document
	Collections map[string]*Collection           // full resource name → collection
	groups      map[string]*ordered[*Collection] // collection id → collections
	all         ordered[*Collection]
	Horizon     atomic.Int64 // microseconds; reads before this time can't be answered any more
	history     history
}

// New makes a tree without documents.
func New() *Tree {
	return &Tree{
		Nodes:       make(map[string]*Node),
		Collections: make(map[string]*Collection),
		groups:      make(map[string]*ordered[*Collection]),
	}
}

// Node finds a document's node, or makes it.
func (t *Tree) Node(name string) *Node {
	n := t.Nodes[name]
	if n == nil {
		path, id := document.SplitParent(name)
		n = &Node{Name: name, id: id, Collection: t.collection(path)}
		n.Collection.nodes.add(n)
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
		if t.groups[id] == nil {
			t.groups[id] = &ordered[*Collection]{}
		}
		t.groups[id].add(c)
		t.all.add(c)
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
	n.Gone = true
	c := n.Collection
	if c.nodes.drop(); c.nodes.len() > 0 {
		return
	}
	delete(t.Collections, c.Name)
	c.dropped = true
	t.all.drop()
	group := t.groups[c.ID]
	if group.drop(); group.len() == 0 {
		delete(t.groups, c.ID)
	}
}

// Group are the collections with an id, or all with "", in the order of their names. The caller holds the lock for
// writing, and may keep the list.
func (t *Tree) Group(id string) List[*Collection] {
	if id == "" {
		return t.all.look()
	}
	if group := t.groups[id]; group != nil {
		return group.look()
	}
	return List[*Collection]{}
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

// Collection holds the nodes of one collection.
type Collection struct {
	Name    string // full resource name
	Parent  string // full resource name of the document above, or of the root
	ID      string
	nodes   ordered[*Node]
	dropped bool // its last node was
}

// Nodes are the collection's nodes, by id. The caller holds the database's lock for writing, and may
// keep the list. A node that was dropped stays for a while, as a deleted document.
func (c *Collection) Nodes() List[*Node] { return c.nodes.look() }

func (n *Node) compare(other *Node) int             { return document.CompareIDs(n.id, other.id) }
func (n *Node) gone() bool                          { return n.Gone }
func (c *Collection) compare(other *Collection) int { return document.CompareNames(c.Name, other.Name) }
func (c *Collection) gone() bool                    { return c.dropped }
