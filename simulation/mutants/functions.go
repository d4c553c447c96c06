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
}
