package rollup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// An error slows down all deliveries of the subscription. So where one counter alone is the cause, its events are
// acknowledged for a note, see [store.Note], and a reconcile covers them soon.

const (
	// notedLimit is how long a counter may take, its queries included.
	notedLimit = aggregationTimeout + 10*time.Second
	// noteTimeout bounds what noting takes: it is beside what an event has waited for already.
	noteTimeout = 5 * time.Second
)

// note notes that a counter must be reconciled. Events that came before the call may be acknowledged
// once it has returned without an error. An error says first why.
func (c *Client) note(ctx context.Context, counter string, why error) error {
	ctx, cancel := context.WithTimeout(ctx, noteTimeout)
	defer cancel()
	made, err := c.db.EnsureNote(ctx, counter, why.Error())
	if err != nil {
		return fmt.Errorf("%w; note that counter %q must be reconciled: %w", why, counter, err)
	}
	if made {
		c.log.LogAttrs(ctx, slog.LevelError, LogNoted, slog.String("counter", counter), slog.Float64("age_s", 0), slog.Any("error", why))
	}
	return nil
}

// reconcileNoted reconciles a counter for its note, and ends the note: see [store.DB.BeginNote]. It reports whether
// there was one to begin with.
func (c *Client) reconcileNoted(ctx context.Context, counter string, due bool, opts ReconcileOptions) (r Report, noted bool, err error) {
	r.Counter = counter
	n, err := c.db.BeginNote(ctx, counter, due)
	if err == nil && n == nil {
		return r, false, nil
	}
	if err == nil {
		opts.noted = true
		r, err = c.reconcile(ctx, counter, opts)
	}
	if err == nil && ctx.Err() == nil {
		err = c.db.EndNote(ctx, *n)
	}
	if ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled) {
		return r, true, err // this process ends
	}
	attrs := []slog.Attr{slog.String("counter", counter)}
	if n != nil {
		attrs = append(attrs, slog.Float64("age_s", n.At.Sub(n.Since).Seconds()))
	}
	if err == nil {
		c.log.LogAttrs(ctx, slog.LevelInfo, logNotedDone, attrs...)
	} else {
		c.log.LogAttrs(ctx, slog.LevelError, LogNoted, append(attrs, slog.Any("error", err))...)
	}
	return r, true, err
}

// reconcileDue reconciles counters whose notes are due by a time of Firestore's, or all with notes if
// that is zero. It returns how many there were, and the reads of their queries.
func (c *Client) reconcileDue(ctx context.Context, until time.Time, opts ReconcileOptions) (found int, reads int64, err error) {
	notes, err := c.db.NotesDue(ctx, until)
	if err != nil {
		return 0, 0, err
	}
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
			r, _, _ := c.reconcileNoted(ctx, n.Counter, !until.IsZero(), opts)
			total.Add(r.Reads)
			return nil
		})
	}
	_ = group.Wait()
	return len(notes), total.Load(), nil
}

// Noted is how many counters must be reconciled, of up to 1,000, and since when the first.
func (c *Client) Noted(ctx context.Context) (n int, since time.Time, err error) {
	notes, err := c.db.Notes(ctx, 1000)
	for _, note := range notes {
		if since.IsZero() || note.Since.Before(since) {
			since = note.Since
		}
	}
	return len(notes), since, err
}
