package dev

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// A history is what clients of the whole system asked and were answered, and three verdicts judge
// it: two by rules that others have made, and one by ours. None knows anything of shards.
type history []operation

// operation is one request.
type operation struct {
	do       verb
	register string   // the key that an add has, the key whose own counter is summed, the member, or the counter with a limit; "" for none
	counters []string // those to which an add adds 1, or the one that is summed
	call     int64    // when it was asked, and
	answered int64    // when it was answered, on one clock that never says a time twice
	outcome  outcome
	answer   int64 // the sum; 1 for an add that was counted before, for a join or leave that did it, and for who has joined
}

type verb string

const (
	add    verb = "add"
	sum    verb = "sum" // exact
	join   verb = "join"
	leave  verb = "leave"
	joined verb = "joined"

	take   verb = "take"   // one of a counter's seats
	give   verb = "give"   // one back
	seated verb = "seated" // exact: how many are taken
)

type outcome int

const (
	done    outcome = iota
	refused         // nothing was done, and never will be
	unknown         // it may have been done, or be done at any time from its call on
	full            // refused for a limit: of a take there was no seat left, of a give none was taken
)

func (o outcome) String() string { return [...]string{"done", "refused", "unknown", "full"}[o] }

// seats are the limit of each counter that has one.
const seats = 3

// never is later than all that is recorded.
const never = int64(1) << 62

// linearizable has Porcupine look for an order of a register's operations that explains all of its answers, for each
// key, each member and each counter with a limit. What was refused did nothing; what is unknown may take effect at any
// time from its call on, or after all else, which is as good as never.
func linearizable(h history) error {
	registers := map[string][]porcupine.Operation{}
	for n, o := range h {
		if o.register == "" || o.outcome == refused {
			continue
		}
		answered := o.answered
		if o.outcome == unknown {
			answered = never
		}
		registers[o.register] = append(registers[o.register], porcupine.Operation{ClientId: n, Input: o, Call: o.call, Return: answered})
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(registers)) {
		model := register
		if slices.Contains([]verb{take, give, seated}, registers[name][0].Input.(operation).do) {
			model = bounded
		}
		if got := porcupine.CheckOperationsTimeout(model, registers[name], time.Minute); got != porcupine.Ok {
			errs = append(errs, fmt.Errorf("%s: no order explains its answers (%s): %+v", name, got, registers[name]))
		}
	}
	return errors.Join(errs...)
}

// register is a key that is counted once, or a member that is there or not: 0 or 1.
var register = porcupine.Model{
	Init: func() any { return int64(0) },
	Step: func(state, input, _ any) (bool, any) {
		was, o := state.(int64), input.(operation)
		answer := func(want int64) bool { return o.outcome == unknown || o.answer == want }
		switch o.do {
		case add:
			return answer(was), int64(1) // "replayed" where it was counted before
		case join:
			return answer(1 - was), int64(1)
		case leave:
			return answer(was), int64(0)
		default: // sum, joined
			return answer(was), was
		}
	},
}

// bounded is a counter of seats: never more are taken than there are, and nobody is refused while there is one.
// What is unknown may have been refused.
var bounded = porcupine.Model{
	Init: func() any { return int64(0) },
	Step: func(state, input, _ any) (bool, any) {
		taken, o := state.(int64), input.(operation)
		by := map[verb]int64{take: 1, give: -1}[o.do]
		switch fits := taken+by >= 0 && taken+by <= seats; {
		case o.do == seated:
			return o.answer == taken, taken
		case !fits:
			return o.outcome != done, taken
		default:
			return o.outcome != full, taken + by
		}
	},
}

