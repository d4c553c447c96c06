// Package layout names the documents of a deployment's counters: paths, collections, fields, and the
// ids that Firestore allows. It also parses FIELDS and COUNTERS. Everything here is pure, without a
// client or a wire format. So a package that only needs names doesn't import gRPC.
//
// The files in the order in which they are read; most use what is declared below:
//
//	limits.go   fields with limits, their shards, and names of what is held of them
//	names.go    where the counters are (COUNTERS), names of documents, paths of fields, numbers of shards
//	field.go    FIELDS
//	counted.go  fields that count documents, and names of these documents
package layout

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// DefaultProject is an emulator's project if none is named, for commands, functions and libraries. By the
// prefix demo-, Google's emulators and libraries know that it isn't a real project.
const DefaultProject = "demo-counters"

// Place says where the counters of a deployment are. The zero values are the defaults. Packages shards and
// rollup have it as their own. Godoc shows their users no internal type, so shards.Place says the fields again.
type Place struct {
	// by default GOOGLE_CLOUD_PROJECT's, or [DefaultProject] with an emulator, otherwise that of the
	// credentials or the metadata server
	Project  string
	Database string // default "(default)"
	Counters string // path of the counters' documents; default [DefaultPath]
	Fields   string // what is counted: see [ParseFields]; default [DefaultFields]
	Shards   string // id of the collection of a counter's shards; default "shards"
	Hosted   bool   // the counters' documents are the app's own
	// what clients of Firebase's Distributed Counter extension count is taken over; only with Hosted
	Extension bool
}

// Layout is the layout of the documents, without their database.
func (p Place) Layout() (Layout, error) {
	path, err := ParsePath(cmp.Or(p.Counters, DefaultPath))
	if err != nil {
		return Layout{}, fmt.Errorf("path of the counters: %w", err)
	}
	fields, err := ParseFields(cmp.Or(p.Fields, DefaultFields))
	if err != nil {
		return Layout{}, fmt.Errorf("fields that are counted: %w", err)
	}
	l := Layout{Path: path, Shards: cmp.Or(p.Shards, DefaultShards), Hosted: p.Hosted, Extension: p.Extension}
	if l.Extension && !l.Hosted {
		return Layout{}, errors.New("the extension counts in documents of the app's own: set Hosted, too (HOSTED=true, --hosted)")
	}
	if want := WrongShardsCollection(l.Shards, fields); want != "" {
		return Layout{}, fmt.Errorf("collection of the shards: %s: want %s", l.Shards, want)
	}
	if want := WrongFields(path, fields); want != "" {
		return Layout{}, fmt.Errorf("fields that are counted: %s: want %s", fields, want)
	}
	l.Sharded, l.Counted = fields.Split()
	return l, nil
}

// Names of collections and documents below and beside a counter. All that Google's public layout
// doesn't have begin with counter_, because TTL policies and index exemptions apply to a collection
// group in the whole database.
const (
	DefaultShards = "shards"
	Rollup        = "counter_rollup"
	Base          = "base"
	Requests      = "counter_requests"
	Reconcile     = "reconcile"
	Notes         = "counter_notes"
)

// ExtensionShards is the id of the collection below a document in which the clients of Firebase's Distributed Counter
// extension count.
const ExtensionShards = "_counter_shards_"

// Fields of a counter's document.
const (
	NumShards       = "num_shards"
	NumShardsLegacy = "numShards" // what Google's Web and Node.js snippets write

	Total     = "total"
	CreatedAt = "created_at"
	UpdatedAt = "updated_at"
)

// Fields of the map [Rollup] in a counter's document.
const (
	AsOf        = "as_of"   // :: shown field → as of when its number is
	LastShown   = "shown"   // :: shown field → the number that this module wrote last, and of what it is
	NextRefresh = "next_at" // from when on the document may be refreshed again: the bucket of refreshes is its own
	HostedMark  = "hosted"  // whether the document is the app's own
	CounterPath = "counter" // the document's path: the map may be copied to another
)

// ExpireAt is the field of a request marker that the TTL policy looks at.
const ExpireAt = "expire_at"

