package document

import (
	"maps"
	"slices"
	"strings"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
)

// NameField stands for a document's name in filters, orders and projections.
const NameField = "__name__"

// Path is a field's path through nested maps.
type Path []string

// ParsePath reads a path as it is written in masks and queries: names joined by dots, those that
// aren't simple ones (letters, digits, underscores, no digit first) in backticks, with \ before a
// backtick or backslash.
func ParsePath(s string) (Path, error) {
	if simplePath(s) {
		return strings.Split(s, "."), nil
	}
	var path Path
	for rest := s; ; {
		var name string
		var ok bool
		if strings.HasPrefix(rest, "`") {
			name, rest, ok = cutQuoted(rest)
		} else {
			end := strings.IndexByte(rest, '.')
			if end < 0 {
				end = len(rest)
			}
			name, rest = rest[:end], rest[end:]
			ok = simpleName(name)
		}
		if !ok || name == "" {
			return nil, invalid("Invalid property path %q.", s)
		}
		path = append(path, name)
		if rest == "" {
			return path, nil
		}
		if rest[0] != '.' {
			return nil, invalid("Invalid property path %q.", s)
		}
		rest = rest[1:]
	}
}

// Limits on the paths of reads and masks. They are one less than those of what is stored.
const (
	maxPathBytes = maxFieldPathBytes - 1 // names and dots, unquoted
	maxPathNames = maxValueDepth
)

// ParseFieldPath reads the path of a field that is read, compared or masked, or that of the name,
// and refuses what can't be stored there.
func ParseFieldPath(s string) (Path, error) {
	path, err := ParsePath(s)
	if err != nil || path.IsName() {
		return path, err
	}
	size := len(path) - 1
	for _, name := range path {
		size += len(name)
		if err := CheckField(name); err != nil {
			return nil, err
		}
	}
	switch {
	case size > maxPathBytes:
		return nil, invalid("Property path is longer than %d bytes: %.80q…", maxPathBytes, s)
	case len(path) > maxPathNames:
		return nil, invalid("Property path has more than %d names: %q.", maxPathNames, s)
	}
	return path, nil
}

// cutQuoted takes a name in backticks off the front of s.
func cutQuoted(s string) (name, rest string, ok bool) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '`':
			return b.String(), s[i+1:], true
		case '\\':
			if i++; i == len(s) {
				return "", "", false
			}
			b.WriteByte(s[i])
		default:
			b.WriteByte(s[i])
		}
	}
	return "", "", false
}

func simplePath(s string) bool {
	start := true
	for i := range len(s) {
		switch c := s[i]; {
		case c == '.':
			if start {
				return false
			}
			start = true
		case c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' && !start:
			start = false
		default:
			return false
		}
	}
	return !start
}

func simpleName(s string) bool { return simplePath(s) && !strings.Contains(s, ".") }

var quoting = strings.NewReplacer("\\", "\\\\", "`", "\\`")

// String writes a path in the form that ParsePath reads.
func (p Path) String() string {
	var b strings.Builder
	for i, name := range p {
		if i > 0 {
			b.WriteByte('.')
		}
		if simpleName(name) {
			b.WriteString(name)
			continue
		}
		b.WriteByte('`')
		b.WriteString(quoting.Replace(name))
		b.WriteByte('`')
	}
	return b.String()
}

// IsName reports whether the path stands for the document's name.
func (p Path) IsName() bool { return len(p) == 1 && p[0] == NameField }

// Lookup is the value at a path; nil where there is none.
func Lookup(fields map[string]*pb.Value, path Path) *pb.Value {
	for {
		v := fields[path[0]]
		if len(path) == 1 || v == nil {
			return v
		}
		fields, path = v.GetMapValue().GetFields(), path[1:]
	}
}

// Editor changes the fields of a document without touching the maps of the version that it starts
// from: a map is copied before its first change, and once only, however many paths below it change.
type Editor struct {
	Fields map[string]*pb.Value
	copied bool
	nested map[*pb.MapValue]bool // copies made so far, below the top
}

func (e *Editor) top() map[string]*pb.Value {
	if !e.copied {
		if e.Fields == nil {
			e.Fields = make(map[string]*pb.Value)
		} else {
			e.Fields = maps.Clone(e.Fields)
		}
		e.copied = true
	}
	return e.Fields
}

// parent is the map that holds the last name of the path, made where it is missing, and in place of
// what is not a map.
func (e *Editor) parent(path Path) map[string]*pb.Value {
	fields := e.top()
	for _, name := range path[:len(path)-1] {
		m := fields[name].GetMapValue()
		if m == nil || !e.nested[m] {
			next := maps.Clone(m.GetFields())
			if next == nil {
				next = make(map[string]*pb.Value)
			}
			m = &pb.MapValue{Fields: next}
			if e.nested == nil {
				e.nested = make(map[*pb.MapValue]bool)
			}
			e.nested[m] = true
			fields[name] = &pb.Value{ValueType: &pb.Value_MapValue{MapValue: m}}
		}
		if m.Fields == nil {
			m.Fields = make(map[string]*pb.Value)
		}
		fields = m.Fields
	}
	return fields
}

// Set puts a value at a path.
func (e *Editor) Set(path Path, v *pb.Value) {
	e.parent(path)[path[len(path)-1]] = v
}

// Remove takes the value at a path away, if there is one.
func (e *Editor) Remove(path Path) {
	if Lookup(e.Fields, path) != nil {
		delete(e.parent(path), path[len(path)-1])
	}
}

// ChangedPaths are the paths at which two sets of fields differ, sorted; maps on both sides are
// entered.
func ChangedPaths(a, b map[string]*pb.Value) []string {
	var paths []string
	collectChanged(nil, a, b, &paths)
	slices.Sort(paths)
	return paths
}

func collectChanged(at Path, a, b map[string]*pb.Value, paths *[]string) {
	for name, x := range a {
		y, ok := b[name]
		if ok && Identical(x, y) {
			continue
		}
		path := append(slices.Clip(at), name)
		if x.GetMapValue() != nil && y.GetMapValue() != nil {
			collectChanged(path, x.GetMapValue().GetFields(), y.GetMapValue().GetFields(), paths)
			continue
		}
		*paths = append(*paths, path.String())
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			*paths = append(*paths, append(slices.Clip(at), name).String())
		}
	}
}

// Project copies of a document only the fields at the paths; its name and times stay.
func Project(doc *pb.Document, paths []Path) *pb.Document {
	e := Editor{copied: true, Fields: make(map[string]*pb.Value)}
	for _, path := range paths {
		if v := Lookup(doc.Fields, path); v != nil {
			e.Set(path, v)
		}
	}
	return &pb.Document{Name: doc.Name, Fields: e.Fields, CreateTime: doc.CreateTime, UpdateTime: doc.UpdateTime}
}

// ParseMask reads a mask; nil for none.
func ParseMask(mask *pb.DocumentMask) ([]Path, error) {
	if mask == nil {
		return nil, nil
	}
	paths := make([]Path, 0, len(mask.FieldPaths))
	for _, s := range mask.FieldPaths {
		path, err := ParseFieldPath(s)
		if err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}
