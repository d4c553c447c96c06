package main

// ofRollup: Flushes, adoption and reconcile.
var ofRollup = []mutant{
	{
		"a flush without a time limit", "rollup",
		"context.WithTimeout(r.running, flushTimeout)", "context.WithCancel(r.running)", test("TestFlushEnds"),
	},
	{
		"events of failing flushes are never answered", "rollup",
		"again := o == failed && b.failures <= c.maxFailures", "again := o == failed", test("TestCoalescerFailedFlushGoesAgain"),
	},
	{
		"events are refused that the ledger has room for no more, as if they counted", "rollup",
		"case o == failed || o == permanent || full[ledger.Key(shard)]:", "case o == failed || o == permanent:", test("TestCoalescerRefusesWhatHasNoRoom"),
	},
	{
		"a duplicate is done while its twin waits", "rollup",
		"case newest != nil && newest.state.Supersedes(s):", "case newest != nil && !s.Supersedes(newest.state):", test("TestCoalescerSupersedes"),
	},
	{
		"an event is done that has a field which the newer one lacks", "rollup",
		"if len(s.Missing(newest.state)) > 0 {", "if false {", test("TestStateThatLacksAField"),
	},
	{
		"a newer state forgets a field that it lacks", "rollup",
		"if missing := newest.state.Missing(s); len(missing) > 0 {", "if missing := newest.state.Missing(s); false {", test("TestStateThatLacksAField"),
	},
	{
		"instances that share a counter don't take turns", "rollup",
		"return min(c.most, c.least*time.Duration(otherFlushes+1)*5/4)", "return c.least", test("TestCoalescerIntervalFollowsContention"),
	},
	{
		"contention doesn't slow flushes down", "rollup",
		"b.interval = min(c.most, b.interval*2)\n\t\tb.due", "b.due", test("TestCoalescerIntervalFollowsContention"),
	},
	{
		"a roller that closes doesn't flush at once", "rollup",
		"r.pending.drain(time.Now())\n", "", test("TestRollerCloseFlushes"),
	},
	{
		"a roller that closes takes further events", "rollup",
		"if r.closed {\n\t\tr.mu.Unlock()", "if false {\n\t\tr.mu.Unlock()", test("TestClosingRollerRefusesFirst"),
	},
	{
		"a flush gives up at the first doubt", "rollup",
		"if doubtful++; doubtful == doubts {", "if doubtful++; doubtful > 0 {", test("TestApplyOutlastsDoubt"),
	},
	{
		"a flush doesn't look at the totals that it made", "rollup",
		"if u.ledger.agrees(incremented, u.resp.GetWriteResults()[1].GetTransformResults()) {", "if u.ledger.agrees(incremented, u.resp.GetWriteResults()[1].GetTransformResults()) || true {", test("TestMadeAgainByASnippet"),
	},
	{
		"deletions alone adopt a counter", "rollup",
		"c.update(ctx, counter, !onlyGone(states), ", "c.update(ctx, counter, !onlyGone(states) || true, ", test("TestDeletionsAloneAdoptNothing"),
	},
	{
		"an event from the future counts", "rollup",
		"if t.After(now) {", "if false {", test("TestEventFromTheFutureIsPoison"),
	},
	{
		"adoption reads the shards before its transaction", "rollup",
		"shards, err := tx.Documents(ctx, store.Query{Collection: c.db.ShardsOf(counter)})\n\t\tif err != nil {\n\t\t\treturn err\n\t\t}\n\t\tif len(shards) == 0 && docs[1] == nil", "shards, err := c.db.Documents(ctx, store.Query{Collection: c.db.ShardsOf(counter)})\n\t\tif err != nil {\n\t\t\treturn err\n\t\t}\n\t\tif len(shards) == 0 && docs[1] == nil", test("TestAdoptionIsIsolated"),
	},
	{
		"a counter that is being deleted is adopted", "rollup",
		"if own[layout.Deleting].GetBooleanValue() || c.db.Hosted && docs[1] == nil {", "if own[layout.Deleting].GetBooleanValue() && false || c.db.Hosted && docs[1] == nil {", test("TestBeingDeleted"),
	},
	{
		"an inferred number of shards stays", "rollup",
		"if inferred = risen(l.inferred, states); inferred > l.inferred {", "if inferred = risen(l.inferred, states); false {", test("TestInferredNumberOfShardsRises"),
	},
	{
		"nobody is told that shards hold another field", "rollup",
		"if counted == 0 && len(docs) > 0 {", "if false {", test("TestShardsOfAnotherField"),
	},
	{
		"a reconcile doesn't look again behind what was impossible", "rollup",
		"if !found.impossible {", "if true {", test("TestReconcileLooksBehindATotalThatIsRightByChance"),
	},
	{
		"a reconcile without the ledger's condition", "rollup",
		"store.Update(c.db.LedgerOf(counter), store.UpdatedAtTime(l.Updated), fields, mask),\n\t\t// The ledger's", "store.Update(c.db.LedgerOf(counter), nil, fields, mask),\n\t\t// The ledger's", test("TestReconcileBesideEverything|TestReconcileOfACounterThatIsDeletedMeanwhile"),
	},
	{
		"a reconcile passes over shards that hold no integer", "rollup",
		"if all != numbers {", "if false {", test("TestReconcileReportsWhatIsNotAnInteger"),
	},
	{
		"entries of shards that are gone stay in the ledger", "rollup",
		"if int64(len(known.Shards)) > numbers+spare {", "if false {", test("TestReconcilePrunes"),
	},
	{
		"a deletion that was cut short stays so", "rollup",
		"if !opts.DryRun {\n\t\tif err := opts.FinishDeletion", "if opts.DryRun {\n\t\tif err := opts.FinishDeletion", test("TestReconcileFinishesADeletion"),
	},
	{
		"a reconcile without a time limit for one counter", "rollup",
		"context.WithTimeout(ctx, opts.limit)", "context.WithCancel(ctx)", test("TestReconcileAllGetsFurther"),
	},
	{
		"the reconcile cursor skips the rest of a page", "rollup",
		"if n > 0 {\n\t\t\t\t\tat.done = ids[n-1]\n\t\t\t\t}", "at.done = ids[len(ids)-1]", test("TestReconcileAllGetsFurther"),
	},
	{
		"the reconcile cursor skips a page", "rollup",
		"if n > 0 {\n\t\t\t\t\tat.done = ids[n-1]\n\t\t\t\t}", "at = cursor{page: next}", test("TestReconcileAllGetsFurther"),
	},
	{
		"the reconcile cursor begins a page again", "rollup",
		"if n > 0 {\n\t\t\t\t\tat.done = ids[n-1]\n\t\t\t\t}", "", test("TestReconcileAllGetsFurther"),
	},
	{
		"a reconcile cursor that Firestore has forgotten is fatal", "rollup",
		"if status.Code(err) == codes.InvalidArgument && at.page != \"\" {", "if status.Code(err) == codes.InvalidArgument && at.page != \"\" && false {", test("TestReconcileAllWithACursorThatIsForgotten"),
	},
	{
		"a dry run moves the reconcile cursor", "rollup",
		"resume := opts.Resume && !opts.DryRun", "resume := opts.Resume", test("TestDryRunOfAll"),
	},
	{
		"a cleanup of many shards forgets what they hold", "rollup",
		"tx.Write(store.Update(shards[last].GetName(), store.Exists(true), nil, nil, transforms...))", "_ = transforms", test("TestCleanupOfManyShardsStopsAnywhere|TestCleanupOfALargeOne"),
	},
	{
		"a cleanup takes its own writes for somebody's", "rollup",
		"c.gather(tx, shards[:maxWrites-1])\n\t\ttx.Write(c.touch(counter))", "c.gather(tx, shards[:maxWrites-1])", test("TestCleanupOfManyShardsStopsAnywhere"),
	},
	{
		"a cleanup doesn't see that the document was back", "rollup",
		"if first {\n\t\t\twritten", "if false {\n\t\t\twritten", test("TestCleanupOfADocumentThatWasBackUnseen"),
	},
	{
		"a document that is back is still said to be gone", "rollup",
		"if !l.Gone.IsZero() {\n\t\tmask", "if false {\n\t\tmask", test("TestCleanupOfADocumentThatIsBack|TestCleanupAfterTheLastTime|TestEventsOfADocumentThatIsNotThere"),
	},
}
