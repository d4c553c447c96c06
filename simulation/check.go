package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Violation is a promise that a history breaks.
type Violation struct {
	Entry   int // index in the history
	Message string
}

func (v Violation) String() string { return fmt.Sprintf("entry %d: %s", v.Entry, v.Message) }

// Named reports whether the increments of a counter name themselves: each adds a power of two that no other call adds to
// that counter, ever. Of other counters only sums can be checked.
func Named(counter string) bool { return strings.HasPrefix(counter, "named-") }

// Check says what in a history breaks a promise, at most a handful, as far as its first field is concerned: see [History.Of].
// It is pure.
func Check(h History) []Violation {
	c := checker{counters: map[string]*counter{}, calls: map[int]*call{}, intents: map[int]*intent{}}
	for i, e := range h {
		c.at, c.now = i, e.At
		c.entry(e.What)
		if len(c.violations) >= 10 {
			break
		}
	}
	c.matched()
	return c.violations
}

// checker reads a history from its begin to its end.
type checker struct {
	at         int
	now        time.Time
	violations []Violation
	counters   map[string]*counter
	calls      map[int]*call
	intents    map[int]*intent
	foreign    bool // something else wrote a total
	hosted     *Hosted
	inPlace    bool      // what is imported is the app's own document
	extension  time.Time // when that has last run
}

// counter is what is known of the documents of an id.
type counter struct {
	doc, ledger *Document
	shards      map[string]*Document
	versions    map[string]map[int64]int64 // :: shard → update time → count; of this life of the counter
	deleted     map[string]bool            // shards that were deleted in this life
	before      map[string]bool            // and in earlier ones, which late events may say
	ops         map[string]bool            // ids of commands that were applied
	names       map[int64]*intent          // of a named counter :: bit → what it stands for
	series      []point
	writers     int  // of its total, that are about to write it and are not the system
	foreign     bool // one of them wrote it since it was last right
	drift       bool // one of them wrote it
	dropped     bool // an event was lost since the last reconcile
	shrinks     bool // a command took something away, or may have: it doesn't only grow
	acked       int64
	attempted   int64
	resized     time.Time      // when a resize began last
	makers      int            // of shards without a counter, that are under way
	byHand      int            // deletions of it, shard by shard, that are under way
	creations   int            // commits that made it, and whose caller has not been told yet
	titles      map[int64]bool // that the app has written, or is about to
	goneSince   time.Time      // when the app deleted it

	ofMembers  map[string]*member
	members    map[string]*Document // memberships that are there
	hadMembers bool
	gcd        int64     // of all increments of it
	reset      bool      // somebody asked for it, ever
	emptied    time.Time // when a reset began last that takes members off
	torn       bool      // shards were deleted by hand that had counted members, or a deletion was left half done
	owed       int64     // what the shards hold that is nobody's: see surplus
	wrong      bool      // shards and members don't agree, which was said

	gone     time.Time // when its document was deleted last
	outlived time.Time // when a commit arrived last that is to make it, and was planned before that
	arrived  time.Time // when a commit arrived last that is to make it
	planned  time.Time // as of when that one's sender looked

	source imports

	events      map[string]*events // :: shard
	made, begun int64              // when its document was made, and its ledger made or deleted
}

// point is a counter as of a commit.
type point struct {
	at           time.Time
	there        bool
	exact, total int64

	shards, members int64
}

func (c *checker) fail(format string, args ...any) {
	c.violations = append(c.violations, Violation{Entry: c.at, Message: fmt.Sprintf(format, args...)})
}

func (c *checker) counter(id string) *counter {
	k := c.counters[id]
	if k == nil {
		k = &counter{
			shards: map[string]*Document{}, versions: map[string]map[int64]int64{}, deleted: map[string]bool{}, before: map[string]bool{},
			ops: map[string]bool{}, names: map[int64]*intent{}, series: []point{{}}, titles: map[int64]bool{},
			source: newImports(), events: map[string]*events{},
		}
		c.counters[id] = k
	}
	return k
}

func (c *checker) entry(what any) {
	switch e := what.(type) {
	case Begin:
		c.begin(e)
	case End:
		c.end(e)
	case Commit:
		c.commit(e)
	case Dropped:
		k := c.counter(e.Counter)
		k.dropped = true
		of := k.eventsOf(e.Shard)
		of.lost = max(of.lost, e.Of)
		delete(of.waiting, e.Of)
	case Arrives:
		k := c.counter(e.Makes)
		k.arrived, k.planned = c.now, e.Planned
		if e.Planned.Before(k.gone) {
			k.outlived = c.now
		}
	case Acknowledged:
		if e.Doc.Kind == "shard" {
			c.acknowledged(e)
		}
	case Foreign:
		c.counter(e.Counter).writers++
	case Stuck:
		c.fail("%s", e.What)
	case Hosted:
		c.hosted, c.inPlace = &e, e.InPlace
	case AppWrites:
		c.counter(e.Counter).titles[e.Title] = true
	case Reconciled:
		c.reconciled(e)
	case Calm:
		c.quiet(false)
	case Settled:
		c.quiet(true)
	}
}

func (c *checker) reconciled(r Reconciled) {
	if r.Counter == "" {
		if r.Drift != 0 && !c.foreign {
			c.fail("a reconcile found a drift of %d, and nothing else wrote a total", r.Drift)
		}
		return
	}
	if r.Drift != 0 && !c.counter(r.Counter).drift {
		c.fail("a reconcile found a drift of %d in %q, and nothing else wrote its total", r.Drift, r.Counter)
	}
}

// quiet checks that totals have followed: everywhere after a reconcile, and before it where no event was lost.
func (c *checker) quiet(reconciled bool) {
	for _, id := range slices.Sorted(maps.Keys(c.counters)) {
		k := c.counters[id]
		if k.doc == nil || k.doc.Deleting {
			continue
		}
		if !reconciled && (k.dropped || k.foreign || c.own(k) == nil) { // without a ledger it waits to be adopted
			continue
		}
		if c.hosted != nil && k.ledger == nil && len(k.shards) == 0 {
			continue // nothing was counted on it yet: its number is the app's
		}
		if reconciled {
			k.dropped = false
		}
		if k.total() != c.exact(k) {
			c.fail("long after everything, reconciled: %v, the total of %q is %d, and it holds %d", reconciled, id, k.total(), c.exact(k))
		}
		if !k.shrinks && (c.exact(k) < k.acked || c.exact(k) > k.attempted) {
			c.fail("%q holds %d; %d were acknowledged, %d attempted", id, c.exact(k), k.acked, k.attempted)
		}
	}
}
