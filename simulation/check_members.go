package simulation

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// member is what is known of one who may be a member of a counter: from when to when it was one,
// and who asked for what.
type member struct {
	changes  []*membershipChange
	calls    []*memberCall
	confirms bool // somebody asks to keep a seat that is held
}

// membershipChange is a commit that made a membership, or deleted it.
type membershipChange struct {
	entry  int
	made   bool
	since  int64 // what the membership that was made says
	until  int64 // the same
	who    author
	doneBy *memberCall
}

// author is who changes a membership.
type author int

const (
	anyCall   author = iota // one of the calls that ask for it
	ownRight                // no call: the counter is reset, or its life is over
	maybeCall               // a call, or what ends the counter's life
)

// memberCall is a call that wants a membership made or deleted.
type memberCall struct {
	call       int
	begin, end int // entries of the history; a call that may be carried out after its end has none
	join       bool
	outcome    Outcome
	there      bool // it was as asked already
	did        *membershipChange
}

// mayDo reports whether a call may have made the change.
func (k *memberCall) mayDo(ch *membershipChange) bool {
	return ch.who != ownRight && k.join == ch.made && k.begin < ch.entry && ch.entry < k.end && !k.there && k.outcome != Refused
}

// must reports whether the call was told that it has made a change.
func (k *memberCall) must() bool { return k.outcome == OK && !k.there }

// forever is the end of a call that nobody knows the outcome of.
const forever = math.MaxInt

func (k *counter) member(name string) *member {
	m := k.ofMembers[name]
	if m == nil {
		m = &member{}
		if k.ofMembers == nil {
			k.ofMembers = map[string]*member{}
		}
		k.ofMembers[name] = m
	}
	return m
}

// beginMember is the begin of a call about a member.
func (c *checker) beginMember(k *call) {
	n := c.counter(k.Counter)
	k.from, k.entry = len(n.series)-1, c.at
	switch k.Kind {
	case Join:
		n.attempted++
	case Leave:
		n.shrinks = true
	case Confirm:
		n.member(k.Member).confirms = true
		return
	default:
		return
	}
	n.member(k.Member).confirms = n.member(k.Member).confirms || k.Kind == Join
	k.member = &memberCall{call: k.Call, begin: c.at, end: forever, join: k.Kind == Join, outcome: Unknown}
	if k.Stranger {
		k.member.outcome = Refused
	}
	m := n.member(k.Member)
	m.calls = append(m.calls, k.member)
}

// endMember is the end of one.
func (c *checker) endMember(k *call, e End) {
	n := c.counter(k.Counter)
	m := n.member(k.Member)
	if k.Kind == Look {
		switch {
		case e.Outcome != OK:
		case e.Missing && !slices.ContainsFunc(n.series[k.from:], func(p point) bool { return !p.there }):
			c.fail("a look at %q/%s found no counter, and there was one all the time", k.Counter, k.Member)
		case !e.Missing && !m.was(k.entry, func(there *membershipChange) bool {
			over := there != nil && there.until != 0 && there.until <= c.clock() && !e.There
			return over || (there != nil) == e.There && (there == nil || there.since == e.Since)
		}):
			c.fail("a look at %q/%s found it there: %v, since %s, which it was at no moment", k.Counter, k.Member, e.There, time.UnixMicro(e.Since).UTC().Format(time.TimeOnly))
		}
		return
	}
	if k.Stranger {
		c.endStranger(k, e)
		return
	}
	k.member.outcome, k.member.there = e.Outcome, e.There
	if e.Full != nil {
		c.refusedMember(k, m, e.Full)
	}
	if e.Outcome != OK {
		return
	}
	k.member.end = c.at
	switch {
	case e.There && !m.was(k.entry, func(there *membershipChange) bool { return (there != nil) == k.member.join }):
		c.fail("%s %d of %q/%s was answered that it was so already, which it was at no moment", k.Kind, k.Call, k.Counter, k.Member)
	case e.There && k.Kind == Join && !k.Holds && !m.was(k.entry, kept):
		c.fail("%s %d of %q/%s was acknowledged, and she keeps no seat", k.Kind, k.Call, k.Counter, k.Member)
	case !e.There && k.Kind == Join:
		n.acked++
	}
}

// kept is that she has a seat for good.
func kept(there *membershipChange) bool { return there != nil && there.until == 0 }

// was reports whether something held of a member at some moment since an entry. nil is that it is
// none.
func (m *member) was(since int, holds func(there *membershipChange) bool) bool {
	var there *membershipChange
	for _, ch := range m.changes {
		if ch.entry > since && holds(there) {
			return true
		}
		if there = nil; ch.made {
			there = ch
		}
	}
	return holds(there)
}

