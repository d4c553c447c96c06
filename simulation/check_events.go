package simulation

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

// acknowledged checks that a state is counted whose event was acknowledged, whether the counter's
// document is there or not. Only while a newer one of its shard is not acknowledged it may wait for
// that.
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
	l := k.ledger
	switch {
	case k.begun > s.asOf, l != nil && k.floor(l) >= s.asOf: // of an earlier life, or it was there when its ledger was made
	case l == nil && (s.gone || k.vacant || k.occupied > e.Of): // a ledger is made of what there is, and not for deletions alone
	case l == nil:
		c.fail("the event of shard %s of %q as of %d is acknowledged, and the counter has no ledger", e.Doc.Shard, id, e.Of)
	case l.States[e.Doc.Shard].AsOf < s.asOf:
		c.fail("the event of shard %s of %q as of %d is acknowledged, which the ledger has as of %d", e.Doc.Shard, id, e.Of, l.States[e.Doc.Shard].AsOf)
	}
}
