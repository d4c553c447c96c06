package store

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Field is something that is counted: a field of a counter's document that holds the sum of a field of its shards.
type Field struct {
	Name  string // in the counter's document
	Shard string // in its shards
}

// Fields is a list of what is counted, as [ParseFields] reads it.
type Fields []Field

// UnmarshalText reads a list as [ParseFields] does.
func (f *Fields) UnmarshalText(text []byte) (err error) {
	*f, err = ParseFields(string(text))
	return err
}

// String is the list as [ParseFields] reads it.
func (f Fields) String() string {
	var b strings.Builder
	for i, field := range f {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(field.Name)
		if field.Shard != field.Name {
			b.WriteString("=" + field.Shard)
		}
	}
	return b.String()
}

// DefaultFields are those of Google's public "distributed counters" page: total is the sum of the shards' count.
const DefaultFields = "total=count"

// MaxFields bounds how many fields a deployment counts: each is an entry per shard in a ledger of one megabyte.
const MaxFields = 20

// ParseFields reads a list such as likes,views or total=count: a name alone is called so in the counter's document and in
// its shards. Its errors give the position, in bytes from 1, and what is allowed.
func ParseFields(list string) (Fields, error) {
	var fields Fields
	at := 1
	for item := range strings.SplitSeq(list, ",") {
		trimmed := strings.TrimSpace(item)
		name, shard, named := strings.Cut(trimmed, "=")
		if !named {
			shard = name
		}
		position := at + strings.Index(item, trimmed)
		for _, part := range []string{name, shard} {
			if err := validateField(part); err != nil {
				return nil, fmt.Errorf("%q at %d: %w", trimmed, position, err)
			}
		}
		if slices.Contains(reserved, name) {
			return nil, fmt.Errorf("%q at %d: a counter's document has a field %s of its own", trimmed, position, name)
		}
		for _, other := range fields {
			if other.Name == name || other.Shard == shard {
				return nil, fmt.Errorf("%q at %d: %s=%s has one of its names already", trimmed, position, other.Name, other.Shard)
			}
		}
		fields = append(fields, Field{Name: name, Shard: shard})
		at += len(item) + 1
	}
	if len(fields) > MaxFields {
		return nil, fmt.Errorf("%d fields, and at most %d are allowed", len(fields), MaxFields)
	}
	return fields, nil
}

// reserved are the fields of a counter's document that are no sums.
var reserved = []string{NumShards, NumShardsLegacy, CreatedAt, UpdatedAt, LedgerID, Deleting, Rollup}

// maxFieldBytes keeps a field's path below the 1,500 bytes that Firestore allows, in a ledger's entry too, where a shard's id
// of up to 1,400 bytes stands before it.
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
	case strings.ContainsAny(name, ".`=(){}/* \t\n"):
		return fmt.Errorf("%q holds one of .`=(){}/* or white space", name)
	case len(name) >= 4 && strings.HasPrefix(name, "__") && strings.HasSuffix(name, "__"):
		return fmt.Errorf("%q is reserved, as everything of the form __x__", name)
	}
	return nil
}
