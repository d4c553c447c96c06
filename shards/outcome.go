package shards

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/internal/store"
)

// maxFailures is how often a batch is tried against contention before its callers get an error.
// With [store.Pauses] that is about two seconds.
const maxFailures = 8

// step is what is to be done next about a batch in flight.
type step int

const (
	pickShards  step = iota // pick a shard of each counter
	sendCommit              // write to the picked shards
	readMarkers             // see which of the batch's markers are there
	// make the batch's own marker alone, so that no commit of the batch can be applied any more
	settle
	makeShards // make the picked shards, where they are missing
	pause      // for a while, then pick shards again, or settle
	leave      // every group of the batch goes on alone: see inFlight.split
	finished   // every request has its outcome
)

// inFlight is a batch from its first commit until each of its requests has an outcome. It knows
// what follows from what happened, and does nothing by itself.
//
// A commit is in doubt when its answer is lost: it may have been applied, or may yet be. Two rules
// keep that exact. Each commit of a batch makes at least one marker of every earlier one that is in
// doubt, so that at most one of them is applied. And nothing leaves a batch in doubt before that is
// settled: its own marker is made alone, and says so. Where that succeeds, no commit of the batch
// was applied or ever will be; where the marker is there already, it tells which.
type inFlight struct {
	*batch
	exact    bool // without it, only batches with a key get markers
	own      bool // its commits make the batch's own marker
	doubt    bool // one of its commits may have been applied, or may still be
	failures int  // attempts that were certainly not applied, or met a quota
	settling *verdict
	missing  error // of the last commit: a document is missing, a shard's or a membership's

	until    time.Time // when it must have ended; zero for one that has yet to begin
	holds    []string  // the queues that wait for it
	counted  bool      // among the commits that decide whether others are shared
	reserved int       // how many of its requests count as waiting
}

// verdict is what is to be done once a batch is no longer in doubt.
type verdict struct {
	next     step  // finished fails what is left
	sentinel error // may be nil
	err      error
}

// newInFlight begins a batch.
func newInFlight(b *batch, exact bool) *inFlight {
	f := &inFlight{batch: b, exact: exact}
	// a key's marker does for a request that is alone
	f.own = exact && !(len(b.requests) == 1 && b.requests[0].key != "")
	if len(b.requests) > 1 {
		for _, r := range b.requests {
			f.own = f.own || r.key != ""
		}
	}
	// A membership is not a marker: between a commit and its repetition another instance may take
	// it away again, and then it hides that the commit was applied.
	f.own = f.own || slices.ContainsFunc(b.requests, func(r *request) bool { return r.member != nil })
	return f
}

// marked reports whether the batch's commits make markers.
func (f *inFlight) marked() bool { return f.own || len(f.requests) == 1 && f.requests[0].key != "" }

// markers are the markers of the batch's next commit: its own, and one per key.
func (f *inFlight) markers() map[string]marker {
	markers := make(map[string]marker, 1)
	if f.own {
		markers[f.id] = marker{batch: f.id}
	}
	for _, r := range f.requests {
		if r.key != "" {
			markers[r.key] = marker{batch: f.id, asked: r.asked}
		}
	}
	return markers
}

// group is what goes alone when a batch is split: a call to several counters, or all requests
// of one counter.
func (r *request) group() any {
	if counter := r.counter(); counter != several {
		return counter
	}
	return r
}

// shared reports whether the batch has several groups.
func (f *inFlight) shared() bool {
	for _, r := range f.requests {
		if r.group() != f.requests[0].group() {
			return true
		}
	}
	return false
}

// begin begins the batch's commit, without the requests whose callers went away before, and reports
// whether any is left.
func (f *inFlight) begin() bool {
	f.requests = slices.DeleteFunc(f.requests, func(r *request) bool { return !r.becomes(committing) })
	return len(f.requests) > 0
}

// applied says that a commit was applied.
func (f *inFlight) applied() step {
	for _, r := range f.requests {
		r.done <- outcome{}
	}
	f.requests = nil
	return finished
}

