package simulation

import (
	"maps"
	"slices"
	"strconv"
	"time"
)

// commit takes a commit into what is known, and checks what it did.
func (c *checker) commit(e Commit) {
	c.newest = max(c.newest, e.At.UnixMicro())
	touched := map[string][]Change{}
	for _, ch := range c.oldDocs(e) {
		touched[ch.Doc.Counter] = append(touched[ch.Doc.Counter], ch)
	}
	found := map[*intent]int{} // :: intent → how many of its adds this commit applied
	for _, id := range slices.Sorted(maps.Keys(touched)) {
		c.commitTo(id, e.At, touched[id], found)
	}
	for i, n := range found {
		if n != len(i.adds) {
			c.fail("of the increments %v a commit applies %d", i.adds, n)
		}
		i.applied = true
	}
}

// deed is what a commit did to a counter.
type deed struct {
	made, gone bool  // its document
	over       bool  // its life is over
	deletes    bool  // shards
	odd        bool  // one of its shards holds no integer any more
	fraction   bool  // but one
	inUse      bool  // of these, one that the counter has, by its number of shards
	resized    bool  // it has another number of shards
	command    bool  // is of a command that must not be applied twice
	delta      int64 // of the sum of the shards
	shardsMade []string
}

func (c *checker) commitTo(id string, at time.Time, changes []Change, found map[*intent]int) {
	k := c.counter(id)
	before, was := k.doc, k.ledger
	var d deed
	for _, ch := range changes {
		switch ch.Doc.Kind {
		case "counter":
			d.made, d.gone = ch.Before == nil, ch.After == nil
			d.resized = !d.made && !d.gone && ch.After.NumShards != ch.Before.NumShards
			if c.hosted == nil && !d.made && !d.gone && ch.After.NumShards < ch.Before.NumShards && c.now.Sub(k.resized) > 10*time.Minute {
				c.fail("%q has %d shards instead of %d, and no command resized it", id, ch.After.NumShards, ch.Before.NumShards)
			}
			k.doc = ch.After
		case "ledger":
			k.ledger = ch.After
		}
	}
	for _, ch := range changes {
		if ch.Doc.Kind == "shard" {
			k.shard(at.UnixMicro(), ch, &d)
			k.again = k.again || c.fair && ch.counts()
		}
	}
	if was != nil && k.ledger != nil && (was.Limits > 0) != (k.ledger.Limits > 0) {
		d.inUse = false // each shard gets another id
	}
	if d.fraction {
		k.fractionSince = c.now
	}
	if d.odd && !k.oddly {
		c.fail("a commit makes a shard of %q no integer, and nothing else wrote there", id)
	}
	d.over = was != nil && k.ledger == nil || d.gone && c.hosted == nil || d.deletes && k.doc == nil && k.ledger == nil && len(k.shards) == 0
	if (k.ledger == nil) != (was == nil) {
		k.begin(at.UnixMicro(), changes)
	}
	if c.hosted != nil {
		c.app(id, k, before, was)
	}
	command := c.commandOf(id, k, &d, was)
	c.based(id, k, d, was, before, command, c.startedFrom(id, k, d, was))
	members := c.moved(id, k, d, changes)
	if k.commands.tooMany() && command != nil {
		c.fail("%d commands of %q are applied; %d were asked for, and %d of these refused", len(k.commands.applied), id, k.commands.asked, k.commands.refused)
	}
	if d.over {
		k.shrinks = k.shrinks || k.byHand == 0 || c.hosted != nil // whose cleanup is beside whoever deletes documents
		if k.byHand == 0 {
			c.ended(id, k, before)
			k.lives.ended++
			c.endedOnce(id, k)
		}
	}
	c.counted(id, k, d, d.delta-members, found)
	c.agreed(id, k)
	c.viewed(id, k, d, before, was)
	c.stated(id, k, was)
	c.limited(id, k, d, before, was)
	if d.made {
		k.made++
	}
	if vacant := k.doc == nil && len(k.shards) == 0 || k.doc != nil && k.doc.Deleting; k.vacant != vacant {
		k.vacant, k.occupied = vacant, at.UnixMicro()
	}
	p := point{at: c.now, there: k.doc != nil && !k.doc.Deleting, fraction: k.fraction(), exact: c.exact(k), total: k.total(), shards: k.sum(), wrapped: int64(k.shardSum().lo), members: int64(len(k.members))}
	for _, s := range k.shards {
		p.limited, p.limit, p.joined = p.limited || s.Shared, p.limit+s.Share, p.joined+s.Joined
	}
	if k.ledger != nil {
		p.limits = k.ledger.Limits
	}
	k.series = append(k.series, p)
}

