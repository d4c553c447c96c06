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

// Named reports whether the increments of a counter name themselves: each adds a power of two that
// no other call adds to that counter, ever ([Signed] says what else). Of other counters only sums can be
// checked.
func Named(counter string) bool { return strings.HasPrefix(called(counter), "named-") }

// Signed reports whether increments of a named counter give back, too: each adds a power of four, or takes
// one off.
func Signed(counter string) bool { return strings.HasPrefix(called(counter), signedNames) }

const signedNames = "named-signed-"

// Check says what in a history breaks a promise, at most a handful, as far as its first field is
// concerned: see [History.Of]. It is pure.
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
	clicks     []*intent // that nothing may be lost of
	drift      bool      // something else wrote a total, ever
	newest     int64     // when a commit was last made, in microseconds of Firestore's
	looked     map[lookedAt]looked
	older      bool // a revision runs beside that doesn't know the field
	fair       bool // nothing goes wrong
	hosted     *Hosted
	inPlace    bool      // what is imported is the app's own document
	extension  time.Time // when that has last run
}

// counter is what is known of the documents of an id.
type counter struct {
	doc, ledger   *Document
	shards        map[string]*Document
	versions      map[string]map[int64]int64 // :: shard → update time → count; since there is no ledger, or this one
	deletions     map[string]map[int64]bool  // :: shard → times that say so of its deletions
	rebases       []rebase                   // that were asked for
	gone          map[string]int64           // :: shard → when it was last deleted
	odd           map[string]map[int64]bool  // :: shard → times as of which it held no integer
	blank         map[string]map[int64]bool  // :: shard → of these, those as of which it held no number
	oddly         bool                       // somebody writes there what is none
	fractionSince time.Time                  // when one of them became one last
	series        []point

	// What is in the document. It is a view of the ledger, but for what others write there.
	writers int  // that are about to write the total, and are not the system
	stale   bool // one of them wrote it since it was last right
	drift   bool // one of them wrote it, ever
	again   bool // a shard was written in fair weather

	names            map[int64]*intent // of a named counter :: bit → what it stands for
	acked, attempted int64
	dropped          bool // an event was lost since the last reconcile
	shrinks          bool // a command took something away, or may have: it doesn't only grow
	gives            bool // increments give back

	resized  time.Time // when a resize began last
	snippets int       // that are about to make it, or shards of it
	byHand   int       // deletions of documents of it, one by one, that are under way
	deletes  int       // of it, that are under way
	deleted  time.Time // when the last of them ended
	made     int       // commits that made it, and whose caller has not been told yet
	lives    lives
	commands commands

	titles    map[int64]bool // that the app has written, or is about to
	goneSince time.Time      // when the app deleted it

	ofMembers  map[string]*member
	members    map[string]*Document // memberships that are there
	wishes     map[string]bool      // of members, by their last click in a page
	hadMembers bool
	gcd        int64     // of all increments of it
	emptied    time.Time // when a reset began last that takes members off
	wrong      bool      // shards and members don't agree, which was said

	source imports
	limits limits

	events   map[string]*events // :: shard
	noted    bool               // as one that must be reconciled
	debts    []debt             // what was acknowledged for that
	begun    int64              // when its ledger was made or deleted
	vacant   bool               // there is nothing that a ledger could be made of
	occupied int64              // when that was last no longer so
}

// point is a counter as of a commit.
type point struct {
	at           time.Time
	there        bool
	exact, total int64
	fraction     bool // one of its shards holds one

	limited       bool
	limit, joined int64 // the shares together, and what of the shards is members'
	limits        int   // of how many fields there are limits

	shards, members int64
	wrapped         int64 // shards, as a sum of int64s that don't end at ±2⁶³
}

func (c *checker) fail(format string, args ...any) {
	c.violations = append(c.violations, Violation{Entry: c.at, Message: fmt.Sprintf(format, args...)})
}

