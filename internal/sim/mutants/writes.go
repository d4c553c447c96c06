package main

// ofWrites: Group commit.
var ofWrites = []mutant{
	{
		"a batch's sum wraps when a request drops out", "shards",
		"if _, fits := add(g.up[at], max(i.By, 0)); !fits {\n\t\t\treturn false\n\t\t}\n\t\tif _, fits := add(g.down[at], min(i.By, 0)); !fits {", "if _, fits := add(g.up[at]+g.down[at], i.By); !fits {", test("TestSumOfWhatIsLeftOfABatch|TestGathering"),
	},
	{
		"a key is bound to nobody", "shards",
		"hash(k.Caller, scope, k.Value)", "hash(scope, k.Value)", test("TestKeys"),
	},
	{
		"a key is bound to no collection", "shards",
		"hash(k.Caller, scope, k.Value)", "hash(k.Caller, k.Value)", test("TestKeysOfTwoCollections"),
	},
	{
		"a key answers for another request", "shards",
		"case m.asked != r.asked:", "case false:", test("TestKeys"),
	},
	{
		"markers of batches are kept as long as those of keys", "shards",
		"if m.asked == \"\" || ttl < batchMarkerTTL {", "if ttl < batchMarkerTTL {", test("TestMarkersExpire"),
	},
	{
		"markers come after shards", "shards",
		"_, err := c.db.Commit(ctx, writes)\n\tif err == nil {\n\t\treturn f.applied()", "slices.Reverse(writes)\n\t_, err := c.db.Commit(ctx, writes)\n\tif err == nil {\n\t\treturn f.applied()", test("TestDeletedInDoubt"),
	},
	{
		"a batch keeps the id that it has settled", "shards",
		"f.id = newID() //", "_ = newID() //", test("TestBatchesCountOnce|TestMembersCountOnce"),
	},
	{
		"a marker that settles is taken for the commit", "shards",
		"case m.settled && f.settling != nil:", "case false:", test("TestBatchesCountOnce|TestMembersCountOnce"),
	},
	{
		"contention of a counter is everybody's", "shards",
		"case store.Contention:\n\t\tif f.shared() {", "case store.Contention:\n\t\tif false {", test("TestTroubleLeavesASharedCommit"),
	},
	{
		"what Firestore won't have of one fails all", "shards",
		"if code == codes.InvalidArgument && f.shared() {", "if false {", test("TestTroubleLeavesASharedCommit"),
	},
	{
		"contention picks the same shard again", "shards",
		"if !again || n < 2 || before >= n {", "if !again || n < 2 || before >= 0 {", test("TestContentionPicksAnotherShard"),
	},
	{
		"a missing shard is made without a pause", "shards",
		"if f.failures > 1 { //", "if f.failures < 0 { //", test("TestMissingShardsDontLoop"),
	},
	{
		"who went away is counted all the same", "shards",
		"return !r.becomes(committing) })", "return !r.becomes(committing) && false })", test("TestCallThatEndsBeforeItsCommit"),
	},
	{
		"the number of shards is remembered forever", "shards",
		"if !ok || time.Since(known.read) > c.shardsTTL {", "if !ok {", test("TestCacheExpires"),
	},
	{
		"an older read takes the place of a newer one", "shards",
		"if known, ok := c.counters.Peek(s.Counter); !ok || !began.Before(known.read) {", "if known, ok := c.counters.Peek(s.Counter); !ok || !began.Before(known.read) || true {", test("TestCachedIsNoOlderThanItsAge"),
	},
	{
		"many instances double a counter's shards at once", "shards",
		"return made.After(docs[0].GetCreateTime().AsTime()) && now.Sub(made) < growthInterval, nil", "return made.After(docs[0].GetCreateTime().AsTime()) && now.Sub(made) < 0, nil", test("TestGrowthOfManyInstances"),
	},
	{
		"increments wait without a bound", "shards",
		"if q.waiting >= q.limits.waiting {", "if false {", test("TestQueuesAreBounded|TestFullQueue"),
	},
	{
		"a silent connection is kept", "internal/store",
		"if isDeadline(err) && time.Since(began) >= silence {", "if false {", test("TestSilentConnectionIsReplaced"),
	},
	{
		"a call without a time limit", "internal/store",
		"ctx, cancel = context.WithTimeout(ctx, callTimeout)", "ctx, cancel = context.WithCancel(ctx)", test("TestNoFirestore"),
	},
	{
		"a transaction that has expired is refused", "internal/store",
		"case strings.Contains(message, \"transaction\"):", "case false:", test("TestKindOf"),
	},
}
