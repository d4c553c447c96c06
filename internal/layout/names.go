// Package layout names the documents of a deployment's counters: paths, collections, fields, and the
// ids that Firestore allows. It also parses FIELDS and COUNTERS. Everything here is pure, without a
// client or a wire format. So a package that only needs names doesn't import gRPC.
//
// The files in the order in which they are read; most use what is declared below:
//
//	parse.go    COUNTERS and FIELDS are read, and what they don't allow is refused
//	counted.go  fields that count documents, and names of these documents
//	names.go    names of documents and of what is in them: COUNTERS and FIELDS as they were read
package layout

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

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
	Counted  Fields // those that count documents; Sharded or Counted may be empty, but not both
	Shards   string // id of the collection of a counter's shards
	// the counters' documents are the app's own: we neither make nor delete them, and see [Layout.OwnPath]
	Hosted bool
	// what clients of Firebase's Distributed Counter extension count below the documents is taken over; only with
	// Hosted
	Extension bool
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

// Plain are the sums of shards that have no limit.
func (l Layout) Plain() Fields {
	return slices.DeleteFunc(slices.Clone(l.Sharded), func(f Field) bool { return !f.Plain() })
}

// Limited are the sums of shards that have a limit. A field that only shows such a limit (LimitOf) is none of them.
func (l Layout) Limited() Fields {
	return slices.DeleteFunc(l.Sharded.Named(), Field.Plain)
}

