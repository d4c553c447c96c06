package simulation

import (
	"maps"
	"slices"
)

// What was counted of a shard's field goes into the base when that is no number any more, and the
// entry begins from 0.

// version is what a shard held as of a time.
type version struct {
	at    int64
	count int64
	odd   bool // a fraction, or no number
	blank bool // no number
}

// between are a shard's versions after a time and up to another, deletions among them.
func (k *counter) between(shard string, from, to int64) (list []version) {
	for at, count := range k.versions[shard] {
		list = append(list, version{at, count, k.odd[shard][at], k.blank[shard][at]})
	}
	for at := range k.deletions[shard] {
		if _, document := k.versions[shard][at]; !document {
			list = append(list, version{at: at})
		}
	}
	list = slices.DeleteFunc(list, func(v version) bool { return v.at <= from || v.at > to })
	slices.SortFunc(list, func(a, b version) int { return int(a.at - b.at) })
	return list
}

// entered is an entry, and what a commit has moved from it to the base.
type entered struct{ count, moved int64 }

// enters are the ways in which an entry may become one as of a later time: each version in between
// may have been seen or not, and the last one was.
func (k *counter) enters(shard string, was State, asOf int64) map[entered]bool {
	ways := map[entered]bool{{was.Count, 0}: true}
	for _, v := range k.between(shard, was.AsOf, asOf) {
		next := map[entered]bool{}
		if v.at < asOf {
			next = maps.Clone(ways)
		}
		for w := range ways {
			switch {
			case v.blank:
				w = entered{0, w.moved + w.count}
			case !v.odd:
				w.count = v.count
			}
			next[w] = true
		}
		ways = next
	}
	return ways
}

// moves are what a commit may have moved from entries to the base.
func (k *counter) moves(was, is *Document) map[int64]bool {
	sums := map[int64]bool{0: true}
	for shard, s := range is.States {
		before := was.States[shard]
		if before == s || !slices.ContainsFunc(k.between(shard, before.AsOf, s.AsOf), func(v version) bool { return v.blank }) {
			continue
		}
		next := map[int64]bool{}
		for sum := range sums {
			for w := range k.enters(shard, before, s.AsOf) {
				if w.count == s.Count {
					next[sum+w.moved] = true
				}
			}
		}
		sums = next
	}
	return sums
}

// looked is what a reconcile of a counter by name found when it began.
type looked struct {
	shards map[string]int64 // :: shard → its update time
	newest int64            // commit
	begun  int64            // of its ledger
}

func (c *checker) looks(r Reconciling) {
	for _, id := range r.Counters {
		k := c.counter(id)
		l := looked{shards: map[string]int64{}, newest: c.newest, begun: k.begun}
		for shard, s := range k.shards {
			l.shards[shard] = s.Updated
		}
		if c.looked == nil {
			c.looked = map[lookedAt]looked{}
		}
		c.looked[lookedAt{r.Number, id}] = l
	}
}

// lookedAt names a counter that a reconcile looks at.
type lookedAt struct {
	number  int
	counter string
}

// lookedAt checks that after a reconcile by name a ledger has each shard as it was when that began, or
// is newer: sums may agree where entries don't.
func (c *checker) lookedAt(r Reconciled) {
	k := c.counter(r.Counter)
	l, ok := c.looked[lookedAt{r.Number, r.Counter}]
	if !ok || !r.Looked || k.ledger == nil || k.begun != l.begun {
		return
	}
	for _, shard := range slices.Sorted(maps.Keys(l.shards)) {
		if at := l.shards[shard]; k.ledger.States[shard].AsOf < at && k.shards[shard] != nil {
			c.fail("a reconcile of %q has ended well, and its ledger has shard %s as of %d, which was changed at %d before it began", r.Counter, shard, k.ledger.States[shard].AsOf, at)
		}
	}
	for _, shard := range slices.Sorted(maps.Keys(k.ledger.States)) {
		if s := k.ledger.States[shard]; l.shards[shard] == 0 && s.Count != 0 && s.AsOf <= l.newest {
			c.fail("a reconcile of %q has ended well, and its ledger has %d for shard %s, which was gone before it began", r.Counter, s.Count, shard)
		}
	}
}
