package layout

import (
	"fmt"
	"strconv"
	"strings"
)

// LimitSuffix follows the name of a field with a limit in that of the field that shows the limit.
const LimitSuffix = "_limit"

// A field with a limit, such as seats=limit(500), has shards of its own: seats~0, seats~1 and so on. Nothing else is
// counted in them, and it is counted nowhere else.
const limitedShard = "~"

// LimitedShard is the id of a shard of a field with a limit, by the field's name in its shards.
func LimitedShard(field string, n int) string { return field + limitedShard + strconv.Itoa(n) }

// LimitedField is the field that a shard is of alone. It reports false for other shards.
func LimitedField(id string) (field string, is bool) {
	at := strings.LastIndex(id, limitedShard)
	if at < 0 {
		return "", false
	}
	return id[:at], true
}

// CountedIn reports whether the field is counted in a shard of that id.
func (f Field) CountedIn(id string) bool {
	of, limited := LimitedField(id)
	switch {
	case f.LimitOf != "":
		return limited && ShareOf(of) == f.Shard
	case f.Limit != nil:
		return limited && of == f.Shard
	}
	return !limited
}

// ShareOf is the field of a shard that says how much of another one's limit the shard may count. No
// counted field is called so.
func ShareOf(field string) string { return "share(" + field + ")" }

// MembersIn is the field of a shard that says how much of another one, which has a limit, members took.
func MembersIn(field string) string { return "members(" + field + ")" }

// HeldIn is the field of a shard that says how much of another one, which has a limit, open holds of amounts have.
func HeldIn(field string) string { return "held(" + field + ")" }

// limitOf is the field that shows a field's limit: the sum of its shards' shares.
func limitOf(f Field) Field {
	return Field{Name: f.Name + LimitSuffix, Shard: ShareOf(f.Shard), Limit: f.Limit, LimitOf: f.Name}
}

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

// limitText is the inverse of parseLimit.
func limitText(n int64) string {
	if n == 0 {
		return "limit()"
	}
	return fmt.Sprintf("limit(%d)", n)
}

// Plain are the sums of shards that have no limit.
func (l Layout) Plain() (fields Fields) {
	for _, f := range l.Fields {
		if f.Limit == nil && f.LimitOf == "" {
			fields = append(fields, f)
		}
	}
	return fields
}

// Limited are those that have one.
func (l Layout) Limited() (fields Fields) {
	for _, f := range l.Fields {
		if f.Limit != nil && f.LimitOf == "" {
			fields = append(fields, f)
		}
	}
	return fields
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
