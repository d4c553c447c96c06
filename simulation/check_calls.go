package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

type call struct {
	Begin
	at    time.Time
	from  int   // index in the counter's series as of the begin
	acked int64 // of the counter, as of the begin

	entry  int // in the history
	member *memberCall
	newest int64 // when a commit was last made before
	froms  []int // of an increment: from, of the counter of each part
	replay bool  // of an increment: it was acknowledged before

	extension time.Time // when the extension has last run before an import
}

// intent is what one or more calls want to be applied once.
type intent struct {
	adds    []Add
	begun   int
	refused int
	acked   bool
	applied bool
}

func (c *checker) begin(b Begin) {
	k := &call{Begin: b, at: c.now, entry: c.at, newest: c.newest}
	c.calls[b.Call] = k
	switch b.Kind {
	case Increment:
		i := c.intend(b.Intent, b.Adds)
		k.replay = i.acked
		if !b.Stranger { // whose calls are refused
			i.begun++
		}
		for _, a := range b.Adds {
			k.froms = append(k.froms, len(c.counter(a.Counter).series)-1)
		}
	case Limit:
		c.beginLimit(k)
	case ExactRead, Read:
		n := c.counter(b.Counter)
		k.from, k.acked = len(n.series)-1, n.acked
	case Old:
		for _, a := range b.Adds {
			n := c.counter(a.Counter)
			if a.By < 0 { // it may be less by that, and is once it is acknowledged
				n.acked, n.gives = n.acked+a.By, true
			} else {
				n.attempted += a.By
			}
		}
	case Elsewhere, Import, Reset, Rebase, ResetMembers:
		n := c.counter(b.Counter)
		k.from, k.extension = len(n.series)-1, c.extension
		if c.beginCommand(k); b.Kind == ResetMembers {
			n.emptied = c.now
		}
		n.shrinks = n.shrinks || b.Kind != Import && b.Kind != Elsewhere
	case Delete:
		n := c.counter(b.Counter)
		n.shrinks = true
		n.deletes++
		n.lives.deletions++
	case Create:
		n := c.counter(b.Counter)
		n.lives.start(b)
		n.shrinks = n.shrinks || b.Start != 0
	case Join, Leave, Look, Confirm, Audit:
		c.beginMember(k)
	case Reserve, Settle, GiveBack:
		c.beginHold(k)
	case Resize:
		n := c.counter(b.Counter)
		n.resized, k.from = c.now, len(n.series)-1
	case Snippet:
		n := c.counter(b.Counter)
		n.shrinks, n.limits.loose = true, true
		n.snippets++
	case DeleteDocument:
		c.counter(b.Counter).byHand++
	case DeleteByHand:
		n := c.counter(b.Counter)
		n.shrinks, n.limits.loose = true, true
		n.byHand++
	}
}

// intend is what one or more calls want.
func (c *checker) intend(number int, adds []Add) *intent {
	i := c.intents[number]
	if i == nil {
		i = &intent{adds: adds}
		c.intents[number] = i
		for _, a := range adds {
			n := c.counter(a.Counter)
			if n.asked(a.By); a.By < 0 { // it may be less by that, and is once it is acknowledged
				n.acked += a.By
				n.gives = true
			} else {
				n.attempted += a.By
			}
			if Named(a.Counter) {
				n.names[a.By] = i
			}
		}
	}
	return i
}

