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
func (c Counter) Remove(ctx context.Context, version time.Time) (removed bool, err error) {
	return c.client.Remove(ctx, c.id, version)
}
