package shards

import (
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/internal/store"
)

// maxSetbacks is how often a batch is tried against contention before its callers are told. With the pauses of
// [pause] that is about two seconds.
const maxSetbacks = 8

// step is what is to be done next about a flight.
type step int

const (
	choose      step = iota // choose a shard of each counter
	commit                  // write to the chosen shards
	readMarkers             // see which of the flight's markers are there
	makeShards              // make the chosen shards, where they are missing
	wait                    // for a while, then choose again
	landed                  // every addition has its outcome
)

// flight is a batch on its way, from its first commit until each of its additions has an outcome. It knows what follows
// from what happened, and does nothing by itself.
type flight struct {
	*batch
	marked   bool // its commits make markers
	doubt    bool // one of its commits may have been applied, or may still be
	missing  bool // the last commit found a shard missing
	setbacks int  // since it began: attempts that failed, and were certainly not applied
}

// newFlight begins a flight. Without exact, only batches with a key get markers.
func newFlight(b *batch, exact bool) *flight {
	f := &flight{batch: b, marked: exact}
	for _, a := range b.additions {
		f.marked = f.marked || a.key != ""
	}
	return f
}

// markers are the markers of the flight's next commit: one per key, and where no addition has a key, the batch's own.
// Every later commit of the flight makes at least one of the markers of every earlier commit that can still be applied.
func (f *flight) markers() map[string]marker {
	markers := make(map[string]marker)
	if !f.marked {
		return markers
	}
	for _, a := range f.additions {
		if a.key != "" {
			markers[a.key] = marker{batch: f.id, asked: a.asked}
		}
	}
	if len(markers) == 0 {
		markers[f.id] = marker{batch: f.id}
	}
	return markers
}

// applied says that a commit was applied.
func (f *flight) applied() step {
	for _, a := range f.additions {
		a.done <- outcome{}
	}
	f.additions = nil
	return landed
}

// refused says that a commit failed with err.
func (f *flight) refused(err error) step {
	switch store.KindOf(err) {
	case store.Doubtful:
		f.doubt = true
		if !f.marked {
			return f.giveUp(ErrUnknown, err)
		}
		return wait
	case store.Contention:
		return f.setback(err)
	case store.Conflict:
		switch status.Code(err) {
		case codes.NotFound:
			f.missing = true
			if f.doubt { // the counter may have been deleted after an earlier commit was applied
				return readMarkers
			}
			return makeShards
		case codes.AlreadyExists:
			return readMarkers
		}
	}
	return f.giveUp(nil, err)
}

// setback says that something else than a commit failed, or that a commit was certainly not applied, and that trying
// again may help.
func (f *flight) setback(err error) step {
	f.setbacks++
	switch {
	case f.setbacks < maxSetbacks:
		return wait
	case f.setbacks == maxSetbacks && f.doubt && f.marked:
		return readMarkers // the last chance to know
	}
	return f.giveUp(ErrBusy, err)
}

// found says which of the flight's markers are there, after a commit failed because of one.
func (f *flight) found(there map[string]marker) step {
	for _, m := range there {
		if m.batch == f.id {
			return f.applied()
		}
	}
	var left []*addition
	for _, a := range f.additions {
		m, seen := there[a.key]
		switch {
		case a.key == "" || !seen:
			left = append(left, a)
		case m.asked != a.asked:
			a.done <- outcome{err: ErrKeyReused}
		default:
			a.done <- outcome{replayed: true}
		}
	}
	if len(left) < len(f.additions) {
		f.doubt = false // every commit so far had those keys, so none of them was applied or ever will be
	} else if !f.missing {
		// The marker that was in the way is gone again. It takes a TTL policy at its work to get here.
		f.setbacks++
	}
	f.additions = left
	switch {
	case len(left) == 0:
		return landed
	case f.setbacks >= maxSetbacks:
		return f.giveUp(ErrBusy, nil)
	case f.missing:
		f.missing = false
		return makeShards
	}
	return commit
}

// without says that shards are chosen, and which counters don't exist. Additions to those fail, the others go on.
func (f *flight) without(gone map[string]bool) step {
	f.missing = false
	if len(gone) == 0 {
		return commit
	}
	if f.doubt { // with fewer additions, a later commit might lack every marker of an earlier one
		return f.giveUp(ErrUnknown, nil)
	}
	var left []*addition
	for _, a := range f.additions {
		counter, is := a.touches(gone)
		switch {
		case !is:
			left = append(left, a)
		case len(a.increments) == 1:
			a.done <- outcome{err: ErrNotFound}
		default:
			a.done <- outcome{err: fmt.Errorf("%w: %q", ErrNotFound, counter)}
		}
	}
	f.additions = left
	if len(left) == 0 {
		return landed
	}
	return commit
}

func (a *addition) touches(counters map[string]bool) (string, bool) {
	for _, i := range a.increments {
		if counters[i.Counter] {
			return i.Counter, true
		}
	}
	return "", false
}

// giveUp fails what is left of the flight: as sentinel, which may be nil, unless it is in doubt.
func (f *flight) giveUp(sentinel, err error) step {
	if f.doubt {
		sentinel = ErrUnknown
	}
	switch {
	case err == nil:
		err = sentinel
	case sentinel != nil:
		err = fmt.Errorf("%w: %w", sentinel, err)
	}
	for _, a := range f.additions {
		a.done <- outcome{err: err}
	}
	f.additions = nil
	return landed
}