// withinBounds is Jepsen's rule for counters that only grow, as its checker has it: what a read says
// is at least what was acknowledged before the read was asked, and at most what was attempted, and
// not refused, before it was answered.
// https://github.com/jepsen-io/jepsen/blob/main/jepsen/src/jepsen/checker.clj
func withinBounds(h history) error {
	var errs []error
	counters := incremented(h)
	for _, o := range h {
		if o.do != sum || o.outcome != done {
			continue
		}
		c := counters[o.counters[0]]
		least, _ := slices.BinarySearch(c.acknowledged, o.call)
		most, _ := slices.BinarySearch(c.attempted, o.answered)
		if o.answer < int64(least) || o.answer > int64(most) {
			errs = append(errs, fmt.Errorf("%s: %d at %d to %d, want %d to %d", o.counters[0], o.answer, o.call, o.answered, least, most))
		}
	}
	return errors.Join(errs...)
}

// rightAtEnd is our own verdict, over what the counters' documents show when all events have been
// rolled up: all that was acknowledged, at most what is unknown besides, and as many members as
// there were when they were last looked at.
func rightAtEnd(h history, shown map[string]int64, ofMembers string) error {
	var errs []error
	want := func(counter string, least, most int) {
		if got := shown[counter]; got < int64(least) || got > int64(most) {
			errs = append(errs, fmt.Errorf("%s shows %d, want %d to %d", counter, got, least, most))
		}
	}
	counters := incremented(h)
	for _, name := range slices.Sorted(maps.Keys(counters)) {
		want(name, len(counters[name].acknowledged), len(counters[name].attempted))
	}
	last := map[string]int64{}
	for _, o := range h {
		if o.do == joined && o.outcome == done {
			last[o.register] = o.answer
		}
	}
	members := 0
	for _, there := range last {
		members += int(there)
	}
	want(ofMembers, members, members)
	return errors.Join(errs...)
}

// increments are times: those of a key are one, attempted with its first request, and acknowledged
// with the first that is.
type increments struct{ attempted, acknowledged []int64 } // in order

// incremented returns the increments of each counter.
func incremented(h history) map[string]*increments {
	attempted, acknowledged := map[string]int64{}, map[string]int64{} // :: key, or the number of an add that has none → when
	counters := map[string][]string{}
	for n, o := range h {
		if o.do != add || o.outcome == refused {
			continue
		}
		one := o.register
		if one == "" {
			one = fmt.Sprint("#", n)
		}
		earliest := func(times map[string]int64, at int64) {
			if was, is := times[one]; !is || at < was {
				times[one] = at
			}
		}
		counters[one] = o.counters
		earliest(attempted, o.call)
		if o.outcome == done {
			earliest(acknowledged, o.answered)
		}
	}
	of := map[string]*increments{}
	for one, names := range counters {
		for _, name := range names {
			if of[name] == nil {
				of[name] = &increments{}
			}
			of[name].attempted = append(of[name].attempted, attempted[one])
			if at, is := acknowledged[one]; is {
				of[name].acknowledged = append(of[name].acknowledged, at)
			}
		}
	}
	for _, c := range of {
		slices.Sort(c.attempted)
		slices.Sort(c.acknowledged)
	}
	return of
}

