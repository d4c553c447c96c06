package rollup

import (
	"errors"
	"slices"
	"time"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/extension"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// source is what fields of a counter are made of.
type source struct {
	counter   string
	documents string // which documents queries count, as [Change] has it; empty for the counter's shards
}

// outcome is what became of a refresh, or of a recount.
type outcome int

const (
	committed outcome = iota // what was asked for is shown, or was already, or can't be, which is logged
	unchanged                // of a recount: nothing is gained by asking again soon
	yielded                  // the rest is left to the instance that has just written
	failed                   // it goes again; after its patience its events are delivered again
	contended                // others were faster, or have locked it: it goes again; after its patience its events are noted
	own                      // for a reason that is the counter's own, and stays: its events are noted
	permanent                // going again doesn't help: its events are delivered again
)

// failure is the outcome of a refresh or recount that returned an error. A commit without an answer may wait for the
// locks of an app's transaction, so it counts as contended. What isn't known is failed, and never noted: while
// Firestore answers nobody, no note can be written.
func failure(err error) outcome {
	switch {
	case errors.Is(err, ErrDamagedBase), errors.Is(err, ErrExtensionRuns):
		return own
	case errors.Is(err, ErrContention), errors.Is(err, store.ErrDoubt):
		return contended
	case errors.Is(err, ErrPoison), store.KindOf(err) == store.Permanent:
		return permanent
	}
	return failed
}

// refreshed is what one refresh did, and saw.
type refreshed struct {
	outcome outcome
	asOf    map[string]time.Time // as of when the document shows its fields
	looked  time.Time            // when the document was read last; zero if it never was
	wait    time.Duration        // until the document may be refreshed again, since this one ended; below 0 where it may already
	wrote   bool                 // it was committed
	waited  time.Duration        // that the commit took
	early   []string             // fields whose answers must be asked again
	unknown layout.Fields        // that count documents, and of which nobody knows as of when they are shown
	changes []book.Change
	reads   int // documents, and answers of queries
}

// asked is what queries have said.
type asked struct {
	outcome  outcome
	answers  map[string]book.Answer // by the names of their fields
	at       time.Time              // as of when they are
	reads    int64                  // that the queries took
	largest  int64                  // that one of them took
	problems []string               // why fields stay as they are
	// unanswered: the time was over, and Firestore had said nothing over two connections.
	unanswered bool
	elsewhere  bool // the documents name their counter themselves: what a user writes there makes no base
}

// flight is what one refresh or recount is for.
type flight struct {
	source
	waits   []wait
	answers map[string]book.Answer // of recounts, by the names of their fields
	shards  []string               // ids of the extension's that events name: what they hold is taken over
	makes   bool                   // not all of it is deletions, of which no counter is made
	all     bool                   // all sums are asked for
	hurries bool                   // nothing is left to others
	crowd   bool                   // so many events have come that others get some, too

	events  int64     // that it stands for
	oldest  time.Time // the earliest time of these
	started time.Time
	// of the bucket: in which it earns a refresh, and how long it takes to earn all but one
	interval, ahead time.Duration
	even            bool // the next one is an interval later, whatever the bucket holds
}

// takes reports whether the refresh also covers an event of these fields: it takes over so many of the extension's
// shards at most.
func (f *flight) takes(fields []string) bool {
	for _, field := range fields {
		shard, is := extensionShard(field)
		switch {
		case !is, slices.Contains(f.shards, shard):
		case len(f.shards) == extension.AtOnce:
			return false
		default:
			f.shards = append(f.shards, shard)
		}
	}
	return true
}

// after is when the next refresh may start, after one that starts now, where that might have started from a time on.
func (f *flight) after(earliest, now time.Time) time.Time {
	full := now
	if !f.even {
		full = now.Add(-f.ahead)
	}
	if earliest.Before(full) {
		earliest = full
	}
	return earliest.Add(f.interval)
}

// wait is what an event waits for: that its fields are shown as of a time or later; zero where nobody knows one.
type wait struct {
	fields []string // sorted
	at     time.Time
}

// shown reports whether its fields are shown as of its write or later.
func (w wait) shown(asOf map[string]time.Time) bool {
	return !w.at.IsZero() && !slices.ContainsFunc(w.fields, func(f string) bool { return asOf[f].Before(w.at) })
}