func (c *checker) counter(id string) *counter {
	k := c.counters[id]
	if k == nil {
		k = &counter{
			shards: map[string]*Document{}, versions: map[string]map[int64]int64{}, deletions: map[string]map[int64]bool{}, odd: map[string]map[int64]bool{}, blank: map[string]map[int64]bool{}, gone: map[string]int64{},
			commands: commands{ids: map[string]bool{}}, names: map[int64]*intent{}, series: []point{{}}, titles: map[int64]bool{},
			source: newImports(), events: map[string]*events{}, vacant: true,
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
	case Acknowledged:
		if e.Doc.Kind == "shard" {
			c.acknowledged(e)
		}
	case Clicked:
		c.clicks = append(c.clicks, c.intend(e.Intent, e.Adds))
	case Wished:
		k := c.counter(e.Counter)
		if k.wishes == nil {
			k.wishes = map[string]bool{}
		}
		k.wishes[e.Member] = e.Joined
	case Answered:
		c.answered()
	case Odd:
		k := c.counter(e.Counter)
		k.oddly, k.shrinks = true, true
	case Noted:
		c.noted(e)
	case Foreign:
		c.counter(e.Counter).writers++
	case Stuck:
		c.fail("%s", e.What)
	case Hosted:
		c.hosted, c.inPlace = &e, e.InPlace
	case Older:
		c.older = true
	case AppWrites:
		c.counter(e.Counter).titles[e.Title] = true
	case Reconciling:
		c.looks(e)
	case Reconciled:
		c.reconciled(e)
		c.lookedAt(e)
	case Fair:
		c.fair = true
	case Calm:
		c.quiet(false)
	case Settled:
		c.quiet(true)
		c.fair = false
		for _, k := range c.counters {
			k.again = false
		}
	}
}

func (c *checker) reconciled(r Reconciled) {
	if r.Counter == "" {
		if r.Drift != 0 && !c.drift {
			c.fail("a reconcile found a drift of %d, and nothing else wrote a total", r.Drift)
		}
		return
	}
	if r.Drift != 0 && !c.counter(r.Counter).drift {
		c.fail("a reconcile found a drift of %d in %q, and nothing else wrote its total", r.Drift, r.Counter)
	}
}

// quiet checks that ledgers have followed: everywhere after a reconcile, and before it where no
// event was lost. So have totals, wherever something was counted in fair weather, whatever others
// have written there.
func (c *checker) quiet(reconciled bool) {
	for _, id := range slices.Sorted(maps.Keys(c.counters)) {
		k := c.counters[id]
		k.dropped = k.dropped && !reconciled
		if reconciled {
			c.heldOn(id, k)
		}
		if k.noted && reconciled {
			c.fail("%q is noted yet, after a reconcile of all", id)
		}
		if l := k.ledger; l != nil && !k.dropped && !k.noted && l.sum() != c.known(k) {
			c.fail("long after everything, reconciled: %v, the ledger of %q has %d, and it holds %d", reconciled, id, l.sum(), c.known(k))
		}
		there := k.doc != nil && !k.doc.Deleting
		heard := reconciled || k.again && !k.noted && !(k.ledger == nil && k.dropped)
		if k.ledger == nil && (nested(id) || c.hosted != nil && len(k.shards) == 0) {
			continue // nothing was told of it yet, and a walk finds it by its ledger
		}
		if there && heard && !k.agrees() {
			c.fail("long after everything, reconciled: %v, the total of %q is %d, and its ledger has %s", reconciled, id, k.doc.Total, k.ledger)
		}
		if there && reconciled && k.ledger != nil && !k.limits.loose && !k.showsLimit() {
			c.fail("after a reconcile the document of %q shows a limit of %d (%v), and its ledger has %d (%v)", id, k.doc.Limit, k.doc.Limited, k.ledger.Limit, k.ledger.Limited)
		}
		if there && !k.shrinks && (c.exact(k) < k.acked || c.exact(k) > k.attempted) {
			c.fail("%q holds %d; %d were acknowledged, %d attempted", id, c.exact(k), k.acked, k.attempted)
		}
	}
}
