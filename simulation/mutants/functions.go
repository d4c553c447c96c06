package main

// ofFunctions: The functions.
var ofFunctions = []mutant{
	{
		"SIGTERM doesn't wait", "functions",
		"\t<-answered\n", "\t_ = answered\n", test("TestRequestsAfterSIGTERM"),
	},
	{
		"requests are taken after SIGTERM", "functions",
		"if err == nil && !f.life.begin() {", "if f.life.begin(); false {", test("TestRequestsAfterSIGTERM"),
	},
	{
		"an event that can never count comes again for a day", "functions",
		"case errors.Is(err, rollup.ErrPoison):", "case errors.Is(err, rollup.ErrPoison) && false:", test("TestRollupPoison"),
	},
	{
		"what a double takes for an integer counts", "functions",
		"case power < 0:\n\t\treturn 0, strconv.ErrSyntax", "case power < 0:\n\t\tf, err := strconv.ParseFloat(number, 64)\n\t\treturn int64(f), err",
		test("TestNumbersAreTakenByTheirDigits"),
	},
	{
		"who asks for a sum gets one that has begun", "shards",
		"\t\tc.client.exact.Forget(c.id)\n", "", test("TestSumsAreShared"),
	},
	{
		"a seat whose query can't be read is taken for good", "functions",
		"|| !query.Has(\"hold\") {\n\t\treturn 0, err", "|| !query.Has(\"hold\") {\n\t\treturn 0, nil", test("TestHoldRequests"),
	},
	{
		"what wasn't sent may be counted, where an end of holds is in doubt", "shards",
		"case errors.Is(err, ErrUnknown): // of an end", "case errors.Is(err, ErrUnknown) && false: // of an end", test("TestWhatWasNotSentIsNotUnknown"),
	},
}
