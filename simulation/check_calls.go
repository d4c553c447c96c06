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

	entry  int // in the history, of a call about a member
	member *memberCall

	// Of an import, as of its begin:
	ledger    Document
	imported  int       // how many were applied
	extension time.Time // when the extension has last run
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
	k := &call{Begin: b, at: c.now}
	c.calls[b.Call] = k
	switch b.Kind {
	case Increment:
		i := c.intents[b.Intent]
		if i == nil {
			i = &intent{adds: b.Adds}
			c.intents[b.Intent] = i
			for _, a := range b.Adds {
				n := c.counter(a.Counter)
				n.attempted += a.By
				n.asked(a.By)
				n.shrinks = n.shrinks || a.By < 0
				if Named(a.Counter) {
					n.names[a.By] = i
				}
			}
		}
		i.begun++
	case ExactRead, Read:
		n := c.counter(b.Counter)
		k.from, k.acked = len(n.series)-1, n.acked
	case Import:
		n := c.counter(b.Counter)
		n.source.asks(k, n.ledger, c.extension) // which stays when the counter's document is gone, and may be its own again
	case Old:
		for _, a := range b.Adds {
			c.counter(a.Counter).attempted += a.By
		}
	case Delete, Reset, Rebase, ResetMembers:
		n := c.counter(b.Counter)
		n.shrinks = true
		n.source.bases++
		n.reset = n.reset || b.Kind == Reset || b.Kind == ResetMembers
		if b.Kind == ResetMembers {
			n.emptied = c.now
		}
	case Join, Leave, Look, Audit:
		c.beginMember(k)
	case Resize:
		c.counter(b.Counter).resized = c.now
	case MakeShards:
		c.counter(b.Counter).makers++
	case DeleteByHand:
		c.counter(b.Counter).shrinks = true
		c.counter(b.Counter).byHand++
	}
}

func (c *checker) end(e End) {
	k := c.calls[e.Call]
	delete(c.calls, e.Call)
	switch k.Kind {
	case Increment:
		c.endIncrement(k, e)
	case ExactRead:
		c.endRead(k, e, func(p point) int64 { return p.exact }, 0)
	case Read:
		c.endRead(k, e, func(p point) int64 { return p.total }, 2*time.Second) // it may be answered from memory
	case Join, Leave, Look:
		c.endMember(k, e)
	case Audit:
		c.endAudit(k, e)
	case Import:
		c.endImport(k, e)
	case MakeShards:
		c.counter(k.Counter).makers--
	case DeleteByHand:
		c.counter(k.Counter).byHand--
	case Create:
		n := c.counter(k.Counter)
		if e.Outcome == OK {
			if n.creations == 0 {
				c.fail("create of %q was acknowledged, and no commit made it", k.Counter)
			}
			n.creations = max(0, n.creations-1)
		}
	}
}

func (c *checker) endIncrement(k *call, e End) {
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
				c.counter(a.Counter).acked += a.By
			}
		}
	case Refused:
		i.refused++
		if i.refused < i.begun {
			return
		}
		if named && i.applied {
			c.fail("increment %v (intent %d) was refused (%s), and is in a commit", i.adds, k.Intent, e.Detail)
		}
	}
}

func (c *checker) endRead(k *call, e End, value func(point) int64, memory time.Duration) {
	if e.Outcome != OK {
		return
	}
	n := c.counter(k.Counter)
	from := k.from
	for memory > 0 && from > 0 && k.at.Sub(n.series[from].at) < memory {
		from--
	}
	window := n.series[from:]
	if !slices.ContainsFunc(window, func(p point) bool { return p.there != e.Missing && (e.Missing || value(p) == e.Total) }) {
		c.fail("%s of %q returned %d (missing: %v), which it was at no moment from %s on: %s", k.Kind, k.Counter, e.Total, e.Missing, k.at.Format(time.TimeOnly), describe(window))
	}
	if k.Kind == ExactRead && !e.Missing && !n.shrinks && (e.Total < k.acked || e.Total > n.attempted) {
		c.fail("exact read of %q returned %d: %d were acknowledged before it began, %d attempted before it ended", k.Counter, e.Total, k.acked, n.attempted)
	}
}

func describe(window []point) string {
	var b strings.Builder
	for _, p := range window[max(0, len(window)-8):] {
		fmt.Fprintf(&b, " %s: exact %d, total %d, there %v;", p.at.Format("15:04:05.000"), p.exact, p.total, p.there)
	}
	return b.String()
}
