package simulation

import (
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"
)

// commit takes a commit into what is known, and checks what it did.
func (c *checker) commit(e Commit) {
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
	born       bool  // made by what is added to it, with its shards and no ledger
	deletes    bool  // shards
	inUse      bool  // of these, one that the counter has, by its number of shards
	command    bool  // has an op id that the ledger had not
	total      bool  // is changed, and the ledger isn't
	delta      int64 // of the sum of the shards
	updates    int64 // the part of it that is updates
	members    int64 // the part of it that is members'
	shardsMade []string
}

func (c *checker) commitTo(id string, at time.Time, changes []Change, found map[*intent]int) {
	k := c.counter(id)
	before, ledgerBefore := k.doc, k.ledger
	var d deed
	for _, ch := range changes {
		switch ch.Doc.Kind {
		case "counter":
			d.made, d.gone = ch.Before == nil, ch.After == nil
			d.total = !d.made && !d.gone && ch.Before.Total != ch.After.Total
			if c.hosted == nil && !d.made && !d.gone && ch.After.NumShards < ch.Before.NumShards && c.now.Sub(k.resized) > 10*time.Minute {
				c.fail("%q has %d shards instead of %d, and no command resized it", id, ch.After.NumShards, ch.Before.NumShards)
			}
			k.doc = ch.After
		case "ledger":
			k.ledger = ch.After
		}
	}
	if d.made {
		k.made = at.UnixMicro()
	}
	if d.gone {
		k.gone = at
	}
	if (k.ledger == nil) != (ledgerBefore == nil) || k.ledger != nil && ledgerBefore.LedgerID != k.ledger.LedgerID {
		k.begun = at.UnixMicro()
	}
	// An increment revives a counter that was deleted by hand: its shards and its ledger stay, and what was counted of them
	// is taken off. What is below a document of the app's goes on with the next one, counted yet or not.
	revived := d.made && ledgerBefore != nil && (c.own(k) != nil || c.hosted != nil && k.ledger != nil)
	if d.made && !revived {
		k.live()
	}
	if c.hosted != nil {
		c.app(id, k, before, ledgerBefore)
	}
	if d.total && k.ledger == ledgerBefore && !c.right(k) {
		if k.writers == 0 {
			c.fail("a commit changes the total of %q, and not its ledger", id)
		}
		k.writers, k.foreign, k.drift, c.foreign = max(0, k.writers-1), true, true, true
	}
	for _, ch := range changes {
		if ch.Doc.Kind != "shard" {
			continue
		}
		c.expected(k, at.UnixMicro(), ch)
		was, is := k.shards[ch.Doc.Shard], ch.After
		if was != nil {
			d.delta -= was.Count
		}
		if is == nil {
			d.deletes, k.deleted[ch.Doc.Shard] = true, true
			if n, err := strconv.ParseInt(ch.Doc.Shard, 10, 64); err == nil && k.doc != nil && n < k.doc.NumShards {
				d.inUse = true
			}
			delete(k.shards, ch.Doc.Shard)
			continue
		}
		d.delta += is.Count
		if was == nil {
			d.shardsMade = append(d.shardsMade, ch.Doc.Shard)
		} else {
			d.updates += is.Count - was.Count
		}
		k.shards[ch.Doc.Shard] = is
		if k.versions[ch.Doc.Shard] == nil {
			k.versions[ch.Doc.Shard] = map[int64]int64{}
		}
		k.versions[ch.Doc.Shard][is.Updated] = is.Count
	}
	if l := k.ledger; l != nil {
		for _, op := range l.Ops {
			command, _, _ := strings.Cut(op, "-") // without its attempt
			if !k.ops[command] {
				k.ops[command], d.command = true, true
			} else if ledgerBefore != nil && !slices.Contains(ledgerBefore.Ops, op) {
				c.fail("command %s of %q is applied twice", op, id)
			}
		}
	}
	d.born = d.made && !revived && k.ledger == nil && len(d.shardsMade) > 0
	c.based(id, k, d, ledgerBefore, before, revived)
	d.members = c.moved(id, k, d, revived, changes)
	c.counted(id, k, d, before, revived, found)
	c.agreed(id, k, d, before, ledgerBefore != nil)
	c.summed(id, k)
	if c.hosted != nil && k.doc != nil && k.doc != before && k.ledger != nil && ledgerBefore != nil &&
		!maps.Equal(k.ledger.Shards, ledgerBefore.Shards) && !c.right(k) { // not one of a revision that doesn't know the field
		c.fail("a flush leaves the total of %q at %d, which the app wrote; its ledger has %d", id, k.doc.Total, k.ledger.sum())
	}
	c.stated(id, k, ledgerBefore, revived)
	if d.made {
		k.creations++
		// Events that came while it was gone have been acknowledged: the next ones bring their states along, or a reconcile.
		k.dropped = k.dropped || c.exact(k) != k.total()
	}
	k.series = append(k.series, point{at: c.now, there: k.doc != nil && !k.doc.Deleting, exact: c.exact(k), total: k.total(), shards: k.sum(), members: int64(len(k.members))})
}

