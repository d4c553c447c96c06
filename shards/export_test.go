package shards

import (
	"context"
	"time"
)

// Waiting is how many calls of a client wait for a commit.
func Waiting(c *Client) int {
	c.queue.mu.Lock()
	defer c.queue.mu.Unlock()
	return c.queue.waiting
}

// Remove is [Client.Remove] of the counter.
func (c Counter) Remove(ctx context.Context, since time.Time) (removed bool, err error) {
	return c.client.Remove(ctx, c.id, since)
}

// Troubled reports whether a client lets nobody share commits with increments of a counter.
func Troubled(c *Client, counter string) bool { return c.queue.troubled.is(counter) }

// HoldBriefly is [Counter.Hold] for less than [MinHold].
func (c Counter) HoldBriefly(ctx context.Context, member string, d time.Duration) (counted bool, until time.Time, err error) {
	done, err := c.join(ctx, "hold", "total", member, "", d)
	return done.counted, done.until, err
}

// ReserveBriefly is [Counter.Reserve] for less than [MinHold].
func (c Counter) ReserveBriefly(ctx context.Context, by int64, d time.Duration, key Key) (Hold, error) {
	h, _, err := c.reserve(ctx, "total", by, d, key)
	return h, err
}

// KnownPlaces is of how many fields of counters a client remembers shards.
func KnownPlaces(c *Client) int { return c.places.places.Len() }
