package shards

// Waiting is how many calls of a client wait for a commit.
func Waiting(c *Client) int {
	c.queues.mu.Lock()
	defer c.queues.mu.Unlock()
	return c.queues.waiting
}
