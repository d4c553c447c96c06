package layout

import "strings"

// Limits is the field of a counter's document that shows the limits of its fields, by their names, and
// that of its ledger which holds them by the fields of the shards.
const Limits = "limits"

// While a field of a counter has a limit, the ids of its shards begin with limitedPrefix. An increment
// that doesn't know of the limit, and is on no condition, finds no shard then.
const limitedPrefix = "limited-"

// LimitedShard is the id of a shard while its counter has a limit.
func LimitedShard(id string) string { return limitedPrefix + id }

// UnlimitedShard is the inverse of [LimitedShard]. It reports false for a shard of a counter without one.
func UnlimitedShard(id string) (string, bool) { return strings.CutPrefix(id, limitedPrefix) }

// IsLimited reports whether a shard has the id of one whose counter has a limit.
func IsLimited(id string) bool { return strings.HasPrefix(id, limitedPrefix) }

// ShareOf is the field of a shard that says how much of another one's limit the shard may count. No
// counted field is called so, and no ledger counts it.
func ShareOf(field string) string { return shareOf + field + ")" }

const shareOf = "share("

// SharedField is the inverse of [ShareOf]. It reports false for fields that are no share.
func SharedField(name string) (field string, ok bool) {
	field, ok = strings.CutPrefix(name, shareOf)
	if !ok {
		return "", false
	}
	return strings.CutSuffix(field, ")")
}

// RoomOf is the field of a shard that says whether the shard counts less than its share of another one: so
// shards with room are found without reading the others.
func RoomOf(field string) string { return "room(" + field + ")" }

// MembersIn is the field of a shard that says how much of another one, which has a limit, members took.
func MembersIn(field string) string { return "members(" + field + ")" }
