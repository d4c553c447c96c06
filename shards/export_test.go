package shards

// Waiting is how many calls of a client wait for a commit.
func Waiting(c *Client) int {
	c.queue.mu.Lock()
	defer c.queue.mu.Unlock()
	return c.queue.waiting
}
