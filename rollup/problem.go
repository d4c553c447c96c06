package rollup

import (
	"fmt"
	"maps"
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
	fields := c.db.Fields
	counted := 0                      // shards that have one of the fields
	integers := map[string]struct{}{} // fields that hold an integer where a shard has none of them
	var problems []string
	odd := make(map[string][]string) // :: field → ids of shards in which it is not an integer
	for _, doc := range shards {
		has := false
		for _, field := range fields {
			value := doc.GetFields()[field.Shard]
			has = has || value != nil
			if _, ok := store.Integer(value); !ok {
				odd[field.Shard] = append(odd[field.Shard], store.IDOf(doc.GetName()))
			}
		}
		if has {
			counted++
			continue
		}
		for name, v := range doc.GetFields() {
			if _, ok := store.Integer(v); ok {
				integers[name] = struct{}{}
			}
		}
	}
	for _, field := range fields {
		if ids := odd[field.Shard]; len(ids) > 0 {
			problems = append(problems, fmt.Sprintf("%q is not an integer in %s", field.Shard, list("shard", ids)))
		}
	}
	if counted == 0 && len(shards) > 0 && len(fields) > 0 {
		problems = append(problems, uncounted(fields, slices.Sorted(maps.Keys(integers))))
	}
	return strings.Join(problems, "; ")
}

// uncounted says that no shard has any of the fields, and what they have instead.
func uncounted(fields layout.Fields, integers []string) string {
	var names []string
	for _, field := range fields {
		names = append(names, strconv.Quote(field.Shard))
	}
	problem := "shards hold no integer " + strings.Join(names, " or ")
	switch {
	case len(integers) == 1:
		problem += fmt.Sprintf(", but %q: set FIELDS=%s=%s", integers[0], fields[0].Name, integers[0])
	case len(integers) > 1:
		problem += ", but in other fields, which FIELDS may name: " + strings.Join(integers, ", ")
	}
	return problem
}

// list names the first few of several.
func list(what string, ids []string) string {
	const few = 5
	quoted := make([]string, min(len(ids), few))
	for i := range quoted {
		quoted[i] = fmt.Sprintf("%.40q", ids[i])
	}
	text := strings.Join(quoted, ", ")
	if len(ids) > 1 {
		what += "s"
	}
	if more := len(ids) - len(quoted); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return what + " " + text
}
