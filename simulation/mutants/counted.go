package main

// ofCounted: Collections that are counted.
var ofCounted = []mutant{
	{
		"fields are counted at different times", "rollup",
		"\t\tat = a.At\n", "", test("TestCountedFieldsAreOfOneTime"),
	},
	{
		"an exact read counts documents at another time", "shards",
		"db.Aggregate(ctx, c.id, field.Counted, at)", "db.Aggregate(ctx, c.id, field.Counted, func() time.Time { _ = at; return time.Time{} }())", test("TestSumIsOfOneTime"),
	},
	{
		"the counter that a document has left isn't counted again", "rollup",
		"if was && !(is && left == at) {", "if was && !is {", test("TestByReference"),
	},
	{
		"a document that names what isn't there makes a ledger", "rollup",
		"if a.elsewhere {", "if false {", test("TestByReference"),
	},
	{
		"a flush leaves doubles as they are", "internal/book",
		"} else if value := valueOf(l.Answers[field.Key()]); value != nil {", "} else if value := valueOf(l.Answers[field.Key()]); value != nil && field.Integer() {", testIn("rollup", "TestAverages"),
	},
	{
		"a query without an answer is asked by each first flush", "rollup",
		"r.closed || t != nil && t.first.Equal(f.made)", "r.closed || false && t == nil", test("TestFirstFlushAsks"),
	},
	{
		"what a field held before it was shown is a part of its total", "internal/book",
		"is && known && !(replaced && k.Ledger.Flushes == 0) {", "is && (known || replaced || true) {", testIn("rollup", "TestWhatIsNoDrift"),
	},
	{
		"a query that fails at the end of its time takes too long", "rollup",
		"(errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded)", "(errors.Is(err, context.DeadlineExceeded) || status.Code(err) != codes.OK)", test("TestAQueryFailsAtTheEndOfItsTime"),
	},
	{
		"users set back each other's counters", "functions",
		"|| values[at] != user {", "|| user == `` {", test("TestResetIsTheUsersOwn"),
	},
	{
		"a recount covers events that came while it ran", "rollup",
		"covered = t.inFlight", "covered = append(t.inFlight, t.next...)\n\t\tt.next = nil", test("TestEventsAreCoveredByALaterRecount"),
	},
	{
		"an event is done while another of its time is held", "rollup",
		"return !h.timeless && h.at.After(e.at) })", "return !h.timeless && !h.at.Before(e.at) })", test("TestSupersededChanges"),
	},
	{
		"a deletion in a collection is superseded", "rollup",
		"if t != nil && !e.timeless && slices", "if t != nil && slices", test("TestSupersededChanges|TestDeletionSupersedesNothing"),
	},
	{
		"a deletion in a collection supersedes", "rollup",
		"done := !h.timeless && !e.timeless && e.at", "done := !h.timeless && e.at", test("TestSupersededChanges|TestDeletionSupersedesNothing"),
	},
	{
		"deletions in a collection adopt a counter", "rollup",
		"flush.adopts = flush.adopts || slices.ContainsFunc(a.events, func(e waitingEvent[W]) bool { return !e.gone })",
		"flush.adopts = flush.adopts || slices.ContainsFunc(a.events, func(e waitingEvent[W]) bool { return true })", test("TestDeletionsBelowADocumentThatIsGone"),
	},
	{
		"an older answer wins", "internal/ledger",
		"case ok && !a.ReadTime.After(known.ReadTime):", "case ok && a.ReadTime.Equal(known.ReadTime):", simulation,
	},
	{
		"an answer from before the ledger counts", "internal/ledger",
		"case !ok && a.ReadTime.Before(l.Created):", "case false:", simulation,
	},
	{
		"an answer from before the ledger is not asked for again", "rollup",
		"case of == counts && a.has(f.diff.Early):", "case false:", test("TestRecountThatAdopts"),
	},
	{
		"an answer of a time that has not come stays", "internal/ledger",
		"delete(l.Answers, key)\n", "_ = key\n", test("TestForget"),
	},
	{
		"the time of an answer that stays the same is not entered", "internal/ledger",
		"case ok && !a.ReadTime.After(known.ReadTime):", "case ok && (!a.ReadTime.After(known.ReadTime) || a.Value == known.Value):", simulation,
	},
	{
		"two definitions of a field share a value", "internal/layout",
		"sha256.Sum256([]byte(f.String()))", "sha256.Sum256([]byte(f.Name))", simulation,
	},
	{
		"a reconcile of all counts whatever it costs", "rollup",
		"old && r.opts.budget.Load() > 0)", "old)", test("TestReconcileCountsAgain"),
	},
	{
		"the reads of a reconcile are not added up", "rollup",
		"opts.budget.Add(-r.report.Reads)", "opts.budget.Add(0)", test("TestReconcileCountsAgain"),
	},
	{
		"a reconcile of all counts nothing again", "rollup",
		"|| k.At.Sub(a.ReadTime) >= cmp.Or(r.opts.RecountAge, defaultRecountAge)", "|| false && cmp.Or(r.opts.RecountAge) > 0", test("TestReconcileCountsAgain"),
	},
	{
		"a large collection is counted with every event", "rollup",
		"if len(t.next) == 0 || t.events < t.reads && t.latest.After(t.earliest) {", "if len(t.next) == 0 {", test("TestLargeCollectionsWait"),
	},
	{
		"a query that takes too long comes again for a day", "rollup",
		"case err != nil && timeIsOver(ctx, err):", "case false:", test("TestQueryWithoutAnAnswer"),
	},
	{
		"a query without an answer is not asked again", "internal/store",
		"if IsDeadline(err) && ctx.Err() == nil {", "if false {", testIn("rollup", "TestQueryWithoutAnAnswer"),
	},
	{
		"a query that can't succeed comes again for a day", "rollup",
		"case err != nil && refuses(err):", "case false:", test("TestAggregationThatCannotSucceed"),
	},
	{
		"that a sum is no integer is not entered", "rollup",
		"problem(field, oddAnswer(field))\n\t\t}", "problem(field, oddAnswer(field))\n\t\t\tcontinue\n\t\t}", test("TestSumThatIsNoInteger|TestASumThatIsNoIntegerTakesNoFurtherReads"),
	},
}
