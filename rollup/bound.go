package rollup

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// Each write of a shard leaves a deleted entry in the index that sum() reads, for about an hour: 92 writes a second
// leave 331,000 among 100 live ones, and a query scans over them. So a busy counter's sums are bounded: its shards are
// listed by name now and then, and their least number is kept. Until the next listing one query asks for the sum and
// the count of shards that hold at least that, and another counts all. If the counts differ, the shards are listed.

const (
	// After busyAfter events a counter is busy, if each refresh began within two intervals of the one before. A plain
	// question scans about that many deleted entries.
	busyAfter = 1000
	// A question that takes longer than slowQuestion makes it busy at once: others may have written its shards for an
	// hour. A lone query takes 20 to 40 ms.
	slowQuestion = 250 * time.Millisecond
	// After listEvery events the shards are listed again: the next questions scan no more entries. At 100 writes a
	// second 100 shards are 3 reads a second.
	listEvery = 3000
	// below is by how much a shard may fall below the least number before it is listed again.
	below = 16
)

// bound is what is known of a counter's shards, so that their sums are asked for quickly. It is pure.
type bound struct {
	last  time.Time        // when it was asked last
	busy  int64            // events since it was quiet
	since int64            // events since the last listing
	least map[string]int64 // :: field of the shards → the least that one of them held; nil before the first listing
}

// way is how a counter's sums are asked for.
type way int

const (
	plain way = iota
	bounded
	listed
)

// next says how a flight asks for the sums of some fields.
func (b *bound) next(f flight, fields layout.Fields) way {
	if f.started.Sub(b.last) > 2*f.interval {
		*b = bound{}
	}
	b.last = f.started
	b.busy += f.events
	b.since += f.events
	switch {
	case b.busy <= busyAfter:
		return plain
	case b.least == nil || b.since > listEvery:
		return listed
	}
	for _, field := range fields {
		if _, known := b.least[field.Shard]; !known { // a shard lacks the field, so the two counts would always differ
			return plain
		}
	}
	return bounded
}

// took notes how long a plain question took.
func (b *bound) took(d time.Duration) {
	if d > slowQuestion {
		b.busy = max(b.busy, busyAfter)
	}
}

// see notes what all shards hold.
func (b *bound) see(fields layout.Fields, docs book.Shards) {
	b.since, b.least = 0, map[string]int64{}
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
	way, began := b.next(f, fields), time.Now()
	if way != listed {
		answers, err = c.atOnce(fields, func(field layout.Field, at time.Time) (book.Answer, error) {
			if way == bounded {
				return c.books.SumFrom(ctx, f.counter, field, store.Int(b.least[field.Shard]), at)
			}
			return c.books.Sum(ctx, f.counter, field, at)
		})
		reads = len(fields)
	}
	whole := way == plain
	if whole { // in vain, too: what takes too long is asked in another way next
		b.took(time.Since(began))
	}
	if err == nil && way == bounded {
		whole, err = c.whole(ctx, f.counter, fields, answers)
		reads += 1 + len(c.db.Layout.Limited())
	}
	if err != nil || whole {
		return answers, reads, err
	}
	all := c.db.Layout.Fields
	docs, at, err := c.db.DocumentsAsOf(ctx, store.Query{Collection: c.db.Layout.ShardsOf(f.counter), Fields: paths(all)})
	if err != nil {
		return nil, reads, fmt.Errorf("list shards: %w", err)
	}
	b.see(all, docs)
	answers = map[string]book.Answer{}
	for _, field := range fields {
		answers[field.Name] = book.Answer{Value: book.Shards(docs).Add(field), At: at}
	}
	return answers, reads + max(1, len(docs)), nil
}

// whole reports whether sums are of all shards: of those with a share, if the field has a limit, and else of all
// others.
func (c *Client) whole(ctx context.Context, counter string, fields layout.Fields, sums map[string]book.Answer) (bool, error) {
	collection, at := c.db.Layout.ShardsOf(counter), sums[fields[0].Name].At
	others, err := c.db.Count(ctx, collection, "", at)
	shards := map[string]int64{} // :: name of the share, "" of the others → how many there are
	for _, field := range c.db.Layout.Limited() {
		if err == nil {
			shards[shareOf(field)], err = c.db.Count(ctx, collection, shareOf(field), at)
			others -= shards[shareOf(field)]
		}
	}
	if err != nil {
		return false, fmt.Errorf("count shards: %w", err)
	}
	shards[""] = others
	for _, field := range fields {
		if sums[field.Name].Numbers != shards[shareOf(field)] {
			return false, nil
		}
	}
	return true, nil
}

// shareOf is the name of the share in the shards of a field with a limit; "" for other fields.
func shareOf(field layout.Field) string {
	switch {
	case field.LimitOf != "":
		return field.Shard
	case field.Limit != nil:
		return layout.ShareOf(field.Shard)
	}
	return ""
}

// atOnce asks for fields, all as of the time of the first one's answer.
func (c *Client) atOnce(fields layout.Fields, ask func(field layout.Field, at time.Time) (book.Answer, error)) (map[string]book.Answer, error) {
	list := make([]book.Answer, len(fields))
	var err error
	if list[0], err = ask(fields[0], time.Time{}); err != nil {
		return nil, err
	}
	var group errgroup.Group
	for i := 1; i < len(fields); i++ {
		group.Go(func() (err error) {
			list[i], err = ask(fields[i], list[0].At)
			return err
		})
	}
	err = group.Wait()
	answers := make(map[string]book.Answer, len(fields))
	for i, field := range fields {
		answers[field.Name] = list[i]
	}
	return answers, err
}

// paths are the paths of the fields in the shards.
func paths(fields layout.Fields) (paths []string) {
	for _, field := range fields {
		paths = append(paths, layout.FieldPath(field.Shard))
	}
	return paths
}
