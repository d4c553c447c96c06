package shards

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// Snapshot is a counter's document.
type Snapshot struct {
	Counter string `json:"counter"`
	// of the first field of shards, as the roll-up has it, about a second old; where there is none,
	// of the first other that is an integer, and 0 where there is none of these either
	Total int64 `json:"total"`
	// Totals are those of all fields, by their names, where more than one is counted; otherwise
	// nil. Those that count documents are among them.
	Totals map[string]int64 `json:"totals,omitempty"`
	// Doubles are the fields that are no integers, such as rating=avg(ratings.stars), by their names:
	// nil for the average of none, and for what JSON has no number for.
	Doubles map[string]*float64 `json:"doubles,omitempty"`
	// NotCounted are those that are not in the document, though it was rolled up: the field is new,
	// or the counter has others. Their totals are 0.
	NotCounted []string `json:"not_counted,omitempty"`
	// Limits are those of the fields that have one (see [Counter.SetLimit]), by their names, and Left what
	// is left of them by the totals above: more may be taken by now.
	Limits map[string]int64 `json:"limits,omitempty"`
	Left   map[string]int64 `json:"left,omitempty"`

	NumShards int       `json:"num_shards"` // 0 where documents alone are counted
	UpdatedAt time.Time `json:"updated_at"` // when the total was last written

	Reads int64 `json:"-"` // what [Counter.Sum] was billed as, with an error too; 0 of others

	// fields of the document that may be counted instead, where none is that is asked for
	there   []string
	limited bool // a field has a limit, by the document, or by the ledger where that was read
}

// total is that of a field, or the only one.
func (s Snapshot) total(field string) int64 {
	if s.Totals == nil {
		return s.Total
	}
	return s.Totals[field]
}

// Counts says, as [ErrNotCounted], that fields are not counted in this counter, by their
// names, and what is.
func (s Snapshot) Counts(fields ...string) error {
	for _, field := range fields {
		if slices.Contains(s.NotCounted, field) {
			return fmt.Errorf("%w: %s; its document has %s (FIELDS says what is counted; the next roll-up brings what is new)",
				ErrNotCounted, field, cmp.Or(strings.Join(s.there, ", "), "no numbers"))
		}
	}
	return nil
}

// countsAny reports, as [ErrNotCounted], that nothing of what this client counts is counted in a
// counter: its totals are no zeros.
func (c *Client) countsAny(s Snapshot) error {
	if len(s.NotCounted) < len(c.db.Fields)+len(c.db.Counted) {
		return nil
	}
	return s.Counts(s.NotCounted[0])
}

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

// Cached is [Counter.Get] from memory, where this client has read the counter within
// Config.ReadCache, and age is how long ago that was. One read does for all who ask at the same
// time. It is as fresh as the total itself, which lags by about a second.
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
		read := c.client.reads.DoChan(c.id, func() (any, error) {
			began := time.Now()
			// Whoever asked first may go away, and the others still wait.
			s, err := c.get(context.WithoutCancel(ctx))
			return cached{s, began}, err
		})
		select {
		case result := <-read:
			r, _ := result.Val.(cached)
			if asked.Sub(r.read) > max(c.client.cfg.ReadCache, 0) {
				continue // a slow read, which others asked for too long ago
			}
			return r.Snapshot, time.Since(r.read), result.Err
		case <-ctx.Done():
		}
	}
	return Snapshot{}, 0, ctx.Err()
}

// Missing returns those of the counters that don't exist, or are being deleted, each once. It
// costs a read of each that this client has not read lately. Errors: [ErrInvalidID], or the
// client library's.
func (c *Client) Missing(ctx context.Context, counters ...string) ([]string, error) {
	for _, id := range counters {
		if err := c.db.Path.Validate(id); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrInvalidID, err)
		}
	}
	missing, err := c.resolve(ctx, counters...)
	if err != nil {
		return nil, fmt.Errorf("look for %d counters: %w", len(counters), err)
	}
	return missing, nil
}

// Unread is how many of the counters this client has not read lately, each counted as often as it is
// named: what [Client.Missing] would read.
func (c *Client) Unread(counters ...string) int { return len(c.unread(counters)) }

func (c *Client) unread(counters []string) (unread []string) {
	for _, id := range counters {
		if _, known := c.known.within(c.cfg.CacheTTL, id); !known {
			unread = append(unread, id)
		}
	}
	return unread
}

