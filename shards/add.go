package shards

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/firestore-counters/counters/internal/store"
)

// Add adds to the counter and returns when that is committed. Errors: [ErrNotFound], [ErrBusy], [ErrUnknown],
// [ErrInvalidIncrement] when by is 0, [ErrInvalidField] where no shards are summed up, [ErrLimit] beyond a limit (see
// [Counter.SetLimit]), [ErrClosed], or one of Firestore's, after which nothing was counted. A sum beyond an int64 stays
// at the largest or smallest one.
//
// If ctx ends before the commit begins, nothing is counted. A commit that has begun goes on, and Add returns
// [ErrUnknown]. For a ctx without a deadline, see Config.Wait.
func (c Counter) Add(ctx context.Context, by int64) error {
	_, err := c.AddOnce(ctx, by, Key{})
	return err
}

// AddOnce is [Counter.Add] with a key, and may be repeated: of all calls with the same key one is counted, and the
// others report that they are replays. [ErrKeyReused] says that the key came with another increment before.
func (c Counter) AddOnce(ctx context.Context, by int64, key Key) (replayed bool, err error) {
	return c.client.AddAll(ctx, []Increment{{Counter: c.id, By: by}}, key)
}

// AddFields is [Counter.AddOnce] for several fields by their names: all or none. The zero [Key] means
// none.
func (c Counter) AddFields(ctx context.Context, by map[string]int64, key Key) (replayed bool, err error) {
	increments := make([]Increment, 0, len(by))
	for field, n := range by {
		if field == "" { // which would be the first one
			return false, fmt.Errorf("%w: a field without a name", ErrInvalidField)
		}
		increments = append(increments, Increment{Counter: c.id, Field: field, By: n})
	}
	return c.client.AddAll(ctx, increments, key)
}

// AddAll applies up to [MaxIncrements] increments in one commit: all or none. Those of one field of a
// counter are added up. The zero [Key] means none. Errors are those of [Counter.AddOnce], and
// [ErrInvalidID].
func (c *Client) AddAll(ctx context.Context, increments []Increment, key Key) (replayed bool, err error) {
	replayed, _, err = c.Apply(ctx, increments, key)
	return replayed, err
}

// Apply is [Client.AddAll] that also says when the increments were committed: totals as of then or later hold them
// (see [Snapshot.AsOf]).
func (c *Client) Apply(ctx context.Context, increments []Increment, key Key) (replayed bool, at time.Time, err error) {
	if c == nil {
		return false, at, errZero
	}
	r, err := newRequest(c.db.Layout, increments, key)
	if err != nil {
		return false, at, err
	}
	out := c.perform(ctx, r)
	if out.err != nil {
		return false, at, fmt.Errorf("add to %s: %w", r.named(), c.plainly(out.err))
	}
	return out.replayed, out.at, nil
}

// perform looks up a request's counters, and queues it. It goes alone if one of them is to be made, or
// if it counts in a field with a limit.
func (c *Client) perform(ctx context.Context, r *request) outcome {
	r.ended = c.patience.end(ctx)
	missing, err := c.resolve(ctx, r.sums.counters()...)
	switch {
	case err != nil:
		return outcome{err: c.uncertain(err)}
	case len(missing) > 0 && !c.cfg.AutoCreate:
		return outcome{err: notFound(r, missing[0])}
	}
	if err := c.checkSettings(r.sums.counters()); err != nil {
		return outcome{err: err}
	}
	r.alone = len(missing) > 0 || len(r.limited) > 0
	return c.queue.add(ctx, r)
}

// plainly is the error of a call that came to nothing. If its context has ended, or there was no
// connection, the error says only that, and is still [ErrBusy].
func (c *Client) plainly(err error) error {
	if !errors.Is(err, ErrBusy) || errors.Is(err, ErrUnknown) {
		return err
	}
	unreachable, _ := errors.AsType[*store.Unreachable](err)
	switch {
	case errors.Is(err, context.Canceled):
		return plain{context.Canceled}
	case unreachable == nil && errors.Is(err, context.DeadlineExceeded):
		if unreachable = c.db.Unreachable(); unreachable == nil {
			return plain{context.DeadlineExceeded}
		}
	case unreachable == nil:
		return err
	}
	return plain{unreachable}
}

// uncertain is [Client.plainly] for an error of a read, or of a commit on a condition.
func (c *Client) uncertain(err error) error {
	if err != nil && !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrBusy) && mayPass(err) {
		err = fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return c.plainly(err)
}

// plain is an error that is [ErrBusy] too, and doesn't say so.
type plain struct{ error }

func (e plain) Unwrap() []error { return []error{e.error, ErrBusy} }
