package rollup

import (
	"context"
	"fmt"
	"time"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// Each write of a shard leaves a deleted entry in the index that sum() reads, for about an hour: 92 writes a second
// leave 331,000 among 100 live ones, and a query scans over them. Nobody has published how long that takes. So
// questions are timed, and once entries slow them the counter's sums are bounded: its shards are listed by name, and
// their least number is kept. From then on one query asks for the sum and the count of shards that hold at least that,
// and another counts all. If the counts differ, or the questions are slow again, the shards are listed again.

const (
	// A question is slow that takes longer than two lone queries, which a bounded one or one of several fields takes, by
	// more than slower.
	slower = 100 * time.Millisecond
	// deadFor is how long a deleted entry stays in an index. A bound that is as old has nothing to skip any more.
	deadFor = time.Hour
	// A listing reads each shard. The first one waits for a quarter as many events as there are shards. Each later one
	// waits for four times as many, and so costs at most a quarter of a read an event.
	dear = 4
	// A counter with fewer events within deadFor is quiet. It is asked plainly, also if chance makes a query slow.
	quiet = 100
	// below is by how much a shard may fall below the least number before it is listed again.
	below = 16
)

// bound is what is known of a counter's shards, so that their sums are asked for quickly. It is pure.
type bound struct {
	since  time.Time        // when the shards were listed, or the counter was first asked
	events int64            // since then
	shards int64            // how many there were
	slow   bool             // dead entries make its questions slow
	least  map[string]int64 // :: field of the shards → the least that one held, less below; nil before the first listing
}

// way is how a counter's sums are asked for.
type way int

const (
	unbounded way = iota // queries of all shards
	bounded              // queries of the shards that hold at least the least known number
	listed               // no query: a list of the shards
)

// next says how a flight asks for the sums of some fields.
func (b *bound) next(f flight, fields layout.Fields) way {
	if f.started.Sub(b.since) > deadFor {
		*b = bound{since: f.started, shards: b.shards}
	}
	b.events += f.events
	switch {
	case b.slow && (b.least == nil && b.events >= max(quiet, b.shards/dear) || b.least != nil && b.events >= b.shards*dear):
		return listed
	case b.least == nil:
		return unbounded
	}
	for _, field := range fields {
		if _, known := b.least[field.Shard]; !known { // a shard lacks the field, so the two counts would always differ
			return unbounded
		}
	}
	return bounded
}

// took notes how long a question took, beside a lone query. Without an answer it is asked in another way next.
func (b *bound) took(question, lone time.Duration, answers map[string]book.Answer, err error) {
	b.slow = question > 2*lone+slower
	switch {
	case b.slow && err != nil:
		b.shards, b.events = 0, b.events+quiet
	case b.least == nil:
		for _, a := range answers {
			b.shards = max(b.shards, a.Numbers)
		}
	}
}

// see notes what all shards hold.
func (b *bound) see(now time.Time, fields layout.Fields, docs book.Shards) {
	*b = bound{since: now, shards: int64(len(docs)), least: map[string]int64{}}
	for _, field := range fields {
		least, shards, numbers := int64(0), 0, 0
		for _, doc := range docs {
			if !field.CountedIn(store.IDOf(doc.GetName())) {
				continue
			}
			value, has := doc.GetFields()[field.Shard]
			n, ok := store.Integer(value)
			if shards++; shards == 1 || n < least {
				least = n
			}
			if has && ok {
				numbers++
			}
		}
		if numbers == shards && shards > 0 {
			b.least[field.Shard] = store.Sub(least, below)
		}
	}
}

// sums asks for sums of shards, by the names of their fields, all as of one time. It returns how many reads that took.
func (c *Client) sums(ctx context.Context, f flight, fields layout.Fields, b *bound) (answers map[string]book.Answer, reads int, err error) {
	if len(fields) == 0 {
		return nil, 0, nil
	}
	if way := b.next(f, fields); way != listed {
		var whole bool
		if answers, whole, reads, err = c.sumsByQuery(ctx, f, fields, b, way); err != nil || whole {
			return answers, reads, err
		}
	}
	answers, listReads, err := c.sumsByList(ctx, f, fields, b)
	return answers, reads + listReads, err
}

// sumsByQuery asks for sums by a query for each field, which leaves out shards below the least known number where it is
// bounded. It reports whether the sums are whole, which means of all shards: others always are.
func (c *Client) sumsByQuery(ctx context.Context, f flight, fields layout.Fields, b *bound, way way) (answers map[string]book.Answer, whole bool, reads int, err error) {
	began, least := time.Now(), b.least
	if way == unbounded {
		least = nil
	}
	answers, err = c.books.Sums(ctx, f.counter, fields, least, time.Time{})
	took := time.Since(began)
	reads = len(fields)
	b.took(took, c.lone(took, err), answers, err)
	if err != nil || way == unbounded && !b.slow {
		return answers, err == nil, reads, err
	}
	// The shards are counted. If the sums are bounded, the numbers tell whether they are whole. If they are slow, the
	// time of the counts, which read no deleted entries, tells whether all queries are slow, and not these alone.
	counts := 1 + len(c.db.Layout.Apart())
	began = time.Now()
	whole, err = c.coverAllShards(ctx, f.counter, fields, answers)
	reads += counts
	if err != nil {
		return nil, false, reads, err
	}
	b.took(took, c.measured(time.Since(began)/time.Duration(counts)), answers, nil)
	return answers, whole || way == unbounded, reads, nil
}

// sumsByList reads all shards and adds up what they hold. It also notes their least numbers, for bounded queries.
func (c *Client) sumsByList(ctx context.Context, f flight, fields layout.Fields, b *bound) (answers map[string]book.Answer, reads int, err error) {
	all := c.db.Layout.Fields
	docs, at, err := c.db.DocumentsAsOf(ctx, store.Query{Collection: c.db.Layout.ShardsOf(f.counter), Fields: paths(all)})
	if err != nil {
		return nil, 0, fmt.Errorf("list shards: %w", err)
	}
	b.see(f.started, all, docs)
	answers = map[string]book.Answer{}
	for _, field := range fields {
		answers[field.Name] = book.Answer{Value: book.Shards(docs).SumOf(field), At: at}
	}
	return answers, max(1, len(docs)), nil
}

// lone is how long a lone query takes, as far as is known: no longer than one that was just answered.
func (c *Client) lone(took time.Duration, err error) time.Duration {
	c.owner.Lock()
	defer c.owner.Unlock()
	if err == nil {
		c.query = min(c.query, took)
	}
	return c.query
}

// measured notes how long a query took that reads no index with deleted entries.
func (c *Client) measured(took time.Duration) time.Duration {
	c.owner.Lock()
	defer c.owner.Unlock()
	c.query = took
	return took
}

// coverAllShards reports whether sums are of all shards in which their fields are counted: see [layout.Field.Apart].
func (c *Client) coverAllShards(ctx context.Context, counter string, fields layout.Fields, sums map[string]book.Answer) (bool, error) {
	collection, at := c.db.Layout.ShardsOf(counter), sums[fields[0].Name].At
	others, err := c.db.Count(ctx, collection, "", at)
	shards := map[string]int64{} // :: field that shards have which are a field's own, "" of the others → how many there are
	for _, apart := range c.db.Layout.Apart() {
		if err == nil {
			shards[apart], err = c.db.Count(ctx, collection, apart, at)
			others -= shards[apart]
		}
	}
	if err != nil {
		return false, fmt.Errorf("count shards: %w", err)
	}
	shards[""] = others
	for _, field := range fields {
		if sums[field.Name].Numbers != shards[field.Apart()] {
			return false, nil
		}
	}
	return true, nil
}

// paths are the paths of the fields in the shards.
func paths(fields layout.Fields) (paths []string) {
	for _, field := range fields {
		paths = append(paths, layout.FieldPath(field.Shard))
	}
	return paths
}
