package shards

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// Snapshot is a counter's document.
type Snapshot struct {
	Counter string `json:"counter"`
	Total   int64  `json:"total"` // of the first field that is counted, as the roll-up has it, about a second old
	// Totals are those of all fields, by their names, where more than one is counted; otherwise nil. Those that count documents
	// are among them.
	Totals    map[string]int64 `json:"totals,omitempty"`
	NumShards int              `json:"num_shards"`
	UpdatedAt time.Time        `json:"updated_at"` // when the total was last written

	inferred bool // the number of shards is: see [layout.NumShardsInferred]
}

// Get reads the counter's document. Errors: [ErrNotFound], or the client library's.
func (c Counter) Get(ctx context.Context) (Snapshot, error) {
	snapshots, err := c.client.read(ctx, c.id)
	if err != nil {
		return Snapshot{}, fmt.Errorf("read counter %q: %w", c.id, err)
	}
	if snapshots[0] == nil {
		return Snapshot{}, fmt.Errorf("read counter %q: %w", c.id, ErrNotFound)
	}
	return *snapshots[0], nil
}

// Cached is [Counter.Get] from memory, where this client has read the counter within Config.ReadCache, and age is how long
// ago that was. One read does for all who ask at the same time. It is as fresh as the total itself, which lags by about a
// second.
func (c Counter) Cached(ctx context.Context) (s Snapshot, age time.Duration, err error) {
	asked := time.Now()
	for {
		if s, age, ok := c.client.known.snapshot(c.id); ok {
			return s, age, nil
		}
		read := c.client.reads.DoChan(c.id, func() (any, error) {
			// Whoever asked first may go away, and the others still wait.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.client.cfg.Timeout)
			defer cancel()
			r := cached{read: time.Now()}
			var err error
			r.Snapshot, err = c.Get(ctx)
			return r, err
		})
		select {
		case result := <-read:
			r, _ := result.Val.(cached)
			known := result.Err == nil || errors.Is(result.Err, ErrNotFound)
			if known && asked.Sub(r.read) > c.client.cfg.ReadCache {
				continue // a slow read, which others asked for too long ago
			}
			return r.Snapshot, time.Since(r.read), result.Err
		case <-ctx.Done():
			return Snapshot{}, 0, fmt.Errorf("read counter %q: %w", c.id, ctx.Err())
		}
	}
}

// read reads counters' documents, and remembers them; nil is one that doesn't exist, or is being deleted.
func (c *Client) read(ctx context.Context, counters ...string) ([]*Snapshot, error) {
	names := make([]string, len(counters))
	for i, id := range counters {
		names[i] = c.db.Counter(id)
	}
	began := time.Now()
	docs, _, err := c.db.Get(ctx, names...)
	if err != nil {
		return nil, err
	}
	snapshots := make([]*Snapshot, len(counters))
	for i, doc := range docs {
		s, ok := c.snapshotOf(counters[i], doc)
		if !ok {
			c.known.forget(counters[i])
			continue
		}
		c.known.put(s, began)
		snapshots[i] = &s
	}
	return snapshots, nil
}

// snapshotOf reads a counter's document, which may be a public snippet's. It reports false for a counter that doesn't
// exist, or is being deleted.
func (c *Client) snapshotOf(counter string, doc *firestorepb.Document) (Snapshot, bool) {
	if doc == nil || c.isDeleting(doc) {
		return Snapshot{}, false
	}
	count := c.db.ShardCount(doc)
	s := Snapshot{Counter: counter, NumShards: count.N, UpdatedAt: doc.GetUpdateTime().AsTime()}
	s.inferred = count.Inferred || !count.Written
	s.Total, _ = store.Integer(doc.GetFields()[c.db.Fields[0].Name])
	if len(c.db.Fields)+len(c.db.Counted) > 1 {
		s.Totals = make(map[string]int64, len(c.db.Fields)+len(c.db.Counted))
		for _, fields := range []layout.Fields{c.db.Fields, c.db.Counted} {
			for _, field := range fields {
				s.Totals[field.Name], _ = store.Integer(doc.GetFields()[field.Name])
			}
		}
	}
	if at := c.db.Own(doc)[layout.UpdatedAt].GetTimestampValue(); at != nil {
		s.UpdatedAt = at.AsTime()
	}
	return s, true
}

// listPage is how many counters are read at a time. A query of all of them might take longer than Firestore lets one.
const listPage = 500

// List yields all counters, in the order of their ids within a collection. Where COUNTERS has several wildcards, counters
// that have not been rolled up yet are left out. It ends with the first error, which is the client library's.
func (c *Client) List(ctx context.Context) iter.Seq2[Snapshot, error] {
	return func(yield func(Snapshot, error) bool) {
		for token := ""; ; {
			ids, next, err := c.db.List(ctx, listPage, token)
			names := make([]string, len(ids))
			for i, id := range ids {
				names[i] = c.db.Counter(id)
			}
			var docs []*firestorepb.Document
			if err == nil {
				docs, _, err = c.db.Get(ctx, names...)
			}
			if err != nil {
				yield(Snapshot{}, fmt.Errorf("list counters: %w", err))
				return
			}
			for i, doc := range docs {
				if s, ok := c.snapshotOf(ids[i], doc); ok && !yield(s, nil) {
					return
				}
			}
			if token = next; token == "" {
				return
			}
		}
	}
}

// Watch yields the counter as it is, and again with every change of its document, as long as ctx and the loop last.
// Changes that follow each other quickly may come as one. It ends with an error: [ErrNotFound] when there is no such
// counter any more, or the client library's; when ctx ends it just ends.
func (c Counter) Watch(ctx context.Context) iter.Seq2[Snapshot, error] {
	return func(yield func(Snapshot, error) bool) {
		for doc, err := range c.client.db.Watch(ctx, c.client.db.Counter(c.id)) {
			var s Snapshot
			if err == nil {
				var ok bool
				if s, ok = c.client.snapshotOf(c.id, doc); !ok {
					err = ErrNotFound
				}
			}
			if err != nil {
				yield(Snapshot{}, fmt.Errorf("watch counter %q: %w", c.id, err))
				return
			}
			if !yield(s, nil) {
				return
			}
		}
	}
}
