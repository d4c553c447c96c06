package rollup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/firestore-counters/counters/internal/store"
)

// An error slows down all deliveries of the subscription. So where one counter alone is the cause, its events are
// acknowledged for a note, see [store.Note], and a reconcile covers them soon.

const (
	// noteDue is how long a note waits for its first reconcile, and how often an instance looks for notes. After each
	// reconcile that fails the pause doubles.
	noteDue    = time.Minute
	longestDue = 5 * time.Minute
	// besideFor is how long a note waits for a revision that knows all its fields: as long as events
	// are delivered again. After that they are fields of a revision that was rolled back.
	besideFor = 24 * time.Hour
	// notesAtOnce is how many notes are looked at in one go.
	notesAtOnce = 1000
	// notedLimit is how long a counter may take, its queries included.
	notedLimit = aggregationTimeout + 10*time.Second
	// After rareAfter reconciles that failed, half an hour, the next ones are rare: each may cost the reads of queries
	// that get no answer in their time.
	rareAfter = 10
	rareDue   = time.Hour
	// noteTimeout bounds what noting takes: it is beside what an event has waited for already.
	noteTimeout = 5 * time.Second
)

// note notes that a counter must be reconciled. Events that came before the call may be acknowledged
// once it has returned without an error. An error says first why.
func (c *Client) note(ctx context.Context, counter string, why error) error {
	ctx, cancel := context.WithTimeout(ctx, noteTimeout)
	defer cancel()
	made, err := c.db.EnsureNote(ctx, counter, why.Error(), noteDue)
	if err != nil {
		return fmt.Errorf("%w; note that counter %q must be reconciled: %w", why, counter, err)
	}
	if made {
		c.log.LogAttrs(ctx, slog.LevelError, LogNoted, slog.String("counter", counter), slog.Float64("age_s", 0), slog.Any("error", why))
	}
	return nil
}

// begin marks the note of a counter as begun, and returns it: a reconcile follows. With due, only a note that is due is
// begun. It returns nil if there is nothing to do: there is no note, another instance was faster, or only queries of
// another revision are left. An error may come with the note.
func (c *Client) begin(ctx context.Context, counter string, due bool) (begun *store.Note, err error) {
	n, now, err := c.db.NoteOf(ctx, counter)
	if err != nil || n == nil || due && !n.Left && n.Due.After(now) {
		return nil, err
	}
	if _, unknown := c.db.Unasked(*n); n.Left && len(unknown) > 0 && now.Sub(n.LeftAt) < besideFor {
		return nil, nil
	}
	return c.db.BeginNote(ctx, *n, now.Add(pauseAfter(n.Tries)))
}

// pauseAfter is how long a note waits for its next reconcile, if the one that begins fails as tries before it did.
func pauseAfter(tries int64) time.Duration {
	if tries >= rareAfter {
		return rareDue
	}
	return min(noteDue<<tries, longestDue)
}

// reconcileNoted reconciles a counter for a note, and removes the note. If another revision has to ask
// queries, it leaves the note to that one, for a while; while queries get no answer, the note stays.
func (c *Client) reconcileNoted(ctx context.Context, begun store.Note, opts ReconcileOptions) (Report, error) {
	opts.noted = true
	r, err := c.reconcile(ctx, begun.Counter, opts)
	switch _, unknown := c.db.Unasked(begun); {
	case err != nil || ctx.Err() != nil:
	case len(unknown) > 0 && !begun.Left:
		err = c.db.LeaveNote(ctx, begun, unknown, begun.At.Add(besideFor))
	default:
		err = c.db.RemoveNote(ctx, begun)
	}
	return r, err
}

// reconcileDue reconciles counters whose notes are due by a time of Firestore's, or all with notes if
// that is zero. It returns how many there were, and the reads of their queries.
func (c *Client) reconcileDue(ctx context.Context, until time.Time, opts ReconcileOptions) (found int, reads int64, err error) {
	notes, err := c.db.Notes(ctx, until, notesAtOnce)
	if err != nil {
		return 0, 0, err
	}
	left, err := c.db.LeftNotes(ctx, until, notesAtOnce)
	if err != nil {
		return 0, 0, err
	}
	for _, n := range left {
		if _, unknown := c.db.Unasked(n); len(unknown) == 0 {
			notes = append(notes, n)
		}
	}
	slices.SortStableFunc(notes, func(a, b store.Note) int { return a.Since.Compare(b.Since) }) // oldest trouble first
	var group errgroup.Group
	group.SetLimit(max(1, opts.Parallel))
	var total atomic.Int64
	for _, n := range notes {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, cmp.Or(opts.limit, notedLimit))
			defer cancel()
			if c.afford(ctx); ctx.Err() != nil {
				return nil // it stays noted
			}
			total.Add(c.reconcileOneDue(ctx, n.Counter, !until.IsZero(), opts))
			return nil
		})
	}
	_ = group.Wait()
	return len(notes), total.Load(), nil
}

// reconcileOneDue reconciles a counter whose note was read a moment ago, unless another instance has.
func (c *Client) reconcileOneDue(ctx context.Context, counter string, due bool, opts ReconcileOptions) (reads int64) {
	begun, err := c.begin(ctx, counter, due)
	if err == nil && begun == nil {
		return 0
	}
	var r Report
	if err == nil {
		r, err = c.reconcileNoted(ctx, *begun, opts)
	}
	if ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled) {
		return r.Reads // this process ends
	}
	attrs := []slog.Attr{slog.String("counter", counter)}
	if begun != nil {
		attrs = append(attrs, slog.Float64("age_s", begun.At.Sub(begun.Since).Seconds()))
	}
	if err == nil {
		c.log.LogAttrs(ctx, slog.LevelInfo, logNotedDone, attrs...)
	} else {
		c.log.LogAttrs(ctx, slog.LevelError, LogNoted, append(attrs, slog.Any("error", err))...)
	}
	return r.Reads
}

// Noted is how many counters must be reconciled, of up to 1,000, and since when the first.
func (c *Client) Noted(ctx context.Context) (n int, since time.Time, err error) {
	notes, err := c.db.Notes(ctx, time.Time{}, notesAtOnce)
	notes = slices.DeleteFunc(notes, func(n store.Note) bool { return n.Left })
	for _, note := range notes {
		if since.IsZero() || note.Since.Before(since) {
			since = note.Since
		}
	}
	return len(notes), since, err
}
