package shards

import (
	"cmp"
	"context"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/googleapis/gax-go/v2"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/ceiling"
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
// being deleted. What it knows is trusted for longer than Config.CacheTTL while the budget has no reads for it.
func (c *Client) resolve(ctx context.Context, counters ...string) (missing []string, err error) {
	unknown := c.unread(counters)
	if never := slices.DeleteFunc(slices.Clone(unknown), c.known.Contains); len(never) < len(unknown) {
		look := ceiling.Amounts{ceiling.Reads: float64(book.Reads * (len(unknown) - len(never)))}
		if c.cfg.Budget.Promise(look) == 0 {
			defer c.cfg.Budget.Back(look)
		} else {
			unknown = never
		}
	}
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
	others, err := c.books.CheckSettings(ctx, counters, docs)
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
		s.others = others[i]
		c.known.put(s, began)
		snapshots[i] = &s
	}
	return snapshots, nil
}

// checkSettings is an [ErrOthers] if one of the counters is counted with other settings, as far as is known.
func (c *Client) checkSettings(counters []string) error {
	for _, id := range counters {
		if known, ok := c.known.Peek(id); ok && known.others != nil {
			return known.others
		}
	}
	return nil
}

// countsAny is an [ErrNotCounted] if nothing that this client counts is counted in the counter.
func (c *Client) countsAny(s Snapshot) error {
	if len(s.NotCounted) < len(c.db.Layout.Shown().Asked()) || len(s.kept) > 0 {
		return nil
	}
	return s.Counts(s.NotCounted[0])
}

// snapshotOf is a counter's document as a snapshot. In one that a public snippet has made nothing is ours, and no field
// is missing. The error is [ErrNotFound].
func (c *Client) snapshotOf(counter string, doc *firestorepb.Document) (Snapshot, error) {
	if doc == nil {
		return Snapshot{}, ErrNotFound
	}
	s := Snapshot{Counter: counter, NumShards: cmp.Or(book.NumShards(c.db.Layout, doc), c.cfg.NumShards), UpdatedAt: doc.GetUpdateTime().AsTime()}
	s.bare = book.NumShards(c.db.Layout, doc) == 0
	if len(c.db.Layout.Fields) == 0 {
		s.NumShards = 0
	}
	rolledUp := book.Own(c.db.Layout, doc)[layout.UpdatedAt].GetTimestampValue()
	if rolledUp != nil {
		s.UpdatedAt = rolledUp.AsTime()
	}
	shown, fields := c.db.Layout.Shown(), doc.GetFields()
	if len(shown.Asked()) > 1 || !shown[0].Integer() {
		s.Totals = make(map[string]int64, len(shown))
	}
	s.kept, _ = book.Kept(c.db.Layout, doc)
	for _, field := range shown {
		if c.set(&s, field, fields[field.Name]); field.LimitOf != "" {
			continue
		}
		if slices.Contains(s.kept, field.Name) || rolledUp != nil && fields[field.Name] == nil {
			s.NotCounted = append(s.NotCounted, field.Name)
		}
	}
	for field, at := range doc.GetFields()[layout.Rollup].GetMapValue().GetFields()[layout.AsOf].GetMapValue().GetFields() {
		if at.GetTimestampValue() != nil {
			if s.asOf == nil {
				s.asOf = map[string]time.Time{}
			}
			s.asOf[field] = at.GetTimestampValue().AsTime()
		}
	}
	s.earliest(shown)
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

// set sets a field in a snapshot. If somebody has written a fraction over a total, the total is its whole part, and the
// fraction is among the doubles.
func (c *Client) set(s *Snapshot, field layout.Field, value *firestorepb.Value) {
	total, whole := store.Integer(value)
	if field.LimitOf != "" {
		if value != nil && whole {
			if s.Limits == nil {
				s.Limits = map[string]int64{}
			}
			s.Limits[field.LimitOf] = total
		}
		return
	}
	fraction, number := store.Float(value)
	if field.Integer() && !whole && math.Abs(fraction) < 1<<63 {
		total = int64(fraction)
	}
	if first, _ := c.db.Layout.First(); field.Name == first.Name {
		s.Total = total
	}
	if s.Totals != nil && field.Integer() {
		s.Totals[field.Name] = total
	}
	delete(s.Doubles, field.Name)
	if !field.Integer() || number && !whole {
		if s.Doubles == nil {
			s.Doubles = map[string]*float64{}
		}
		s.Doubles[field.Name] = store.Number(value)
	}
}

// markersThere reads, at one time, markers and the requests' memberships and entries of holds. It returns those that
// exist, by the names that [request.documents] gives them.
func (c *Client) markersThere(ctx context.Context, markers []string, requests []*request) (map[string]marker, error) {
	ids, names := slices.Clone(markers), make([]string, 0, len(markers)+len(requests))
	for _, id := range markers {
		names = append(names, c.markerName(id))
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
	found := make(map[string]marker)
	for i, doc := range docs {
		if doc != nil {
			m := decodeMarker(doc)
			if hold.IsRecord(doc) {
				m.record = new(hold.RecordOf(doc))
			}
			found[ids[i]] = m
		}
	}
	return found, nil
}

// markerName is the resource name of a marker of that id. A hold's record has no other id.
func (c *Client) markerName(id string) string {
	if strings.Contains(id, "/") {
		return id
	}
	return c.db.Layout.Request(id)
}

func decodeMarker(doc *firestorepb.Document) marker {
	return marker{
		batch:  doc.GetFields()[markerBatch].GetStringValue(),
		asked:  doc.GetFields()[markerAsked].GetStringValue(),
		fenced: doc.GetFields()[markerFenced].GetBooleanValue(),
		at:     doc.GetUpdateTime().AsTime(),
		held:   doc.GetFields()[hold.Until] != nil,
	}
}

// memberOf reads a membership.
func memberOf(doc *firestorepb.Document) Member {
	m := Member{Member: path.Base(doc.GetName()), At: doc.GetCreateTime().AsTime(), From: doc.GetFields()[memberFrom].GetStringValue()}
	if at := doc.GetFields()[memberAt].GetTimestampValue(); at != nil {
		m.At = at.AsTime()
	}
	if until := doc.GetFields()[hold.Until].GetTimestampValue(); until != nil {
		m.Until = until.AsTime()
	}
	return m
}

// sideBySide is how many reads, or makings of counters, of a call are under way at once.
const sideBySide = 16

// each calls do for all items, for some of them side by side, and returns one of the errors.
func each[T any](items []T, do func(i int, item T) error) error {
	var group errgroup.Group
	group.SetLimit(sideBySide)
	for i, item := range items {
		group.Go(func() error { return do(i, item) })
	}
	return group.Wait()
}
