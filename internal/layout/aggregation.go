package layout

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Aggregation is what a counted field says of the documents of a collection below a counter's
// document: how many there are, what a field of theirs adds up to, or its average.
//
//	count(comments)
//	sum(ratings.stars)
//	sum(ratings.score) as double
//	avg(ratings.stars)
//	count(comments where public==true)
type Aggregation struct {
	Collection string  // id
	Sum        string  // path of the field that is summed up; empty for a count
	Average    bool    // the sum is divided by how many have the field: a double, null of none
	Double     bool    // the sum is a double, whatever it adds up to; else an integer
	Where      *Filter // nil: all documents
}

// Filter is the condition on the documents that are counted: a field equals a value.
type Filter struct {
	Field string // path
	Value any    // a bool, int64 or string
}

// String is the aggregation as [ParseFields] reads it.
func (a *Aggregation) String() string {
	var b strings.Builder
	switch {
	case a.Average:
		fmt.Fprintf(&b, "avg(%s.%s", a.Collection, a.Sum)
	case a.Sum != "":
		fmt.Fprintf(&b, "sum(%s.%s", a.Collection, a.Sum)
	default:
		fmt.Fprintf(&b, "count(%s", a.Collection)
	}
	if a.Where != nil {
		fmt.Fprintf(&b, " where %s==", a.Where.Field)
		switch value := a.Where.Value.(type) {
		case string:
			quote := `"`
			if strings.Contains(value, quote) {
				quote = "'"
			}
			b.WriteString(quote + value + quote)
		default:
			fmt.Fprint(&b, value)
		}
	}
	b.WriteByte(')')
	if a.Double {
		b.WriteString(asDouble)
	}
	return b.String()
}

// asDouble is what stands behind a sum that is a double.
const asDouble = " as double"

// Key names the value of a counted field in a counter's ledger, where the values of other
// definitions of the same field, by other revisions, may be too: a hash of the field's definition.
func (f Field) Key() string {
	hash := sha256.Sum256([]byte(f.String()))
	return hex.EncodeToString(hash[:8])
}

// Dotted is a path such as ratings.stars as an update mask or a query has it.
func Dotted(path string) string { return FieldPath(strings.Split(path, ".")...) }

// maxFilterBytes bounds the string that a filter compares with: Firestore indexes
// 1,500 bytes of one.
const maxFilterBytes = 256

// parseAggregation reads the rest of text from an offset on. Its errors begin with the
// position, from 1.
func parseAggregation(text string, at int) (*Aggregation, error) {
	s := &scanner{text: text, at: at}
	s.space()
	begin := s.at
	operation := s.word()
	if operation != "count" && operation != "sum" && operation != "avg" {
		return nil, fmt.Errorf("%d: want count(collection), sum(collection.field) or avg(collection.field), found %q", begin+1, operation)
	}
	if !s.skip("(") {
		return nil, s.want("(")
	}
	begin = s.at
	a := &Aggregation{Collection: s.word(), Average: operation == "avg"}
	if operation != "count" {
		var ok bool
		if a.Collection, a.Sum, ok = strings.Cut(a.Collection, "."); !ok {
			return nil, fmt.Errorf("%d: want a collection and a field of its documents, such as %s(ratings.stars)", begin+1, operation)
		}
		if err := validatePath(a.Sum); err != nil {
			return nil, fmt.Errorf("%d: %w", begin+len(a.Collection)+2, err)
		}
	}
	if err := ValidateID(a.Collection); err != nil {
		return nil, fmt.Errorf("%d: cannot be a collection: %w", begin+1, err)
	}
	if strings.ContainsAny(a.Collection, "{}*.`") {
		return nil, fmt.Errorf("%d: a collection's name holds one of {}*.`", begin+1)
	}
	if strings.HasPrefix(a.Collection, ownPrefix) {
		return nil, fmt.Errorf("%d: collections that begin with %s are kept for what counters writes", begin+1, ownPrefix)
	}
	if !s.skip(")") {
		if !s.skip("where") {
			return nil, s.want(") or where")
		}
		begin = s.at
		a.Where = &Filter{Field: s.word()}
		if err := validatePath(a.Where.Field); err != nil {
			return nil, fmt.Errorf("%d: %w", begin+1, err)
		}
		if !s.skip("==") {
			return nil, s.want("==")
		}
		var err error
		if a.Where.Value, err = s.value(); err != nil {
			return nil, err
		}
		if !s.skip(")") {
			return nil, s.want(")")
		}
	}
	if operation == "sum" && s.skip("as") {
		if a.Double = s.skip("double"); !a.Double {
			return nil, s.want("double: a sum is an integer, or as double")
		}
	}
	if s.at < len(s.text) {
		if operation == "sum" {
			return nil, s.want("as double, a comma, or the end")
		}
		return nil, s.want("a comma, or the end")
	}
	return a, nil
}

// validatePath says why a path cannot be that of a field.
func validatePath(path string) error {
	for name := range strings.SplitSeq(path, ".") {
		if err := validateField(name); err != nil {
			return err
		}
	}
	return nil
}

// scanner reads a text from an offset on.
type scanner struct {
	text string
	at   int
}

func (s *scanner) space() {
	for s.at < len(s.text) && (s.text[s.at] == ' ' || s.text[s.at] == '\t') {
		s.at++
	}
}

// skip skips a token and the white space behind it, where it is next.
func (s *scanner) skip(token string) bool {
	if !strings.HasPrefix(s.text[s.at:], token) {
		return false
	}
	s.at += len(token)
	s.space()
	return true
}

// word reads up to white space or one of ()=,"', and the white space behind it.
func (s *scanner) word() string {
	begin := s.at
	for s.at < len(s.text) && !strings.ContainsRune("()=,\"' \t", rune(s.text[s.at])) {
		s.at++
	}
	word := s.text[begin:s.at]
	s.space()
	return word
}

// value reads true, false, an integer or a quoted string.
func (s *scanner) value() (any, error) {
	const want = `true, false, an integer or a quoted string`
	begin := s.at
	if s.at < len(s.text) && (s.text[s.at] == '"' || s.text[s.at] == '\'') {
		quoted, _, ended := strings.Cut(s.text[s.at+1:], s.text[s.at:s.at+1])
		switch {
		case !ended:
			return nil, fmt.Errorf("%d: the quoted string has no end", begin+1)
		case len(quoted) > maxFilterBytes:
			return nil, fmt.Errorf("%d: the string has %d bytes, and at most %d are allowed", begin+1, len(quoted), maxFilterBytes)
		case !utf8.ValidString(quoted) || strings.ContainsFunc(quoted, func(r rune) bool { return r < ' ' || r == '\\' || r == 0x7f }):
			return nil, fmt.Errorf("%d: the string holds a backslash or a control character, or is not UTF-8", begin+1)
		}
		s.at += len(quoted) + 2
		s.space()
		return quoted, nil
	}
	word := s.word()
	if word == "true" || word == "false" {
		return word == "true", nil
	}
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%d: want %s, found %q", begin+1, want, word)
	}
	return n, nil
}

func (s *scanner) want(token string) error {
	found := "the end"
	if s.at < len(s.text) {
		found = strconv.Quote(s.text[s.at : s.at+1])
	}
	return fmt.Errorf("%d: want %s, found %s", s.at+1, token, found)
}
