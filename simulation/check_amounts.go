package simulation

import "fmt"

// amounts is what is known of holds of amounts of a counter.
type amounts struct {
	records map[string]*heldAmount // :: record
	byID    map[string]*heldAmount // :: the caller's id, once there is a record
	asked   map[string]map[int64]bool
}

// heldAmount is a hold's record.
type heldAmount struct {
	*Document
	entry   int  // of the commit that changed it last
	removed bool // its counter was deleted
}

// counts is how much of it the shards count.
func (d *Document) countsOf() int64 {
	switch {
	case d == nil:
		return 0
	case d.State == "held":
		return d.Amount
	case d.State == "settled":
		return d.Used
	}
	return 0
}

// beginHold is the begin of a call about a hold.
func (c *checker) beginHold(k *call) {
	n := c.counter(k.Counter)
	k.from = len(n.series) - 1
	n.gives, n.shrinks = true, true
	if k.Kind == GiveBack {
		return
	}
	n.asked(k.To)
	if n.amounts.asked == nil {
		n.amounts.asked = map[string]map[int64]bool{}
	}
	what := string(k.Kind) + " " + k.Hold
	if n.amounts.asked[what] == nil {
		n.amounts.asked[what] = map[int64]bool{}
	}
	n.amounts.asked[what][k.To] = true
}

// heldBy takes the records of a commit into what is known, and returns by how much they change what shards count. Each
// hold is made once, for what was asked, and ends once: settled for what was asked, or given back.
func (c *checker) heldBy(id string, k *counter, d *deed, changes []Change) (delta int64) {
	ends := false
	for _, ch := range changes {
		if ch.Doc.Kind != "hold" {
			continue
		}
		was, is := ch.Before, ch.After
		delta += is.countsOf() - was.countsOf()
		if k.amounts.records == nil {
			k.amounts.records, k.amounts.byID = map[string]*heldAmount{}, map[string]*heldAmount{}
		}
		now := &heldAmount{entry: c.at, removed: is == nil}
		if now.Document = is; is == nil {
			now.Document = was
		}
		k.amounts.records[ch.Doc.Member] = now
		if now.ID != "" {
			k.amounts.byID[now.ID] = now
		}
		switch {
		case is == nil: // TTL, or its counter is deleted
			if was.State == "held" && !k.ending() {
				c.fail("the open hold %s of %q is deleted", was.ID, id)
			}
			if was.State != "held" {
				delta -= is.countsOf() - was.countsOf()
			}
			ends = ends || was.State == "held"
		case was == nil || was.State == "":
			if is.State == "held" && !k.amounts.asked[string(Reserve)+" "+is.ID][is.Amount] {
				c.fail("%d of %q are held as %q, for which nobody asks", is.Amount, id, is.ID)
			}
			if is.State == "settled" {
				c.fail("a hold of %q begins settled", id)
			}
		case was.State == "held" && is.State == "held": // its end is put off
		case was.State == "held":
			ends = true
			if is.Amount != was.Amount || is.State == "settled" && !k.amounts.asked[string(Settle)+" "+is.ID][is.Used] {
				c.fail("the hold %s of %q is settled for %d, for which nobody asks: %s, then %s", is.ID, id, is.Used, was, is)
			}
		default:
			c.fail("a hold of %q that was over changes: %s, then %s", id, was, is)
		}
	}
	if ends && !d.over && !k.ending() && !k.limits.loose && d.delta != delta {
		c.fail("holds of %q end, of which the shards are to count %d, and they count %d", id, delta, d.delta)
	}
	return delta
}

// open is how much open holds have.
func (k *counter) openHolds() (n int64) {
	for _, h := range k.amounts.records {
		if h.State == "held" && !h.removed {
			n += h.Amount
		}
	}
	return n
}

// endHold checks what somebody was told about a hold.
func (c *checker) endHold(k *call, e End) {
	n := c.counter(k.Counter)
	what := fmt.Sprintf("%s %d of %q as %s", k.Kind, k.To, k.Counter, k.Hold)
	if e.Full != nil {
		more := k.To
		h := n.amounts.byID[k.Hold]
		if k.Kind == Settle && h != nil {
			more -= h.Amount
		}
		c.refusedBesideHolds(what, k, e.Full)
		c.refusedFor(what, k.from, e.Full, func(p point) bool { return more <= p.limit-p.sum })
		return
	}
	if e.Hold == nil || e.Outcome == Unknown || n.lives.ended > 0 || n.ending() { // or it went with an earlier life
		return
	}
	h := n.amounts.byID[k.Hold]
	switch {
	case h == nil: // only what stands in the way of one has no id
		if e.Hold.State != "ended" || e.Hold.Held != 0 {
			c.fail("%s was answered %+v, and there is no record", what, *e.Hold)
		}
	case e.Outcome == OK && k.Kind == Settle && (h.State != "settled" || h.Used != k.To):
		c.fail("%s was acknowledged, and its record is %s", what, h.Document)
	case e.Outcome == OK && k.Kind == Reserve && h.Amount != k.To:
		c.fail("%s was acknowledged, and its record is %s", what, h.Document)
	case e.Hold.State == "ended" && h.State != "ended", e.Hold.State == "settled" && (h.State != "settled" || h.Used != e.Hold.Used):
		c.fail("%s was answered %+v, and its record is %s", what, *e.Hold, h.Document)
	}
}

// heldAmounts checks that no hold of an amount outlasts a reconcile.
func (c *checker) heldAmounts(id string, k *counter) {
	for _, h := range k.amounts.records {
		if h.State == "held" && !h.removed && h.Until < c.newest-60e6 && k.doc != nil {
			c.fail("after a reconcile, %s of %q holds %d, and its time was over at %d", h.ID, id, h.Amount, h.Until)
		}
	}
}
