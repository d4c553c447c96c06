package simulation

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// commit takes a commit into what is known, and checks what it did.
func (c *checker) commit(e Commit) {
	if at := e.At.UnixMicro(); at > c.newest {
		c.newest, c.newestAt = at, c.now
	}
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

// clock is Firestore's time, in microseconds, as the last commit has told it.
func (c *checker) clock() int64 { return c.newest + c.now.Sub(c.newestAt).Microseconds() }

// deed is what a commit did to a counter.
type deed struct {
	doc, made, gone bool // its document was written, made, deleted
	base, hadBase   bool // its base was written; there was one
	over            bool // its life is over, or its deletion has begun
	marked, swept   bool // its deletion has begun with it; had begun before
	deletes         bool // shards
	odd             bool // one of its shards holds no integer any more
	fraction        bool // but a double that stands for none
	inUse           bool // of these, one that the counter has, by its number of shards
	resized         bool // it has another number of shards
	edited          bool // its total is another by a command
	delta           int64
	shardsMade      []string
}

func (c *checker) commitTo(id string, at time.Time, changes []Change, found map[*intent]int) {
	k := c.counter(id)
	before, mark := k.doc, k.base
	d := deed{hadBase: k.base != nil, swept: k.ending()}
	for _, ch := range changes {
		switch ch.Doc.Kind {
		case "counter":
			d.doc, d.made, d.gone = true, ch.Before == nil, ch.After == nil
			d.resized = !d.made && !d.gone && ch.After.NumShards != ch.Before.NumShards
			if c.hosted == nil && !d.made && !d.gone && ch.After.NumShards < ch.Before.NumShards && c.now.Sub(k.resized) > 10*time.Minute {
				c.fail("%q has %d shards instead of %d, and no command resized it", id, ch.After.NumShards, ch.Before.NumShards)
			}
			k.doc = ch.After
		case "base":
			d.base = ch.After != nil
			k.base = ch.After
		}
	}
	for _, ch := range changes {
		if ch.Doc.Kind == "shard" {
			counts := ch.counts() && (c.declared != nil) == strings.Contains(ch.Doc.Shard, "~") // or it is another field's
			k.shard(at.UnixMicro(), ch, &d, counts)
			k.again = k.again || c.fair && counts
		}
	}
	p := k.point(c.now)
	if d.fraction {
		k.fractionSince = c.now
	}
	if d.odd && !k.oddly {
		c.fail("a commit makes a shard of %q no integer, and nothing else wrote there", id)
	}
	d.marked = k.ending() && !d.swept
	// Who writes a mark, or deletes the counter again because nobody can read that, has the sweep take what was made
	// since.
	anew := k.ending() && d.swept && k.base.Since != mark.Since
	for _, ch := range changes { // who joins a shard that was there at the mark goes with it
		if (ch.Doc.Kind == "member" || ch.Doc.Kind == "hold") && ch.Before == nil && ch.After != nil && k.left["shard "+ch.After.CountedOn] {
			k.left[ch.Doc.Kind+" "+ch.Doc.Member] = true
		}
	}
	left := len(k.left)
	for _, ch := range changes {
		if ch.After == nil || ch.Doc.Kind == "hold" && ch.After.State != "held" {
			delete(k.left, ch.Doc.Kind+" "+ch.Doc.Shard+ch.Doc.Member)
		}
	}
	if d.marked || anew {
		k.left = k.below()
	}
	// A call's own commit, which changes shards, ends nothing: who leaves may have been there at the mark.
	sweeps := !slices.ContainsFunc(changes, func(ch Change) bool { return ch.Doc.Kind == "shard" && ch.After != nil })
	d.over = d.marked || anew || sweeps && len(k.left) < left || d.hadBase && k.base == nil || d.gone && c.hosted == nil || d.deletes && k.doc == nil && k.base == nil && len(k.shards) == 0
	if c.hosted != nil {
		c.app(id, k, before, d)
	}
	c.seen(id, k, before)
	c.based(id, k, &d, before)
	members := c.moved(id, k, d, changes)
	holds := c.heldBy(id, k, &d, changes)
	if d.marked && c.hosted == nil && !k.ends(c.now) {
		c.fail("%q is marked as being deleted, which nobody has asked for", id)
	}
	if d.over && !k.ending() {
		k.shrinks = k.shrinks || k.byHand == 0 || c.hosted != nil // whose cleanup is beside whoever deletes documents
		if k.byHand == 0 {
			c.ended(id, k, d)
			k.lives.ended++
			c.endedOnce(id, k)
		}
	}
	c.counted(id, k, d, d.delta-members-holds, found)
	c.agreed(id, k)
	p.beyond, p.lost, p.members = k.beyond, k.lost, int64(len(k.members))
	k.series = append(k.series, p)
	c.viewed(id, k, d, before)
	c.limited(id, k, d)
	if d.made {
		k.made++
	}
}

// below are the counter's shards and members.
func (k *counter) below() map[string]bool {
	all := map[string]bool{}
	for id := range k.shards {
		all["shard "+id] = true
	}
	for id := range k.members {
		all["member "+id] = true
	}
	for id, h := range k.amounts.records {
		if h.State == "held" && !h.removed {
			all["hold "+id] = true
		}
	}
	return all
}

// ending reports whether the counter is being deleted.
func (k *counter) ending() bool { return k.base != nil && k.base.Deleting }

// there reports whether the counter is, and isn't being deleted.
func (k *counter) there() bool { return k.doc != nil && !k.ending() }

// point is the counter as it is after a commit.
func (k *counter) point(now time.Time) point {
	p := point{at: now, there: k.there(), shows: k.doc != nil, fraction: k.fraction(), total: k.total(), beyond: k.beyond}
	p.sum, p.vague, p.huge = k.summed()
	for _, s := range k.shards {
		p.limited, p.limit, p.joined = p.limited || s.Shared, p.limit+s.Share, p.joined+s.Joined
		p.held += s.Held
	}
	return p
}

// shard takes a shard's change into what is known.
func (k *counter) shard(at int64, ch Change, d *deed, counts bool) {
	id := ch.Doc.Shard
	if counts {
		k.waiting[event{ch.Doc, at}] = waits{point: len(k.series)}
	}
	was, is := k.shards[id], ch.After
	if was != nil {
		d.delta -= was.Count
	}
	if is == nil {
		d.deletes = true
		if n, err := strconv.ParseInt(id, 10, 64); err == nil && k.there() && n < k.doc.NumShards {
			d.inUse = true
		}
		delete(k.shards, id)
		return
	}
	d.delta += is.Count
	if was == nil {
		d.shardsMade = append(d.shardsMade, id)
	}
	k.shards[id] = is
	d.odd = d.odd || is.Odd && (was == nil || !was.Odd)
	d.fraction = d.fraction || is.Odd && is.Double && (was == nil || !was.Odd)
}

// ended checks the commit that ends a counter's life: somebody wants it ended, or has begun to, and
// nothing of it stays.
func (c *checker) ended(id string, k *counter, d deed) {
	if c.hosted == nil && !k.ends(c.now) && !d.swept {
		c.fail("the life of %q is ended, which nobody has asked for", id)
	}
	if d.swept { // what came after the mark is of the next life
		if len(k.left) > 0 {
			c.fail("the life of %q is ended, and of what was there at its mark %v stay", id, slices.Sorted(maps.Keys(k.left)))
		}
		return
	}
	stays := func(what string, there bool) {
		if there {
			c.fail("the life of %q is ended, and its %s stay: %v", id, what, slices.Concat(slices.Sorted(maps.Keys(k.shards)), slices.Sorted(maps.Keys(k.members))))
		}
	}
	stays("shards", len(k.shards) > 0)
	stays("members", len(k.members) > 0)
	stays("documents", k.base != nil || c.hosted == nil && k.doc != nil)
}

// briefly is for how long an app's document may be back without anybody noticing: a walk comes once an hour, and may be
// cut short.
const briefly = 3 * time.Hour

// app checks what a commit did to the app's document, and to what is below one that is gone.
func (c *checker) app(id string, k *counter, before *Document, d deed) {
	switch {
	case before == nil && k.doc != nil:
		k.backSince = c.now
	case before != nil && k.doc == nil && (k.goneSince.IsZero() || c.now.Sub(k.backSince) > briefly), k.doc == nil && d.base && !d.hadBase && k.goneSince.IsZero():
		k.goneSince = c.now // or it never was there
	}
	if k.doc != nil && (before == nil || before.Title != k.doc.Title) && !k.titles[k.doc.Title] {
		c.fail("the title of %q is %d, which the app never wrote", id, k.doc.Title)
	}
	if k.doc != nil && len(k.doc.Others) > 0 {
		c.fail("the app's document %q has fields that are nobody's: %v", id, k.doc.Others)
	}
	if !d.marked && (d.swept || !d.hadBase || k.base != nil) {
		return
	}
	if gone := c.now.Sub(k.goneSince); k.doc != nil || gone < c.hosted.CleanupAfter && !k.ends(c.now) {
		c.fail("what is below %q is removed, whose document is %s and was gone for %s", id, k.doc, gone)
	}
	k.goneSince = time.Time{}
}

// fraction reports whether one of the shards holds one.
func (k *counter) fraction() bool {
	for _, s := range k.shards {
		if s.Odd && s.Double {
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
	case d.over, k.byHand > 0 && d.deletes, k.snippets > 0 && added < 0: // who makes a counter sets to zero what is there
		return
	case len(d.shardsMade) > 0 && !k.there() && k.snippets == 0 && !k.ends(c.now) &&
		(!k.oddly || k.doc == nil): // who writes no integer makes shards of a document that is there, also while a deletion is unfinished
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
