package layout

import "strconv"

// MaxShards is the largest number of shards of a counter. All of them fit into one commit, and one sum() over them is
// billed as one read.
const MaxShards = 1000

// DefaultNumShards is how many shards a counter has unless somebody says otherwise: ten writes a second before shards meet contention.
const DefaultNumShards = 10

// MaxEntries is how many states of shards a ledger knows at most, each of a shard and a field: five times as many as a counter
// with one field may have shards. With names of up to 100 bytes that is some 650 KB of the megabyte that a document may take.
const MaxEntries = 5000

// MaxShards is the largest number of shards of a counter of these fields: its ledger has an entry for each in each of them.
func (f Fields) MaxShards() int {
	sums, _ := f.Split()
	return min(MaxShards, MaxEntries/max(1, len(sums)))
}

// ShardID is the document id of the n-th shard.
func ShardID(n int) string { return strconv.Itoa(n) }

// ShardNumber is the inverse of [ShardID]. It reports false for documents that others keep among the shards.
func ShardNumber(id string) (int, bool) {
	n, err := strconv.Atoi(id)
	return n, err == nil && n >= 0 && ShardID(n) == id
}

// Numbered is how many shards a counter has at least that has one of that id: 0 where the id is not a number of a shard.
func Numbered(id string) int {
	if n, ok := ShardNumber(id); ok && n < MaxShards {
		return n + 1
	}
	return 0
}
