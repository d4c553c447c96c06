package eventarc

import (
	"fmt"
	"strings"
)

// docName is the full name of a document, taken apart.
type docName struct {
	project, database string
	path              string // Relative to the database's root: counters/c/shards/0.
}

func parseName(name string) (docName, error) {
	p := strings.SplitN(name, "/", 6)
	if len(p) != 6 || p[0] != "projects" || p[2] != "databases" || p[4] != "documents" || p[1] == "" || p[3] == "" || p[5] == "" {
		return docName{}, fmt.Errorf("%q is not the name of a document: want projects/P/databases/D/documents/…", name)
	}
	return docName{project: p[1], database: p[3], path: p[5]}, nil
}

// Pattern is a path pattern as a trigger has it, such as counters/{counter}/shards/{shard}:
// segments that stand for themselves, and segments in braces that match any one segment. One of
// them may be of the form {parents=**}, which matches any number of segments, none included.
type Pattern struct {
	segments []string // "" matches anything.
	rest     []string // behind a segment that matches any number of them
	any      bool     // there is one
}

// ParsePattern reads a pattern. It must match documents, and therefore have an even number of
// segments.
func ParsePattern(s string) (Pattern, error) {
	segments := strings.Split(s, "/")
	for i, segment := range segments {
		switch {
		case segment == "":
			return Pattern{}, fmt.Errorf("pattern %q has an empty segment", s)
		case strings.HasPrefix(segment, "{") && strings.HasSuffix(segment, "=**}"):
			before, behind, _ := strings.Cut(s, segment)
			p, err := ParsePattern("{a}/{b}/" + before + behind[min(1, len(behind)):])
			if err != nil || p.any || i == len(segments)-1 {
				return Pattern{}, fmt.Errorf("pattern %q: want one %s, and whole documents around it, such as {parents=**}/comments/{comment}", s, segment)
			}
			return Pattern{segments: p.segments[2 : 2+i], rest: p.segments[2+i:], any: true}, nil
		case strings.HasPrefix(segment, "{") && strings.HasSuffix(segment, "}"):
			segments[i] = ""
		case strings.ContainsAny(segment, "{}*"):
			return Pattern{}, fmt.Errorf("pattern %q: segment %q: only a whole segment can be a variable, such as {shard}", s, segment)
		}
	}
	if len(segments)%2 != 0 {
		return Pattern{}, fmt.Errorf("pattern %q matches collections, not documents: want an even number of segments", s)
	}
	return Pattern{segments: segments}, nil
}

// Match reports whether the pattern matches a document's path, relative to the database's root.
func (p Pattern) Match(path string) bool {
	if p.any {
		segments := strings.Split(path, "/")
		between := len(segments) - len(p.segments) - len(p.rest)
		return between >= 0 && len(segments)%2 == 0 &&
			Pattern{segments: p.segments}.Match(strings.Join(segments[:len(p.segments)], "/")) &&
			Pattern{segments: p.rest}.Match(strings.Join(segments[len(segments)-len(p.rest):], "/"))
	}
	if len(p.segments) == 0 {
		return path == ""
	}
	for i, want := range p.segments {
		segment, rest, more := strings.Cut(path, "/")
		if want != "" && want != segment || segment == "" || more == (i == len(p.segments)-1) {
			return false
		}
		path = rest
	}
	return true
}
