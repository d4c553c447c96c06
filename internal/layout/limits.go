package layout

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// LimitSuffix follows the name of a field with a limit in that of the field that shows the limit.
const LimitSuffix = "_limit"

// A field with a limit, such as seats=limit(500), has shards of its own: seats~0, seats~1 and so on. Nothing else is
// counted in them, and it is counted nowhere else.
const limitedShard = "~"

// MostApart is how many shards of its own a field has at most: who finds no room in those that it knows reads them
// all.
const MostApart = 25

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

// Apart are those of all fields, each once.
func (l Layout) Apart() (apart []string) {
	for _, f := range l.Limited() {
		apart = append(apart, f.Apart())
	}
	return apart
}

// ShareOf is the field of a shard that says how much of a field's limit the shard may count. No counted field can have
// that name.
func ShareOf(field string) string { return "share(" + field + ")" }

// MembersIn is the field of a shard that says how much of a field with a limit members took there.
func MembersIn(field string) string { return "members(" + field + ")" }

// HoldsIn is the field of a shard that says how much of a field with a limit open holds of amounts have there.
func HoldsIn(field string) string { return "held(" + field + ")" }

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

// Plain are the sums of shards that have no limit.
func (l Layout) Plain() Fields {
	return slices.DeleteFunc(slices.Clone(l.Sharded), func(f Field) bool { return !f.Plain() })
}

// Limited are the sums of shards that have a limit. A field that only shows such a limit (LimitOf) is none of them.
func (l Layout) Limited() Fields {
	return slices.DeleteFunc(l.Sharded.Named(), Field.Plain)
}

// CheckAnyPlain is an error if no field is a sum of shards without a limit.
func (l Layout) CheckAnyPlain() error {
	if err := l.CheckSums(); err != nil || len(l.Plain()) > 0 {
		return err
	}
	return fmt.Errorf("all of FIELDS has limits (%s)", l.Sharded)
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

// Until is the field of a membership, and of its entry, that says until when the seat is held.
const Until = "until"

// MemberShard is the field of a membership that says on which shard the member was counted, where a client's undo goes.
const MemberShard = "shard"

// Due is the field of an open hold's record that says where and until when it is held: who finds no room looks for it.
const Due = "due"

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