// endAudit is the end of an audit, all of which is of one time.
func (c *checker) endAudit(k *call, e End) {
	if e.Outcome != OK || !e.Missing && e.Audit == nil {
		return
	}
	n := c.counter(k.Counter)
	window := n.series[k.from:]
	if !slices.ContainsFunc(window, func(p point) bool {
		if e.Missing {
			return !p.there
		}
		return p.there && c.audits(p, *e.Audit)
	}) {
		c.fail("an audit of %q says %+v (missing: %v), which it was at no moment: %+v", k.Counter, e.Audit, e.Missing, window[max(0, len(window)-8):])
	}
}

// audits reports whether an audit is right at a point.
func (c *checker) audits(p point, a Audited) bool {
	if a.Members != p.members || a.Total != p.total {
		return false
	}
	is := wideOf(a.Shards).and(wideOf(a.Base)).int64()
	return p.vague || a.Shards == p.sum && (c.live && p.keeps(is) || held([]point{p}, is))
}

// moved checks what a commit did to memberships, beside the shards, and returns by how many of them
// the shards were to change: the rest is for increments. Whatever a commit is for, it changes the
// shards by one for each membership; only a reset takes off what shards held at one time, with the
// members of that time.
func (c *checker) moved(id string, k *counter, d deed, changes []Change) int64 {
	var made, gone int64
	var shards []string // that changed
	for _, ch := range changes {
		switch {
		case ch.Doc.Kind == "shard" && ch.Before == nil && ch.After != nil && ch.After.Count == 0: // made beside them
		case ch.Doc.Kind == "shard":
			shards = append(shards, ch.Doc.Shard)
		case ch.Doc.Kind != "member":
		case ch.After == nil:
			gone++
		case ch.Before == nil:
			made++
		}
	}
	// A reset takes members off beside its command, and leaves the shards as they are.
	// Where they alone were counted, the base stays as it is, too.
	beside := gone > 0 && made == 0 && d.delta == 0 && d.doc && (d.base || k.total() == 0) && c.now.Sub(k.emptied) < longestCommand
	if beside {
		k.aside, gone = k.aside+gone, 0
	}
	bare := made != gone && len(shards) == 0 // as many as leave may join, and a shard that gets 0 is not changed
	for _, ch := range changes {
		if ch.Doc.Kind != "member" {
			continue
		}
		change := &membershipChange{entry: c.at, made: ch.After != nil}
		switch {
		case ch.After == nil:
			delete(k.members, ch.Doc.Member)
			change.who = c.authorOf(k, d)
			if ch.Before.Until != 0 && ch.Before.Until <= c.clock() { // the hold is over, whoever else may have ended it
				k.shrinks = true
				if change.who == anyCall {
					change.who = maybeCall
				}
			}
		case ch.Before != nil && ch.Before.Until != 0 && ch.After.Until == 0 && k.member(ch.Doc.Member).confirms:
			k.members[ch.Doc.Member] = ch.After
			change.since, change.who = ch.After.Since, ownRight
		case ch.Before != nil:
			c.fail("a commit changes the membership of %q/%s", id, ch.Doc.Member)
			continue
		default:
			if k.members == nil {
				k.members = map[string]*Document{}
			}
			k.members[ch.Doc.Member] = ch.After
			change.since, change.until = ch.After.Since, ch.After.Until
			if late := ch.After.Updated - ch.After.Since; late < 0 || late >= 1000 { // Firestore has it in milliseconds
				c.fail("the membership of %q/%s says that it was made at another time", id, ch.Doc.Member)
			}
			if len(shards) > 0 && !slices.Contains(shards, ch.After.CountedOn) {
				c.fail("the membership of %q/%s names shard %q, and its commit changes %v", id, ch.Doc.Member, ch.After.CountedOn, shards)
			}
		}
		m := k.member(ch.Doc.Member)
		m.changes = append(m.changes, change)
	}
	k.hadMembers = k.hadMembers || made > 0
	switch {
	case d.over:
	case bare:
		c.fail("a commit changes memberships of %q (%d made, %d deleted), and no shard", id, made, gone)
		return 0
	case k.byHand > 0 && d.deletes, k.snippets > 0 && d.delta < 0:
	case k.oddly: // something else writes whatever number
	case k.step() == 0 && d.delta != made-gone, k.step() != 0 && (d.delta-made+gone)%k.step() != 0:
		c.fail("a commit makes %d memberships of %q, deletes %d, and changes its shards by %d", made, id, gone, d.delta)
	}
	return made - gone
}

