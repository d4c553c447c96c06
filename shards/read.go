package shards

import (
	"context"
	"fmt"
	"iter"
	"time"

	"golang.org/x/sync/singleflight"
)

// Get reads the counter's document. Errors: [ErrNotFound], [ErrNotCounted], or the
// client library's.
func (c Counter) Get(ctx context.Context) (s Snapshot, err error) {
	err = c.call("read", func() (err error) { s, err = c.get(ctx); return err })
	return s, err
}

func (c Counter) get(ctx context.Context) (Snapshot, error) {
	snapshots, err := c.client.read(ctx, c.id)
	if err == nil && snapshots[0] == nil {
		err = ErrNotFound
	}
	if err != nil {
		return Snapshot{}, err
	}
	return *snapshots[0], c.client.countsAny(*snapshots[0])
}

// Cached is [Counter.Get] from memory if this client has read the counter within Config.ReadCache; age
// is how long ago. One read serves all who ask at the same time.
func (c Counter) Cached(ctx context.Context) (s Snapshot, age time.Duration, err error) {
	err = c.call("read", func() (err error) { s, age, err = c.cached(ctx); return err })
	return s, age, err
}

func (c Counter) cached(ctx context.Context) (Snapshot, time.Duration, error) {
	asked := time.Now()
	for ctx.Err() == nil {
		if known, ok := c.client.known.within(c.client.cfg.ReadCache, c.id); ok {
			return known.Snapshot, time.Since(known.read), c.client.countsAny(known.Snapshot)
		}
		r, err := share(ctx, &c.client.reads, c.id, func(ctx context.Context) (cached, error) {
			began := time.Now()
			s, err := c.get(ctx)
			return cached{s, began}, err
		})
		if asked.Sub(r.read) <= max(c.client.cfg.ReadCache, 0) { // or else a slow read, which others asked for too long ago
			return r.Snapshot, time.Since(r.read), err
		}
	}
	return Snapshot{}, 0, ctx.Err()
}

// Remembered is [Counter.Get] from memory, however long ago this client has read the counter; age says how long. It
// reports false if it has no memory of it.
func (c Counter) Remembered() (s Snapshot, age time.Duration, ok bool) {
	known, ok := c.client.known.Get(c.id)
	if !ok || c.client.countsAny(known.Snapshot) != nil {
		return Snapshot{}, 0, false
	}
	return known.Snapshot, time.Since(known.read), true
}

// Left is how much this client knows to be left of the limit of a field: as its last commits and looks have left the
// shards, whatever other clients have taken or given back since. It reads nothing, and reports false where that is not
// known, or the field has no limit.
func (c Counter) Left(field string) (left int64, ok bool) {
	if c.client == nil {
		return 0, false
	}
	of, _ := c.client.db.Layout.Field(field)
	return c.client.shardsOf.left(place{c.id, of.Shard})
}

// Unknown is of how many of the counters this client has no memory, however old.
func (c *Client) Unknown(counters ...string) (n int) {
	for _, id := range counters {
		if !c.known.Contains(id) {
			n++
		}
	}
	return n
}

// Missing returns those of the counters that don't exist, or are being deleted, each once. It costs a
// read of each that this client has not read lately. Errors: [ErrInvalidID], or the client library's.
func (c *Client) Missing(ctx context.Context, counters ...string) ([]string, error) {
	for _, id := range counters {
		if err := c.db.Layout.Path.Validate(id); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrInvalidID, err)
		}
	}
	missing, err := c.resolve(ctx, counters...)
	if err != nil {
		return nil, fmt.Errorf("look for %d counters: %w", len(counters), err)
	}
	return missing, nil
}

// Unread is how many reads [Client.Missing] would take.
func (c *Client) Unread(counters ...string) int { return len(c.unread(counters)) }

// listPage is how many counters are read at a time.
const listPage = 500

// List yields all counters, in the order of their ids within a collection. If COUNTERS has several
// wildcards, counters without a base are left out. It ends with the first error, which is the client
// library's.
func (c *Client) List(ctx context.Context) iter.Seq2[Snapshot, error] {
	return func(yield func(Snapshot, error) bool) {
		for token := ""; ; {
			ids, next, err := c.db.List(ctx, listPage, token)
			var page []*Snapshot
			if err == nil {
				page, err = c.read(ctx, ids...)
			}
			if err != nil {
				yield(Snapshot{}, fmt.Errorf("list counters: %w", err))
				return
			}
			for _, s := range page {
				if s != nil && !yield(*s, nil) {
					return
				}
			}
			if token = next; token == "" {
				return
			}
		}
	}
}

// Watch yields the counter as it is, and again after changes, until ctx or the loop ends. Quick changes
// may come as one. It ends with an error: [ErrNotFound] once there is no such counter, [ErrNotCounted],
// or the client library's; none if ctx ends.
func (c Counter) Watch(ctx context.Context) iter.Seq2[Snapshot, error] {
	return func(yield func(Snapshot, error) bool) {
		err := c.call("watch", func() error {
			for doc, err := range c.client.db.Watch(ctx, c.client.db.Layout.Counter(c.id)) {
				var s Snapshot
				if err == nil {
					s, err = c.client.snapshotOf(c.id, doc)
				}
				if err == nil {
					err = c.client.countsAny(s)
				}
				if err != nil || !yield(s, nil) {
					return err
				}
			}
			return nil
		})
		if err != nil {
			yield(Snapshot{}, err)
		}
	}
}

// share has all who ask for a counter while it is read share that. Whoever asked first may go away, and the
// others still wait.
func share[V any](ctx context.Context, reads *singleflight.Group, counter string, read func(context.Context) (V, error)) (v V, err error) {
	result := reads.DoChan(counter, func() (any, error) { return read(context.WithoutCancel(ctx)) })
	select {
	case r := <-result:
		v, _ = r.Val.(V)
		return v, r.Err
	case <-ctx.Done():
		return v, ctx.Err()
	}
}
