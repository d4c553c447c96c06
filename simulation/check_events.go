package simulation

import "fmt"

// events are what is known of the events of a shard. An event is named by the time of its commit,
// in microseconds.
type events struct {
	waiting map[int64]state // that nobody has acknowledged yet
	latest  int64           // that was acknowledged
	lost    int64           // states up to then may never be told
}

// state is what an event tells.
type state struct {
	asOf int64 // how new a ledger's entry has to be that counts it
	gone bool  // the shard is deleted
	none bool  // it holds no integer: there is nothing to count
}

func (k *counter) eventsOf(shard string) *events {
	of := k.events[shard]
	if of == nil {
		of = &events{waiting: map[int64]state{}}
		k.events[shard] = of
	}
	return of
}

// expected takes the event of a shard's change into what is known.
func (k *counter) expected(at int64, ch Change) {
	s := state{asOf: at, none: ch.After != nil && ch.After.Empty}
	if ch.After == nil { // what sorts after the version before
		s = state{asOf: ch.Before.Updated + 1, gone: true}
	}
	k.eventsOf(ch.Doc.Shard).waiting[at] = s
}

// debt is a state whose event was acknowledged for a note.
type debt struct {
	state
	shard string
	of    int64 // the time of its commit
}

// noted checks, where a note is taken away, that everything is counted that was acknowledged for it.
func (c *checker) noted(e Noted) {
	k := c.counter(e.Counter)
	if k.noted = e.There; k.noted {
		return
	}
	for _, d := range k.debts {
		if why := k.uncounted(d); why != "" {
			c.fail("the note of %q is taken away, for which the event of shard %s as of %d was acknowledged, %s", e.Counter, d.shard, d.of, why)
		}
	}
	k.debts = nil
}

// acknowledged checks that a state is counted whose event was acknowledged, whether the counter's
// document is there or not. Only while a newer one of its shard is not acknowledged it may wait for
// that, and while its counter is noted for that to end.
func (c *checker) acknowledged(e Acknowledged) {
	id := e.Doc.Counter
	k := c.counter(id)
	of := k.eventsOf(e.Doc.Shard)
	s, waited := of.waiting[e.Of]
	delete(of.waiting, e.Of)
	of.latest = max(of.latest, e.Of)
	if !waited || s.none || e.Of < of.latest || e.Of <= of.lost {
		return
	}
	for at := range of.waiting {
		if at > e.Of {
			return
		}
	}
	d := debt{s, e.Doc.Shard, e.Of}
	switch why := k.uncounted(d); {
	case why == "":
	case k.noted:
		k.debts = append(k.debts, d)
	default:
		c.fail("the event of shard %s of %q as of %d is acknowledged, %s", e.Doc.Shard, id, e.Of, why)
	}
}

// uncounted says why a state is not counted; "" where it is, or need not be.
func (k *counter) uncounted(d debt) string {
	l := k.ledger
	switch {
	case k.begun > d.asOf, l != nil && k.floor(l) >= d.asOf: // of an earlier life, or it was there when its ledger was made
	case l == nil && (d.gone || k.vacant || k.occupied > d.of): // a ledger is made of what there is, and not for deletions alone
	case l == nil:
		return "and the counter has no ledger"
	case l.States[d.shard].AsOf < d.asOf:
		return fmt.Sprintf("which the ledger has as of %d", l.States[d.shard].AsOf)
	}
	return ""
}
