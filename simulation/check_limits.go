package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// limits are what is known of a field's limit.
type limits struct {
	asked    map[int64]*limitCall // :: limit → the call that sets it: no other sets the same
	removals int                  // that were asked for and not refused, and those that are applied taken off
	loose    bool                 // somebody deletes documents one by one, or makes shards, as no rule has it
	stale    bool                 // the app has written another one into its document since that was last right
}

// limitCall is a call that is to set a limit.
type limitCall struct{ refused, applied bool }

// beginLimit is the begin of a call that sets a limit, or removes it.
func (c *checker) beginLimit(k *call) {
	n := c.counter(k.Counter)
	k.from = len(n.series) - 1
	if k.Kind == Unlimit {
		n.limits.removals++
		return
	}
	if n.limits.asked == nil {
		n.limits.asked = map[int64]*limitCall{}
	}
	n.limits.asked[k.To] = &limitCall{}
}

// endLimit checks what the caller of one was told.
func (c *checker) endLimit(k *call, e End) {
	n := c.counter(k.Counter)
	window := n.series[k.from:]
	had := func(holds func(point) bool) bool { return n.limits.loose || slices.ContainsFunc(window, holds) }
	switch {
	case e.Outcome == Unknown:
	case e.Outcome == Refused && k.Kind == Unlimit:
		n.limits.removals--
	case e.Outcome == Refused:
		if n.limits.asked[k.To].refused = true; n.limits.asked[k.To].applied {
			c.fail("a limit of %d of %q was refused (%s), and is applied", k.To, k.Counter, e.Detail)
		}
		if e.Full != nil && !had(func(p point) bool { return p.shards == e.Full.Taken && p.shards > k.To }) {
			c.fail("a limit of %d of %q was refused, because %d are taken, which were at no moment: %s", k.To, k.Counter, e.Full.Taken, rooms(window))
		}
	case !had(func(p point) bool { return p.limited == (k.Kind == Limit) && (!p.limited || p.limit == k.To) }):
		c.fail("%s %d of %q was acknowledged, which it had at no moment: %s", k.Kind, k.To, k.Counter, rooms(window))
	}
}

// limited checks what a commit has left of a field's limit: no shard counts more than its share, each says
// whether it counts less, and the shares add up to the limit. before and was are the document and the ledger as
// they were before.
func (c *checker) limited(id string, k *counter, d deed, before, was *Document) {
	if k.limits.loose {
		k.tightened()
		return
	}
	for shard, s := range k.shards {
		if s.Shared && (s.Joined < 0 || s.Joined > s.Count || s.Count > s.Share) {
			c.fail("shard %s of %q counts %d, %d of them members, with a share of %d", shard, id, s.Count, s.Joined, s.Share)
		}
		if s.Room != (s.Shared && s.Count < s.Share) {
			c.fail("shard %s of %q counts %d with a share of %d, and says that it has room: %v", shard, id, s.Count, s.Share, s.Room)
		}
	}
	is := k.ledger
	if is == nil {
		return
	}
	var share, joined int64
	for shard, s := range k.shards {
		if strings.HasPrefix(shard, "limited-") != (is.Limits > 0) || s.Shared != is.Limited {
			c.fail("shard %s of %q has a share: %v; the ledger has %d limits, one of them of this field: %v", shard, id, s.Shared, is.Limits, is.Limited)
		}
		share, joined = share+s.Share, joined+s.Joined
	}
	switch {
	case share != is.Limit:
		c.fail("the shares of %q are %d together, and its limit is %d", id, share, is.Limit)
	case is.Limited && joined != int64(len(k.members)):
		c.fail("the shards of %q say that %d are members', and it has %d members", id, joined, len(k.members))
	}
	c.shown(id, k, before, was)
	if was == nil {
		was = &Document{}
	}
	resized := d.resized && before.Title == k.doc.Title // or else the app has written its document whole
	if was.Limits > 0 && is.Limits > 0 && (d.command || resized) {
		c.fail("a commit resets, rebases, resizes or imports into %q, which has a limit", id)
	}
	switch {
	case is.Limited && (!was.Limited || was.Limit != is.Limit):
		if call := k.limits.asked[is.Limit]; call == nil || call.refused || call.applied {
			c.fail("a commit gives %q a limit of %d, which nobody asks for (any more): %+v", id, is.Limit, call)
		} else {
			call.applied = true
		}
	case was.Limited && !is.Limited:
		if k.limits.removals--; k.limits.removals < 0 {
			c.fail("a commit removes the limit of %q, which nobody asks for (any more)", id)
		}
	}
}

// shown checks that the document shows the limit that its ledger has. The app may write back what it has read before,
// or make its document again: that is right with the next commit to both that has a limit to show, or a reconcile.
func (c *checker) shown(id string, k *counter, before, was *Document) {
	switch {
	case k.doc == nil || k.doc.Deleting:
	case k.showsLimit():
		k.limits.stale = false
	case c.hosted != nil && (k.ledger == was || was == nil):
		k.limits.stale = true
	case !k.limits.stale || k.ledger.Limits > 0 && k.doc != before && k.ledger != was:
		c.fail("the document of %q shows a limit of %d (%v), and its ledger has %d (%v)", id, k.doc.Limit, k.doc.Limited, k.ledger.Limit, k.ledger.Limited)
	}
}

