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
}
