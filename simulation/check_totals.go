package simulation

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// A total is what the shards held at one moment, and what the counter holds beyond them. The checker doesn't look into
// the base for that: it knows what commands were asked for, and totals and reads say which of its guesses are right.

// guess is what a counter may hold beyond its shards, and how that came about.
type guess struct {
	n        int64
	imported int64 // of its source
	took     bool  // the source was imported
	replaced int64 // what the document showed before: an import in place brings it back
	adopted  int64 // of n: the number that the app's document showed, from which it went on
	open     bool  // n isn't known: a command set the total while nobody could tell what the shards hold
	huge     bool  // it makes up for huge shards: once something else is written over these, no total may be able to show it
}

// beyond are the guesses from one command to the next.
type beyond struct{ guesses map[guess]bool }

func holding(guesses ...guess) *beyond {
	b := &beyond{map[guess]bool{}}
	for _, g := range guesses {
		b.guesses[g] = true
	}
	return b
}

// open reports whether one of the guesses is.
func (b *beyond) open() bool {
	for g := range b.guesses {
		if g.open {
			return true
		}
	}
	return false
}

// beside is the guess of a base that has the total be n as of a point.
func (p point) beside(g guess, n int64) guess {
	g.n, g.open, g.huge = wideOf(n).and(wideOf(-p.sum)).int64(), false, p.huge
	if p.vague {
		g.n, g.open = 0, true
	}
	return g
}

// with is what a counter held at a point if a guess is right.
func (p point) with(g guess) int64 { return wideOf(p.sum).and(wideOf(g.n)).int64() }

// all reports whether something is so by all guesses. Nobody can tell what is beyond the int64s, which is not shown.
func (p point) all(is func(int64) bool) bool {
	if p.vague {
		return false
	}
	for g := range p.beyond.guesses {
		if n := p.with(g); g.open || n == math.MaxInt64 || n == math.MinInt64 || !is(n) {
			return false
		}
	}
	return true
}

// within reports whether the counter may have held at least so much, and at most so much besides the app's own number
// from which it went on.
func (p point) within(least, most int64) bool {
	return p.vague || !p.all(func(n int64) bool { return n < least }) && slices.ContainsFunc(slices.Collect(maps.Keys(p.beyond.guesses)), func(g guess) bool {
		n := p.with(g)
		return g.open || n == math.MaxInt64 || n >= least && wideOf(n).and(wideOf(-g.adopted)).int64() <= most
	})
}

// adopted is the app's own number from which a counter may have gone on, at most.
func (b *beyond) adopted() (most int64) {
	for g := range b.guesses {
		most = max(most, g.adopted)
	}
	return most
}

// holds reports whether the counter may have held n.
func (p point) holds(n int64) bool { return !p.all(func(m int64) bool { return m != n }) }

func (p point) String() string {
	if p.vague {
		return "what nobody can tell"
	}
	var list []string
	for g := range p.beyond.guesses {
		list = append(list, fmt.Sprint(p.with(g)))
	}
	slices.Sort(list)
	return strings.Join(slices.Compact(list), " or ")
}

// held reports whether the counter held n at one of the points, and drops guesses by which it did not.
func held(window []point, n int64) bool {
	right := map[*beyond]map[guess]bool{}
	for _, p := range window {
		if p.vague {
			return true
		}
		for g := range p.beyond.guesses {
			if g.open || p.with(g) == n {
				if right[p.beyond] == nil {
					right[p.beyond] = map[guess]bool{}
				}
				right[p.beyond][g] = true
			}
		}
	}
	for b, guesses := range right {
		if len(right) == 1 {
			b.guesses = guesses
		}
	}
	return len(right) > 0
}

// now is the counter as it is.
func (k *counter) now() point { return k.series[len(k.series)-1] }

// mayShow reports whether the document may show what the counter held at a point. Whoever deletes its base by hand
// loses what that held: instances that remember it may show it until one of them, or a reconcile, reads the counter
// again, and makes a base. What was shown until then stays until the field is asked for again.
func (k *counter) mayShow(p point) bool {
	if p.holds(k.doc.Total) {
		return true
	}
	p.beyond = p.lost
	return p.lost != nil && p.holds(k.doc.Total)
}

// shows reports whether the document shows what the shards held at a point of the series, or later, and what is beyond
// them now. It never goes back.
func (k *counter) shows(from int) bool {
	for i := max(from, k.from); i < len(k.series); i++ {
		p := k.series[i]
		if p.beyond = k.beyond; k.mayShow(p) {
			if !p.vague {
				k.from = i
				k.closes()
			}
			return true
		}
	}
	return false
}

// closes has what the document shows tell what an open guess is: it shows what the shards held at one of the points
// from k.from on. If nobody can tell that of one of them, the guess stays open. So does one that makes up for huge shards.
func (k *counter) closes() {
	if !k.beyond.open() {
		return
	}
	closed := map[guess]bool{}
	for g := range k.beyond.guesses {
		for _, p := range k.series[k.from:] {
			if !g.open || g.huge {
				closed[g] = true
			} else {
				closed[p.beside(g, k.doc.Total)] = true
			}
		}
	}
	k.beyond.guesses = closed
}

