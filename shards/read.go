package shards

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/firestore-counters/counters/internal/store"
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
	return *snapshots[0], c.client.checkAnyCounted(*snapshots[0])
}

// Cached is [Counter.Get] from memory if this client has read the counter within Config.ReadCache; age
// is how long ago. One read serves all who ask at the same time.
func (c Counter) Cached(ctx context.Context) (s Snapshot, age time.Duration, err error) {
	err = c.call("read", func() (err error) { s, age, err = c.cached(ctx); return err })
	return s, age, err
}

func (c Counter) cached(ctx context.Context) (Snapshot, time.Duration, error) {
	callBegan := time.Now()
	for ctx.Err() == nil {
		if known, ok := c.client.counters.within(c.client.cfg.ReadCache, c.id); ok {
			return known.Snapshot, time.Since(known.read), c.client.checkAnyCounted(known.Snapshot)
		}
		r, err := readTogether(ctx, &c.client.reads, c.id, func(ctx context.Context) (cached, error) {
			began := time.Now()
			s, err := c.get(ctx)
			return cached{s, began}, err
		})
		if callBegan.Sub(r.read) <= max(c.client.cfg.ReadCache, 0) { // or else a slow read, which others asked for too long ago
			return r.Snapshot, time.Since(r.read), err
		}
	}
	return Snapshot{}, 0, ctx.Err()
}

