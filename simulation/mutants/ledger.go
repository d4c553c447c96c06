package main

// ofLedger: The ledger: which states count, and which hide others.
var ofLedger = []mutant{
	{
		"the floor doesn't hold for shards that the ledger knows", "internal/ledger",
		"case !s.Gone && !s.AsOf.After(sum.Floor): //", "case !ok && !s.Gone && !s.AsOf.After(sum.Floor): //", test("TestMerge"),
	},
	{
		"a deletion from before the floor is passed over", "internal/ledger",
		"case !s.Gone && !s.AsOf.After(sum.Floor): //", "case !s.AsOf.After(sum.Floor): //", test("TestMerge"),
	},
	{
		"a document doesn't beat a deletion of its time", "internal/ledger",
		"return old.Gone && !s.Gone", "return false", test("TestMerge|TestMergeCountsExactlyOnce"),
	},
	{
		"a shard that holds no integer is taken for gone", "internal/ledger",
		"there[key] = true\n\t\tknown, ok := s.Shards[key]\n\t\timpossible := known.AsOf.After(now)\n\t\tcount, is := state.Counts[name]\n", "known, ok := s.Shards[key]\n\t\timpossible := known.AsOf.After(now)\n\t\tcount, is := state.Counts[name]\n\t\tthere[key] = is\n", test("TestCorrect"),
	},
	{
		"a snapshot overwrites what is newer", "internal/ledger",
		"case ok && !impossible && !snap.At.Equal(now) && !known.olderThan(state, count):", "case false:", test("TestCorrect"),
	},
	{
		"a snapshot takes away what was made since", "internal/ledger",
		"if !there[key] && (impossible || !known.AsOf.After(snap.At)) {", "if !there[key] {", test("TestCorrect"),
	},
	{
		"a snapshot raises no floor", "internal/ledger",
		"Floor: snap.At}", "Floor: s.Floor}", test("TestCorrect|TestLateEventOfAShardThatTheLedgerNeverKnew"),
	},
	{
		"a snapshot from before the floor counts", "internal/ledger",
		"if s.At.After(sum.Floor) ", "if true ", test("TestSnapshotFromBeforeTheFloor"),
	},
	{
		"a shard that a snapshot shows has to be younger than the floor", "internal/ledger",
		"case !ok && len(snap.States) > most:", "case !ok && !state.AsOf.After(s.Floor):\n\t\t\tcontinue\n\t\tcase !ok && len(snap.States) > most:", test("TestCorrect"),
	},
	{
		"an entry of a time that has not come stays", "internal/ledger",
		"impossible := known.AsOf.After(now)\n\t\tcount, is", "impossible := false\n\t\tcount, is", test("TestCorrect"),
	},
	{
		"a total beyond an int64 wraps", "internal/ledger",
		"case hi > math.MaxInt32:\n\t\treturn math.MaxInt64\n", "case false:\n", test("TestSumsSaturate"),
	},
	{
		"a ledger's field of another type is guessed", "internal/ledger",
		"return v == nil || ok\n", "return v == nil || ok || true\n", test("TestDecodeDamagedLedger"),
	},
	{
		"a long shard id names its entry", "internal/ledger",
		"if len(shard) <= maxKey && !(", "if !(", test("TestLedgerIsBounded"),
	},
	{
		"a ledger is not bounded", "internal/ledger",
		"case !ok && room <= 0:", "case false:", test("TestLedgerIsBounded"),
	},
	{
		"an earlier counter's ledger is taken for this one's", "internal/ledger",
		"return names.Hosted || counter.GetFields()[layout.LedgerID].GetStringValue() == ledger.GetFields()[FieldID].GetStringValue()", "return true", test("TestOf"),
	},
	{
		"a field that is counted since is not read first", "internal/ledger",
		"return sum == nil || sum.impossible(now)", "return sum != nil && sum.impossible(now)", test("TestAFieldIsAdded"),
	},
	{
		"ids that no document can have are counted", "internal/layout",
		"if !ok || ValidateID(path[at+1:]) != nil {", "if !ok {", test("TestParseShard"),
	},
	{
		"a whole double is no integer", "internal/store",
		"if f := n.DoubleValue; f == math.Trunc(f)", "if f := n.DoubleValue; f == 0 && f == math.Trunc(f)", testIn("shards", "TestWholeDoublesAreIntegers"),
	},
}
