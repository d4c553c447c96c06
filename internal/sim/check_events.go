package sim

// events are what is known of the events of a shard. An event is named by the time of its commit, in microseconds.
type events struct {
	waiting map[int64]int64 // that nobody has acknowledged yet :: how new a ledger's entry has to be that counts it
	latest  int64           // that was acknowledged
	lost    int64           // states up to then may never be told
}

func (k *counter) eventsOf(shard string) *events {
	of := k.events[shard]
	if of == nil {
		of = &events{waiting: map[int64]int64{}}
		k.events[shard] = of
	}
	return of
}

// expected takes the event of a shard's change into what is known.
func (c *checker) expected(k *counter, at int64, ch Change) {
	need := at
	if ch.After == nil { // deleted: what sorts after the version before
		need = ch.Before.Updated + 1
	}
	k.eventsOf(ch.Doc.Shard).waiting[at] = need
}

// acknowledged checks that a state is counted whose event was acknowledged. Only while a newer one of its shard is not it may
// wait for that.
func (c *checker) acknowledged(e Acknowledged) {
	id := e.Doc.Counter
	k := c.counter(id)
	of := k.eventsOf(e.Doc.Shard)
	need, waited := of.waiting[e.Of]
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
	deleted := need < e.Of
	l := c.own(k)
	if l == nil {
		// An instance's copy of an earlier counter's ledger still counts as long as it agrees with the totals.
		if of := k.ledger; of != nil && !of.Lacks && of.sum() == k.total() && of.Shards[e.Doc.Shard].AsOf >= need {
			return
		}
		if !deleted && e.Of > k.begun { // a deletion adopts nothing; nor is there one whose ledger is deleted by hand
			c.fail("the event of shard %s of %q as of %d is acknowledged, and the counter has no ledger", e.Doc.Shard, id, e.Of)
		}
		return
	}
	entry, known := l.Shards[e.Doc.Shard]
	switch {
	case max(entry.AsOf, l.Floor, k.begun) >= need, !known && deleted: // a new ledger begins with what there is
	default:
		c.fail("the event of shard %s of %q as of %d is acknowledged, which the ledger has as of %d", e.Doc.Shard, id, e.Of, entry.AsOf)
	}
}
