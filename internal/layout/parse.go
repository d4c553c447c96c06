package layout

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

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

// DefaultProject is an emulator's project if none is named, for commands, functions and libraries. By the
// prefix demo-, Google's emulators and libraries know that it isn't a real project.
const DefaultProject = "demo-counters"

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

// WrongFields says what a counted field must be instead, with counters at that path; "" if all fields
// are allowed.
func WrongFields(path Path, fields Fields) string {
	for _, field := range fields {
		if a := field.Counted; a != nil {
			if want := a.mustHave(path); want != "" {
				return want + " in " + field.String()
			}
		}
	}
	return ""
}

// mustHave says what the field must have instead, as the begin of a sentence that " in" and the field end; "" if it may
// stay as it is.
func (a *Aggregation) mustHave(path Path) string {
	refs := a.References()
	if a.From == Below {
		if len(refs) > 0 {
			return "no " + literalText(refs[0].Value) + ": documents below a counter's are its own; /" + a.Collection + " is the collection at the root"
		}
		return ""
	}
	if slices.Contains(path.collections, a.Collection) {
		return fmt.Sprintf("another collection than %s, in which counters are: each roll-up would have it counted again,", a.Collection)
	}
	if path.Whole() && len(refs) > 0 {
		return fmt.Sprintf("no %s: %s has no wildcards, and all documents are counted for it", literalText(refs[0].Value), path)
	}
	var named []string
	for _, f := range refs {
		name := string(f.Value.(Wildcard))
		if !slices.Contains(path.wildcards, name) || slices.Contains(named, name) {
			return fmt.Sprintf("each of {%s} once, as %s has them,", strings.Join(path.wildcards, "}, {"), path)
		}
		named = append(named, name)
	}
	if !path.Whole() && !slices.Contains(named, path.wildcards[len(path.wildcards)-1]) {
		last := path.wildcards[len(path.wildcards)-1]
		return fmt.Sprintf("a condition by which a document names its counter, such as where %[1]s=={%[1]s},", last)
	}
	return ""
}

