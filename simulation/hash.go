package simulation

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
)

// Hash names a history: two with the same hash are the same, entry by entry, with their virtual
// times.
func (h History) Hash() string {
	sum := sha256.New()
	h.write(sum)
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// Text is a history in its canonical form: of each entry a line with its virtual time in
// nanoseconds, its type, and all that it holds as JSON, in which maps are in order.
func (h History) Text() []byte {
	var text bytes.Buffer
	h.write(&text)
	return text.Bytes()
}

// write writes the text. A hash takes no error, and neither does a buffer.
func (h History) write(w io.Writer) {
	encoder := json.NewEncoder(w)
	for n, e := range h {
		what := e.What
		if c, ok := what.(Commit); ok {
			c.At = c.At.UTC()
			what = c
		}
		fmt.Fprintf(w, "%d %T ", e.At.UnixNano(), what)
		if err := encoder.Encode(what); err != nil {
			panic(fmt.Sprintf("simulation: entry %d has no canonical form: %v", n, err))
		}
	}
}