// Layout names the documents of one deployment.
//
//	{counter}                            num_shards, total, created_at, updated_at
//	{counter}/shards/{n}                 count
//	{counter}/shards/{field}~{n}         count, share, members and held of a field with a limit
//	{counter}/counter_rollup/base        base, replaced, imported
//	{counter}/{collection}/{document}    the app's, where a counted field counts them
//	{counter}/{field}_members/{member}   member, at, shard
//	{counter}/_counter_shards_/{shard}   what clients of Firebase's extension count
//	counter_requests/{hash}              expire_at, and what was asked
//	counter_rollup/{hash}/counter_requests/{hash}
//	                                     until, counter, field, member: a seat that is held;
//	                                     until, counter, field, amount, parts: an amount that is
//	counter_rollup/reconcile             where the last walk over all counters stopped
//	counter_rollup/{hash}/counter_notes/{hash}
//	                                     counter, since, due: one that must be reconciled
//
// The first two rows are the layout of Google's public "distributed counters" page, where a
// counter's document is counters/{counter}.
type Layout struct {
	Database string // projects/{project}/databases/{database}
	Path     Path   // of the counters' documents
	Sharded  Fields // sums of the shards' fields; none where documents alone are counted
	Counted  Fields // those that count documents; Fields or Counted may be empty, but not both
	Shards   string // id of the collection of a counter's shards
	// the counters' documents are the app's own: we neither make nor delete them, and see [Layout.OwnPath]
	Hosted bool
	// what clients of Firebase's Distributed Counter extension count below the documents is taken over; only with
	// Hosted
	Extension bool
}

// Shown are all fields that a counter's document shows: first the sums, then those that count documents.
func (l Layout) Shown() Fields { return slices.Concat(l.Sharded, l.Counted) }

// First is the field that is called a counter's total: the first sum of shards, or if there is none, the
// first other integer. It reports false if all fields are doubles.
func (l Layout) First() (Field, bool) {
	for _, field := range l.Shown() {
		if field.Integer() {
			return field, true
		}
	}
	return Field{}, false
}

// Field is the sum of shards with that name, to which something may be added.
func (l Layout) Field(name string) (Field, bool) {
	for _, field := range l.Sharded {
		if field.Name == name && !field.ShowsLimit() {
			return field, true
		}
	}
	return Field{}, false
}

// CheckSums is an error if nothing can be added to any counter, because FIELDS has no sum of shards.
func (l Layout) CheckSums() error {
	if len(l.Sharded) > 0 {
		return nil
	}
	return fmt.Errorf("there is nothing to increment or set here: all of FIELDS counts documents (%s)", l.Counted)
}

// CheckField is an error if a field is no sum of shards: it isn't shown, or it counts documents.
func (l Layout) CheckField(name string) error {
	if _, ok := l.Field(name); ok {
		return nil
	}
	if err := l.CheckSums(); err != nil {
		return err
	}
	what := "is not counted"
	for _, field := range l.Counted {
		if field.Name == name {
			what = fmt.Sprintf("counts documents (%s), and nothing else is added to it", field)
		}
	}
	return fmt.Errorf("%q %s; want one of %s%s", name, what, strings.Join(l.Sharded.SettingNames(), ", "), l.Shown().toCount(name))
}

// OwnPath is the path of one of our own fields in a counter's document, such as [NumShards], for update
// masks and transforms. In a document of the app's own, these fields are in one map, so that we touch
// nothing else.
func (l Layout) OwnPath(field string) string {
	if !l.Hosted {
		return field
	}
	return Rollup + "." + field
}

func (l Layout) root() string { return l.Database + "/documents/" }

// Document is the resource name of the document at a path such as pages/hello.
func (l Layout) Document(path string) string { return l.root() + path }

// Counters is the resource name of the collection of the counters, if they are in one: see
// [Path.Nested].
func (l Layout) Counters() string { return l.root() + l.Path.Collection() }

// Counter is the resource name of a counter's document.
func (l Layout) Counter(id string) string { return l.root() + l.Path.Document(id) }

// ShardsOf is the resource name of the collection of a counter's shards.
func (l Layout) ShardsOf(id string) string { return l.Counter(id) + "/" + l.Shards }

// Shard is the resource name of a shard of a counter.
func (l Layout) Shard(id, shard string) string { return l.ShardsOf(id) + "/" + shard }

