package verify

import (
	"bytes"
	"cmp"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// progress is what the program's commands have said: how often a call of a deployment came too early, what it made, and
// what a removal leaves.
type progress struct {
	mu      sync.Mutex
	line    []byte         // the last one, as far as it was written
	early   map[string]int // :: what was made → of how many calls that came too early
	retries int
	steps   []Row
	leaves  bool // the lines that follow say what stays
	stays   []string
}

var (
	waits = regexp.MustCompile(`^deploy: (.+): waiting for `) // a call that came too early
	made  = regexp.MustCompile(`^\[\d+/\d+, [\d:]+\] (.+) \((\d+) s\)$`)
)

func (p *progress) tooEarly() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.retries
}

// deployed returns those things that a deployment has made which took longest, a few of them, and those that came too
// early. They are in the order in which they were made.
func (p *progress) deployed() []Row {
	p.mu.Lock()
	defer p.mu.Unlock()
	longest := slices.SortedStableFunc(slices.Values(p.steps), func(a, b Row) int { return cmp.Compare(b.Took, a.Took) })
	longest = longest[:min(len(longest), few)]
	return slices.DeleteFunc(slices.Clone(p.steps), func(row Row) bool { return row.Retries == 0 && !slices.Contains(longest, row) })
}

const few = 6

// left is what the last removal left.
func (p *progress) left() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stays
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
	if early := waits.FindSubmatch(line); early != nil {
		if p.early == nil {
			p.early = map[string]int{}
		}
		p.retries++
		p.early[string(early[1])]++
	}
	if m := made.FindSubmatch(line); m != nil {
		seconds, _ := strconv.Atoi(string(m[2]))
		p.steps = append(p.steps, Row{Step: string(m[1]), OK: true, Took: time.Duration(seconds) * time.Second, Retries: p.early[string(m[1])]})
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
