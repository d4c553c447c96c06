package layout

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

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

// Fields is a list of counted fields: see [ParseFields].
type Fields []Field

// UnmarshalText reads a list as [ParseFields] does.
func (f *Fields) UnmarshalText(text []byte) (err error) {
	*f, err = ParseFields(string(text))
	return err
}

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

// CheckShown is an error if FIELDS doesn't name the field.
func (f Fields) CheckShown(name string) error {
	names := f.Names()
	if slices.Contains(names, name) {
		return nil
	}
	return fmt.Errorf("%q is not counted; want one of %s%s", name, strings.Join(f.SettingNames(), ", "), f.toCount(name))
}

// toCount is the setting that also counts the field; "" if no field can have that name, or one has it.
func (f Fields) toCount(name string) string {
	set := f.String() + "," + name
	if more, err := ParseFields(set); err != nil || len(more) != len(f.SettingNames())+1 {
		return ""
	}
	return fmt.Sprintf("; to count it too, set FIELDS=%s (counters dev --fields %[1]s)", set)
}

// ShowsLimit reports whether the field shows the limit of another one. Such a field has Limit, too: ask for this first.
func (f Field) ShowsLimit() bool { return f.LimitOf != "" }

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

// DefaultFields are the fields of Google's public "distributed counters" page: total is the sum of the
// shards' count.
const DefaultFields = "total=count"

// maxFields bounds how many fields a deployment counts: each takes a query in a roll-up of all of them.
const maxFields = 20

// ParseFields reads a list such as likes,views or total=count. A name alone is the field's name in the
// counter's document and in its shards. An [Aggregation] such as comments=count(comments) counts
// documents. Errors say the position, in bytes from 1, and what is allowed.
func ParseFields(list string) (Fields, error) {
	var fields Fields
	for s := (scanner{text: list}); ; s.at++ {
		s.space()
		begin := s.at
		field, err := s.field()
		unread, _, _ := strings.Cut(list[s.at:], ",")
		item := strings.TrimSpace(list[begin:s.at] + unread)
		if err != nil {
			return nil, fmt.Errorf("%q at %w", item, err)
		}
		for _, other := range fields {
			limits := other.Limit != nil && field.Name == other.Name+LimitSuffix || field.Limit != nil && other.Name == field.Name+LimitSuffix
			if limits || other.Name == field.Name || other.Shard == field.Shard && field.Shard != "" {
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
	s.at += len(item)
	limit, limited, err := parseLimit(source)
	switch {
	case err != nil:
		return Field{}, fmt.Errorf("%d: %w", begin+1, err)
	case limited:
		field.Shard, field.Limit = field.Name, limit
	case strings.Contains(source, "("):
		s.at -= len(source)
		if field.Counted, err = s.aggregation(); err != nil {
			return Field{}, err
		}
		field.Shard = ""
	}
	err = validateField(field.Name)
	if err == nil && field.Counted == nil {
		err = validateField(field.Shard)
	}
	if err != nil {
		return Field{}, fmt.Errorf("%d: %w", begin+1, err)
	}
	if field.Shard == ShardRequest {
		return Field{}, fmt.Errorf("%d: a shard's field %s names the request of a client that counts by itself", begin+1, ShardRequest)
	}
	if slices.Contains(reserved, field.Name) {
		return Field{}, fmt.Errorf("%d: a counter's document has a field %s of its own", begin+1, field.Name)
	}
	return field, nil
}

// ShardRequest is the field of a shard in which clients that write shards themselves name their request: see
// firestore.rules. Settling a hold that changes no count writes a time there, because the rules allow no other field.
const ShardRequest = "request"

// reserved are fields of a counter's document with another use.
var reserved = []string{NumShards, NumShardsLegacy, CreatedAt, UpdatedAt, Rollup}

// maxFieldBytes keeps a field's path below the 1,500 bytes that Firestore allows.
const maxFieldBytes = 64

// MayCount reports whether a field of a shard may be counted. All other fields are ignored.
func MayCount(name string) bool { return validateField(name) == nil && name != ShardRequest }

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
