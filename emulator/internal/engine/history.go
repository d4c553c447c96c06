package engine

// history bounds how much of the past a database keeps: superseded versions for some time, up to a number and a size.
// Beyond that the oldest go first, and the horizon, before which nothing can be read, moves to where they ended.
type history struct {
	entries []superseded // a ring
	first   int
	n       int
	bytes   int
}

// superseded is a version with a past: at its time it took the place of the one behind it.
type superseded struct {
	node *node
	by   *version
	size int // of the version that was superseded
}

func (h *history) push(s superseded) {
	if h.n == len(h.entries) {
		grown := make([]superseded, max(64, 2*h.n))
		k := copy(grown, h.entries[h.first:])
		copy(grown[k:], h.entries[:h.first])
		h.entries, h.first = grown, 0
	}
	h.entries[(h.first+h.n)%len(h.entries)] = s
	h.n++
	h.bytes += s.size
}

func (h *history) pop() superseded {
	s := h.entries[h.first]
	h.entries[h.first] = superseded{}
	h.first = (h.first + 1) % len(h.entries)
	h.n--
	h.bytes -= s.size
	return s
}

// prune forgets what is beyond the bounds. The caller holds the database's lock for writing.
func (db *database) prune(now int64) {
	h, o := &db.history, &db.engine.opts
	oldest := now - o.History.Microseconds()
	for h.n > 0 && (h.n > o.HistoryVersions || h.bytes > o.HistoryBytes || h.entries[h.first].by.time < oldest) {
		s := h.pop()
		// All versions of one commit share its time, and go one by one: the horizon is exact once all are gone, and
		// says too much is lost, never too little, until then.
		db.horizon.Store(s.by.time)
		s.by.prev.Store(nil)
		if s.by.doc == nil && s.node.head.Load() == s.by {
			db.forget(s.node)
		}
	}
}

// forget removes a deleted document's name.
func (db *database) forget(n *node) {
	delete(db.nodes, n.name)
	c := n.coll
	c.drop(n)
	if c.count == 0 {
		delete(db.collections, c.name)
		if group := db.groups[c.id]; len(group) > 1 {
			delete(group, c.name)
		} else {
			delete(db.groups, c.id)
		}
	}
}
