package layout

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Names of collections and documents below and beside a counter. Those that are not of the public
// layout begin with counter_, because TTL policies and index exemptions hold for a collection group
// in the whole database.
const (
	DefaultShards = "shards"
	Rollup        = "counter_rollup"
	Ledger        = "ledger"
	Ending        = "ending"
	Requests      = "counter_requests"
	Reconcile     = "reconcile"
	Notes         = "counter_notes"
)

// Fields of a counter's document.
const (
	NumShards       = "num_shards"
	NumShardsLegacy = "numShards" // what Google's Web and Node.js snippets write

	Total     = "total"
	CreatedAt = "created_at"
	UpdatedAt = "updated_at"
	Deleting  = "deleting" // true while a deletion too large for one commit is under way
)

// ExpireAt is the field of a request marker that the TTL policy looks at.
const ExpireAt = "expire_at"

// Layout names the documents of one deployment.
//
//	{counter}                            num_shards, total, created_at, updated_at
//	{counter}/shards/{n}                 count
//	{counter}/counter_rollup/ledger      states, answers, base, floor, ops
//	{counter}/{collection}/{document}    the app's, where a counted field counts them
//	{counter}/{field}_members/{member}   member, at, shard
//	counter_requests/{hash}              expire_at, and what was asked
//	counter_rollup/reconcile             where the last walk over all counters stopped
//	counter_rollup/{hash}/counter_notes/{hash}
//	                                     counter, since, due: one that must be reconciled
//
// The first two rows are the layout of Google's public "distributed counters" page, where a
// counter's document is counters/{counter}.
type Layout struct {
	Database string // projects/{project}/databases/{database}
	Path     Path   // of the counters' documents
	Fields   Fields // sums of the shards' fields; none where documents alone are counted
	Counted  Fields // what documents of other collections come to; may be none, but not both
	Shards   string // id of the collection of a counter's shards
	// the counters' documents are the app's own: none is made or deleted, and see Own
	Hosted bool
}

// FieldNames are the names of the counted fields in a counter's document, in the order of FIELDS.
func (l Layout) FieldNames() []string {
	names := make([]string, len(l.Fields))
	for i, field := range l.Fields {
		names[i] = field.Name
	}
	return names
}

// Shown are all fields of a counter's document that are shown there: the sums, and then what
// documents come to.
func (l Layout) Shown() Fields { return slices.Concat(l.Fields, l.Counted) }

// First is the field that a counter's total is of: the first that is a sum of the shards', else
// the first other that is an integer. It reports false where all are doubles.
func (l Layout) First() (Field, bool) {
	for _, field := range l.Shown() {
		if field.Integer() {
			return field, true
		}
	}
	return Field{}, false
}

// Field is the counted field of that name.
func (l Layout) Field(name string) (Field, bool) {
	for _, field := range l.Fields {
		if field.Name == name {
			return field, true
		}
	}
	return Field{}, false
}

// CheckSums says why nothing can be added to any counter: FIELDS has no sum of shards.
func (l Layout) CheckSums() error {
	if len(l.Fields) > 0 {
		return nil
	}
	return fmt.Errorf("there is nothing to increment or set here: all of FIELDS counts documents (%s)", l.Counted)
}

// CheckField says why a field holds no sum of shards: it is not shown, or it shows a
// query's answer.
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
	return fmt.Errorf("%q %s; want one of %s%s", name, what, strings.Join(l.FieldNames(), ", "), l.Shown().toCount(name))
}

// OwnPath is the path of a field of a counter's document that says how it is counted, such as
// [NumShards], as update masks and transforms have it. In a document of the app's own these are in
// one map, so that nothing else of it is touched.
func (l Layout) OwnPath(field string) string {
	if !l.Hosted {
		return field
	}
	return Rollup + "." + field
}

func (l Layout) root() string { return l.Database + "/documents/" }

// Document is the resource name of the document at a path such as pages/hello.
func (l Layout) Document(path string) string { return l.root() + path }

// Counters is the resource name of the collection of the counters, where they are in one:
// see [Path.Nested].
func (l Layout) Counters() string { return l.root() + l.Path.Collection() }

// Counter is the resource name of a counter's document.
func (l Layout) Counter(id string) string { return l.root() + l.Path.Document(id) }

// ShardsOf is the resource name of the collection of a counter's shards.
func (l Layout) ShardsOf(id string) string { return l.Counter(id) + "/" + l.Shards }

