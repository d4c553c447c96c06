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
	c := newChecker()
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

func newChecker() *checker {
	return &checker{counters: map[string]*counter{}, calls: map[int]*call{}, intents: map[int]*intent{}}
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
	newestAt   time.Time // the same by the world's clock
	looked     map[lookedAt]looked
	older      bool // a revision runs beside that doesn't know the field
	fair       bool // nothing goes wrong
	hosted     *Hosted
	declared   *int64    // limit of the field; nil: it has none
	bounded    bool      // instances have a ceiling
	inPlace    bool      // what is imported is the app's own document
	live       bool      // what clients of the extension add there is taken over at once
	extension  time.Time // when that has last run
}

// counter is what is known of the documents of an id.
type counter struct {
	doc, base *Document // of the base nothing but that it is there
	shards    map[string]*Document
	series    []point
	beyond    *beyond         // what the counter holds beyond its shards
	aside     int64           // what its shards hold besides members and increments
	left      map[string]bool // shards and members that were there when its deletion began, and are to go

	// What is in the document. It shows what the counter held, but for what others write there.
	writers int  // that are about to write the total, and are not the system
	stale   bool // one of them wrote it since it was last right
	drift   bool // one of them wrote it, ever
	again   bool // the field was incremented in fair weather
	from    int  // index in the series: the total is as of then or later
	// when one of them wrote the document last, in microseconds of Firestore's
	writtenAt int64

	names            map[int64]*intent // of a named counter :: bit → what it stands for
	acked, attempted int64
	dropped          bool      // an event was lost since the last reconcile
	shrinks          bool      // a command took something away, or may have: it doesn't only grow
	gives            bool      // increments give back
	oddly            bool      // somebody writes to shards what is no integer
	fractionSince    time.Time // when one of them became one last

	resized  time.Time // when a resize began last
	snippets int       // that are about to make it, or shards of it
	byHand   int       // deletions of documents of it, one by one, that are under way
	lost     *beyond   // what the base held that was deleted by hand below its document; nil once there is one again
	deletes  int       // of it, that are under way
	deleted  time.Time // when the last of them ended
	made     int       // commits that made it, and whose caller has not been told yet
	lives    lives
	commands commands

	titles    map[int64]bool // that the app has written, or is about to
	goneSince time.Time      // when the app deleted it
	backSince time.Time      // when the app made it again

	ofMembers  map[string]*member
	members    map[string]*Document // memberships that are there
	wishes     map[string]bool      // of members, by their last click in a page
	hadMembers bool
	gcd        int64     // of all increments of it
	emptied    time.Time // when a reset began last that takes members off
	wrong      bool      // shards and members don't agree, which was said

	source  imports
	limits  limits
	amounts amounts

	waiting map[event]waits // its events that nobody has acknowledged yet
	noted   bool            // as one that must be reconciled
	debts   []debt          // what was acknowledged for that
	// An event was acknowledged for the note since the last calm, while the counter was being deleted: what a walk deletes
	// has events, too, and the note stays for these.
	relied bool
}

// point is a counter as of a commit.
type point struct {
	at       time.Time
	there    bool    // and isn't being deleted
	shows    bool    // its document is there
	sum      int64   // of the shards
	vague    bool    // which Firestore can't add up to the last digit, or that is no number
	huge     bool    // their sizes together are beyond the int64s
	beyond   *beyond // what the counter held beyond its shards
	lost     *beyond // what its base held that was deleted by hand since, or before and wasn't there again yet
	total    int64   // that its document showed
	fraction bool    // one of its shards holds one

	limited       bool
	limit, joined int64 // the shares together, and what of the shards is members'
	held          int64 // and open holds'

	members int64
}

func (c *checker) fail(format string, args ...any) {
	c.violations = append(c.violations, Violation{Entry: c.at, Message: fmt.Sprintf(format, args...)})
}

func (c *checker) counter(id string) *counter {
	k := c.counters[id]
	if k == nil {
		k = &counter{
			shards: map[string]*Document{}, names: map[int64]*intent{}, titles: map[int64]bool{},
			source: newImports(), waiting: map[event]waits{}, beyond: holding(guess{}),
		}
		k.series = []point{{beyond: k.beyond}}
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
		c.lost(e)
	case Came:
		k := c.counter(e.Doc.Counter)
		if w, waits := k.waiting[event{e.Doc, e.Of}]; waits {
			w.lost, w.held = false, w.held || e.Fields != nil
			k.waiting[event{e.Doc, e.Of}] = w
		}
		if n, waits := k.source.events[event{e.Doc, e.Of}]; waits {
			n.lost, n.came = false, n.came || e.Fields != nil
			k.source.events[event{e.Doc, e.Of}] = n
		}
	case Acknowledged:
		k := c.counter(e.Doc.Counter)
		k.relied = k.relied || k.noted && k.ending()
		switch e.Doc.Kind {
		case "shard":
			c.acknowledged(e)
		case "source shard":
			c.takenOver(e)
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
		c.hosted, c.inPlace, c.live = &e, e.InPlace, e.Live
	case Bounded:
		c.bounded = true
	case Declared:
		c.declared = &e.Limit
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
		for _, k := range c.counters {
			k.relied = false
		}
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

// quiet checks that totals have followed: everywhere after a reconcile. Before it they have where no event was lost,
// and wherever the field was incremented once more, in whichever shard: whatever was lost before, and whatever others
// have written there.
func (c *checker) quiet(reconciled bool) {
	for _, id := range slices.Sorted(maps.Keys(c.counters)) {
		k := c.counters[id]
		k.dropped = k.dropped && !reconciled
		if reconciled {
			c.heldOn(id, k)
			c.heldAmounts(id, k)
		}
		c.nothingWaits(id, k, reconciled)
		if k.noted && reconciled && !k.relied && !(c.bounded && k.ending()) {
			c.fail("%q is noted yet, after a reconcile of all", id)
		}
		there := k.there()
		if !there || k.base == nil && (nested(id) || c.hosted != nil && len(k.shards) == 0) {
			continue // nothing was told of it yet, and a walk finds it by its base
		}
		heard := reconciled || !k.noted && (k.again || !k.dropped && !k.stale)
		if now := k.now(); heard && !k.mayShow(now) {
			c.fail("long after everything, reconciled: %v, the total of %q is %d, and it holds %s", reconciled, id, k.doc.Total, now)
		}
		if reconciled && !k.limits.loose && c.declared != nil && (!k.doc.Limited || k.doc.Limit != c.limitOf(k.now())) {
			c.fail("after a reconcile the document of %q shows a limit of %d (%v), and its shares are %d", id, k.doc.Limit, k.doc.Limited, k.now().limit)
		}
		if now := k.now(); !k.shrinks && !now.within(k.acked, k.attempted) {
			c.fail("%q holds %s; %d were acknowledged, %d attempted", id, now, k.acked, k.attempted)
		}
	}
}