// app checks what a commit did to the app's document, and to what is below one that is gone.
func (c *checker) app(id string, k *counter, before, ledgerBefore *Document) {
	switch {
	case k.doc == nil && before != nil:
		if ledgerBefore == nil || !ledgerBefore.Gone { // or else it was back for a while in which nothing looked at it
			k.goneSince = c.now
		}
	case k.doc != nil && before == nil: // with whatever totals the app has made it
		k.drift, k.foreign, c.foreign = true, true, true
	}
	if k.doc != nil && (before == nil || before.Title != k.doc.Title) && !k.titles[k.doc.Title] {
		c.fail("the title of %q is %d, which the app never wrote", id, k.doc.Title)
	}
	if k.doc != nil && len(k.doc.Others) > 0 {
		c.fail("the app's document %q has fields that are nobody's: %v", id, k.doc.Others)
	}
	if ledgerBefore == nil || k.ledger != nil {
		return
	}
	if gone := c.now.Sub(k.goneSince); k.doc != nil || gone < c.hosted.CleanupAfter {
		c.fail("what is below %q is removed, whose document is %s and was gone for %s", id, k.doc, gone)
	}
}

// live begins a new life: what an earlier counter of that id had is no version of this one's, but for what is there.
func (k *counter) live() {
	maps.Copy(k.before, k.deleted)
	k.versions, k.deleted = map[string]map[int64]int64{}, map[string]bool{}
	for id, s := range k.shards {
		k.versions[id] = map[int64]int64{s.Updated: s.Count}
	}
}

// own is the counter's own ledger, if the field is counted in it. A document of the app's own has what is below it.
func (c *checker) own(k *counter) *Document {
	if k.doc == nil || k.ledger == nil || k.ledger.Lacks || c.hosted == nil && k.doc.LedgerID != k.ledger.LedgerID {
		return nil
	}
	return k.ledger
}

// exact is what the counter holds: its shards, and what its ledger has beyond them.
func (c *checker) exact(k *counter) int64 {
	sum := k.sum()
	if l := c.own(k); l != nil {
		sum += l.Base
	}
	return sum
}

func (k *counter) total() int64 {
	if k.doc == nil {
		return 0
	}
	return k.doc.Total
}

// unseen reports whether other programs have written shards since the sender of a late commit, which makes the counter now, looked
// for any. A reconcile counts them.
func (c *checker) unseen(k *counter) bool {
	if c.now.Sub(k.arrived) > time.Second {
		return false
	}
	for _, s := range k.shards {
		if s.Updated < c.now.UnixMicro() && s.Updated > k.planned.UnixMicro() {
			return true
		}
	}
	return false
}

