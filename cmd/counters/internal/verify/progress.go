package verify

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"sync"
	"time"
)

// progress is what the program's commands have said: how often a call of a deployment came too early, the
// steps that it went through, and what a removal leaves.
type progress struct {
	mu      sync.Mutex
	line    []byte // the last one, as far as it was written
	retries int
	steps   []Row
	began   time.Time // of the last step; zero: none is under way
	leaves  bool      // the lines that follow say what stays
	stays   []string
}

var (
	waits = []byte(": waiting for ") // is in each line of a call that came too early
	next  = regexp.MustCompile(`^\[\d+/\d+, [\d:]+\] (.+)$`)
)

func (p *progress) tooEarly() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.retries
}

// deployed returns the steps of a deployment that has ended.
func (p *progress) deployed() []Row {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end()
	return p.steps
}

// left is what the last removal left.
func (p *progress) left() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stays
}

func (p *progress) end() {
	if last := len(p.steps) - 1; !p.began.IsZero() {
		p.steps[last].Took, p.steps[last].Retries = time.Since(p.began), p.retries-p.steps[last].Retries
		p.began = time.Time{}
	}
}

func (p *progress) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line = append(p.line, text...)
	for {
		line, rest, whole := bytes.Cut(p.line, []byte("\n"))
		if !whole {
			return len(text), nil
		}
		p.hear(line)
		p.line = append(p.line[:0], rest...)
	}
}

func (p *progress) hear(line []byte) {
	if bytes.Contains(line, waits) {
		p.retries++
	}
	if step := next.FindSubmatch(line); step != nil {
		p.end()
		p.steps, p.began = append(p.steps, Row{Step: string(step[1]), OK: true, Retries: p.retries}), time.Now()
	}
	what, listed := strings.CutPrefix(string(line), "  ")
	switch {
	case bytes.HasSuffix(line, []byte("what stays, and the command that removes it:")):
		p.leaves, p.stays = true, nil
	case p.leaves && !listed:
		p.leaves = false
	case p.leaves && !strings.HasPrefix(what, "  "): // else it is the command
		p.stays = append(p.stays, what)
	}
}

// Watching is a writer for what the program's commands say, which goes on to another.
func (t *Trial) Watching(w io.Writer) io.Writer { return io.MultiWriter(w, &t.said) }
