package shards

import (
	"fmt"
	"strconv"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/store"
)

// MaxShards is the largest number of shards of a counter. All of them fit into one commit, and one sum() over them is
// billed as one read.
const MaxShards = 1000

// shardID is the document id of the n-th shard.
func shardID(n int) string { return strconv.Itoa(n) }

// shardNumber is the inverse of shardID. It reports false for documents that others keep among the shards.
func shardNumber(id string) (int, bool) {
	n, err := strconv.Atoi(id)
	return n, err == nil && n >= 0 && shardID(n) == id
}

// validShards reports whether a counter can have n shards.
func validShards(n int) error {
	if n < 1 || n > MaxShards {
		return fmt.Errorf("%w: %d; a counter has 1 to %d", ErrInvalidShards, n, MaxShards)
	}
	return nil
}

// shardsOf is the number of shards that a counter's document names, within bounds; false, and one, where it names none.
func (c *Client) shardsOf(counter *firestorepb.Document) (int, bool) {
	own := c.db.Own(counter)
	n, ok := own[store.NumShards]
	if !ok {
		n, ok = own[store.NumShardsLegacy]
	}
	number := max(n.GetIntegerValue(), int64(n.GetDoubleValue()))
	return int(min(max(number, 1), MaxShards)), ok
}