// showsLimit reports whether the document shows the limit that its ledger has.
func (k *counter) showsLimit() bool {
	return k.doc.Limited == k.ledger.Limited && k.doc.Limit == k.ledger.Limit
}

// tightened has the rules hold again once nothing is left of what was deleted one by one.
func (k *counter) tightened() {
	k.limits.loose = k.byHand > 0 || k.snippets > 0 || k.doc != nil || k.ledger != nil || len(k.shards) > 0
}

// refusedFor checks that there was no room for what was refused, at some moment of the call from that entry
// of the counter's series on, and as much left as the caller was told.
func (c *checker) refusedFor(what string, from int, of *Full, fits func(point) bool) {
	n := c.counter(of.Counter)
	window := n.series[from:]
	if !n.limits.loose && !slices.ContainsFunc(window, func(p point) bool { return p.limited && p.limit-p.shards == of.Left && !fits(p) }) {
		c.fail("%s was refused for the limit of %q, with %d left: it had no room for that at no moment: %s", what, of.Counter, of.Left, rooms(window))
	}
}

// refusedBesideHolds checks that no hold was over all the time, whose seat whoever was refused could have got. One
// that is committed late can be over from its first moment: that may be after the one at which there was no room.
func (c *checker) refusedBesideHolds(what string, k *call, of *Full) {
	n := c.counter(of.Counter)
	for member, m := range n.members {
		changes := n.member(member).changes
		if m.Until != 0 && m.Until < k.newest && changes[len(changes)-1].entry <= k.entry {
			c.fail("%s was refused for the limit of %q, and the hold of %s was over", what, of.Counter, member)
		}
	}
}

// endConfirm checks what somebody was told who asked to keep a seat.
func (c *checker) endConfirm(k *call, e End) {
	m := c.counter(k.Counter).member(k.Member)
	switch {
	case k.Stranger:
		c.endStranger(k, e)
	case e.Outcome == OK && !m.was(k.entry, kept):
		c.fail("%s %d of %q/%s was acknowledged, and she keeps no seat", k.Kind, k.Call, k.Counter, k.Member)
	case e.Outcome == Refused && e.Missing && !m.was(k.entry, func(there *membershipChange) bool { return there == nil || there.until != 0 && there.until <= c.newest }):
		c.fail("%s %d of %q/%s was refused, and she has a seat", k.Kind, k.Call, k.Counter, k.Member)
	}
}

// heldOn checks that no hold outlasts a reconcile.
func (c *checker) heldOn(id string, k *counter) {
	for member, m := range k.members {
		if m.Until != 0 && m.Until < c.newest-60e6 && k.doc != nil {
			c.fail("after a reconcile, %q/%s holds a seat, and its time was over at %d", id, member, m.Until)
		}
	}
}

// refusedIncrement checks a refusal of an increment.
func (c *checker) refusedIncrement(k *call, of *Full) {
	if k.replay {
		c.fail("increment %v (intent %d) was refused for a limit, and was acknowledged before", k.Adds, k.Intent)
	}
	asks := func(a Add) bool { return a.Counter == of.Counter }
	if !slices.ContainsFunc(k.Adds, asks) {
		c.fail("increment %v (intent %d) was refused for the limit of %q, of which it asks nothing", k.Adds, k.Intent, of.Counter)
	}
	for at, a := range k.Adds {
		if !asks(a) {
			continue
		}
		if a.By > 0 {
			c.refusedBesideHolds(fmt.Sprintf("increment %v (intent %d)", k.Adds, k.Intent), k, of)
		}
		c.refusedFor(fmt.Sprintf("increment %v (intent %d)", k.Adds, k.Intent), k.froms[at], of, func(p point) bool {
			return a.By > 0 && a.By <= p.limit-p.shards || a.By < 0 && -a.By <= p.shards-p.joined
		})
	}
}

// refusedMember checks a refusal of a member. Who leaves always may, and who is a member stays one.
func (c *checker) refusedMember(k *call, m *member, of *Full) {
	if k.Kind == Join && !m.was(k.entry, func(there *membershipChange) bool { return there == nil }) {
		c.fail("%s %d of %q was refused for a limit, and she was one all the time", k.Kind, k.Call, k.Member)
	}
	c.refusedBesideHolds(fmt.Sprintf("%s %d of %q", k.Kind, k.Call, k.Member), k, of)
	c.refusedFor(fmt.Sprintf("%s %d of %q", k.Kind, k.Call, k.Member), k.from, of, func(p point) bool { return k.Kind == Leave || p.shards < p.limit })
}

// rooms are what there was of a limit at the last moments.
func rooms(window []point) string {
	var b strings.Builder
	for _, p := range window[max(0, len(window)-8):] {
		fmt.Fprintf(&b, " %s: %d of %d (%v), %d by members;", p.at.Format(time.StampMilli), p.shards, p.limit, p.limited, p.joined)
	}
	return b.String()
}