// failed says that a commit failed with err.
func (f *inFlight) failed(err error) step {
	switch code := status.Code(err); store.KindOf(err) {
	case store.Doubtful:
		f.doubt = true
		if !f.marked() {
			return f.giveUp(ErrUnknown, err)
		}
		if code == codes.ResourceExhausted { // a quota lasts
			return f.failure(err)
		}
		return pause
	case store.Contention:
		if f.shared() {
			return f.settleThen(verdict{next: leave, err: err})
		}
		return f.failure(err)
	case store.Conflict:
		switch code {
		case codes.NotFound:
			if slices.ContainsFunc(f.requests, func(r *request) bool { return r.member != nil && !r.member.join }) {
				f.missing = err
				return readMarkers
			}
			return f.shardMissing(err)
		case codes.AlreadyExists:
			if r := f.requests[0]; len(f.requests) == 1 && !f.doubt && r.member != nil {
				// No commit of the batch was applied or may yet be, so there is no marker of it:
				// the membership is there.
				r.done <- outcome{replayed: true}
				f.requests = nil
				return finished
			}
			return readMarkers
		}
	case store.Permanent:
		if code == codes.InvalidArgument && f.shared() {
			return f.settleThen(verdict{next: leave, err: err})
		}
	}
	return f.conclude(nil, err)
}

// shardMissing says that a commit failed because a shard is missing.
func (f *inFlight) shardMissing(err error) step {
	if f.shared() {
		return f.settleThen(verdict{next: leave, err: err})
	}
	if next := f.failure(err); next != pause {
		return next
	}
	return makeShards
}

// failure says that something else than a commit failed, or that a commit was not applied, and that
// trying again may help.
func (f *inFlight) failure(err error) step {
	if f.failures++; f.failures < maxFailures {
		return pause
	}
	return f.conclude(ErrBusy, err)
}

// conclude fails what is left of the batch: as sentinel, which may be nil, unless it was
// counted after all.
func (f *inFlight) conclude(sentinel, err error) step {
	if f.settling != nil { // and it could not be settled
		return f.giveUp(ErrUnknown, err)
	}
	return f.settleThen(verdict{next: finished, sentinel: sentinel, err: err})
}

// settleThen does what is to be done, once no commit is in doubt any more.
func (f *inFlight) settleThen(v verdict) step {
	switch {
	case !f.doubt:
		return f.decide(v)
	case f.own:
		f.settling = &v
		return settle
	case f.marked():
		// The only marker is the key's, which must not be there unless its request was counted. A
		// look at it is the last chance to know.
		f.settling = &v
		return readMarkers
	}
	return f.giveUp(ErrUnknown, v.err)
}

func (f *inFlight) decide(v verdict) step {
	if v.next == finished {
		return f.giveUp(v.sentinel, v.err)
	}
	return v.next
}

// resume is what follows a pause.
func (f *inFlight) resume() step {
	switch {
	case f.settling == nil:
		return pickShards
	case f.own:
		return settle
	}
	return readMarkers
}

// settled says that no commit of the batch was applied, or ever will be.
func (f *inFlight) settled() step {
	v := *f.settling
	f.doubt, f.settling = false, nil
	f.id = newID() // the old one's marker is there
	return f.decide(v)
}

// unsettled says that settling failed with err.
func (f *inFlight) unsettled(err error) step {
	switch kind := store.KindOf(err); {
	case status.Code(err) == codes.AlreadyExists:
		return readMarkers
	case kind == store.Permanent || kind == store.Conflict:
		return f.giveUp(ErrUnknown, err)
	}
	if f.failures++; f.failures >= 2*maxFailures {
		return f.giveUp(ErrUnknown, err)
	}
	return pause
}

// unread says that the markers could not be read.
func (f *inFlight) unread(err error) step {
	if store.KindOf(err) == store.Permanent {
		return f.giveUp(nil, err)
	}
	if f.failures++; f.failures >= 2*maxFailures {
		return f.giveUp(ErrBusy, err)
	}
	return pause
}