// ExtensionShardsOf is the resource name of the collection in which clients of the extension count.
func (l Layout) ExtensionShardsOf(id string) string { return l.Counter(id) + "/" + ExtensionShards }

// ExtensionShard is the resource name of a shard of the extension's.
func (l Layout) ExtensionShard(id, shard string) string { return l.ExtensionShardsOf(id) + "/" + shard }

// BaseOf is the resource name of a counter's base, which has what its totals hold beyond their sources.
func (l Layout) BaseOf(id string) string { return l.Counter(id) + "/" + Rollup + "/" + Base }

// ListOf is the resource name of the document that is there while the list in a field of a counter's document is
// taken over as members.
func (l Layout) ListOf(id, field string) string {
	return l.Counter(id) + "/" + Rollup + "/" + "list_" + field
}

// ParseBase is the counter whose base has that resource name.
func (l Layout) ParseBase(name string) (counter string, ok bool) {
	counter, id, ok := l.below(name, Rollup)
	return counter, ok && id == Base
}

// MembersOf is the resource name of the collection of a field's members, whom it counts once each.
func (l Layout) MembersOf(id, field string) string { return l.Counter(id) + "/" + MembersID(field) }

// MembersGroup is the resource name of the collection group of a field's members, those of all counters.
func (l Layout) MembersGroup(field string) string { return l.root() + MembersID(field) }

// ParseMembership is the counter of a field's membership with that resource name.
func (l Layout) ParseMembership(name, field string) (counter string, ok bool) {
	counter, _, ok = l.below(name, MembersID(field))
	return counter, ok
}

// MembersID is the id of the collection of a field's members.
func MembersID(field string) string { return field + "_members" }

// Request is the resource name of a request marker.
func (l Layout) Request(hash string) string { return l.root() + Requests + "/" + hash }

// Cursor is the resource name of the document with the place where the last walk over all counters
// stopped.
func (l Layout) Cursor() string { return l.root() + Rollup + "/" + Reconcile }

// Notes is the resource name of the collection of this deployment's notes: they name counters that must
// be reconciled.
func (l Layout) Notes() string { return l.own() + Notes }

// own is where documents of this deployment are that belong to no counter. A deployment is identified by where its
// shards are, whatever it calls its wildcards.
func (l Layout) own() string {
	return l.root() + Rollup + "/" + hash(l.Path.Canonical()+"/"+l.Shards) + "/"
}

// Note is the resource name of a counter's note.
func (l Layout) Note(counter string) string { return l.Notes() + "/" + hash(counter) }

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// ByBases reports whether all counters are found by their bases, and not by their documents.
func (l Layout) ByBases() bool { return l.Path.Nested() || l.Hosted }

// Patterns are triggers' path patterns for all documents that change a count: first the shards, and then one for each
// of [Layout.Collections].
func (l Layout) Patterns() []string {
	patterns := []string{l.Path.String() + "/" + l.Shards + "/{shard}"}
	for _, source := range l.Collections() {
		patterns = append(patterns, l.PatternOf(source))
	}
	return patterns
}

// ParseShard parses the resource name of a shard. It reports false for other documents.
func (l Layout) ParseShard(name string) (counter, shard string, ok bool) {
	return l.below(name, l.Shards)
}

// ParseExtensionShard parses the resource name of a shard of the extension's, whose clients are taken over.
func (l Layout) ParseExtensionShard(name string) (counter, shard string, ok bool) {
	counter, shard, ok = l.below(name, ExtensionShards)
	return counter, shard, ok && l.Extension
}

// below parses the resource name of a document in a collection below a counter. It parses from the end, because any
// part of a counter's path may have the name of one of our collections.
func (l Layout) below(name, collection string) (counter, id string, ok bool) {
	path, ok := strings.CutPrefix(name, l.root())
	at := strings.LastIndexByte(path, '/')
	if !ok || at < 0 || ValidateID(path[at+1:]) != nil {
		return "", "", false
	}
	document, ok := strings.CutSuffix(path[:at], "/"+collection)
	if ok {
		counter, ok = l.Path.ID(document)
	}
	return counter, path[at+1:], ok
}

