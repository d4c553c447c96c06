package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// limits are what is known of a field's limit.
type limits struct {
	asked map[int64]*limitCall // :: limit → the call that sets it: no other sets the same
	loose bool                 // somebody deletes documents one by one, or makes shards, as no rule has it
}

// limitCall is a call that is to set a limit.
type limitCall struct{ refused, applied bool }

// beginLimit is the begin of a call that sets a limit.
func (c *checker) beginLimit(k *call) {
	n := c.counter(k.Counter)
	k.from = len(n.series) - 1
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
	case e.Outcome == Refused:
		if n.limits.asked[k.To].refused = true; n.limits.asked[k.To].applied {
			c.fail("a limit of %d of %q was refused (%s), and is applied", k.To, k.Counter, e.Detail)
		}
		if e.Full != nil && !had(func(p point) bool { return p.takes(e.Full.Taken) && e.Full.Taken > k.To }) {
			c.fail("a limit of %d of %q was refused, because %d are taken, which were at no moment: %s", k.To, k.Counter, e.Full.Taken, rooms(window))
		}
	case !had(func(p point) bool { return p.limited && p.limit == k.To }):
		c.fail("%s %d of %q was acknowledged, which it had at no moment: %s", k.Kind, k.To, k.Counter, rooms(window))
	}
}

// limitOf is a counter's limit: what its shares add up to, or what is declared where it has none.
func (c *checker) limitOf(p point) int64 {
	if p.limited {
		return p.limit
	}
	return *c.declared
}

// limited checks what a commit has left of a field's limit: its shards are its own, none counts more than its share,
// and the shares add up to the limit that was set, or that is declared.
func (c *checker) limited(id string, k *counter, d deed) {
	if k.limits.loose {
		k.tightened()
		return
	}
	for shard, s := range k.shards {
		if s.Shared && (s.Joined < 0 || s.Held < 0 || s.Joined+s.Held > s.Count || s.Count > s.Share) {
			c.fail("shard %s of %q counts %d, %d of them members and %d held, with a share of %d", shard, id, s.Count, s.Joined, s.Held, s.Share)
		}
		if s.Shared != (c.declared != nil && strings.Contains(shard, "~")) || c.declared != nil && !s.Shared && s.Count != 0 {
			c.fail("shard %s of %q counts %d, and has a share: %v", shard, id, s.Count, s.Shared)
		}
	}
	was, is := k.series[len(k.series)-2], k.now()
	if c.declared == nil || k.base == nil && len(k.shards) == 0 || k.ending() { // its life is over
		return
	}
	if is.limited && is.joined != is.members {
		c.fail("the shards of %q say that %d are members', and it has %d members", id, is.joined, is.members)
	}
	if open := k.openHolds(); is.limited && is.held != open {
		c.fail("the shards of %q say that %d are held, and its open holds have %d", id, is.held, open)
	}
	switch {
	case is.limited && !was.limited && is.limit == *c.declared:
	case is.limited && (!was.limited || was.limit != is.limit):
		if call := k.limits.asked[is.limit]; call == nil || call.refused || call.applied {
			c.fail("a commit gives %q a limit of %d, which nobody asks for (any more): %+v", id, is.limit, call)
		} else {
			call.applied = true
		}
	case was.limited && !is.limited && !d.over:
		c.fail("a commit takes the shares of %q away", id)
	}
}

// takes reports whether so many were taken at a point: its shards hold them, and what is beyond.
func (p point) takes(n int64) bool { return p.holds(n) }

// tightened has the rules hold again once nothing is left of what was deleted one by one.
func (k *counter) tightened() {
	k.limits.loose = k.byHand > 0 || k.snippets > 0 || k.doc != nil || k.base != nil || len(k.shards) > 0
}

// refusedFor checks that there was no room for what was refused, at some moment of the call from that entry
// of the counter's series on, and as much left as the caller was told.
func (c *checker) refusedFor(what string, from int, of *Full, fits func(point) bool) {
	n := c.counter(of.Counter)
	window := n.series[from:]
	if !n.limits.loose && !slices.ContainsFunc(window, func(p point) bool { return p.limited && p.limit-p.sum == of.Left && !fits(p) }) {
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
	for _, h := range n.amounts.records {
		if h.State == "held" && !h.removed && h.Until < k.newest && h.entry <= k.entry && (k.Kind != Settle || h.ID != k.Hold) {
			c.fail("%s was refused for the limit of %q, and the hold %s of %d was over", what, of.Counter, h.ID, h.Amount)
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
	case e.Outcome == Refused && e.Missing && !m.was(k.entry, func(there *membershipChange) bool {
		return there == nil || there.until != 0 && there.until <= c.clock()
	}):
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
			return a.By > 0 && a.By <= p.limit-p.sum || a.By < 0 && -a.By <= p.sum-p.joined-p.held
		})
	}
}

// refusedMember checks a refusal of a member. Who leaves always may, and who is a member stays one.
func (c *checker) refusedMember(k *call, m *member, of *Full) {
	if k.Kind == Join && !m.was(k.entry, func(there *membershipChange) bool { return there == nil }) {
		c.fail("%s %d of %q was refused for a limit, and she was one all the time", k.Kind, k.Call, k.Member)
	}
	c.refusedBesideHolds(fmt.Sprintf("%s %d of %q", k.Kind, k.Call, k.Member), k, of)
	c.refusedFor(fmt.Sprintf("%s %d of %q", k.Kind, k.Call, k.Member), k.from, of, func(p point) bool { return k.Kind == Leave || p.sum < p.limit })
}

// rooms are what there was of a limit at the last moments.
func rooms(window []point) string {
	var b strings.Builder
	for _, p := range window[max(0, len(window)-8):] {
		fmt.Fprintf(&b, " %s: %d of %d (%v), %d by members;", p.at.Format(time.StampMilli), p.sum, p.limit, p.limited, p.joined)
	}
	return b.String()
}
