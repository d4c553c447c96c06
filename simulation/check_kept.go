package simulation

import (
	"fmt"
	"maps"
	"math"
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
	gone  bool // nothing: it was deleted
}

// between are a shard's versions after a time and up to another, deletions among them.
func (k *counter) between(shard string, from, to int64) (list []version) {
	for at, count := range k.versions[shard] {
		list = append(list, version{at, count, k.odd[shard][at], k.blank[shard][at], false})
	}
	for at := range k.deletions[shard] {
		if _, document := k.versions[shard][at]; !document {
			list = append(list, version{at: at, gone: true})
		}
	}
	list = slices.DeleteFunc(list, func(v version) bool { return v.at <= from || v.at > to })
	slices.SortFunc(list, func(a, b version) int { return int(a.at - b.at) })
	return list
}

// entered is an entry, and what a commit has moved from it to the base.
type entered struct {
	count int64
	moved wide
	other bool // the count is of a document that was deleted since
}

// enters are the ways in which an entry may become one as of a later time: each version in between
// may have been seen or not, and the last one was.
func (k *counter) enters(shard string, was State, asOf int64) map[entered]bool {
	ways := map[entered]bool{{count: was.Count}: true}
	for _, v := range k.between(shard, was.AsOf, asOf) {
		next := map[entered]bool{}
		if v.at < asOf {
			for w := range ways {
				w.other = w.other || v.gone
				next[w] = true
			}
		}
		for w := range ways {
			switch {
			case v.odd && w.other:
				w.count = 0
			case v.blank:
				w.moved.add(w.count)
				w.count = 0
			case !v.odd:
				w.count, w.other = v.count, false
			}
			next[w] = true
		}
		ways = next
	}
	return ways
}

// bases are what a commit may have made of the base, with what it has moved there from entries.
func (k *counter) bases(was, is *Document) map[wide]bool {
	var base wide
	base.add(was.Base)
	sums := map[wide]bool{base: true}
	for shard := range k.blank {
		before, had := was.States[shard]
		s, stays := is.States[shard]
		if !stays && (had || is.Floor > was.Floor) {
			// A snapshot has found it gone: also a shard whose event is counted by the same commit.
			s.AsOf = math.MaxInt64
		}
		if before == s || !slices.ContainsFunc(k.between(shard, before.AsOf, s.AsOf), func(v version) bool { return v.blank }) {
			continue
		}
		next := map[wide]bool{}
		for sum := range sums {
			for w := range k.enters(shard, before, s.AsOf) {
				if w.count == s.Count || !stays {
					next[sum.and(w.moved)] = true
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
		if c.looked == nil {
			c.looked = map[lookedAt]looked{}
		}
		c.looked[lookedAt{r.Number, id}] = c.look(c.counter(id))
	}
}

func (c *checker) look(k *counter) looked {
	l := looked{shards: map[string]int64{}, newest: c.newest, begun: k.begun}
	for shard, s := range k.shards {
		l.shards[shard] = s.Updated
	}
	return l
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
	if why := k.missed(l); ok && r.Looked && why != "" {
		c.fail("a reconcile of %q has ended well, and its ledger has %s", r.Counter, why)
	}
}

// missed says what of the shards, as they were at a look, a ledger does not have.
func (k *counter) missed(l looked) string {
	if k.ledger == nil || k.begun != l.begun || k.doc != nil && k.doc.Deleting { // what it holds goes
		return ""
	}
	for _, shard := range slices.Sorted(maps.Keys(l.shards)) {
		if at := l.shards[shard]; k.ledger.States[shard].AsOf < at && k.gone[shard] <= l.newest {
			return fmt.Sprintf("shard %s as of %d, which was changed at %d before that began", shard, k.ledger.States[shard].AsOf, at)
		}
	}
	for _, shard := range slices.Sorted(maps.Keys(k.ledger.States)) {
		if s := k.ledger.States[shard]; l.shards[shard] == 0 && s.Count != 0 && s.AsOf <= l.newest {
			return fmt.Sprintf("%d for shard %s, which was gone before that began", s.Count, shard)
		}
	}
	return ""
}

// rebase is one that was asked for.
type rebase struct {
	to int64
	looked
}

// rebased checks what a command that is no import has made of the base: nothing, after a reset, or what
// is left of the total that a rebase has asked for beside the shards, as they were after it began.
func (c *checker) rebased(id string, k *counter) {
	if k.ledger.Base == 0 || k.ledger.Base == math.MinInt64 || k.ledger.Base == math.MaxInt64 || k.rebases == nil { // as close as it comes
		return
	}
	why := "of which nobody asked for"
	for _, r := range k.rebases {
		if k.ledger.sum() != r.to {
			continue
		}
		if why = "with " + k.missed(r.looked); k.missed(r.looked) == "" {
			return
		}
	}
	c.fail("a command sets the total of %q to %d, %s", id, k.ledger.sum(), why)
}
