package simulation

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Hash names a history: two with the same hash are the same, entry by entry, with their virtual
// times.
func (h History) Hash() string {
	sum := sha256.Sum256(h.Text())
	return hex.EncodeToString(sum[:8])
}

// Text is a history in its canonical form: of each entry a line with its virtual time in
// nanoseconds, its type, and all that it holds as JSON, in which maps are in order.
func (h History) Text() []byte {
	var text bytes.Buffer
	for n, e := range h {
		what := e.What
		if c, ok := what.(Commit); ok {
			c.At = c.At.UTC()
			what = c
		}
		b, err := json.Marshal(what)
		if err != nil {
			panic(fmt.Sprintf("simulation: entry %d has no canonical form: %v", n, err))
		}
		fmt.Fprintf(&text, "%d %T %s\n", e.At.UnixNano(), what, b)
	}
	return text.Bytes()
}
