package functions

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"time"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/shards"
)

// read reads a counter, from memory unless the read is exact. It sets the headers that caches on the way
// need.
func (h *incrementHandler) read(w http.ResponseWriter, r *request) (any, error) {
	counter, err := h.client.Counter(r.counter)
	if err != nil {
		return nil, err
	}
	if r.field != "" { // whoever watches another field would see 0 for good
		if err := h.Fields.CheckShown(r.field); err != nil {
			return nil, bad("%v", err)
		}
	}
	var snapshot shards.Snapshot
	switch {
	case r.exact:
		snapshot, err = counter.Sum(r.Context())
		h.limit.owe(r.payer, int(snapshot.Reads)-1) // the request is counted already
		if snapshot.Reads > h.leastSum() {          // or else many small ones would have a large one forgotten
			h.sums.Add(r.counter, snapshot.Reads)
		} else if err == nil {
			h.sums.Remove(r.counter)
		}
		w.Header().Set("Cache-Control", "no-store")
		return snapshot, err
	case h.budget.Short(ceiling.Reads) > 0 || !h.mayRead(r, counter): // what is left is for counters that are added to
		return h.remembered(w, r, counter)
	case h.ReadCache > 0:
		snapshot, _, err = counter.Cached(r.Context())
	default:
		snapshot, err = counter.Get(r.Context())
	}
	if err != nil {
		return nil, err
	}
	if r.field != "" {
		snapshot = snapshot.OfField(r.field)
	}
	w.Header().Set("Cache-Control", h.caching())
	// Rollup has writes for what Increment has, and waits as well.
	late := h.budget.Short(ceiling.Writes) > 0 && time.Since(snapshot.AsOf) > h.ReadCache+usuallyLate
	return heldUp{snapshot, late}, nil
}

// mayRead promises a request the reads for a counter that it can't be answered from memory, and reports whether there
// are any.
func (h *incrementHandler) mayRead(r *request, counter shards.Counter) bool {
	if _, age, known := counter.Remembered(); known && age <= h.ReadCache {
		return true
	}
	of := ceiling.Amounts{ceiling.Reads: book.Reads}
	if h.budget.Promise(of) > 0 {
		return false
	}
	r.promised = r.promised.Plus(of)
	return true
}

// usuallyLate is how late a total may be without a ceiling.
const usuallyLate = 5 * time.Second

// heldUp is an answer that says whether a total may be older than usual, because the ceiling is reached.
type heldUp struct {
	shards.Snapshot
	HeldUp bool `json:"held_up,omitempty"`
}

// remembered answers a read from memory, however old, while the ceiling has no reads left. Errors: a problem with 429,
// for a counter of which there is no memory.
func (h *incrementHandler) remembered(w http.ResponseWriter, r *request, counter shards.Counter) (any, error) {
	h.budget.Held()
	snapshot, age, ok := counter.Remembered()
	if !ok {
		return nil, beyond(max(time.Second, h.budget.Short(ceiling.Reads)), "reads")
	}
	if r.field != "" {
		snapshot = snapshot.OfField(r.field)
	}
	w.Header().Set("Cache-Control", h.caching())
	return heldUp{snapshot, age > h.ReadCache}, nil
}

// caching is the header Cache-Control of a total that may be kept, here and on its way.
func (h *incrementHandler) caching() string {
	seconds := int64(h.ReadCache / time.Second)
	switch {
	case seconds == 0:
		return "no-cache" // a cache may keep it, and must ask with its ETag
	case h.tokens != nil && !h.PublicReads: // reading takes a token, so shared caches must not keep it
		return fmt.Sprintf("private, max-age=%d", seconds)
	}
	return fmt.Sprintf("public, max-age=%d", seconds)
}

// etagOf identifies an answer: by all that it says.
func etagOf(body []byte) string {
	sum := sha256.Sum256(body)
	return fmt.Sprintf(`"%x"`, sum[:12])
}