// Shard is the resource name of a shard of a counter.
func (l Layout) Shard(id, shard string) string { return l.ShardsOf(id) + "/" + shard }

// LedgerOf is the resource name of a counter's ledger.
func (l Layout) LedgerOf(id string) string { return l.Counter(id) + "/" + Rollup + "/" + Ledger }

// EndingOf is the resource name of the document that each step of a removal writes, of a counter whose
// document is missing: what is newer is none of the removal's.
func (l Layout) EndingOf(id string) string { return l.Counter(id) + "/" + Rollup + "/" + Ending }

// ParseLedger is the counter whose ledger has that resource name. It reports false for other
// documents. Names are taken apart from their ends: a counter, or any part of its path, may be
// called as a collection of ours is.
func (l Layout) ParseLedger(name string) (counter string, ok bool) {
	path, ok := strings.CutPrefix(name, l.root())
	if !ok {
		return "", false
	}
	if path, ok = strings.CutSuffix(path, "/"+Rollup+"/"+Ledger); !ok {
		return "", false
	}
	return l.Path.ID(path)
}

// MembersOf is the resource name of the collection of those whom a field of a counter
// counts once each.
func (l Layout) MembersOf(id, field string) string { return l.Counter(id) + "/" + membersID(field) }

// membersID is the id of the collection of those whom a field counts once each.
func membersID(field string) string { return field + "_members" }

// Request is the resource name of a request marker.
func (l Layout) Request(hash string) string { return l.root() + Requests + "/" + hash }

// Cursor is the resource name of the document that says where the last walk over all
// counters stopped.
func (l Layout) Cursor() string { return l.root() + Rollup + "/" + Reconcile }

// Notes is the resource name of the collection of the notes of counters that must be reconciled: of
// this deployment's, which is known by where its shards are.
func (l Layout) Notes() string {
	return l.root() + Rollup + "/" + hash(l.ShardPattern()) + "/" + Notes
}

// Note is the resource name of a counter's note.
func (l Layout) Note(counter string) string { return l.Notes() + "/" + hash(counter) }

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// ShardPattern is the path of all shards, as a trigger's path pattern has it.
func (l Layout) ShardPattern() string { return l.Path.String() + "/" + l.Shards + "/{shard}" }

// ByLedgers reports whether all counters are found by their ledgers, and not by their documents.
func (l Layout) ByLedgers() bool { return l.Path.Nested() || l.Hosted }

// Patterns are the paths of all documents that change what is counted, as triggers' path patterns
// have them: those of the shards first, and one for each of [Layout.Collections].
func (l Layout) Patterns() []string {
	patterns := []string{l.ShardPattern()}
	for _, source := range l.Collections() {
		patterns = append(patterns, l.PatternOf(source))
	}
	return patterns
}

// ParseShard takes the resource name of a shard apart. It reports false for a document that is not
// a shard of a counter here, and for names that no document can have.
func (l Layout) ParseShard(name string) (counter, shard string, ok bool) {
	path, ok := strings.CutPrefix(name, l.root())
	if !ok {
		return "", "", false
	}
	at := strings.LastIndexByte(path, '/')
	if at < 0 {
		return "", "", false
	}
	document, ok := strings.CutSuffix(path[:at], "/"+l.Shards)
	if !ok || ValidateID(path[at+1:]) != nil {
		return "", "", false
	}
	counter, ok = l.Path.ID(document)
	return counter, path[at+1:], ok
}

// AllowedShards says what the id of the shards' collection has to be instead, beside these fields;
// "" where it may be what it is.
func AllowedShards(id string, fields Fields) string {
	if ValidateID(id) != nil || strings.HasPrefix(id, ownPrefix) || strings.ContainsAny(id, "{}*") {
		// triggers' patterns have them
		return "the name of a collection, without /{}* and not beginning with " + ownPrefix
	}
	for _, field := range fields {
		switch {
		case field.Counted == nil && membersID(field.Name) == id:
			return fmt.Sprintf("another collection than that of the members of %s", field.Name)
		case field.Counted != nil && field.Counted.Collection == id:
			return fmt.Sprintf("another collection than that of the documents in %s", field)
		}
	}
	return ""
}

// maxIDBytes is Firestore's own limit on the id of a document or a collection.
const maxIDBytes = 1500

// slashAtEnd is what is wrong with an id that ends with a slash, as in a URL that was put together.
func slashAtEnd(id string) error { return fmt.Errorf("%q ends with a slash: leave it out", id) }

// ValidateID says why Firestore would not take an id for a document or a collection.
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
