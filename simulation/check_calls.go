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

	// Of an import, as of its begin:
	imported  int64     // what the ledger has of the source
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

// commands are what is known of a counter's commands that must not be applied twice. Each is one
// commit, which leaves an id in the ledger.
type commands struct {
	ids     map[string]bool // that were ever there
	asked   int
	refused int
	applied []*applied
	bases   int // that were asked for and may change the base
}

// applied is a commit of a command.
type applied struct {
	entry        int
	imports      bool
	value, added int64 // of an import
	told         bool  // to one of the callers
}

// tooMany reports whether more were applied than were asked for and not refused.
func (k *commands) tooMany() bool { return len(k.applied) > k.asked-k.refused }

// tell finds a commit since an entry that nobody was told of yet, and tells it.
func (k *commands) tell(since int, is func(*applied) bool) bool {
	for _, a := range k.applied {
		if a.entry > since && !a.told && is(a) {
			a.told = true
			return true
		}
	}
	return false
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
	case Limit, Unlimit:
		c.beginLimit(k)
	case ExactRead, Read:
		n := c.counter(b.Counter)
		k.from, k.acked = len(n.series)-1, n.acked
	case Old:
		for _, a := range b.Adds {
			c.counter(a.Counter).attempted += a.By
		}
	case Elsewhere:
		c.counter(b.Counter).commands.asked++
	case Import:
		n := c.counter(b.Counter)
		n.commands.asked++
		k.extension = c.extension
		if n.ledger != nil {
			k.imported = n.ledger.Imported
		}
	case Reset, Rebase, ResetMembers:
		n := c.counter(b.Counter)
		n.shrinks = true
		n.commands.asked++
		n.commands.bases++
		if b.To != 0 {
			n.rebases = append(n.rebases, rebase{b.To, c.look(n)})
		}
		if b.Kind == ResetMembers {
			n.emptied = c.now
		}
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
	case ExactRead:
		c.endRead(k, e, func(p point) int64 { return p.exact }, 0)
	case Read:
		c.endRead(k, e, func(p point) int64 { return p.total }, 2*time.Second) // it may be answered from memory
	case Join, Leave, Look:
		c.endMember(k, e)
	case Confirm:
		c.endConfirm(k, e)
	case Audit:
		c.endAudit(k, e)
	case Import, Elsewhere, Reset, Rebase, ResetMembers:
		c.endCommand(k, e)
	case Delete:
		n := c.counter(k.Counter)
		n.deletes--
		n.deleted = c.now
		if e.Outcome == Refused {
			n.lives.deletions--
			c.endedOnce(k.Counter, n)
		}
	case Limit, Unlimit:
		c.endLimit(k, e)
	case Resize:
		n := c.counter(k.Counter)
		if e.Outcome == OK && !slices.ContainsFunc(n.series[k.from:], func(p point) bool { return p.limits == 0 }) {
			c.fail("a resize of %q was acknowledged, which had a limit all the time", k.Counter)
		}
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

// endCommand checks what the caller of a command was told.
func (c *checker) endCommand(k *call, e End) {
	n := &c.counter(k.Counter).commands
	switch {
	case e.Outcome == Refused:
		if n.refused++; n.tooMany() {
			c.fail("%s of %q was refused (%s), and is applied", k.Kind, k.Counter, e.Detail)
		}
	case e.Outcome != OK, k.Kind == Elsewhere:
	case k.Kind == Import:
		c.endImport(k, e)
	case !n.tell(k.entry, func(a *applied) bool { return !a.imports }):
		c.fail("%s of %q was acknowledged, and is in no commit", k.Kind, k.Counter)
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
	if !slices.ContainsFunc(window, func(p point) bool {
		return p.there != e.Missing && (e.Missing || value(p) == e.Total && !(p.fraction && k.Kind == ExactRead))
	}) {
		c.fail("%s of %q returned %d (missing: %v), which it was at no moment from %s on: %s", k.Kind, k.Counter, e.Total, e.Missing, k.at.Format(time.TimeOnly), describe(window))
	}
	if k.Kind == ExactRead && !e.Missing && !n.shrinks && !n.gives && (e.Total < k.acked || e.Total > n.attempted) {
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
