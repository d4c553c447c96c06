package layout

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Field is something that is counted in a field of a counter's document: the sum of a field of its
// shards, or what documents of a collection below it come to.
type Field struct {
	Name    string       // in the counter's document
	Shard   string       // in its shards; empty where Counted is set
	Counted *Aggregation // nil where it is the sum of the shards' field
}

// String is the field as [ParseFields] reads it.
func (f Field) String() string {
	switch {
	case f.Counted != nil:
		return f.Name + "=" + f.Counted.String()
	case f.Shard != f.Name:
		return f.Name + "=" + f.Shard
	}
	return f.Name
}

// Integer reports whether the field holds an integer. One that doesn't holds a double, or null
// where it is the average of none.
func (f Field) Integer() bool { return f.Counted == nil || !f.Counted.Average && !f.Counted.Double }

// Fields is a list of what is counted, as [ParseFields] reads it.
type Fields []Field

// UnmarshalText reads a list as [ParseFields] does.
func (f *Fields) UnmarshalText(text []byte) (err error) {
	*f, err = ParseFields(string(text))
	return err
}

// String is the list as [ParseFields] reads it.
func (f Fields) String() string {
	items := make([]string, len(f))
	for i, field := range f {
		items[i] = field.String()
	}
	return strings.Join(items, ",")
}

// CheckShown says why a field is not shown: FIELDS doesn't name it.
func (f Fields) CheckShown(name string) error {
	names := make([]string, len(f))
	for i, field := range f {
		if names[i] = field.Name; field.Name == name {
			return nil
		}
	}
	return fmt.Errorf("%q is not counted; want one of %s%s", name, strings.Join(names, ", "), f.toCount(name))
}

// toCount is what to set so that a field is counted, too; "" where no field can have that name, or
// one has it.
func (f Fields) toCount(name string) string {
	set := f.String() + "," + name
	if more, err := ParseFields(set); err != nil || len(more) != len(f)+1 {
		return ""
	}
	return fmt.Sprintf("; to count it too, set FIELDS=%s (counters dev --fields %[1]s)", set)
}

// Split tells the fields that are sums of the shards' from those that count documents.
func (f Fields) Split() (sums, counted Fields) {
	for _, field := range f {
		if field.Counted == nil {
			sums = append(sums, field)
		} else {
			counted = append(counted, field)
		}
	}
	return sums, counted
}

// DefaultFields are those of Google's public "distributed counters" page: total is the sum of
// the shards' count.
const DefaultFields = "total=count"

// maxFields bounds how many fields a deployment counts: each is an entry per shard in a ledger
// of one megabyte.
const maxFields = 20

// ParseFields reads a list such as likes,views or total=count: a name alone is called so in the
// counter's document and in its shards. What is counted otherwise is an [Aggregation], such as
// comments=count(comments). Its errors give the position, in bytes from 1, and what is allowed.
func ParseFields(list string) (Fields, error) {
	var fields Fields
	for s := (scanner{text: list}); ; s.at++ {
		s.space()
		begin := s.at
		field, err := s.field()
		rest, _, _ := strings.Cut(list[s.at:], ",")
		item := strings.TrimSpace(list[begin:s.at] + rest)
		if err != nil {
			return nil, fmt.Errorf("%q at %w", item, err)
		}
		for _, other := range fields {
			if other.Name == field.Name || other.Shard == field.Shard && field.Shard != "" {
				return nil, fmt.Errorf("%q at %d: %s has one of its names already", item, begin+1, other)
			}
		}
		if fields = append(fields, field); s.at == len(list) {
			break
		}
	}
	if len(fields) > maxFields {
		return nil, fmt.Errorf("%d fields, and at most %d are allowed", len(fields), maxFields)
	}
	return fields, nil
}

// field reads a field, up to a comma or the end.
func (s *scanner) field() (Field, error) {
	begin := s.at
	item, _, _ := strings.Cut(s.text[begin:], ",")
	name, source, named := strings.Cut(item, "=")
	if !named {
		source = name
	}
	field := Field{Name: strings.TrimSpace(name), Shard: strings.TrimRightFunc(source, unicode.IsSpace)}
	if s.at += len(item); strings.Contains(source, "(") {
		var err error
		s.at -= len(source)
		if field.Counted, err = s.aggregation(); err != nil {
			return Field{}, err
		}
		field.Shard = ""
	}
	err := validateField(field.Name)
	if err == nil && field.Counted == nil {
		err = validateField(field.Shard)
	}
	if err != nil {
		return Field{}, fmt.Errorf("%d: %w", begin+1, err)
	}
	if field.Shard == shardRequest {
		return Field{}, fmt.Errorf("%d: a shard's field %s names the request of a client that counts by itself", begin+1, shardRequest)
	}
	if slices.Contains(reserved, field.Name) {
		return Field{}, fmt.Errorf("%d: a counter's document has a field %s of its own", begin+1, field.Name)
	}
	return field, nil
}

// shardRequest is the field of a shard in which clients that count by themselves name their
// request: see firestore.rules.
const shardRequest = "request"

// reserved are the fields of a counter's document that are not sums.
var reserved = []string{NumShards, NumShardsLegacy, CreatedAt, UpdatedAt, Deleting, Rollup}

// maxFieldBytes keeps a field's path below the 1,500 bytes that Firestore allows, in a ledger's
// entry too, where a shard's id of up to 1,400 bytes stands before it.
const maxFieldBytes = 64

// CountsField reports whether a field of a shard may be counted: another one is none of a
// ledger's business.
func CountsField(name string) bool { return validateField(name) == nil && name != shardRequest }

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