// counted checks what a commit added to shards.
func (c *checker) counted(id string, k *counter, d deed, before *Document, revived bool, found map[*intent]int) {
	if len(d.shardsMade) > 0 && (k.doc == nil || k.doc.Deleting) && k.makers == 0 {
		c.fail("a commit makes shards %v of %q, which isn't there", d.shardsMade, id)
	}
	switch {
	case d.made, d.gone, before == nil, before.Deleting, k.doc == nil:
		if d.made && k.doc.NumShards == 0 && c.own(k) == nil && c.hosted == nil {
			c.fail("a commit that makes no counter makes the document of %q: %s", id, k.doc)
		}
		// Adoption may make a counter of what is there, which its total has then.
		if d.made && !revived && c.own(k) != nil && c.exact(k) != k.doc.Total && !c.unseen(k) {
			c.fail("%q is made with a total of %d, and holds %d, of an earlier counter", id, k.doc.Total, c.exact(k))
		}
		if d.born && Named(id) {
			c.names(id, k, d.delta-d.members, found)
		}
		if !d.made && !d.deletes && d.updates > d.members && Named(id) { // an increment of what is left of an earlier counter
			c.names(id, k, d.updates-d.members, found)
		}
		return
	case d.command:
		return
	case d.deletes:
		if d.inUse && k.byHand == 0 && c.now.Sub(k.resized) > 10*time.Minute { // one that runs beside another makes up for it
			c.fail("a commit deletes a shard that %q has", id)
		}
		if d.delta != 0 && k.byHand == 0 {
			c.fail("a commit deletes shards of %q, and its sum changes by %d", id, d.delta)
		}
		return
	}
	if Named(id) && !(d.delta < 0 && k.makers > 0) { // who makes shards sets to zero what is there
		c.names(id, k, d.delta-d.members, found)
	}
}

// names reads the names of the increments that a commit holds.
func (c *checker) names(id string, k *counter, delta int64, found map[*intent]int) {
	for rest := uint64(delta); rest != 0; rest &= rest - 1 {
		bit := int64(1) << bits.TrailingZeros64(rest)
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

// summed checks the total.
func (c *checker) summed(id string, k *counter) {
	if c.right(k) {
		k.foreign = false
	} else if !k.foreign {
		c.fail("after a commit the total of %q is %d; its ledger has %d (base %d)", id, k.doc.Total, c.own(k).sum(), c.own(k).Base)
		k.foreign = true // said once
	}
}

// right reports whether the total is what the counter's own ledger has, if there is one.
func (c *checker) right(k *counter) bool { return c.own(k) == nil || c.own(k).sum() == k.doc.Total }

// sum is what a ledger makes of the total.
func (d *Document) sum() int64 {
	sum := d.Base
	for _, s := range d.Shards {
		sum += s.Count
	}
	return sum
}

// stated checks what a commit wrote into the ledger.
func (c *checker) stated(id string, k *counter, before *Document, revived bool) {
	l := c.own(k)
	if l == nil || l == before {
		return
	}
	for shard, s := range l.Shards {
		var was State
		had := false
		if before != nil && (revived || before.LedgerID == l.LedgerID) {
			was, had = before.Shards[shard]
		}
		if had && was == s {
			continue
		}
		if had && s.AsOf <= was.AsOf {
			c.fail("the ledger of %q goes back: shard %s has %v after %v", id, shard, s, was)
		}
		count, known := k.versions[shard][s.AsOf]
		switch {
		case known && count != s.Count:
			c.fail("the ledger of %q has %d for shard %s as of %d; it held %d", id, s.Count, shard, s.AsOf, count)
		case !known && s.Count != 0:
			c.fail("the ledger of %q has %d for shard %s as of %d; it never held that in this life", id, s.Count, shard, s.AsOf)
		case !known && !revived && !k.deleted[shard] && !k.before[shard]: // a counter that is revived begins with shards that hold nothing
			c.fail("the ledger of %q has shard %s for deleted as of %d; it never was", id, shard, s.AsOf)
		}
	}
}
