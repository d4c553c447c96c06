package main

// ofCounted: Collections that are counted.
var ofCounted = []mutant{
	{
		"fields are counted at different times", "rollup",
		"field.Counted.Collection), field.Counted, at)", "field.Counted.Collection), field.Counted, time.Time{})", test("TestCountedFieldsAreOfOneTime"),
	},
	{
		"an exact read counts documents at another time", "shards",
		"field.Counted.Collection), field.Counted, at)", "field.Counted.Collection), field.Counted, time.Time{})", test("TestSumIsOfOneTime"),
	},
	{
		"a recount covers events that came while it ran", "rollup",
		"covered = events(t.inFlight)", "covered = append(events(t.inFlight), events(t.next)...)\n\t\tt.next = nil", test("TestEventsAreCoveredByALaterRecount"),
	},
	{
		"an event is done while another of its time is held", "rollup",
		"return !h.gone && h.at.After(e.at) })", "return !h.gone && !h.at.Before(e.at) })", test("TestSupersededChanges"),
	},
	{
		"a deletion in a collection is superseded", "rollup",
		"if t != nil && !e.gone && slices", "if t != nil && slices", test("TestSupersededChanges|TestDeletionSupersedesNothing"),
	},
	{
		"a deletion in a collection supersedes", "rollup",
		"done := !h.gone && !e.gone && e.at", "done := !h.gone && e.at", test("TestSupersededChanges|TestDeletionSupersedesNothing"),
	},
	{
		"deletions in a collection adopt a counter", "rollup",
		"r.client.recount(ctx, b.of, !b.gone)", "r.client.recount(ctx, b.of, true)", test("TestDeletionsBelowADocumentThatIsGone"),
	},
	{
		"an older value of a counted field wins", "internal/ledger",
		"case ok && value.AsOf.After(known.AsOf) ||", "case ok && value != known ||", test("TestRecount"),
	},
	{
		"a value from before the ledger counts", "internal/ledger",
		"!ok && !value.AsOf.Before(l.Created):", "!ok:", test("TestRecount"),
	},
	{
		"a value from before the ledger is not taken anew", "rollup",
		"if newer, early = l.Recount(values); early {", "if newer, early = l.Recount(values); early && false {", test("TestRecountThatAdopts"),
	},
	{
		"a value of a time that has not come stays", "internal/ledger",
		"delete(l.Counted, key)\n", "_ = key\n", test("TestForget"),
	},
	{
		"counting without the ledger's condition", "rollup",
		"store.UpdatedAtTime(l.Updated), entries, mask)", "nil, entries, mask)", test("TestRecountsInTheWrongOrder"),
	},
	{
		"the time of a value that stays the same is not entered", "rollup",
		"if len(newer) == 0 {\n\t\t\treturn nil, nil", "same := true\n\t\tfor key, value := range newer {\n\t\t\tbefore, there := l.Counted[key]\n\t\t\tsame = same && there && before.Value == value.Value\n\t\t}\n\t\tif same {\n\t\t\treturn nil, nil", test("TestRecountsInTheWrongOrder"),
	},
	{
		"two definitions of a field share a value", "internal/layout",
		"sha256.Sum256([]byte(f.String()))", "sha256.Sum256([]byte(f.Name))", simulation,
	},
	{
		"an event before its counter leaves no note", "rollup",
		"if r.gone && mayAdopt && c.db.ByLedgers() {", "if false {", test("TestEventBeforeItsCounter"),
	},
	{
		"a note goes that was just written", "rollup",
		"docs[1] != nil && now.Sub(docs[1].GetUpdateTime().AsTime()) >= after {", "docs[1] != nil {", test("TestNoteThatIsWrittenAgain"),
	},
	{
		"a reconcile of all counts whatever it costs", "rollup",
		"if opts.budget == nil || old && opts.budget.left.Load() > 0 {", "if opts.budget == nil || old {", test("TestReconcileCountsAgain"),
	},
	{
		"the reads of a reconcile are not added up", "rollup",
		"opts.budget.left.Add(-done.reads)", "opts.budget.left.Add(0)", test("TestReconcileCountsAgain"),
	},
	{
		"a reconcile of all counts nothing again", "rollup",
		"now.Sub(known.AsOf) >= cmp.Or(opts.RecountAge, defaultRecountAge)", "false", test("TestReconcileCountsAgain"),
	},
	{
		"a document that is made anew keeps its number", "rollup",
		"!known.AsOf.After(docs[1].GetCreateTime().AsTime()) ||", "false ||", test("TestDocumentThatIsMadeAnew"),
	},
	{
		"a large collection is counted with every event", "rollup",
		"if len(t.next) == 0 || t.events < t.reads && t.latest.After(t.earliest) {", "if len(t.next) == 0 {", test("TestLargeCollectionsWait"),
	},
	{
		"a query that takes too long comes again for a day", "rollup",
		"case o == unanswered && before:", "case o == unanswered && before && false:", test("TestRecountsWithoutAnAnswer"),
	},
	{
		"a query without an answer is not asked again", "rollup",
		"case o == unanswered:\n\t\to = failed", "case o == unanswered:\n\t\to = unchanged", test("TestRecountsWithoutAnAnswer"),
	},
	{
		"a query that can't succeed comes again for a day", "rollup",
		"case err != nil && refuses(err):", "case false:", test("TestAggregationThatCannotSucceed"),
	},
	{
		"a recount without a value leaves nothing by which a reconcile finds the counter", "rollup",
		"r, values, err := c.aggregate(ctx, counter, fields)\n\tif err != nil {", "r, values, err := c.aggregate(ctx, counter, fields)\n\tif err != nil || len(values) == 0 {", test("TestFirstEventBringsNoValue"),
	},
}
