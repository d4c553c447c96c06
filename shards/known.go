package shards

import (
	"cmp"
	"context"
	"maps"
	"path"
	"slices"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/escrow"
	"github.com/firestore-counters/counters/internal/hold"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

func (c *Client) unread(counters []string) (unread []string) {
	for _, id := range counters {
		if _, known := c.known.within(c.cfg.CacheTTL, id); !known {
			unread = append(unread, id)
		}
	}
	return unread
}

// resolve looks up counters that the client doesn't know, and returns those that don't exist, or are
// being deleted.
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

// read reads counters' documents, and remembers them; nil is one that doesn't exist, or is being
// deleted.
func (c *Client) read(ctx context.Context, counters ...string) ([]*Snapshot, error) {
	names := make([]string, len(counters))
	for i, id := range counters {
		names[i] = c.db.Layout.Counter(id)
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

// countsAny is an [ErrNotCounted] if nothing that this client counts is counted in the counter.
func (c *Client) countsAny(s Snapshot) error {
	if len(s.NotCounted) < len(c.db.Layout.Fields)+len(c.db.Layout.Counted) {
		return nil
	}
	return s.Counts(s.NotCounted[0])
}

// snapshotOf reads a counter's document, which a public snippet may have made. Its error is
// [ErrNotFound].
func (c *Client) snapshotOf(counter string, doc *firestorepb.Document) (Snapshot, error) {
	if doc == nil || book.Deleting(c.db.Layout, doc) {
		return Snapshot{}, ErrNotFound
	}
	s := Snapshot{Counter: counter, NumShards: cmp.Or(book.NumShards(c.db.Layout, doc), c.cfg.NumShards), UpdatedAt: doc.GetUpdateTime().AsTime()}
	if len(c.db.Layout.Fields) == 0 {
		s.NumShards = 0
	}
	rolledUp := book.Own(c.db.Layout, doc)[layout.UpdatedAt].GetTimestampValue()
	if rolledUp != nil {
		s.UpdatedAt = rolledUp.AsTime()
	}
	shown, fields := c.db.Layout.Shown(), doc.GetFields()
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

// set sets a field in a snapshot.
func (c *Client) set(s *Snapshot, field layout.Field, value *firestorepb.Value) {
	total, _ := store.Integer(value)
	if first, _ := c.db.Layout.First(); field.Name == first.Name {
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

// limited are those of a batch's counters that have a limit, as far as is known.
func (c *Client) limited(sums sums) (counters []string) {
	for _, sum := range sums {
		if known, ok := c.known.Peek(sum.counter); ok && known.limited {
			counters = append(counters, sum.counter)
		}
	}
	return counters
}

// there reads markers, requests' memberships and the entries of holds at one time. It returns those
// that are there, by their [request.documents].
func (c *Client) there(ctx context.Context, markers []string, requests []*request) (map[string]marker, error) {
	ids, names := slices.Clone(markers), make([]string, 0, len(markers)+len(requests))
	for _, id := range markers {
		names = append(names, c.db.Layout.Request(id))
	}
	for _, r := range requests {
		if r.member != nil {
			ids, names = append(ids, r.member.name), append(names, r.member.name)
			if r.member.entry != "" {
				ids, names = append(ids, r.member.entry), append(names, r.member.entry)
			}
		}
	}
	docs, _, err := c.db.Get(ctx, names...)
	if err != nil {
		return nil, err
	}
	there := make(map[string]marker)
	for i, doc := range docs {
		if doc != nil {
			there[ids[i]] = decodeMarker(doc)
		}
	}
	return there, nil
}

func decodeMarker(doc *firestorepb.Document) marker {
	return marker{
		batch:   doc.GetFields()[markerBatch].GetStringValue(),
		asked:   doc.GetFields()[markerAsked].GetStringValue(),
		settled: doc.GetFields()[markerSettled].GetBooleanValue(),
		at:      doc.GetUpdateTime().AsTime(),
		held:    doc.GetFields()[hold.Until] != nil,
	}
}

// memberOf reads a membership.
func memberOf(doc *firestorepb.Document) Member {
	m := Member{Member: path.Base(doc.GetName()), At: doc.GetCreateTime().AsTime()}
	if at := doc.GetFields()[memberAt].GetTimestampValue(); at != nil {
		m.At = at.AsTime()
	}
	if until := doc.GetFields()[hold.Until].GetTimestampValue(); until != nil {
		m.Until = until.AsTime()
	}
	return m
}

// holdingOf is what a shard's document holds. A field whose numbers can't be a shard's has no room, and
// holds nothing that is given back: something else wrote it.
func holdingOf(doc *firestorepb.Document) holding {
	h := holding{shard: doc.GetName(), version: doc.GetUpdateTime().AsTime()}
	for name := range doc.GetFields() {
		if field, ok := layout.SharedField(name); ok {
			if h.fields == nil {
				h.fields = make(map[string]escrow.Held, 1)
			}
			h.fields[field], _ = book.HeldOf(doc, field)
		}
	}
	return h
}