// CheckAnyPlain is an error if no field is a sum of shards without a limit.
func (l Layout) CheckAnyPlain() error {
	if err := l.CheckSums(); err != nil || len(l.Plain()) > 0 {
		return err
	}
	return fmt.Errorf("all of FIELDS has limits (%s)", l.Sharded)
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

// CheckLimited is an error if FIELDS gives the field no limit.
func (l Layout) CheckLimited(name string) error {
	if err := l.CheckField(name); err != nil {
		return err
	}
	if f, _ := l.Field(name); f.Limit != nil {
		return nil
	}
	return fmt.Errorf("%q has no limit: a field has one from the beginning, or never; FIELDS declares it, such as %s=limit(500)", name, name)
}

// CheckPlain is an error if a field is no sum of shards without a limit.
func (l Layout) CheckPlain(name string) error {
	if err := l.CheckField(name); err != nil {
		return err
	}
	if f, _ := l.Field(name); f.Limit != nil {
		return fmt.Errorf("%q has a limit: its total is what is taken", name)
	}
	return nil
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

// UnmarshalText reads a path as [ParsePath] does.
func (p *Path) UnmarshalText(text []byte) (err error) {
	*p, err = ParsePath(string(text))
	return err
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

// UnmarshalText reads a list as [ParseFields] does.
func (f *Fields) UnmarshalText(text []byte) (err error) {
	*f, err = ParseFields(string(text))
	return err
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

// reserved are fields of a counter's document with another use.
var reserved = []string{NumShards, NumShardsLegacy, CreatedAt, UpdatedAt, Rollup}

// parseLimit reads limit(500), or limit(), which is none until one is set.
func parseLimit(source string) (n *int64, is bool, err error) {
	text, is := strings.CutPrefix(strings.TrimSpace(source), "limit(")
	if !is {
		return nil, false, nil
	}
	text, closed := strings.CutSuffix(text, ")")
	if n = new(int64); closed && text != "" {
		*n, err = strconv.ParseInt(text, 10, 64)
	}
	if !closed || err != nil || *n < 0 {
		return nil, true, fmt.Errorf("want a limit such as limit(500), or limit()")
	}
	return n, true, nil
}

const (
	maxConditions = 5
	// Firestore allows 30 alternatives in a query: the values of an in, times the three ways to write
	// each reference.
	maxAlternatives = 30
	waysToRefer     = 3
)

// maxFilterBytes bounds the string that a filter compares with: Firestore indexes 1,500 bytes of a
// string.
const maxFilterBytes = 256

// aggregation reads an aggregation, up to a comma or the end.
func (s *scanner) aggregation() (*Aggregation, error) {
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
	from := Below
	for scope := Group; scope > Below && from == Below; scope-- {
		if s.skip(prefixes[scope]) {
			from = scope
			begin = s.at
		}
	}
	a := &Aggregation{Collection: s.word(), From: from, Average: operation == "avg"}
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
		if !s.keyword("where") {
			return nil, s.want(") or where")
		}
		begin = s.at
		for {
			f, err := s.condition()
			if err != nil {
				return nil, err
			}
			a.Where = append(a.Where, f)
			if s.skip(")") {
				break
			}
			if !s.keyword("and") {
				return nil, s.want(") or and")
			}
		}
		if err := checkConditions(a.Where); err != nil {
			return nil, fmt.Errorf("%d: %w", begin+1, err)
		}
	}
	if operation == "sum" && s.keyword("as") {
		if a.Double = s.keyword("double"); !a.Double {
			return nil, s.want("double: a sum is an integer, or as double")
		}
	}
	if s.at < len(s.text) && s.text[s.at] != ',' {
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

// scanner reads a list of fields. Its errors begin with the position, from 1.
type scanner struct {
	text string
	at   int
}

func (s *scanner) space() {
	s.at = len(s.text) - len(strings.TrimLeftFunc(s.text[s.at:], unicode.IsSpace))
}

// skip skips a token, if it is next, and the white space after it.
func (s *scanner) skip(token string) bool {
	if !strings.HasPrefix(s.text[s.at:], token) {
		return false
	}
	s.at += len(token)
	s.space()
	return true
}

// keyword skips a word if it is next and ends there: wherea isn't where.
func (s *scanner) keyword(word string) bool {
	begin := s.at
	if s.word() == word {
		return true
	}
	s.at = begin
	return false
}

// condition reads a field, an operator and a value.
func (s *scanner) condition() (f Filter, err error) {
	begin := s.at
	f.Field = s.word()
	if err := validatePath(f.Field); err != nil {
		return f, fmt.Errorf("%d: %w", begin+1, err)
	}
	i := slices.IndexFunc(operators, func(o Operator) bool { return s.skip(string(o)) })
	if i < 0 {
		return f, s.want("==, in, >=, >, <= or <")
	}
	f.Op = operators[i]
	begin = s.at
	switch {
	case f.Op == In:
		f.Value, err = s.list()
	case f.Op == Equal && s.skip("{"):
		name := s.word()
		if !plain(name) || !s.skip("}") {
			return f, fmt.Errorf("%d: want a wildcard of COUNTERS, such as {post}", begin+1)
		}
		f.Value = Wildcard(name)
	default:
		f.Value, err = s.value()
	}
	if _, is := f.Value.(bool); is && f.Op.Range() {
		return f, fmt.Errorf("%d: want an integer or a quoted string behind %s", begin+1, f.Op)
	}
	return f, err
}

// list reads values in brackets.
func (s *scanner) list() (any, error) {
	if !s.skip("[") {
		return nil, s.want("[ and values, as in ['a','b']")
	}
	var values []any
	for {
		value, err := s.value()
		if err != nil {
			return nil, err
		}
		values = append(values, value)
		if s.skip("]") {
			return values, nil
		}
		if !s.skip(",") {
			return nil, s.want("] or a comma")
		}
	}
}

// checkConditions says why Firestore would not take conditions together.
func checkConditions(filters []Filter) error {
	ranged, alternatives := "", 1
	for _, f := range filters {
		switch value := f.Value.(type) {
		case []any:
			alternatives *= len(value)
		case Wildcard:
			alternatives *= waysToRefer
		}
		if !f.Op.Range() {
			continue
		}
		if ranged != "" && ranged != f.Field {
			return fmt.Errorf("ranges of %s and of %s; want ranges of one field, and == or in for others", ranged, f.Field)
		}
		ranged = f.Field
	}
	switch {
	case len(filters) > maxConditions:
		return fmt.Errorf("%d conditions, and at most %d are allowed", len(filters), maxConditions)
	case alternatives > maxAlternatives:
		return fmt.Errorf("%d alternatives, the values of in times %d for each wildcard, and at most %d are allowed", alternatives, waysToRefer, maxAlternatives)
	}
	return nil
}

// word reads up to white space or one of ()=,"'<>[]{}, and skips the white space after it.
func (s *scanner) word() string {
	word := s.text[s.at:]
	if n := strings.IndexFunc(word, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("()=,\"'<>[]{}", r) }); n >= 0 {
		word = word[:n]
	}
	s.at += len(word)
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
	begin, found := s.at, "the end"
	if word := s.word(); word != "" {
		found = strconv.Quote(word)
	} else if begin < len(s.text) {
		found = strconv.Quote(s.text[begin : begin+1])
	}
	return fmt.Errorf("%d: want %s, found %s", begin+1, token, found)
}