// authorOf is who deletes a membership.
func (c *checker) authorOf(k *counter, d deed) author {
	switch {
	case d.marked, d.swept && d.over: // or a call's own, which came before
		return maybeCall
	case d.over:
		return ownRight
	case k.doc == nil && (c.hosted != nil || k.ends(c.now)), c.now.Sub(k.emptied) < longestCommand:
		return maybeCall
	}
	return anyCall
}

// longestCommand is how long after its begin a command's commits may come.
const longestCommand = 15 * time.Minute

// ends reports whether somebody is about to end the counter's life, or may be.
func (k *counter) ends(now time.Time) bool {
	return k.deletes > 0 || now.Sub(k.deleted) < longestCommand
}

// step divides all that was ever asked to be added to a counter: 0 is nothing.
func (k *counter) step() int64 { return k.gcd }

// asked is told of an increment that is asked for.
func (k *counter) asked(by int64) {
	for by != 0 {
		k.gcd, by = by, k.gcd%by
	}
}

// agreed checks, after each commit, that what the shards hold is the number of members and what was
// incremented, whether the counter's document is there or not.
func (c *checker) agreed(id string, k *counter) {
	if !k.hadMembers || k.wrong || k.ending() {
		return
	}
	sum, vague, _ := k.summed()
	rest := sum - int64(len(k.members)) - k.aside
	if vague {
		return
	}
	if rest < 0 && !k.gives || k.step() == 0 && rest != 0 || k.step() != 0 && rest%k.step() != 0 {
		k.wrong = true // said once
		c.fail("after a commit the shards of %q hold %d, with %d members, and increments of %d or multiples of it", id, sum, len(k.members), k.step())
	}
}

// matched checks that each call that was told that it has counted made a membership, or deleted
// one, and that all that was made or deleted was asked for: each by a call of its own.
func (c *checker) matched() {
	for _, id := range slices.Sorted(maps.Keys(c.counters)) {
		k := c.counters[id]
		for _, name := range slices.Sorted(maps.Keys(k.ofMembers)) {
			m := k.ofMembers[name]
			for _, ch := range m.changes {
				if ch.who == anyCall && !m.find(ch, map[*memberCall]bool{}) {
					c.at = ch.entry
					c.fail("a commit changes the membership of %q/%s (made: %v), for which there is no call%s", id, name, ch.made, m.describe(ch.entry))
				}
			}
			for _, call := range m.calls {
				if call.must() && call.did == nil && !m.take(call, map[*memberCall]bool{}) {
					c.at = call.end
					c.fail("call %d for %q/%s (join: %v) was answered that it was counted, for which there is no commit%s", call.call, id, name, call.join, m.describe(call.end))
				}
			}
			if len(c.violations) >= 10 {
				return
			}
		}
	}
}

// find finds a call for a change, where one that has another already may find a further one for
// that.
func (m *member) find(ch *membershipChange, seen map[*memberCall]bool) bool {
	for _, call := range m.calls {
		if seen[call] || !call.mayDo(ch) {
			continue
		}
		seen[call] = true
		if call.did == nil || m.find(call.did, seen) {
			call.did, ch.doneBy = ch, call
			return true
		}
	}
	return false
}

// take finds a change for a call that must have made one: one that no call has yet, or has that
// need not, or that finds another.
func (m *member) take(call *memberCall, seen map[*memberCall]bool) bool {
	seen[call] = true
	for _, ch := range m.changes {
		if !call.mayDo(ch) || ch.doneBy != nil && seen[ch.doneBy] {
			continue
		}
		if other := ch.doneBy; other != nil && other.must() && !m.take(other, seen) {
			continue
		} else if other != nil && other.did == ch {
			other.did = nil
		}
		call.did, ch.doneBy = ch, call
		return true
	}
	return false
}

// describe tells what there was of calls and changes around an entry.
func (m *member) describe(entry int) string {
	type event struct {
		at   int
		text string
	}
	var events []event
	for _, ch := range m.changes {
		events = append(events, event{ch.entry, map[bool]string{true: "made", false: "deleted"}[ch.made]})
	}
	for _, k := range m.calls {
		text := map[bool]string{true: "join", false: "leave"}[k.join]
		events = append(events, event{k.begin, text + " begins"})
		if k.end != forever {
			events = append(events, event{k.end, text + map[bool]string{true: ": so already", false: ": counted"}[k.there]})
		}
	}
	slices.SortFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	var b strings.Builder
	for _, e := range events {
		if e.at > entry-400 && e.at < entry+400 {
			b.WriteString("; " + e.text)
		}
	}
	return b.String()
}
