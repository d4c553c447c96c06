package simulation

import "slices"

// click is what one of the extension's shards held as of an event that nobody has acknowledged yet.
type click struct {
	held  int64
	point int // of the series: the counter as of the event
	lost  bool
	came  bool // to an instance that shows the field: it waits there, whoever acknowledges a copy
}

// clicked takes a change of one of the extension's shards into what is known: its event is to be told, unless the shard
// holds nothing.
func (k *counter) clicked(name event, held int64) {
	if held == 0 {
		return
	}
	if k.source.events == nil {
		k.source.events = map[event]click{}
	}
	k.source.events[name] = click{held: held, point: len(k.series) - 1}
}

// missed takes out an event of one of the extension's shards that comes late or never.
func (k *counter) missed(e Dropped) {
	name := event{Doc{Kind: "source shard", Counter: e.Counter, Shard: e.Shard}, e.Of}
	if n, waits := k.source.events[name]; waits {
		n.lost = !e.Elsewhere || !n.came
		k.source.events[name], k.source.untold = n, true
	}
}

// holdsYet reports whether one of the extension's shards holds something yet of what it held as of an event. Of
// counters whose increments don't name themselves that is nothing once something was taken off the shard since.
func (c *checker) holdsYet(k *counter, name event, n click) bool {
	now := documentOr(k.source.docs[name.doc]).Count
	if Named(name.doc.Counter) {
		return now&n.held != 0
	}
	return now != 0 && k.source.takenAt[name.doc] < name.of
}

// takenOver checks that what a client of the extension has added is taken off its shard once the event is acknowledged.
// As for others, only a newer event of the shard may be waited for, and the end of a note. Without a document it waits.
func (c *checker) takenOver(e Acknowledged) {
	k := c.counter(e.Doc.Counter)
	name := event{e.Doc, e.Of}
	n, waited := k.source.events[name]
	delete(k.source.events, name)
	if !waited || c.declared != nil || k.oddly { // what has a limit stays, and so does what no total can show
		return
	}
	for other, later := range k.source.events {
		if other.doc == e.Doc && other.of > e.Of && !later.lost {
			return
		}
	}
	switch {
	case !c.holdsYet(k, name, n):
	case slices.ContainsFunc(k.series[n.point:], func(p point) bool { return !p.there }):
		k.source.untold = true
	case k.noted:
		k.source.debts = append(k.source.debts, name)
	default:
		c.fail("the event of %s as of %d is acknowledged, and the shard holds %d yet of what it held", e.Doc, e.Of, documentOr(k.source.docs[e.Doc]).Count)
	}
}

// paid checks, where a note is taken away, that everything is taken over that was acknowledged for it.
func (c *checker) paid(k *counter) {
	for _, name := range k.source.debts {
		held := documentOr(k.source.docs[name.doc]).Count
		k.source.untold = k.source.untold || !k.there() // whoever took it away has found no document
		shows := k.there() && !k.now().vague            // or no total can show it
		if shows && held != 0 && k.source.takenAt[name.doc] < name.of {
			c.fail("the note of %q is taken away, for which the event of %s as of %d was acknowledged, and the shard holds %d", name.doc.Counter, name.doc, name.of, held)
		}
	}
	k.source.debts = nil
}

// nothingWaits checks that what clients of the extension have added is in the total by now: after a reconcile, and
// before it where each event has come.
func (c *checker) nothingWaits(id string, k *counter, reconciled bool) {
	if k.source.value == 0 {
		k.source.untold = false
	}
	if !c.live || c.declared != nil || k.oddly || !k.there() {
		return
	}
	heard := !k.source.untold && !k.noted
	if reconciled {
		heard = k.base != nil // or a walk doesn't find it
	}
	now := k.now()
	if heard && k.source.value != 0 && !now.vague {
		c.fail("long after everything, reconciled: %v, %d wait in the extension's shards of %q", reconciled, k.source.value, id)
	}
	if acked := k.acked - k.source.told + k.source.acked; heard && reconciled && !k.shrinks && now.all(func(n int64) bool { return n < acked }) {
		c.fail("%q holds %s; %d were acknowledged, of the extension's clients too", id, now, acked)
	}
}

// seen checks that nobody sees a number fall who reads the document and a shard of its own: what a commit takes off the
// shard it shows. Only who gives back, sets totals, or is to be corrected, makes numbers fall.
func (c *checker) seen(id string, k *counter, before *Document) {
	most := k.source.most
	k.source.most = 0
	if !c.live || most == 0 || before == nil || k.doc == nil || len(k.commands.pending) > 0 || k.stale || k.shrinks || k.gives {
		return
	}
	if more := k.doc.Total - before.Total; more < most {
		c.fail("a commit takes %d off a shard of the extension's, and the document of %q shows %d more: who reads both sees a number fall", most, id, more)
	}
}

// keeps reports whether the counter may have come to n beside the number that its document shows and no total has
// replaced yet.
func (p point) keeps(n int64) bool {
	for g := range p.beyond.guesses {
		if !g.took && wideOf(p.with(g)).and(wideOf(p.total)).int64() == n {
			return true
		}
	}
	return false
}
