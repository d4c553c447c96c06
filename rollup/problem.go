package rollup

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// problemOf says what is wrong with shards that hold no integer in a field that is shown; it is
// empty where they all do.
func (c *Client) problemOf(shards []*firestorepb.Document) string {
	var problems []string
	counted := false // a shard has one of the fields
	for _, field := range c.db.Fields {
		var odd []string // ids of shards in which it is not an integer
		for _, doc := range shards {
			value, has := doc.GetFields()[field.Shard]
			counted = counted || has
			if _, ok := store.Integer(value); !ok {
				odd = append(odd, store.IDOf(doc.GetName()))
			}
		}
		if len(odd) > 0 {
			problems = append(problems, fmt.Sprintf("%q is not an integer in %s", field.Shard, list(odd)))
		}
	}
	if !counted && len(shards) > 0 && len(c.db.Fields) > 0 {
		problems = append(problems, uncounted(c.db.Fields, shards))
	}
	return strings.Join(problems, "; ")
}

// uncounted says that no shard has any of the fields, and which integers they have instead.
func uncounted(fields layout.Fields, shards []*firestorepb.Document) string {
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
