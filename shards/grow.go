package shards

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/internal/layout"
)

const (
	// growthInterval is the least time between two doublings of a counter. New shards take part at
	// once, so what is contended after that needs more.
	growthInterval = 10 * time.Second
	// growthTimeout bounds a doubling, for which a batch waits.
	growthTimeout = 5 * time.Second
	// troubledFor is how long a counter that met contention sends its own commits.
	troubledFor = 10 * time.Second
	// contentionLogInterval bounds what a contended counter writes to the log.
	contentionLogInterval = time.Second
)

// contended notes that a commit met contention, and doubles the counter's shards if it grows, and that is allowed.
// After a commit to several counters nobody knows which one is to blame.
func (c *Client) contended(ctx context.Context, sums sums, err error, grows bool) {
	counter := sums[0].counter
	if len(sums) == 1 {
		c.queue.troubled.remember(counter, troubledFor)
	}
	if !c.logged.is(counter) {
		c.logged.remember(counter, contentionLogInterval)
		c.log.WarnContext(ctx, LogContention, "counter", counter, "counters", len(sums), "error", err)
	}
	if known, ok := c.known.within(c.cfg.CacheTTL, counter); len(sums) == 1 && ok && grows && known.NumShards < c.cfg.MaxShards && status.Code(err) == codes.Aborted && !c.doubled.is(counter) {
		c.doubled.remember(counter, growthInterval)
		c.grow(ctx, counter, known.NumShards)
	}
}

// grow doubles a counter's shards, unless another client has just changed or made them.
func (c *Client) grow(ctx context.Context, counter string, seen int) {
	ctx, cancel := context.WithTimeout(ctx, growthTimeout)
	defer cancel()
	n := min(2*seen, c.cfg.MaxShards)
	grows := false
	lately, err := c.grownLately(ctx, counter, seen)
	if err == nil && !lately {
		err = Counter{c, counter}.setShards(ctx, seen, func(is int) int {
			if grows = is == seen; grows {
				return n
			}
			return is
		})
	}
	c.known.Remove(counter)
	switch {
	case err != nil:
		c.log.WarnContext(ctx, "growth failed", "counter", counter, "from", seen, "to", n, "error", err)
	case grows:
		c.log.InfoContext(ctx, "growth", "counter", counter, "from", seen, "to", n)
	}
}

// grownLately reports whether the last shard was made less than an interval ago, and not with the
// counter.
func (c *Client) grownLately(ctx context.Context, counter string, shards int) (bool, error) {
	docs, now, err := c.db.Get(ctx, c.db.Layout.Counter(counter), c.db.Layout.Shard(counter, layout.ShardID(shards-1)))
	if err != nil || docs[0] == nil || docs[1] == nil {
		return false, err
	}
	made := docs[1].GetCreateTime().AsTime()
	return made.After(docs[0].GetCreateTime().AsTime()) && now.Sub(made) < growthInterval, nil
}