// found says which of the batch's markers and memberships are there, all at one time, after a
// commit failed because of one of them.
func (f *inFlight) found(there map[string]marker, members map[*request]bool) step {
	missing := f.missing
	f.missing = nil
	for _, m := range there {
		switch {
		case m.batch != f.id:
		case m.settled && f.settling != nil:
			return f.settled()
		default:
			return f.applied()
		}
	}
	if f.settling != nil && !f.own {
		return f.giveUp(ErrUnknown, f.settling.err)
	}
	var left []*request
	for _, r := range f.requests {
		m, seen := there[r.key]
		switch {
		case r.key == "" || !seen:
			left = append(left, r)
		case !m.asked.same(r.asked):
			r.done <- outcome{err: ErrKeyReused}
		default:
			r.done <- outcome{replayed: true}
		}
	}
	dropped := len(left) < len(f.requests)
	if dropped {
		// every commit so far had those keys, so none was applied or ever will be
		f.doubt, f.settling = false, nil
	}
	f.requests = left
	if asAsked := func(r *request) bool { return r.member != nil && r.member.join == members[r] }; f.settling == nil && slices.ContainsFunc(left, asAsked) {
		if f.doubt {
			// Another operation may change that again, and then an earlier commit of
			// this batch arrive.
			return f.settleThen(verdict{next: pickShards, err: errMarkerGone})
		}
		dropped = true
		f.requests = slices.DeleteFunc(left, func(r *request) bool {
			if asAsked(r) {
				r.done <- outcome{replayed: true}
			}
			return asAsked(r)
		})
	}
	switch {
	case len(f.requests) == 0:
		return finished
	case dropped:
		return sendCommit
	case missing != nil && f.settling == nil:
		return f.shardMissing(missing)
	}
	// What was in the way is gone again: a membership that others toggle, or a marker that the TTL
	// policy has taken.
	switch f.failures++; {
	case f.failures >= 2*maxFailures, f.failures >= maxFailures && f.settling == nil:
		return f.conclude(ErrBusy, errMarkerGone)
	case f.settling != nil:
		return settle
	}
	return sendCommit
}

var errMarkerGone = errors.New("a marker or a membership is in the way that is gone again")

// without says that shards are picked, and which counters don't exist. Requests to those fail,
// the others go on.
func (f *inFlight) without(gone map[string]bool) step {
	if len(gone) == 0 {
		return sendCommit
	}
	if f.doubt {
		return f.settleThen(verdict{next: pickShards, err: ErrNotFound})
	}
	var left []*request
	for _, r := range f.requests {
		counter, is := r.touches(func(id string) bool { return gone[id] })
		switch {
		case !is:
			left = append(left, r)
		case r.counter() != several:
			r.done <- outcome{err: ErrNotFound}
		default:
			r.done <- outcome{err: fmt.Errorf("%w: %q", ErrNotFound, counter)}
		}
	}
	f.requests = left
	if len(left) == 0 {
		return finished
	}
	return sendCommit
}

// split takes the groups apart that are in trouble, each a batch of its own from now on; the rest
// stays. It must not be in doubt.
func (f *inFlight) split(leaves func(*request) bool) []*inFlight {
	var parts []*inFlight
	of := map[any]*inFlight{} // :: group → its part
	var left []*request
	for _, r := range f.requests {
		if !leaves(r) {
			left = append(left, r)
			continue
		}
		part := of[r.group()]
		if part == nil {
			part = &inFlight{batch: &batch{id: newID()}, failures: f.failures, until: f.until}
			of[r.group()] = part
			parts = append(parts, part)
			if counter, is := r.group().(string); is {
				part.holds = f.handOver(counter)
			}
		}
		part.requests = append(part.requests, r)
	}
	f.requests = left
	for _, part := range parts {
		begun := newInFlight(part.batch, f.exact)
		part.exact, part.own = begun.exact, begun.own
	}
	return parts
}

// takeOut takes the requests that are chosen out of the batch into one of their own, with their
// queues; nil where there is none, or no other. The batch must not be in doubt.
func (f *inFlight) takeOut(chosen func(*request) bool) *inFlight {
	out := &batch{id: newID()}
	var left []*request
	for _, r := range f.requests {
		if chosen(r) {
			out.requests = append(out.requests, r)
		} else {
			left = append(left, r)
		}
	}
	if len(out.requests) == 0 || len(left) == 0 {
		return nil
	}
	f.requests = left
	taken := newInFlight(out, f.exact)
	taken.until = f.until
	for _, r := range out.requests {
		if counter, is := r.group().(string); is {
			taken.holds = append(taken.holds, f.handOver(counter)...)
		}
	}
	return taken
}

// handOver takes a queue from those that wait for the batch.
func (f *inFlight) handOver(queue string) []string {
	for i, name := range f.holds {
		if name == queue {
			f.holds = append(f.holds[:i:i], f.holds[i+1:]...)
			return []string{name}
		}
	}
	return nil
}

// giveUp fails what is left of the batch: as sentinel, which may be nil, unless it is in doubt.
func (f *inFlight) giveUp(sentinel, err error) step {
	if f.doubt {
		sentinel = ErrUnknown
	}
	switch {
	case err == nil:
		err = sentinel
	case sentinel != nil:
		err = fmt.Errorf("%w: %w", sentinel, err)
	}
	for _, r := range f.requests {
		r.done <- outcome{err: err}
	}
	f.requests = nil
	return finished
}
