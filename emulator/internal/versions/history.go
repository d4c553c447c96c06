package versions

// history bounds how much of the past a database keeps: superseded versions for some time, up to a
// number and a size. Beyond that the oldest go first, and the horizon, before which nothing can be
// read, moves to where they ended.
type history struct {
	entries []superseded // a ring
	first   int
	n       int
	bytes   int
}

// superseded is a version with a past: at its time it took the place of the one behind it.
type superseded struct {
	node *Node
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

// Bounds are how much of the past is kept.
type Bounds struct {
	Oldest   int64 // microseconds; what was superseded before is forgotten
	Versions int   // superseded versions
	Bytes    int   // their sizes together
}

// Prune forgets what is beyond the bounds.
func (t *Tree) Prune(b Bounds) {
	h := &t.history
	for h.n > 0 && (h.n > b.Versions || h.bytes > b.Bytes || h.entries[h.first].by.time < b.Oldest) {
		s := h.pop()
		// All versions of one commit share its time, and go one by one: the horizon is exact once
		// all are gone, and says too much is lost, never too little, until then.
		t.Horizon.Store(s.by.time)
		s.by.prev.Store(nil)
		if s.by.doc == nil && s.node.head.Load() == s.by {
			t.forget(s.node)
		}
	}
}

// Past is how many superseded versions are kept, and their size together.
func (t *Tree) Past() (versions, bytes int) { return t.history.n, t.history.bytes }