// viewed checks that a total that a commit has changed is one that the counter has come to since the last one, unless
// somebody else wrote it.
func (c *checker) viewed(id string, k *counter, d deed, before *Document) {
	if d.made && c.hosted == nil && k.doc.NumShards == 0 && (d.hadBase || k.base == nil) {
		c.fail("a commit that makes no counter makes the document of %q: %s", id, k.doc)
	}
	if k.doc == nil || !d.made && before.Total == k.doc.Total {
		return
	}
	// The app's own, even where that is what the counter holds by chance: events from before may be acknowledged.
	apps := c.hosted != nil && (d.made || before.Title != k.doc.Title)
	anything := k.writers > 0 && (k.beyond.open() || k.now().vague) // would fit, and is taken for the other's
	if d.edited || !apps && !anything && k.shows(0) {
		k.stale = false
		return
	}
	// Who doesn't know the field makes a document that shows nothing of it: a snippet, or an older revision.
	none := d.made && k.doc.Bare && (k.snippets > 0 || c.older && !c.fair)
	others := k.writers > 0 || apps || none
	if !d.made || c.hosted != nil { // or the system makes it: others write only what is there
		k.writers = max(0, k.writers-1)
	}
	if !others {
		c.fail("a commit changes the total of %q to %d, which it has come to at no moment since %s", id, k.doc.Total, describe(k.series[k.from:]))
	}
	k.stale, k.drift, c.drift = true, true, true
	k.writtenAt, k.from = c.newest, max(0, len(k.series)-1000)
}

// summed is what the shards hold. It is vague where Firestore's sum may be another in the last digit, or no number, as
// where their sizes are huge together.
func (k *counter) summed() (sum int64, vague, huge bool) {
	var whole, size wide
	rest, double := 0.0, false
	for _, s := range k.shards {
		vague = vague || s.Endless
		whole.add(s.Count)
		size.add(max(s.Count, -s.Count, -(s.Count + 1)))
		rest, double = rest+s.Rest, double || s.Double
	}
	sum = whole.int64()
	if huge = size.int64() == math.MaxInt64; vague || huge {
		return sum, true, huge
	}
	if double {
		exact := float64(sum) + rest
		return int64(exact), !(math.Abs(rest)+math.Abs(float64(size.int64())) < 1<<53), false
	}
	return sum, false, false
}

// event is the event of a document's change, named by the time of its commit, in microseconds.
type event struct {
	doc Doc
	of  int64
}

// waits is an event of the field that nobody has acknowledged yet.
type waits struct {
	point int // of the series: the counter as of the change
	lost  bool
	held  bool // it has come to an instance that shows the field
}

// lost takes out an event that comes late or never.
func (c *checker) lost(e Dropped) {
	k := c.counter(e.Counter)
	k.dropped = true
	k.missed(e)
	name := event{Doc{Kind: "shard", Counter: e.Counter, Shard: e.Shard}, e.Of}
	if w, waits := k.waiting[name]; waits {
		w.lost = !e.Elsewhere || !w.held
		k.waiting[name] = w
	}
}

// debt is a change whose event was acknowledged for a note.
type debt struct {
	event
	point int
}

// noted checks, where a note is taken away, that everything is counted that was acknowledged for it.
func (c *checker) noted(e Noted) {
	k := c.counter(e.Counter)
	if k.noted = e.There; k.noted {
		return
	}
	for _, d := range k.debts {
		if !c.counts(k, d) {
			c.fail("the note of %q is taken away, for which the event of %s as of %d was acknowledged, and its total %d is older", e.Counter, d.doc, d.of, k.doc.Total)
		}
	}
	k.debts = nil
	c.paid(k)
}

// acknowledged checks that a field is shown as of an event that was acknowledged, or later, whatever became of the
// events before it, in whichever shard. Only while a newer one of the field waits it may wait for that, and while its
// counter is noted for that to end.
func (c *checker) acknowledged(e Acknowledged) {
	k := c.counter(e.Doc.Counter)
	name := event{e.Doc, e.Of}
	w, waited := k.waiting[name]
	delete(k.waiting, name)
	if !waited {
		return
	}
	for other, w := range k.waiting {
		if other.of > e.Of && !w.lost {
			return
		}
	}
	switch d := (debt{name, w.point}); {
	case k.noted: // if it is counted already, that may be by chance
		k.debts = append(k.debts, d)
	case !c.counts(k, d):
		c.fail("the event of %s as of %d is acknowledged, and the total of %q is %d, which it has come to at no moment since %s", e.Doc, e.Of, e.Doc.Counter, k.doc.Total, describe(k.series[w.point:]))
	}
}

// counts reports whether a change is in the total. Without a document it is in the shards, and what somebody else wrote
// later is no answer.
func (c *checker) counts(k *counter, d debt) bool {
	return !k.there() || d.of <= k.writtenAt || k.shows(min(d.point, len(k.series)-1))
}

// looks notes when a reconcile of counters by name begins.
func (c *checker) looks(r Reconciling) {
	for _, id := range r.Counters {
		if c.looked == nil {
			c.looked = map[lookedAt]looked{}
		}
		c.looked[lookedAt{r.Number, id}] = looked{len(c.counter(id).series) - 1, c.newest}
	}
}

// lookedAt names a counter that a reconcile looks at, and looked is when it began to.
type lookedAt struct {
	number  int
	counter string
}

type looked struct {
	point int
	at    int64
}

// lookedAt checks that after a reconcile by name the total is as of its begin, or later.
func (c *checker) lookedAt(r Reconciled) {
	k := c.counter(r.Counter)
	l, ok := c.looked[lookedAt{r.Number, r.Counter}]
	if ok && r.Looked && k.there() && l.at > k.writtenAt && !k.shows(l.point) {
		c.fail("a reconcile of %q has ended well, and its total is %d, which it has come to at no moment since %s", r.Counter, k.doc.Total, describe(k.series[l.point:]))
	}
}
