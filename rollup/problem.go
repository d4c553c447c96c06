package rollup

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// problemOf says what is wrong with shards that hold no integer in a shown field; empty if nothing is.
func (c *Client) problemOf(shards book.Shards) string {
	var problems []string
	limits := book.LimitsIn(shards)
	counted := false // a shard has one of the fields
	for _, field := range c.db.Layout.Fields {
		var odd, blank []string // ids of shards in which it is not an integer, or not a number
		for _, doc := range shards {
			value, has := doc.GetFields()[field.Shard]
			counted = counted || has
			_, whole := store.Integer(value)
			switch s := book.ShardState(doc); {
			case slices.Contains(s.Odd, field.Shard):
				odd = append(odd, s.Shard)
			case !whole:
				blank = append(blank, s.Shard)
			}
		}
		if len(odd) > 0 {
			problems = append(problems, fmt.Sprintf("%q is not an integer in %s: set it to one", field.Shard, list(odd)))
		}
		if _, limited := limits[field.Shard]; limited && len(blank) > 0 { // whose total is made of shards alone
			problems = append(problems, fmt.Sprintf("%q can be no count in %s: set it to what it held before, which nothing else keeps beside a limit", field.Shard, list(blank)))
		} else if len(blank) > 0 {
			problems = append(problems, fmt.Sprintf("%q can be no count in %s: set it to 0; what was counted there before is kept", field.Shard, list(blank)))
		}
	}
	if !counted && len(shards) > 0 && len(c.db.Layout.Fields) > 0 {
		problems = append(problems, uncounted(c.db.Layout.Fields, shards))
	}
	return strings.Join(problems, "; ")
}

// problemKept says that a shard's field holds what can be no count any more.
func problemKept(field string, kept int64) string {
	return fmt.Sprintf("%q can be no count any more in a shard: set it to 0; the %d that it had counted are kept", field, kept)
}

// problemShares says that shards have more of a field than its limit allows, or what can be no share, or that its total
// isn't made of shards alone.
func problemShares(f book.ShareFault) string {
	if f.Base != 0 {
		return fmt.Sprintf("%q has a limit of %d, and %s: remove the limit, rebase the total to %d, and set the limit again", f.Field, f.Limit, f.Why, f.Taken)
	}
	remedy := "set right what the shards hold, then set the limit again, or remove it"
	if f.Over {
		remedy = "set a limit that is no less than that, or remove the limit"
	}
	return fmt.Sprintf("%q has a limit of %d, and %s: %s", f.Field, f.Limit, f.Why, remedy)
}

// problemTooLarge says what keeps a counter's document from showing its ledger.
const problemTooLarge = "its document can't be written, because it has no room or holds what Firestore no longer takes; make room in it: what is counted meanwhile is kept, and shown then"

// uncounted says that no shard has any of the fields, and which integers they have instead.
func uncounted(fields layout.Fields, shards book.Shards) string {
	var names, others []string
	for _, field := range fields {
		names = append(names, strconv.Quote(field.Shard))
	}
	for _, doc := range shards {
		for name, v := range doc.GetFields() {
			if _, ok := store.Integer(v); ok && !slices.Contains(others, name) {
				others = append(others, name)
			}
		}
	}
	slices.Sort(others)
	problem := "shards hold no integer " + strings.Join(names, " or ")
	if len(others) > 0 {
		problem += fmt.Sprintf(", but %s: set FIELDS=%s=%s", strings.Trim(fmt.Sprintf("%q", others), "[]"), fields[0].Name, others[0])
	}
	return problem
}

// list names the first few of several shards.
func list(ids []string) string {
	const few = 5
	more := ""
	if len(ids) > few {
		ids, more = ids[:few], fmt.Sprintf(" and %d more", len(ids)-few)
	}
	return fmt.Sprintf("shards %.40q%s", ids, more)
}
