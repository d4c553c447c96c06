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
	register string   // the key that an add has, the key whose own counter is summed, or the member; "" for none
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
)

type outcome int

const (
	done    outcome = iota
	refused         // nothing was done, and never will be
	unknown         // it may have been done, or be done at any time from its call on
)

func (o outcome) String() string { return [...]string{"done", "refused", "unknown"}[o] }

// never is later than all that is recorded.
const never = int64(1) << 62

// linearizable has Porcupine look for an order of a register's operations that explains all of its
// answers, for each key and each member. What was refused did nothing; what is unknown may take
// effect at any time from its call on, or after all else, which is as good as never.
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
		if got := porcupine.CheckOperationsTimeout(register, registers[name], time.Minute); got != porcupine.Ok {
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
