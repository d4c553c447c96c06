package layout

import "strconv"

// MaxShards is the largest number of shards of a counter. All of them fit into one commit, and one
// sum() over them is billed as one read.
const MaxShards = 1000

// DefaultNumShards is how many shards a counter has by default: enough for ten writes a second without
// contention.
const DefaultNumShards = 10

// MaxNumbers is how many numbers a ledger holds at most: one per integer field of each shard, and one
// per query. A counter with one field may have a fifth as many shards.
const MaxNumbers = 5000

// MaxShards is the largest number of shards of a counter with these fields: its ledger has a number for
// each field of each shard, and may have one more for each field: its base, or the answer of its query.
func (f Fields) MaxShards() int {
	sums, _ := f.Split()
	return min(MaxShards, (MaxNumbers-len(f))/max(1, len(sums)))
}

// ShardID is the document id of the n-th shard.
func ShardID(n int) string { return strconv.Itoa(n) }

// ShardNumber is the inverse of [ShardID]. It reports false for documents that others keep
// among the shards.
func ShardNumber(id string) (int, bool) {
	n, err := strconv.Atoi(id)
	return n, err == nil && n >= 0 && ShardID(n) == id
}
