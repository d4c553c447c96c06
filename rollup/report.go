package rollup

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/seats"
	"github.com/firestore-counters/counters/internal/store"
)

// ReconcileOptions are the choices in reconciling counters. The zero value is fine.
type ReconcileOptions struct {
	DryRun bool // only report what would be done

	// Remove removes what is left of a counter whose deletion was cut short, or whose document is missing, if nothing
	// was written into its shards after that time: shards.Client.Remove. It reports false if the counter is back, or
	// time was too short. Without it such a counter is only reported.
	Remove func(ctx context.Context, counter string, since time.Time) (removed bool, err error)

	// CleanupAfter is how long a reconcile must have found a document of the app's own missing, with nothing counted,
	// before what is below it is removed; default 24h. For RemoveIdle, how long nothing has written a counter.
	CleanupAfter time.Duration

	// RemoveIdle removes a counter that nothing has written since that time, unless something speaks against it:
	// shards.Client.RemoveIdle. A reconcile calls it where a counter is right. IdleAtZero says that it removes those
	// alone whose sums are 0.
	RemoveIdle func(ctx context.Context, counter string, since time.Time) (removed bool, err error)
	IdleAtZero bool

	// The rest is for several counters.

	// Parallel is how many counters are reconciled side by side, default 8.
	Parallel int
	// Resume goes on where the last ReconcileAll ran out of time. A dry run doesn't.
	Resume bool
	// RecountAge is when ReconcileAll asks queries again, because events may be lost: default 24h. RecountReads is how
	// many reads that, and queries never asked, may take: about 10,000 by default; none if negative.
	RecountAge   time.Duration
	RecountReads int64
	// Report is called for every counter, one call at a time, with its error; if named, also for one that isn't there.
	Report func(Report, error)

	limit  time.Duration // for one counter
	budget *atomic.Int64 // reads that are left; the last one to take some may take more
	each   bool          // look at each shard, whatever the sums say
	// for a note, which stands for events: commit in any case, so that no earlier answer is shown any more
	noted bool
}

const (
	defaultCleanupAfter = 24 * time.Hour
	defaultRecountAge   = 24 * time.Hour
	defaultRecountReads = 10_000
)

// Report is what a reconcile found of one counter, and did about it.
type Report struct {
	Counter string `json:"counter"`

	FieldReport                        // of the first field that is counted
	Fields      map[string]FieldReport `json:"fields,omitempty"` // of further ones, by their names

	// of fields that are doubles, by their names
	Doubles map[string]DoubleReport `json:"doubles,omitempty"`

	Reads int64 `json:"reads,omitempty"` // that counting documents took

	Adopted bool `json:"adopted,omitempty"` // it was never rolled up before
	Deleted bool `json:"deleted,omitempty"` // what was left of it is removed, or would be
	Gone    bool `json:"gone,omitempty"`    // there is no such counter
	Idle    bool `json:"idle,omitempty"`    // it was removed, because nothing has written it for long

	Problem string `json:"problem,omitempty"` // what keeps the total from being right, and what to do about it
}

// FieldReport is what a reconcile found of one counted field.
type FieldReport struct {
	Before int64 `json:"before"` // its total before
	After  int64 `json:"after"`  // its total now, or what it would be

	Late  int64 `json:"late"`  // of the difference, what the document was behind
	Drift int64 `json:"drift"` // what something else had added to the total; it was taken off
}

// DoubleReport is what a reconcile found in a field that holds a double, such as an average. Before and After are null
// for the average of nothing, and for a number that JSON can't hold.
type DoubleReport struct {
	Before *float64 `json:"before"`
	After  *float64 `json:"after"`
}

// Repaired reports whether anything had to be done.
func (r Report) Repaired() bool {
	for _, field := range r.fields() {
		if field.Late != 0 || field.Drift != 0 {
			return true
		}
	}
	for _, d := range r.Doubles {
		if (d.Before == nil) != (d.After == nil) || d.Before != nil && *d.Before != *d.After {
			return true
		}
	}
	return r.Adopted || r.Deleted
}

// fields are what was found of all fields that are integers.
func (r Report) fields() []FieldReport {
	return append(slices.Collect(maps.Values(r.Fields)), r.FieldReport)
}

// drift is what something else had added to all totals, summed up without signs.
func (r Report) drift() (sum int64) {
	for _, field := range r.fields() {
		sum = store.Add(sum, max(field.Drift, store.Sub(0, field.Drift)))
	}
	return sum
}

// Right reports whether nothing had to be done, and nothing is left to do.
func (r Report) Right() bool { return !r.Repaired() && r.Problem == "" }

// problemOf says what is wrong with shards that hold no whole number in a shown field; empty if nothing is.
func (c *Client) problemOf(shards book.Shards) string {
	var problems []string
	counted := false // a shard has one of the fields
	for _, field := range c.db.Layout.Fields {
		var odd, blank []string // ids of shards in which it is not an integer, or not a number
		for _, doc := range shards.Of(field) {
			value, has := doc.GetFields()[field.Shard]
			counted = counted || has
			_, whole := store.Integer(value)
			switch _, number := store.Float(value); {
			case whole:
			case number:
				odd = append(odd, store.IDOf(doc.GetName()))
			default:
				blank = append(blank, store.IDOf(doc.GetName()))
			}
		}
		if len(odd) > 0 {
			problems = append(problems, fmt.Sprintf("%q is no whole number in %s, so the total is the whole part of the sum: set it to an integer", field.Shard, list(odd)))
		}
		if len(blank) > 0 {
			problems = append(problems, fmt.Sprintf("%q is no number in %s, and counts 0 there: set it to one", field.Shard, list(blank)))
		}
	}
	for _, field := range c.db.Layout.Limited() {
		if wrong := seats.Wrong(shards.Of(field), field); wrong != "" {
			problems = append(problems, wrong+": set right what it counts, and set the limit again")
		}
	}
	if !counted && len(shards) > 0 && len(c.db.Layout.Fields) > 0 {
		problems = append(problems, uncounted(c.db.Layout.Fields, shards))
	}
	return strings.Join(problems, "; ")
}

// problemTooLarge says what keeps a counter's document from showing its totals.
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
