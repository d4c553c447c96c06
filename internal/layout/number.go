package layout

import "strconv"

// MaxShards is the largest number of shards of a counter. All of them fit into one commit, and one
// sum() over them is billed as one read.
const MaxShards = 1000

// DefaultNumShards is how many shards a counter has unless somebody says otherwise: ten writes a
// second before shards meet contention.
const DefaultNumShards = 10

// MaxNumbers is how many numbers a ledger holds at most, one per shard and integer field of it and
// one per query: five times as many as a counter with one field may have shards.
const MaxNumbers = 5000

// MaxShards is the largest number of shards of a counter of these fields: its ledger has a number
// for each in each of them.
func (f Fields) MaxShards() int {
	sums, _ := f.Split()
	return min(MaxShards, MaxNumbers/max(1, len(sums)))
}

// ShardID is the document id of the n-th shard.
func ShardID(n int) string { return strconv.Itoa(n) }

// ShardNumber is the inverse of [ShardID]. It reports false for documents that others keep
// among the shards.
func ShardNumber(id string) (int, bool) {
	n, err := strconv.Atoi(id)
	return n, err == nil && n >= 0 && ShardID(n) == id
}
