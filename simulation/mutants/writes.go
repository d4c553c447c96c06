package main

// ofWrites: Group commit.
var ofWrites = []mutant{
	{
		"a batch's sum wraps when a request drops out", "shards",
		"held+size(a.by)) > math.MaxInt64 {", "held+size(a.by)) > math.MaxUint64 {", test("TestSumOfWhatIsLeftOfABatch|TestGathering"),
	},
	{
		"a client that is closed leaves what waits for company", "shards",
		"&& q.open.Err() == nil:\n", ":\n", test("TestCloseEndsTheInterval"),
	},
	{
		"a key is bound to nobody", "shards",
		"hash(k.Caller, names.Path.Canonical(), names.Shards, scope, k.Value)", "hash(names.Path.Canonical(), names.Shards, scope, k.Value)", test("TestKeys"),
	},
	{
		"a key is bound to no path", "shards",
		"hash(k.Caller, names.Path.Canonical(), names.Shards, scope, k.Value)", "hash(k.Caller, names.Shards, scope, k.Value)", test("TestKeysOfTwoDeployments"),
	},
	{
		"a key is bound to no shards", "shards",
		"hash(k.Caller, names.Path.Canonical(), names.Shards, scope, k.Value)", "hash(k.Caller, names.Path.Canonical(), scope, k.Value)", test("TestKeysOfTwoDeployments"),
	},
	{
		"a key is bound to no counter", "shards",
		"hash(k.Caller, names.Path.Canonical(), names.Shards, scope, k.Value)", "hash(k.Caller, names.Path.Canonical(), names.Shards, k.Value)", test("TestKeys"),
	},
	{
		"fingerprints know no lengths", "shards",
		"\t\th.Write(size[:])\n", "", test("TestFingerprintsTellRequestsApart"),
	},
	{
		"a key answers for another request", "shards",
		"case seen && !m.settled && m.asked == r.asked:", "case seen && !m.settled:", test("TestKeys"),
	},
	{
		"markers of batches are kept as long as those of keys", "shards",
		"if m.asked == \"\" || ttl < batchMarkerTTL {", "if ttl < batchMarkerTTL {", test("TestMarkersExpire"),
	},
	{
		"a batch keeps the id that it has settled", "shards",
		"f.id = newID() //", "_ = newID() //", walk("TestBatchesCountOnce|TestMembersCountOnce"),
	},
	{
		"a marker that settles is taken for the commit", "shards",
		"case ours && !decisive.settled:", "case ours:", walk("TestBatchesCountOnce|TestMembersCountOnce"),
	},
	{
		"contention of a counter is everybody's", "shards",
		"case store.Contention:\n\t\tif f.shared() {", "case store.Contention:\n\t\tif false {", test("TestTroubleLeavesASharedCommit"),
	},
	{
		"who has waited for another counter's lock waits again", "shards",
		"if f.shared() && store.IsDeadline(err) {", "if false {", test("TestALockHoldsUpItsOwnCounterAlone"),
	},
	{
		"a counter whose shards are locked shares commits", "shards",
		"case len(sums) == 1 && store.IsDeadline(err):", "case false:", test("TestALockHoldsUpItsOwnCounterAlone"),
	},
	{
		"what Firestore won't have of one fails all", "shards",
		"if code == codes.InvalidArgument && f.shared() {", "if false {", test("TestTroubleLeavesASharedCommit"),
	},
	{
		"contention picks the same shard again", "shards",
		"again && picked == last && n > 1 {", "again && picked == last && n < 1 {", test("TestContentionPicksAnotherShard"),
	},
	{
		"a shard that is missing is made again and again", "shards",
		"if next := f.failure(err); next != pause {\n\t\treturn next\n\t}\n\treturn makeMissing", "_ = err\n\treturn makeMissing", test("TestMissingShardsDontLoop"),
	},
	{
		"the number of shards is remembered forever", "shards",
		"return known, ok && time.Since(known.read) <= ttl", "return known, ok", test("TestCacheExpires"),
	},
	{
		"an older read takes the place of a newer one", "shards",
		"if known, ok := c.Peek(s.Counter); !ok || !began.Before(known.read) {", "if known, ok := c.Peek(s.Counter); !ok || !began.Before(known.read) || true {", test("TestCacheKeepsTheLaterRead"),
	},
	{
		"many instances double a counter's shards at once", "shards",
		"return made.After(docs[0].GetCreateTime().AsTime()) && now.Sub(made) < growthInterval, nil", "return made.After(docs[0].GetCreateTime().AsTime()) && now.Sub(made) < 0, nil", test("TestGrowthOfManyInstances"),
	},
	{
		"increments wait without a bound", "shards",
		"case q.waiting >= q.limits.waiting:", "case false:", test("TestQueuesAreBounded|TestFullQueue"),
	},
	{
		"a silent connection is kept", "internal/store",
		"if IsDeadline(err) && time.Since(began) >= silence {", "if IsDeadline(err) && time.Since(began) < 0 {", test("TestSilentConnectionIsReplaced"),
	},
	{
		"a call without a time limit", "internal/store",
		"return context.WithTimeout(ctx, callTimeout)", "return context.WithCancel(ctx)", test("TestACallEnds"),
	},
	{
		"a transaction that has expired is refused", "internal/store",
		"case strings.Contains(message, \"transaction\"):", "case false:", test("TestKindOf"),
	},
}