// Apart are the fields, such as share(seats), that shards of a limited field have and no common shard, one for each.
func (l Layout) Apart() (apart []string) {
	for _, f := range l.Limited() {
		apart = append(apart, f.Apart())
	}
	return apart
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

// ByBases reports whether all counters are found by their bases, and not by their documents.
func (l Layout) ByBases() bool { return l.Path.Nested() || l.Hosted }

// Counter is the resource name of a counter's document.
func (l Layout) Counter(id string) string { return l.root() + l.Path.Document(id) }

// ShardsOf is the resource name of the collection of a counter's shards.
func (l Layout) ShardsOf(id string) string { return l.Counter(id) + "/" + l.Shards }

// Shard is the resource name of a shard of a counter.
func (l Layout) Shard(id, shard string) string { return l.ShardsOf(id) + "/" + shard }

// ParseShard parses the resource name of a shard. It reports false for other documents.
func (l Layout) ParseShard(name string) (counter, shard string, ok bool) {
	return l.below(name, l.Shards)
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

// LimitedShard is the id of a shard of a field with a limit, by the field's name in its shards.
func LimitedShard(field string, n int) string { return field + limitedShard + strconv.Itoa(n) }

// A field with a limit, such as seats=limit(500), has shards of its own: seats~0, seats~1 and so on. Nothing else is
// counted in them, and it is counted nowhere else.
const limitedShard = "~"

// MostApart is how many shards of its own a field has at most: who finds no room in those that it knows reads them
// all.
const MostApart = 25

// LimitedField is the field that a shard is of alone. It reports false for other shards.
func LimitedField(id string) (field string, is bool) {
	at := strings.LastIndex(id, limitedShard)
	if at < 0 {
		return "", false
	}
	return id[:at], true
}

// ExtensionShardsOf is the resource name of the collection in which clients of the extension count.
func (l Layout) ExtensionShardsOf(id string) string { return l.Counter(id) + "/" + ExtensionShards }

// ExtensionShard is the resource name of a shard of the extension's.
func (l Layout) ExtensionShard(id, shard string) string { return l.ExtensionShardsOf(id) + "/" + shard }

// ParseExtensionShard parses the resource name of a shard of the extension's, whose clients are taken over.
func (l Layout) ParseExtensionShard(name string) (counter, shard string, ok bool) {
	counter, shard, ok = l.below(name, ExtensionShards)
	return counter, shard, ok && l.Extension
}

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

// Until is the field of a membership, and of its entry, that says until when the seat is held.
const Until = "until"

// MemberShard is the field of a membership that says on which shard the member was counted, where a client's undo goes.
const MemberShard = "shard"

// Request is the resource name of a request marker.
func (l Layout) Request(hash string) string { return l.root() + Requests + "/" + hash }

// Cursor is the resource name of the document with the place where the last walk over all counters
// stopped.
func (l Layout) Cursor() string { return l.root() + Rollup + "/" + Reconcile }

// Notes is the resource name of the collection of this deployment's notes: they name counters that must
// be reconciled.
func (l Layout) Notes() string { return l.own() + Notes }

// Note is the resource name of a counter's note.
func (l Layout) Note(counter string) string { return l.Notes() + "/" + hash(counter) }

// Holds is the resource name of the collection of this deployment's entries of seats that are held. It has
// the id of that of request markers, whose TTL policy it shares.
func (l Layout) Holds() string { return l.own() + Requests }

// Hold is the resource name of the entry of a membership's seat.
func (l Layout) Hold(membership string) string { return l.Holds() + "/" + hash(membership) }

// Record is the resource name of the record of a hold of an amount, by the hash of what it is called.
func (l Layout) Record(hash string) string { return l.Holds() + "/" + hash }

// HoldsOf is how the field [Due] begins in the records of a field's open holds. The field's name is that in the shards.
func (l Layout) HoldsOf(counter, field string) string {
	return hash(counter + "\x00" + field)[:32] + " "
}

// Due is the field of an open hold's record that says where and until when it is held: who finds no room looks for it.
const Due = "due"

// own is where documents of this deployment are that belong to no counter. A deployment is identified by where its
// shards are, whatever it calls its wildcards.
func (l Layout) own() string {
	return l.root() + Rollup + "/" + hash(l.Path.Canonical()+"/"+l.Shards) + "/"
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
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

// Field is a counted field of a counter's document: the sum of a field of its shards, or the result of
// a query over documents.
type Field struct {
	Name    string       // in the counter's document
	Shard   string       // in its shards; empty if Counted is set
	Counted *Aggregation // the query; nil for a sum of the shards' field
	Limit   *int64       // the limit that FIELDS declares; nil: there is none. A field that shows a limit has it, too
	LimitOf string       // the field whose limit this one shows, if it shows one: see [Field.ShowsLimit]
}

// String is the field in the form that [ParseFields] reads.
func (f Field) String() string {
	switch {
	case f.Counted != nil:
		return f.Name + "=" + f.Counted.String()
	case f.Limit != nil:
		return f.Name + "=" + limitText(*f.Limit)
	case f.Shard != f.Name:
		return f.Name + "=" + f.Shard
	}
	return f.Name
}

// Key says what a field is, besides the number that a document shows of it. It is a hash of the field's definition,
// because other revisions may define the same field in another way.
func (f Field) Key() string {
	if f.Limit != nil { // whatever number is declared
		f.Limit = new(int64)
	}
	hash := sha256.Sum256([]byte(f.String()))
	return hex.EncodeToString(hash[:8])
}

// Integer reports whether the field holds an integer. Otherwise it holds a double, or null for an
// average of nothing.
func (f Field) Integer() bool { return f.Counted == nil || !f.Counted.Average && !f.Counted.Double }

// ShowsLimit reports whether the field shows the limit of another one. Such a field has Limit, too: ask for this first.
func (f Field) ShowsLimit() bool { return f.LimitOf != "" }

// Plain reports whether a sum of shards has no limit, and shows none.
func (f Field) Plain() bool { return f.Limit == nil }

// OfNone is the sum of no shards: 0, or the limit that FIELDS declares, for the field that shows it. Whoever takes
// first, or sets a limit, makes the shards.
func (f Field) OfNone() int64 {
	if !f.ShowsLimit() {
		return 0
	}
	return *f.Limit
}

// CountedIn reports whether the field is counted in a shard of that id.
func (f Field) CountedIn(id string) bool {
	of, limited := LimitedField(id)
	if !limited {
		return f.Apart() == ""
	}
	return f.Apart() == ShareOf(of)
}

// Apart is the field that those shards have, and no others, in which a field is counted that has shards of its own;
// empty of a field that is counted in the counter's common shards.
func (f Field) Apart() string {
	switch {
	case f.ShowsLimit():
		return f.Shard
	case f.Limit != nil:
		return ShareOf(f.Shard)
	}
	return ""
}

// ShareOf is the field of a shard that says how much of a field's limit the shard may count. No counted field can have
// that name.
func ShareOf(field string) string { return "share(" + field + ")" }

// MembersIn is the field of a shard that says how much of a field with a limit members took there.
func MembersIn(field string) string { return "members(" + field + ")" }

// HoldsIn is the field of a shard that says how much of a field with a limit open holds of amounts have there.
func HoldsIn(field string) string { return "held(" + field + ")" }

// LimitSuffix follows the name of a field with a limit in that of the field that shows the limit.
const LimitSuffix = "_limit"

// limitOf is the field that shows a field's limit: the sum of its shards' shares.
func limitOf(f Field) Field {
	return Field{Name: f.Name + LimitSuffix, Shard: ShareOf(f.Shard), Limit: f.Limit, LimitOf: f.Name}
}

// limitText is the inverse of parseLimit.
func limitText(n int64) string {
	if n == 0 {
		return "limit()"
	}
	return fmt.Sprintf("limit(%d)", n)
}

// Fields is a list of counted fields: see [ParseFields].
type Fields []Field

// String is the list in the form that [ParseFields] reads.
func (f Fields) String() string {
	named := f.Named()
	items := make([]string, len(named))
	for i, field := range named {
		items[i] = field.String()
	}
	return strings.Join(items, ",")
}

// Names are the fields' names, in their order.
func (f Fields) Names() []string {
	names := make([]string, len(f))
	for i, field := range f {
		names[i] = field.Name
	}
	return names
}

// ByShard is the field that is called so in the shards. It reports false if none is.
func (f Fields) ByShard(shard string) (Field, bool) {
	i := slices.IndexFunc(f, func(field Field) bool { return field.Shard == shard })
	if i < 0 {
		return Field{}, false
	}
	return f[i], true
}

// Named are the fields that FIELDS names: those that show limits are left out.
func (f Fields) Named() Fields { return slices.DeleteFunc(slices.Clone(f), Field.ShowsLimit) }

// SettingNames are the names of [Fields.Named]; in JSON, no fields are a list, too.
func (f Fields) SettingNames() []string { return f.Named().Names() }

// Split separates the sums of the shards' fields from the fields that count documents. Behind each sum that has a
// limit is the field that shows the limit.
func (f Fields) Split() (sums, counted Fields) {
	for _, field := range f {
		if field.Counted == nil {
			if sums = append(sums, field); field.Limit != nil {
				sums = append(sums, limitOf(field))
			}
		} else {
			counted = append(counted, field)
		}
	}
	return sums, counted
}

// ShardRequest is the field of a shard in which clients that write shards themselves name their request: see
// firestore.rules. Settling a hold that changes no count writes a time there, because the rules allow no other field.
const ShardRequest = "request"

// MayCount reports whether a field of a shard may be counted. All other fields are ignored.
func MayCount(name string) bool { return validateField(name) == nil && name != ShardRequest }

// maxFieldBytes keeps a field's path below the 1,500 bytes that Firestore allows.
const maxFieldBytes = 64

// validateField says why a name can't be that of a counted field.
func validateField(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("a name is missing; want names such as likes or total=count, with commas between them")
	case len(name) > maxFieldBytes:
		return fmt.Errorf("a name has %d bytes, and at most %d are allowed", len(name), maxFieldBytes)
	case !utf8.ValidString(name):
		return fmt.Errorf("%q is not UTF-8", name)
	case strings.ContainsAny(name, ".`=(){}/* \t\n\x00"):
		return fmt.Errorf("%q holds one of .`=(){}/*, white space or a zero byte", name)
	case len(name) >= 4 && strings.HasPrefix(name, "__") && strings.HasSuffix(name, "__"):
		return fmt.Errorf("%q is reserved, as everything of the form __x__", name)
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