// Each verdict accepts a right history, and sees the fault in one that is changed in one place.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	both, key, plain, members := []string{"keys", "k"}, []string{"k"}, []string{"plain"}, "liked"
	right := func() history {
		return history{
			0:  {add, "k", both, 1, 4, unknown, 0},
			1:  {add, "k", both, 2, 6, done, 1}, // the first did it
			2:  {sum, "k", key, 7, 8, done, 1},
			3:  {sum, "", []string{"keys"}, 7, 9, done, 1},
			4:  {add, "", plain, 10, 13, done, 0},
			5:  {add, "", plain, 11, 14, unknown, 0},
			6:  {add, "", plain, 12, 15, refused, 0},
			7:  {sum, "", plain, 16, 17, done, 1}, // the unknown one may still come
			8:  {sum, "", plain, 18, 19, done, 2},
			9:  {join, "m", nil, 20, 21, done, 1},
			10: {join, "m", nil, 22, 23, done, 0},
			11: {joined, "m", nil, 24, 25, done, 1},
			12: {leave, "m", nil, 26, 27, unknown, 0},
			13: {joined, "m", nil, 28, 29, done, 1}, // or never
			14: {join, "n", nil, 30, 33, done, 1},
			15: {joined, "n", nil, 31, 32, done, 0}, // while it joined
			16: {joined, "n", nil, 34, 35, done, 1},
			17: {take, "s", nil, 36, 37, done, 0},
			18: {take, "s", nil, 38, 41, done, 0},
			19: {take, "s", nil, 39, 42, done, 0},
			20: {take, "s", nil, 43, 44, full, 0},
			21: {give, "s", nil, 45, 48, done, 0},
			22: {take, "s", nil, 46, 47, full, 0}, // before it was given back
			23: {seated, "s", nil, 49, 50, done, 2},
			24: {take, "s", nil, 51, 52, unknown, 0},
			25: {seated, "s", nil, 53, 54, done, 2}, // or never
			26: {give, "s", nil, 55, 56, done, 0},
			27: {give, "s", nil, 57, 58, done, 0},
			28: {give, "s", nil, 59, 60, full, 0},
		}
	}
	for _, tc := range []struct {
		name               string
		change             func(history, map[string]int64)
		order, bounds, end bool // the verdict sees it
	}{
		{"right", func(history, map[string]int64) {}, false, false, false},
		{"a key is counted, and shown, twice", func(h history, shown map[string]int64) { h[2].answer, shown["k"] = 2, 2 }, true, true, true},
		{"a key that was acknowledged is not counted", func(h history, shown map[string]int64) { h[2].answer, shown["k"] = 0, 0 }, true, true, true},
		{"both requests of a key say that they counted", func(h history, _ map[string]int64) { h[0].outcome, h[1].answer = done, 0 }, true, false, false},
		{"a key is counted before it is sent", func(h history, _ map[string]int64) { h[2].call, h[2].answered = -2, -1 }, true, true, false},
		{"a counter lacks what was acknowledged", func(h history, shown map[string]int64) { h[7].answer, shown["plain"] = 0, 0 }, false, true, true},
		{"a counter has what was refused", func(h history, shown map[string]int64) { h[8].answer, shown["plain"] = 3, 3 }, false, true, true},
		{"a member is gone after it joined", func(h history, shown map[string]int64) { h[11].answer = 0 }, true, false, false},
		{"a member comes back", func(h history, shown map[string]int64) { h[12].outcome, h[12].answer = done, 1 }, true, false, false},
		{"a member is lost", func(h history, shown map[string]int64) { h[16].answer = 0 }, true, false, true},
		{"four seats of three are taken", func(h history, _ map[string]int64) { h[20].outcome = done }, true, false, false},
		{"a take is refused, and there is a seat", func(h history, _ map[string]int64) { h[17].outcome = full }, true, false, false},
		{"a take is refused after a seat was given back", func(h history, _ map[string]int64) { h[22].call, h[22].answered, h[24].outcome = 61, 62, refused }, true, false, false},
		{"more is given back than was taken", func(h history, _ map[string]int64) { h[28].outcome, h[24].outcome = done, refused }, true, false, false},
		{"who gives back is refused, and one was taken", func(h history, _ map[string]int64) { h[26].outcome = full }, true, false, false},
		{"a seat that was taken is lost", func(h history, _ map[string]int64) { h[23].answer = 1 }, true, false, false},
		{"a member joins twice", func(h history, shown map[string]int64) { h[10].answer, shown[members] = 1, 3 }, true, false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h, shown := right(), map[string]int64{"keys": 1, "k": 1, "plain": 2, members: 2}
			tc.change(h, shown)
			for _, verdict := range []struct {
				name string
				err  error
				sees bool
			}{{"linearizable", linearizable(h), tc.order}, {"withinBounds", withinBounds(h), tc.bounds}, {"rightAtEnd", rightAtEnd(h, shown, members), tc.end}} {
				if (verdict.err != nil) != verdict.sees {
					t.Errorf("%s says %v, want an error: %t", verdict.name, verdict.err, verdict.sees)
				}
			}
		})
	}
}