// WrongShardsCollection says what the id of the shards' collection must be instead, where FIELDS has these fields; ""
// if it is allowed.
func WrongShardsCollection(id string, fields Fields) string {
	if ValidateID(id) != nil || id == ExtensionShards || strings.HasPrefix(id, ownPrefix) || strings.ContainsAny(id, "{}*") {
		// triggers' patterns have them
		return "the name of a collection, without /{}*, not beginning with " + ownPrefix + ", and not " + ExtensionShards
	}
	for _, field := range fields {
		switch {
		case field.Counted == nil && MembersID(field.Name) == id:
			return fmt.Sprintf("another collection than that of the members of %s", field.Name)
		case field.Counted != nil && field.Counted.Collection == id:
			return fmt.Sprintf("another collection than that of the documents in %s", field)
		}
	}
	return ""
}

// maxIDBytes is Firestore's own limit on the id of a document or a collection.
const maxIDBytes = 1500

// maxPathBytes leaves room below a counter's document, whose name is longer, for a member's: of the 6,144 bytes that
// Firestore allows for a document's name, 1,500 for an id, 74 for the collection, and the rest for the database. Many
// counters are read at once, and one name that is refused would fail the others.
const maxPathBytes = 4400

// slashAtEnd says what is wrong with an id that ends with a slash, as in a URL that a program built.
func slashAtEnd(id string) error { return fmt.Errorf("%q ends with a slash: leave it out", id) }

// ValidateID is an error if Firestore would refuse an id of a document or a collection.
func ValidateID(id string) error {
	switch {
	case id == "":
		return errors.New("it is empty")
	case len(id) > maxIDBytes:
		return fmt.Errorf("it has %d bytes, and at most %d are allowed", len(id), maxIDBytes)
	case !utf8.ValidString(id):
		return errors.New("it is not UTF-8")
	case strings.HasSuffix(id, "/"):
		return slashAtEnd(id)
	case strings.Contains(id, "/"):
		return fmt.Errorf("%q contains a slash", id)
	case id == "." || id == "..":
		return fmt.Errorf("%q is reserved", id)
	case len(id) >= 4 && strings.HasPrefix(id, "__") && strings.HasSuffix(id, "__"):
		return fmt.Errorf("%q is reserved, as everything of the form __x__", id)
	}
	return nil
}

// FieldPath joins field names to a path for masks and transforms. It quotes a name that isn't a plain
// identifier with backticks.
func FieldPath(names ...string) string {
	path := slices.Clone(names)
	for i, name := range path {
		if !plain(name) {
			path[i] = "`" + escapes.Replace(name) + "`"
		}
	}
	return strings.Join(path, ".")
}

// escapes escape what ends a quoted name, byte by byte: a name need not be UTF-8.
var escapes = strings.NewReplacer("`", "\\`", `\`, `\\`)

func plain(name string) bool {
	for i := range len(name) {
		c := name[i]
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// MaxShards is the largest number of shards of a counter. All of them fit into one commit, and one
// sum() over them is billed as one read.
const MaxShards = 1000

// DefaultNumShards is how many shards a counter has by default: enough for ten writes a second without
// contention.
const DefaultNumShards = 10

// ShardID is the document id of the n-th shard.
func ShardID(n int) string { return strconv.Itoa(n) }

// ShardNumber is the inverse of [ShardID]. It reports false for documents that others keep
// among the shards.
func ShardNumber(id string) (int, bool) {
	n, err := strconv.Atoi(id)
	return n, err == nil && n >= 0 && ShardID(n) == id
}

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

// Canonical is the path without its wildcards' names: they don't say where counters are. Names of documents are hashed
// from it, so it never changes.
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

// Document is the path of a counter's document, such as posts/post-123. It is no document's for an id that
// [Path.Validate] refuses.
func (p Path) Document(id string) string {
	if p.Whole() {
		return p.pattern
	}
	var parts []string
	for i, value := range strings.SplitN(id, "/", len(p.collections)) {
		parts = append(parts, p.collections[i], value)
	}
	return strings.Join(parts, "/")
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
	if n := len(p.Document(id)); n > maxPathBytes {
		return fmt.Errorf("the path of its document has %d bytes, and at most %d are allowed", n, maxPathBytes)
	}
	return nil
}