func (c *checker) end(e End) {
	k := c.calls[e.Call]
	delete(c.calls, e.Call)
	switch k.Kind {
	case Increment:
		c.endIncrement(k, e)
	case ExactRead, Read:
		c.endRead(k, e)
	case Join, Leave, Look:
		c.endMember(k, e)
	case Confirm:
		c.endConfirm(k, e)
	case Reserve, Settle, GiveBack:
		c.endHold(k, e)
	case Audit:
		c.endAudit(k, e)
	case Import, Elsewhere, Reset, Rebase, ResetMembers:
		c.endCommand(k, e)
	case Old:
		if e.Outcome == OK {
			for _, a := range k.Adds {
				c.counter(a.Counter).source.acked += a.By
			}
		}
	case Delete:
		n := c.counter(k.Counter)
		n.deletes--
		n.deleted = c.now
		if e.Outcome == Refused {
			n.lives.deletions--
			c.endedOnce(k.Counter, n)
		}
	case Limit:
		c.endLimit(k, e)
	case Snippet:
		n := c.counter(k.Counter)
		n.snippets--
		n.tightened()
	case DeleteDocument:
		c.counter(k.Counter).byHand--
	case DeleteByHand:
		n := c.counter(k.Counter)
		n.byHand--
		n.tightened()
	case Create:
		n := c.counter(k.Counter)
		if e.Outcome == OK {
			if n.made == 0 {
				c.fail("create of %q was acknowledged, and no commit made it", k.Counter)
			}
			n.made = max(0, n.made-1)
		}
		if e.Outcome == Refused && k.Start != 0 && n.lives.started[k.Start] {
			c.fail("create of %q from %d was refused (%s), and is applied", k.Counter, k.Start, e.Detail)
		}
	}
}

func (c *checker) endIncrement(k *call, e End) {
	if k.Stranger {
		c.endStranger(k, e)
		return
	}
	i := c.intents[k.Intent]
	named := Named(i.adds[0].Counter)
	switch e.Outcome {
	case OK, Replayed:
		if named && !i.applied {
			c.fail("increment %v (intent %d) was answered %q and is in no commit", i.adds, k.Intent, e.Outcome)
		}
		if !i.acked {
			i.acked = true
			for _, a := range i.adds {
				if n := c.counter(a.Counter); a.By < 0 {
					n.attempted += a.By
				} else {
					n.acked += a.By
				}
			}
		}
	case Refused:
		if e.Full != nil {
			c.refusedIncrement(k, e.Full)
		}
		i.refused++
		if i.refused < i.begun {
			return
		}
		if named && i.applied {
			c.fail("increment %v (intent %d) was refused (%s), and is in a commit", i.adds, k.Intent, e.Detail)
		}
	}
}

// endStranger checks that one who must not be let in was not.
func (c *checker) endStranger(k *call, e End) {
	if e.Outcome == OK || e.Outcome == Replayed {
		c.fail("%s %d of one who must not count was answered %q", k.Kind, k.Call, e.Outcome)
	}
}

func (c *checker) endRead(k *call, e End) {
	if e.Outcome != OK {
		return
	}
	n, from := c.counter(k.Counter), k.from
	for k.Kind == Read && from > 0 && (e.HeldUp || k.at.Sub(n.series[from].at) < 2*time.Second) { // it may be answered from memory
		from--
	}
	// A plain read sees the document alone: an app may have made its own again while what was below it goes.
	window := slices.DeleteFunc(slices.Clone(n.series[from:]), func(p point) bool {
		return p.there == e.Missing && !(k.Kind == Read && p.shows && !e.Missing)
	})
	if k.Kind == ExactRead && c.live && !e.Missing && slices.ContainsFunc(window, func(p point) bool { return p.keeps(e.Total) }) {
		return
	}
	if e.Missing && len(window) == 0 || k.Kind == ExactRead && !e.Missing && !held(window, e.Total) ||
		k.Kind == Read && !e.Missing && !slices.ContainsFunc(window, func(p point) bool { return p.total == e.Total }) {
		c.fail("%s of %q returned %d (missing: %v), which it was at no moment from %s on: %s", k.Kind, k.Counter, e.Total, e.Missing, k.at.Format(time.TimeOnly), describe(n.series[from:]))
	}
	if k.Kind == ExactRead && !e.Missing && !n.shrinks && !n.gives && (e.Total < k.acked || e.Total > n.attempted+n.beyond.adopted()) {
		c.fail("exact read of %q returned %d: %d were acknowledged before it began, %d attempted before it ended", k.Counter, e.Total, k.acked, n.attempted)
	}
}

func describe(window []point) string {
	var b strings.Builder
	for _, p := range window[max(0, len(window)-8):] {
		fmt.Fprintf(&b, " %s: exact %s, total %d, there %v;", p.at.Format("15:04:05.000"), p, p.total, p.there)
	}
	return b.String()
}