// shard takes a shard's change into what is known.
func (k *counter) shard(at int64, ch Change, d *deed) {
	id := ch.Doc.Shard
	k.expected(at, ch)
	was, is := k.shards[id], ch.After
	if was != nil {
		d.delta -= was.Count
	}
	if is == nil {
		d.deletes = true
		k.gone[id] = at
		if n, err := strconv.ParseInt(id, 10, 64); err == nil && k.doc != nil && !k.doc.Deleting && n < k.doc.NumShards {
			d.inUse = true
		}
		if k.deletions[id] == nil {
			k.deletions[id] = map[int64]bool{}
		}
		k.deletions[id][ch.Before.Updated+1] = true
		delete(k.shards, id)
		return
	}
	d.delta += is.Count
	if was == nil {
		d.shardsMade = append(d.shardsMade, id)
	}
	k.shards[id] = is
	if k.versions[id] == nil {
		k.versions[id] = map[int64]int64{}
	}
	k.versions[id][is.Updated] = is.Count
	if is.Odd {
		if k.odd[id] == nil {
			k.odd[id] = map[int64]bool{}
		}
		k.odd[id][is.Updated] = true
		if is.Blank {
			if k.blank[id] == nil {
				k.blank[id] = map[int64]bool{}
			}
			k.blank[id][is.Updated] = true
		}
		d.odd = d.odd || was == nil || !was.Odd
		d.fraction = d.fraction || is.Fraction && (was == nil || !was.Fraction)
	}
}

// floor is the time as of which a ledger says of all shards that it doesn't know that they hold
// nothing.
func (k *counter) floor(l *Document) int64 {
	if l.Floor != 0 {
		return l.Floor
	}
	return k.begun
}

// begin is when a ledger is made, or is gone: of what shards held before, it counts what is there.
// The commit that makes it may change them, too.
func (k *counter) begin(at int64, changes []Change) {
	k.begun = at
	k.versions = map[string]map[int64]int64{}
	for id, s := range k.shards {
		k.versions[id] = map[int64]int64{s.Updated: s.Count}
	}
	for _, ch := range changes {
		if of := k.versions[ch.Doc.Shard]; ch.Doc.Kind == "shard" && of != nil && ch.Before != nil {
			of[ch.Before.Updated] = ch.Before.Count
		}
	}
}

// commandOf is the command that a commit is of.
func (c *checker) commandOf(id string, k *counter, d *deed, was *Document) *applied {
	if k.ledger == nil {
		return nil
	}
	for op := range k.ledger.Ops {
		if was == nil || !was.Ops[op] {
			if k.commands.ids[op] {
				c.fail("command %s of %q is applied twice", op, id)
			}
			k.commands.ids[op], d.command = true, true
		}
	}
	if !d.command {
		return nil
	}
	a := &applied{entry: c.at}
	k.commands.applied = append(k.commands.applied, a)
	return a
}

// ended checks the commit that ends a counter's life: somebody wants it ended, or has begun to, and
// nothing of it stays.
func (c *checker) ended(id string, k *counter, before *Document) {
	if c.hosted == nil && !k.ends(c.now) && (before == nil || !before.Deleting) {
		c.fail("the life of %q is ended, which nobody has asked for", id)
	}
	stays := func(what string, there bool) {
		if there {
			c.fail("the life of %q is ended, and its %s stay: %v", id, what, slices.Concat(slices.Sorted(maps.Keys(k.shards)), slices.Sorted(maps.Keys(k.members))))
		}
	}
	stays("shards", len(k.shards) > 0)
	stays("members", len(k.members) > 0)
	stays("documents", k.ledger != nil || c.hosted == nil && k.doc != nil)
}

// app checks what a commit did to the app's document, and to what is below one that is gone.
func (c *checker) app(id string, k *counter, before, was *Document) {
	if k.doc == nil && before != nil && (was == nil || !was.Gone) { // or else it was back for a while in which nothing looked at it
		k.goneSince = c.now
	}
	if k.doc != nil && (before == nil || before.Title != k.doc.Title) && !k.titles[k.doc.Title] {
		c.fail("the title of %q is %d, which the app never wrote", id, k.doc.Title)
	}
	if k.doc != nil && len(k.doc.Others) > 0 {
		c.fail("the app's document %q has fields that are nobody's: %v", id, k.doc.Others)
	}
	if was == nil || k.ledger != nil {
		return
	}
	if gone := c.now.Sub(k.goneSince); k.doc != nil || gone < c.hosted.CleanupAfter && !k.ends(c.now) {
		c.fail("what is below %q is removed, whose document is %s and was gone for %s", id, k.doc, gone)
	}
}

// exact is what the counter holds: its shards, and what its ledger has beyond them. Texts and null
// are in no sum.
func (c *checker) exact(k *counter) int64 {
	sum := k.shardSum()
	if k.ledger != nil {
		sum.add(k.ledger.Base)
	}
	return sum.int64()
}

// known is what a counter's ledger should have: what it holds, and what was last counted of shards that
// hold no integer.
func (c *checker) known(k *counter) int64 {
	sum := k.shardSum()
	sum.add(k.ledger.Base)
	for id, s := range k.shards {
		if s.Odd {
			sum.add(k.ledger.States[id].Count)
		}
	}
	return sum.int64()
}

// fraction reports whether one of the shards holds one.
func (k *counter) fraction() bool {
	for _, s := range k.shards {
		if s.Fraction {
			return true
		}
	}
	return false
}

