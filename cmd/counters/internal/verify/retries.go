package verify

import (
	"bytes"
	"io"
	"sync"
)

// retries counts the calls of a deployment that came too early, by what its script says of them.
type retries struct {
	mu   sync.Mutex
	n    int
	line []byte // the last one, as far as it was written
}

// waits is in each such line.
var waits = []byte(": waiting for ")

func (r *retries) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n
}

func (r *retries) Write(text []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.line = append(r.line, text...)
	for {
		line, rest, whole := bytes.Cut(r.line, []byte("\n"))
		if !whole {
			return len(text), nil
		}
		if bytes.Contains(line, waits) {
			r.n++
		}
		r.line = append(r.line[:0], rest...)
	}
}

// Watching is a writer for what the program's commands say, which goes on to another.
func (t *Trial) Watching(w io.Writer) io.Writer { return io.MultiWriter(w, &t.again) }
