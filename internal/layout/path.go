package layout

import (
	"errors"
	"fmt"
	"strings"
)

// Path is where a deployment's counters are: collections and wildcards in turn, such as
// counters/{counter} or teams/{team}/posts/{post}. A counter's id is its wildcards' values joined
// by slashes: post-123, or red/post-1.
//
// A path without wildcards, such as stats/site, is that of one counter, whose id is the document's:
// site.
type Path struct {
	pattern     string
	collections []string // one before each wildcard, or document
	wildcards   []string // their names; none in the path of one counter
}

// DefaultPath is that of Google's public "distributed counters" page.
const DefaultPath = "counters/{counter}"

// ParsePath reads a path. Its errors say what is allowed.
func ParsePath(pattern string) (Path, error) {
	parts := strings.Split(pattern, "/")
	if len(parts)%2 != 0 {
		return Path{}, fmt.Errorf("%q has %s, want collections and wildcards in turn, such as posts/{post}", pattern, partsOf(len(parts)))
	}
	p := Path{pattern: pattern}
	whole := !strings.Contains(pattern, "{")
	seen := map[string]bool{}
	for i, part := range parts {
		if i%2 == 0 {
			if err := ValidateID(part); err != nil {
				return Path{}, fmt.Errorf("part %d of %q cannot be a collection: %w", i+1, pattern, err)
			}
			if strings.ContainsAny(part, "{}*") {
				return Path{}, fmt.Errorf("part %d of %q is to be a collection, and holds a wildcard", i+1, pattern)
			}
			if strings.HasPrefix(part, ownPrefix) {
				return Path{}, fmt.Errorf("part %d of %q: collections that begin with %s are kept for what counters writes", i+1, pattern, ownPrefix)
			}
			p.collections = append(p.collections, part)
			continue
		}
		if whole {
			if err := ValidateID(part); err != nil {
				return Path{}, fmt.Errorf("part %d of %q cannot be a document, nor is it a wildcard such as {post}: %w", i+1, pattern, err)
			}
			if strings.ContainsAny(part, "}*") {
				return Path{}, fmt.Errorf("part %d of %q is to be a wildcard such as {post}, or a document's id without }*", i+1, pattern)
			}
			continue
		}
		name := strings.TrimSuffix(strings.TrimPrefix(part, "{"), "}")
		if len(name) != len(part)-2 || !plain(name) {
			return Path{}, fmt.Errorf("part %d of %q is to be a wildcard such as {post}: letters, digits and _ in braces (or none is, as in stats/site, the path of one counter)", i+1, pattern)
		}
		if seen[name] {
			return Path{}, fmt.Errorf("wildcard {%s} of %q stands there twice", name, pattern)
		}
		if name == "shard" || name == "document" {
			// a trigger's path pattern would have it twice: see [Layout.Patterns]
			return Path{}, fmt.Errorf("wildcard {%s} of %q is kept for triggers of shards and of counted documents: take another name", name, pattern)
		}
		seen[name] = true
		p.wildcards = append(p.wildcards, name)
	}
	return p, nil
}

// ownPrefix begins the names of all collections that Google's public layout doesn't have, because TTL
// policies and index exemptions apply to a collection group in the whole database.
const ownPrefix = "counter_"

// UnmarshalText reads a path as [ParsePath] does.
func (p *Path) UnmarshalText(text []byte) (err error) {
	*p, err = ParsePath(string(text))
	return err
}

// String is the path as it was written.
func (p Path) String() string { return p.pattern }

// Canonical is the path without its wildcards' names: they don't say where counters are.
func (p Path) Canonical() string {
	if p.Whole() {
		return p.pattern
	}
	return strings.Join(p.collections, "/{}/") + "/{}"
}

// Collection is the id of the collection that holds the counters' documents.
func (p Path) Collection() string { return p.collections[len(p.collections)-1] }

// UserWildcard is the wildcard for the user who owns a counter, in a path such as users/{uid}: see the
// setting RESET.
const UserWildcard = "uid"

// Wildcards are the names of the wildcards, in their order.
func (p Path) Wildcards() []string { return p.wildcards }

// Whole reports whether it is the path of one counter, without wildcards.
func (p Path) Whole() bool { return len(p.wildcards) == 0 }

// Nested reports whether counters have more than one wildcard: then they are not in one collection.
func (p Path) Nested() bool { return len(p.wildcards) > 1 }

// Parts is how many parts a counter's id has: one per wildcard.
func (p Path) Parts() int { return max(1, len(p.wildcards)) }

// only is the id of the one counter that a path without wildcards has.
func (p Path) only() string { return p.pattern[strings.LastIndexByte(p.pattern, '/')+1:] }

// Document is the path of a counter's document, such as posts/post-123. The id must be one that
// [Path.Validate] accepts.
func (p Path) Document(id string) string {
	switch {
	case p.Whole():
		return p.pattern
	case !p.Nested():
		return p.collections[0] + "/" + id
	}
	var b strings.Builder
	for i, value := range strings.Split(id, "/") {
		if i > 0 {
			b.WriteByte('/')
		}
		b.WriteString(p.collections[i])
		b.WriteByte('/')
		b.WriteString(value)
	}
	return b.String()
}

// ID is the id of the counter whose document has that path; false if no counter has.
func (p Path) ID(document string) (string, bool) {
	if p.Whole() {
		return p.only(), document == p.pattern
	}
	parts := strings.Split(document, "/")
	if len(parts) != 2*len(p.collections) {
		return "", false
	}
	values := make([]string, len(p.collections))
	for i, collection := range p.collections {
		if parts[2*i] != collection {
			return "", false
		}
		values[i] = parts[2*i+1]
	}
	id := strings.Join(values, "/")
	return id, p.Validate(id) == nil
}

// partsOf is a number of parts as text.
func partsOf(n int) string {
	if n == 1 {
		return "1 part"
	}
	return fmt.Sprintf("%d parts", n)
}

// Validate is an error if no counter here can have that id.
func (p Path) Validate(id string) error {
	if p.Whole() && id != p.only() {
		return fmt.Errorf("%q is not the one counter that there is, %s", id, p.only())
	}
	if !p.Nested() {
		return ValidateID(id)
	}
	if id == "" {
		return errors.New("it is empty")
	}
	values := strings.Split(id, "/")
	if len(values) == len(p.collections)+1 && values[len(values)-1] == "" {
		return slashAtEnd(id)
	}
	if len(values) != len(p.collections) {
		return fmt.Errorf("%q has %s, and a counter of %s has %d", id, partsOf(len(values)), p, len(p.collections))
	}
	for _, value := range values {
		if err := ValidateID(value); err != nil {
			return fmt.Errorf("%q: %w", id, err)
		}
	}
	return nil
}
