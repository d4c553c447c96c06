package main

// ofLimits are mutants of what is decided about a field with a limit.
var ofLimits = []mutant{
	{
		"a request is refused without a look", "internal/escrow",
		"case looked:\n", "case true:\n", test("TestDecideProperties"),
	},
	{
		"who finds no room beside others is refused", "internal/escrow",
		"\t\t\tcontinue\n\t\t}\n\t\tfor place", "\t\t\td.Refused = append(d.Refused, i)\n\t\t\tcontinue\n\t\t}\n\t\tfor place", test("TestDecideProperties"),
	},
	{
		"what doesn't fit into one shard is refused", "internal/escrow",
		"case r.fits(held, nil):", "case r.fits(held, nil) && len(known) == 0:", test("TestDecideProperties"),
	},
	{
		"a caller gives a member's back", "internal/escrow",
		"n.Give <= h.Own()", "n.Give <= h.Count", test("TestDecideProperties"),
	},
	{
		"a lower limit takes away what is taken", "internal/escrow",
		"part := min(shards[at].Room(), ", "part := min(shards[at].Share, ", test("TestLimitProperties"),
	},
	{
		"a take is on no condition", "shards",
		"store.UpdatedAtTime(t.after.version)", "store.Exists(true)", test("TestTwoProcessesShareALimit"),
	},
	{
		"a field that had no limit is counted on no condition", "shards",
		"store.UpdatedAtTime(t.after.version)", "(map[bool]*firestorepb.Precondition{true: store.Exists(true), false: store.UpdatedAtTime(t.after.version)})[len(p.Plan) == 0]",
		test("TestLimitOfASecondField"),
	},
	{
		"what is known of shards is tried, however old it is", "shards",
		"known := f.misses == 0 || f.misses%4 > 0", "known := true", test("TestAllKnownSharesAreOld"),
	},
	{
		"a shard that holds a fraction is made anew for a limit", "shards",
		"moves && err != nil", "false && err != nil", test("TestLimitBesideAFraction"),
	},
	{
		"a shard beside the limit that holds a fraction is taken away", "internal/book",
		"numbers = numbers && (!moves || Movable(nil, doc) == nil)", "numbers = numbers && (!moves || true)", testIn("shards", "TestSharesBesideAFraction"),
	},
	{
		"without a ledger a counter has no limit", "internal/book",
		"return len(LimitsOf(k.names(), k.Doc)) > 0", "return false", testIn("shards", "TestLimitWithoutALedger"),
	},
	{
		"a counter is made beside shards that have a limit", "internal/book",
		"if k.Limited() { // no shard", "if false { // no shard", testIn("shards", "TestLimitWithoutALedger"),
	},
	{
		"a limit that was set under another name stays in the document", "internal/book",
		"if _, has := limits[entry]; !has {", "if _, has := limits[entry]; !has && false {", testIn("shards", "TestLimitOfARenamedField"),
	},
	{
		"a shard is made for a counter with a limit", "shards",
		"	if limited {\n\t\treturn nil, nil, errHasLimit", "	if false {\n\t\treturn nil, nil, errHasLimit", test("TestLimitWhileAnIncrementIsOnItsWay"),
	},
	{
		"a counter with a limit has as many shards as it says", "shards",
		"n := max(len(all), n); n > Max", "n := len(all); n > Max", test("TestLimitsAreOfSmallCounters"),
	},
	{
		"who was counted before is refused", "shards",
		"o, ok := r.earlier(there)\n		if !ok {", "o, ok := r.earlier(there)\n		if ok = false; !ok {", test("TestKeysUnderALimit"),
	},
	{
		"a member's seat is as a caller's", "shards",
		"asked[i][at] = escrow.By(a.by, r.member != nil)", "asked[i][at] = escrow.By(a.by, false)", test("TestMembersUnderALimit"),
	},
	{
		"a counter with a limit is reset", "shards",
		"if k.Limited() {\n\t\t\treturn false, ErrLimited", "if false {\n\t\t\treturn false, ErrLimited", test("TestCommandsUnderALimit"),
	},
	{
		"a ledger that is made again has no limits", "internal/book",
		"k.Ledger.Limits = LimitsIn(shards)", "k.Ledger.Limits = nil", testIn("shards", "TestLimitOutlivesItsLedger"),
	},
	{
		"shares are given out anew where more is taken than the limit", "internal/book",
		"if all.Share = limit; !all.Valid() {", "if all.Share = limit; false {", testIn("shards", "TestSharesThatSomethingElseWrote"),
	},
	{
		"a shard beside those of a limit stays", "internal/book",
		"case !limited:\n\t\t\twhy", "case !limited && false:\n\t\t\twhy", testIn("shards", "TestSharesThatSomethingElseWrote"),
	},
	{
		"what is beside a limit in a field without one is lost", "internal/book",
		"ok && !partOf(held, field)", "ok && n != n", testIn("shards", "TestSharesProperties"),
	},
}