// Remembered is [Counter.Get] from memory, however long ago this client has read the counter; age says how long. It
// reports false if it has no memory of it.
func (c Counter) Remembered() (s Snapshot, age time.Duration, ok bool) {
	if c.client == nil {
		return Snapshot{}, 0, false
	}
	known, ok := c.client.counters.Get(c.id)
	if !ok || c.client.checkAnyCounted(known.Snapshot) != nil {
		return Snapshot{}, 0, false
	}
	return known.Snapshot, time.Since(known.read), true
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

// listPage is how many counters are listed at a time.
const listPage = 500

// List yields all counters, in the order of their ids within a collection. If COUNTERS has several
// wildcards, counters without a base are left out. It ends with the first error, which is the client
// library's.
func (c *Client) List(ctx context.Context) iter.Seq2[Snapshot, error] {
	return func(yield func(Snapshot, error) bool) {
		for token := ""; ; {
			ids, next, err := c.db.List(ctx, listPage, token)
			for len(ids) > 0 && err == nil {
				n := min(len(ids), c.lookUpPage())
				var page []*Snapshot
				page, err = c.read(ctx, ids[:n]...)
				for _, s := range page {
					if s != nil && !yield(*s, nil) {
						return
					}
				}
				ids = ids[n:]
			}
			if err != nil {
				yield(Snapshot{}, fmt.Errorf("list counters: %w", err))
				return
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
					err = c.client.checkAnyCounted(s)
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

// readTogether has all who ask for a counter while it is read share that. Whoever asked first may go away, and the
// others still wait.
func readTogether[V any](ctx context.Context, reads *singleflight.Group, counter string, read func(context.Context) (V, error)) (v V, err error) {
	result := reads.DoChan(counter, func() (any, error) { return read(context.WithoutCancel(ctx)) })
	select {
	case r := <-result:
		v, _ = r.Val.(V)
		return v, r.Err
	case <-ctx.Done():
		return v, ctx.Err()
	}
}

// Sum is [Counter.Get] with an exact total: what the counter started from and all its shards, added up
// on the server at one time. It costs two reads and one per 1,000 shards, and for fields such as
// comments=count(comments) one per 1,000 documents. There is one sum of a counter at a time; who asks
// meanwhile shares the next one. Errors: [ErrNotFound], [ErrNotCounted], [ErrNotInteger], or the client
// library's.
func (c Counter) Sum(ctx context.Context) (s Snapshot, err error) {
	err = c.call("sum", func() (err error) { s, err = c.sumTogether(ctx); return err })
	return s, err
}

// sumTogether shares a sum with all who ask before it has begun. Later ones may have added something.
func (c Counter) sumTogether(ctx context.Context) (Snapshot, error) {
	if err := ctx.Err(); err != nil {
		return Snapshot{}, err
	}
	return readTogether(ctx, &c.client.nextSums, c.id, func(ctx context.Context) (Snapshot, error) {
		over, err := c.client.turns.wait(ctx, c.client.db.Layout.Counter(c.id))
		if err != nil {
			return Snapshot{}, err
		}
		defer over()
		c.client.nextSums.Forget(c.id)
		return c.sum(ctx)
	})
}

// sum asks for all fields, as of one time: sums of shards, then queries.
func (c Counter) sum(ctx context.Context) (Snapshot, error) {
	db := c.client.db
	snapshot, at, fields, err := c.readTotals(ctx)
	if err != nil {
		return snapshot, err
	}
	totals := map[string]int64{}
	for name, field := range fields {
		totals[name] = field.total
	}
	c.client.setTotals(&snapshot, totals)
	for _, field := range db.Layout.Counted {
		counted, err := db.Aggregate(ctx, c.id, field.Counted, at)
		if err != nil {
			return snapshot, fmt.Errorf("count %s: %w", field, err)
		}
		snapshot.Reads += counted.Reads()
		if _, ok := store.Integer(counted.Value); field.Integer() && !ok {
			return snapshot, fmt.Errorf("%w: %s", ErrNotInteger, field)
		}
		c.client.setField(&snapshot, field, counted.Value)
	}
	snapshot.AsOf = at
	// What is not counted is known from the document, which may be older than shards. A query has just been asked.
	snapshot.NotCounted = slices.DeleteFunc(snapshot.NotCounted, func(name string) bool {
		_, sum := db.Layout.Field(name)
		return !sum || snapshot.total(name) != 0 || slices.Contains(snapshot.blocked, name)
	})
	return snapshot, c.client.checkAnyCounted(snapshot)
}

// fieldTotal are what a field's total is made of.
type fieldTotal struct {
	total  int64
	shards int64 // the whole part of what they hold together
	base   int64 // what the total holds beyond them
}

// readTotals reads what the counter's fields of shards are made of, by their names, all as of one time.
func (c Counter) readTotals(ctx context.Context) (snapshot Snapshot, at time.Time, totals map[string]fieldTotal, err error) {
	db := c.client.db
	snapshot, b, _, err := c.readExisting(ctx, db)
	if b != nil {
		snapshot.Reads, at = 2, b.At
	}
	if err == nil {
		err = b.Unusable
	}
	if err != nil {
		return snapshot, at, nil, err
	}
	b = b.WithExtensionNumbers(db.Layout.Sharded.Names())
	totals = map[string]fieldTotal{}
	sums, err := c.client.books.Sums(ctx, c.id, db.Layout.Sharded, nil, at)
	if snapshot.Reads += int64(len(db.Layout.Sharded)); err != nil {
		return snapshot, at, nil, err
	}
	for _, field := range db.Layout.Sharded {
		total, ok := b.Base.Total(field, sums[field.Name].Value)
		if !ok {
			sum, _ := store.Float(sums[field.Name].Value)
			return snapshot, at, nil, fmt.Errorf("%w: the sum of %s is %v, and %d beyond its shards: set right what they hold", ErrNotInteger, field.Shard, sum, b.Base.Counts[field.Shard])
		}
		base := b.Base.Counts[field.Shard]
		totals[field.Name] = fieldTotal{total: total, shards: total - base, base: base}
	}
	return snapshot, at, totals, nil
}

// Audit is what a field of a counter is made of, all at one time.
type Audit struct {
	Field   string `json:"field"`
	Shards  int64  `json:"shards"`  // what they add up to
	Members int64  `json:"members"` // whom they count once each
	// Otherwise is what is counted besides the members: what was incremented, and Base. In a field that is for members
	// only it is 0, and anything else says that shards and memberships don't agree.
	Otherwise int64 `json:"otherwise"`
	// what the counter started from, or was set to, beyond its shards
	Base  int64 `json:"base"`
	Exact int64 `json:"exact"` // shards and base together: see [Counter.Sum]
	Total int64 `json:"total"` // as the roll-up has it, about a second old
}

// Audit counts the members of each field and adds up its shards, on the server and at one time. It
// costs two reads, two more per field, and one per 1,000 shards or members. Errors are those of
// [Counter.Sum].
func (c Counter) Audit(ctx context.Context) (audits []Audit, err error) {
	err = c.call("audit", func() (err error) { audits, err = c.audit(ctx); return err })
	return audits, err
}

func (c Counter) audit(ctx context.Context) ([]Audit, error) {
	s, at, fields, err := c.readTotals(ctx)
	if err != nil {
		return nil, err
	}
	db := c.client.db
	var audits []Audit
	for _, field := range db.Layout.Sharded.Named() {
		members, err := db.Count(ctx, db.Layout.MembersOf(c.id, field.Name), "", at)
		if err != nil {
			return nil, fmt.Errorf("count members: %w", err)
		}
		of := fields[field.Name]
		audits = append(audits, Audit{
			Field: field.Name, Members: members, Base: of.base, Shards: of.shards,
			Otherwise: store.Sub(of.total, members), Exact: of.total, Total: s.total(field.Name),
		})
	}
	return audits, nil
}
