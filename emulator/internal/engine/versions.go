package engine

import (
	"slices"
	"sync/atomic"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-counters/counters/emulator/internal/document"
)

// version is what a document was from one commit to the next. It never changes, but for losing its past.
type version struct {
	time int64        // commit time, microseconds
	doc  *pb.Document // nil: deleted
	size int
	prev atomic.Pointer[version]
}

// node is a document's name with all of its versions.
type node struct {
	name string // full resource name
	id   string
	coll *collection
	gone bool                    // dropped by its collection; guarded by the database's lock
	head atomic.Pointer[version] // set under the database's lock, read without
}

// at is the document as of a time; nil where there was none.
func (n *node) at(time int64) *pb.Document {
	for v := n.head.Load(); v != nil; v = v.prev.Load() {
		if v.time <= time {
			return v.doc
		}
	}
	return nil
}

// current is the document now; exact under the database's lock only.
func (n *node) current() *pb.Document {
	if n == nil {
		return nil
	}
	if v := n.head.Load(); v != nil {
		return v.doc
	}
	return nil
}

// collection holds the nodes of one collection. Nodes come in any order; they are sorted when somebody looks.
type collection struct {
	name   string // full resource name
	parent string // full resource name of the document above, or of the root
	id     string
	sorted []*node // by id; replaced, never changed, so that a reader may keep it
	fresh  []*node // not sorted in yet
	gone   int     // nodes of sorted that have been dropped
	count  int     // nodes
}

func (c *collection) add(n *node) {
	c.fresh = append(c.fresh, n)
	c.count++
}

// drop forgets a node whose document is long deleted. Until the next look it stays in the list, as a deleted document.
func (c *collection) drop(n *node) {
	n.gone = true
	c.gone++
	c.count--
}

// nodes is the list of nodes by id. The caller holds the database's lock for writing, and may keep the list.
func (c *collection) nodes() []*node {
	if len(c.fresh) == 0 && c.gone == 0 {
		return c.sorted
	}
	byID := func(a, b *node) int { return document.CompareIDs(a.id, b.id) }
	slices.SortFunc(c.fresh, byID)
	merged := make([]*node, 0, c.count)
	old, fresh := c.sorted, c.fresh
	for len(old) > 0 || len(fresh) > 0 {
		var n *node
		if len(fresh) == 0 || len(old) > 0 && byID(old[0], fresh[0]) <= 0 {
			n, old = old[0], old[1:]
		} else {
			n, fresh = fresh[0], fresh[1:]
		}
		if !n.gone {
			merged = append(merged, n)
		}
	}
	c.sorted, c.fresh, c.gone = merged, nil, 0
	return merged
}