func (k *counter) total() int64 {
	if k.doc == nil {
		return 0
	}
	return k.doc.Total
}

// counted checks what a commit added to shards besides members.
func (c *checker) counted(id string, k *counter, d deed, added int64, found map[*intent]int) {
	switch {
	case d.over, d.command, k.byHand > 0 && d.deletes, k.snippets > 0 && added < 0: // who makes a counter sets to zero what is there
		return
	case len(d.shardsMade) > 0 && (k.doc == nil || k.doc.Deleting) && k.snippets == 0 && !k.ends(c.now):
		c.fail("a commit makes shards %v of %q, which isn't there", d.shardsMade, id)
	case d.deletes && d.inUse:
		c.fail("a commit deletes a shard that %q has", id)
	case d.deletes && added != 0 && c.now.Sub(k.fractionSince) > 10*time.Minute: // a shard that others are added to was read before
		c.fail("a commit deletes shards of %q, and its sum changes by %d", id, added)
	case Named(id):
		c.names(id, k, added, found)
	}
}

// names reads the names of the increments that a commit holds.
func (c *checker) names(id string, k *counter, delta int64, found map[*intent]int) {
	for rest := delta; rest != 0; {
		bit := rest & -rest
		if Signed(id) && rest&(bit<<1) != 0 {
			bit = -bit
		}
		rest -= bit
		i := k.names[bit]
		switch {
		case i == nil:
			c.fail("a commit adds %d to %q; no call ever asked for %d of it", delta, id, bit)
			return
		case i.applied:
			c.fail("increment %v is applied twice", i.adds)
		case i.refused == i.begun:
			c.fail("increment %v was refused, and is applied", i.adds)
		}
		found[i]++
	}
}

// viewed checks that the total in the counter's document is what its ledger has, whatever the
// commit is for. Others may write something else there, or make the document anew; then it is right
// again once something is counted in fair weather.
func (c *checker) viewed(id string, k *counter, d deed, before, was *Document) {
	written := before != nil && k.doc != nil && before.Total != k.doc.Total
	others := false
	if d.made && c.hosted == nil && k.doc.NumShards == 0 && (was != nil || k.ledger == nil) { // adoption makes one
		c.fail("a commit that makes no counter makes the document of %q: %s", id, k.doc)
	}
	switch {
	case k.doc == nil:
		return
	case k.agrees():
		k.stale = false
		return
	case d.made:
		others = c.hosted != nil || k.snippets > 0
	case written && k.ledger == was:
		if others = k.writers > 0; !others {
			c.fail("a commit changes the total of %q, and not its ledger", id)
			others = true
		}
		k.writers = max(0, k.writers-1)
	case k.ledger == nil || k.stale:
		return
	}
	if others || c.older && !written {
		k.stale, k.drift, c.drift = true, true, true
	} else if !k.stale && k.ledger != nil {
		c.fail("after a commit the total of %q is %d; its ledger has %d (base %d)", id, k.doc.Total, k.ledger.sum(), k.ledger.Base)
		k.stale = true // said once
	}
}

// agrees reports whether the total is what the ledger has.
func (k *counter) agrees() bool { return k.ledger != nil && k.ledger.sum() == k.doc.Total }

// sum is what a ledger makes of the total.
func (d *Document) sum() int64 {
	var sum wide
	sum.add(d.Base)
	for _, s := range d.States {
		sum.add(s.Count)
	}
	return sum.int64()
}

// stated checks what a commit wrote into the ledger: the newer replaces the older, and each is what
// its shard held at that time, or that it was deleted then.
func (c *checker) stated(id string, k *counter, before *Document) {
	l := k.ledger
	if l == nil || l == before {
		return
	}
	for shard, s := range l.States {
		var was State
		had := false
		if before != nil {
			was, had = before.States[shard]
		}
		if had && was == s {
			continue
		}
		count, known := k.versions[shard][s.AsOf]
		switch {
		case had && s.AsOf <= was.AsOf:
			c.fail("the ledger of %q goes back: shard %s has %v after %v", id, shard, s, was)
		case k.odd[shard][s.AsOf]:
			if ways := k.enters(shard, was, s.AsOf); !slices.ContainsFunc(slices.Collect(maps.Keys(ways)), func(w entered) bool { return w.count == s.Count }) {
				c.fail("the ledger of %q has %d for shard %s as of %d, when it was no integer; it had %d", id, s.Count, shard, s.AsOf, was.Count)
			}
		case before != nil && !had && s.Count != 0 && s.AsOf <= k.floor(before):
			c.fail("the ledger of %q goes back: shard %s has %v, of before its floor", id, shard, s)
		case known && count != s.Count:
			c.fail("the ledger of %q has %d for shard %s as of %d; it held %d", id, s.Count, shard, s.AsOf, count)
		case !known && s.Count != 0:
			c.fail("the ledger of %q has %d for shard %s as of %d; it never held that in this life", id, s.Count, shard, s.AsOf)
		case !known && !k.deletions[shard][s.AsOf]:
			c.fail("the ledger of %q has shard %s for deleted as of %d; it never was", id, shard, s.AsOf)
		}
	}
}