// resolve has the client know the counters, and returns those that don't exist, or are being
// deleted.
func (c *Client) resolve(ctx context.Context, counters ...string) (missing []string, err error) {
	unknown := c.unread(counters)
	if len(unknown) == 0 {
		return nil, nil
	}
	there, err := c.lookups.ask(ctx, unknown)
	if err != nil {
		return nil, err
	}
	for _, id := range unknown {
		if !there[id] && !slices.Contains(missing, id) {
			missing = append(missing, id)
		}
	}
	return missing, nil
}

// lookUp tells which counters are there.
func (c *Client) lookUp(counters []string) (there map[string]bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.Timeout)
	defer cancel()
	snapshots, err := c.read(ctx, counters...)
	pauses := store.Pauses() // a quota's refusal may pass, which no read repeats
	for try := 1; status.Code(err) == codes.ResourceExhausted && try < maxFailures && gax.Sleep(ctx, pauses.Pause()) == nil; try++ {
		snapshots, err = c.read(ctx, counters...)
	}
	there = make(map[string]bool, len(snapshots))
	for i, s := range snapshots {
		there[counters[i]] = s != nil
	}
	return there, err
}

// read reads counters' documents, and remembers them; nil is one that doesn't exist, or
// is being deleted.
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
		s, err := c.snapshotOf(counters[i], doc)
		if err != nil {
			c.known.Remove(counters[i])
			continue
		}
		c.known.put(s, began)
		snapshots[i] = &s
	}
	return snapshots, nil
}

// snapshotOf reads a counter's document, which may be a public snippet's. Its error is
// [ErrNotFound] alone.
func (c *Client) snapshotOf(counter string, doc *firestorepb.Document) (Snapshot, error) {
	if doc == nil || book.Deleting(c.db.Layout, doc) {
		return Snapshot{}, ErrNotFound
	}
	s := Snapshot{Counter: counter, NumShards: cmp.Or(book.NumShards(c.db.Layout, doc), c.cfg.NumShards), UpdatedAt: doc.GetUpdateTime().AsTime()}
	if len(c.db.Fields) == 0 {
		s.NumShards = 0
	}
	rolledUp := book.Own(c.db.Layout, doc)[layout.UpdatedAt].GetTimestampValue()
	if rolledUp != nil {
		s.UpdatedAt = rolledUp.AsTime()
	}
	shown, fields := c.db.Shown(), doc.GetFields()
	if len(shown) > 1 || !shown[0].Integer() {
		s.Totals, s.Doubles = make(map[string]int64, len(shown)), map[string]*float64{}
	}
	for _, field := range shown {
		c.set(&s, field, fields[field.Name])
		if rolledUp != nil && fields[field.Name] == nil {
			s.NotCounted = append(s.NotCounted, field.Name)
		}
	}
	s.Limits = book.LimitsOf(c.db.Layout, doc)
	s.limited = s.Limits != nil
	s.subtract()
	if s.NotCounted == nil {
		return s, nil
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if _, number := store.Integer(fields[name]); number && fields[name] != nil && name != layout.NumShards && name != layout.NumShardsLegacy {
			s.there = append(s.there, name)
		}
	}
	return s, nil
}

// subtract works out what is left of the limits.
func (s *Snapshot) subtract() {
	if s.Limits == nil {
		return
	}
	s.Left = make(map[string]int64, len(s.Limits))
	for field, limit := range s.Limits {
		s.Left[field] = max(0, limit-s.total(field))
	}
}

// set sets a field in a snapshot.
func (c *Client) set(s *Snapshot, field layout.Field, value *firestorepb.Value) {
	total, _ := store.Integer(value)
	if first, _ := c.db.First(); field.Name == first.Name {
		s.Total = total
	}
	switch {
	case s.Totals == nil:
	case field.Integer():
		s.Totals[field.Name] = total
	default:
		s.Doubles[field.Name] = store.Number(value)
	}
}

// listPage is how many counters are read at a time. A query of all of them might take longer than
// Firestore lets one.
const listPage = 500

// List yields all counters, in the order of their ids within a collection. Where COUNTERS has
// several wildcards, counters that have not been rolled up yet are left out. It ends with the first
// error, which is the client library's.
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

// Watch yields the counter as it is, and again with every change of its document, as long as ctx
// and the loop last. Changes that follow each other quickly may come as one. It ends with an error:
// [ErrNotFound] when there is no such counter any more, [ErrNotCounted], or the client library's;
// when ctx ends it just ends.
func (c Counter) Watch(ctx context.Context) iter.Seq2[Snapshot, error] {
	return func(yield func(Snapshot, error) bool) {
		err := c.call("watch", func() error {
			for doc, err := range c.client.db.Watch(ctx, c.client.db.Counter(c.id)) {
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
