package eventarc

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Faults are what may go wrong with an event on its way, each with a probability of 0 to 1.
type Faults struct {
	Duplicate float64 // The event is delivered a second time, beside the first or up to two seconds later.
	Drop      float64 // The event is never sent.
	Reorder   float64 // The event is held back for up to a second, and overtaken by those that come after it.
	Seed      uint64  // The same seed gives the nth event the same fate.
}

// Check names every field that is out of range.
func (f Faults) Check() error {
	var errs []error
	for _, p := range []struct {
		name  string
		value float64
	}{{"duplicate", f.Duplicate}, {"drop", f.Drop}, {"reorder", f.Reorder}} {
		if !(p.value >= 0 && p.value <= 1) { // so that NaN is refused, too
			errs = append(errs, fmt.Errorf("%s %v: want a probability, 0 to 1", p.name, p.value))
		}
	}
	return errors.Join(errs...)
}

const (
	longestReorder   = time.Second
	longestDuplicate = 2 * time.Second
)

// fate is what the faults do to one event.
type fate struct {
	drop      bool
	duplicate bool
	hold      time.Duration // Before the event is sent.
	holdCopy  time.Duration // Before its duplicate is sent.
}

type dice struct {
	faults Faults
	rand   *rand.Rand
}

func newDice(f Faults) dice {
	return dice{faults: f, rand: rand.New(rand.NewPCG(f.Seed, 0))}
}

// roll decides on the next event. It always draws as many numbers, so that an event's fate depends
// on the seed, the probabilities and the event's place in line, and on nothing that befell the
// events before it.
func (d dice) roll() fate {
	drop, duplicate, reorder := d.rand.Float64(), d.rand.Float64(), d.rand.Float64()
	hold, together, holdCopy := d.rand.Float64(), d.rand.Float64(), d.rand.Float64()
	f := fate{drop: drop < d.faults.Drop, duplicate: duplicate < d.faults.Duplicate}
	if reorder < d.faults.Reorder {
		f.hold = time.Duration(hold * float64(longestReorder))
	}
	f.holdCopy = f.hold
	if together < 0.5 {
		f.holdCopy = time.Duration(holdCopy * float64(longestDuplicate))
	}
	return f
}
