package simulation

// events are what is known of the events of a shard. An event is named by the time of its commit, in microseconds.
type events struct {
	waiting map[int64]state // that nobody has acknowledged yet
	latest  int64           // that was acknowledged
	lost    int64           // states up to then may never be told
}

// state is what an event tells.
type state struct {
	asOf int64 // how new a ledger's entry has to be that counts it
	gone bool  // the shard is deleted
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
func (c *checker) expected(k *counter, at int64, ch Change) {
	s := state{asOf: at}
	if ch.After == nil { // what sorts after the version before
		s = state{asOf: ch.Before.Updated + 1, gone: true}
	}
	k.eventsOf(ch.Doc.Shard).waiting[at] = s
}

// acknowledged checks that a state is counted whose event was acknowledged. Only while a newer one of its shard is not it may
// wait for that.
func (c *checker) acknowledged(e Acknowledged) {
	id := e.Doc.Counter
	k := c.counter(id)
	of := k.eventsOf(e.Doc.Shard)
	s, waited := of.waiting[e.Of]
	delete(of.waiting, e.Of)
	of.latest = max(of.latest, e.Of)
	if !waited || e.Of < of.latest || e.Of <= of.lost || k.doc == nil || k.doc.Deleting || e.Of < k.made {
		return // or nobody's: nothing is counted for a counter that isn't there
	}
	for at := range of.waiting {
		if at > e.Of {
			return
		}
	}
	l := c.own(k)
	if l == nil {
		// An instance's copy of an earlier counter's ledger still counts as long as it agrees with the totals.
		if of := k.ledger; of != nil && !of.Lacks && of.sum() == k.total() && of.Shards[e.Doc.Shard].AsOf >= s.asOf {
			return
		}
		if !s.gone && e.Of > k.begun { // a deletion adopts nothing; nor is there one whose ledger is deleted by hand
			c.fail("the event of shard %s of %q as of %d is acknowledged, and the counter has no ledger", e.Doc.Shard, id, e.Of)
		}
		return
	}
	entry, known := l.Shards[e.Doc.Shard]
	switch {
	case max(entry.AsOf, l.Floor, k.begun) >= s.asOf, !known && s.gone: // a new ledger begins with what there is
	default:
		c.fail("the event of shard %s of %q as of %d is acknowledged, which the ledger has as of %d", e.Doc.Shard, id, e.Of, entry.AsOf)
	}
}
