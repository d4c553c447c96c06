package main

import "slices"

// mutants are the rules, one of them left out in each.
var mutants = slices.Concat(bySimulation, ofLedger, ofRollup, ofSpeaking, ofCounted, ofCommands, ofWrites, ofFunctions, ofLimits)

// bySimulation are mutants that a simulation catches, most of them, and some others.
var bySimulation = []mutant{
	// The roll-up.
	{
		"an older state counts too", "internal/ledger",
		"ok && !known.olderThan(s) {", "ok && s.AsOf.Equal(known.AsOf) {", simulation,
	},
	{
		"a book without its ledger's condition", "internal/book",
		"store.Update(name, store.UpdatedAtTime(l.Updated), fields, removed, transforms...)", "store.Update(name, nil, fields, removed, transforms...)", simulation,
	},
	{
		"a total without exists", "internal/book",
		"condition := store.Exists(true)\n", "condition := store.Exists(true)\n\tcondition = nil\n", simulation,
	},
	{
		"a commit that is doubtful is taken for applied", "internal/store",
		"\t\ts.doubt = a.err\n", "\t\treturn end, nil\n", simulation,
	},
	{
		"a deleted shard is as old as its last version", "rollup",
		"c.AsOf = c.AsOf.Add(time.Microsecond)", "_ = c.AsOf.Add(time.Microsecond)", simulation,
	},
	{
		"a conflict after a doubt ends the doubt", "internal/store",
		"		s.conflicts++\n", "		s.conflicts++\n		s.doubt = nil\n", test("TestADoubtOutlastsConflicts"),
	},
	{
		"contention after a doubt ends the doubt", "internal/store",
		"	case s.doubt != nil: //", "	case s.doubt != nil && !(kind == Contention && s.Yield): //", test("TestADoubtOutlastsConflicts"),
	},
	{
		"a snapshot says nothing about shards that are gone", "internal/ledger",
		"for key, known := range l.States {\n\t\tif !there", "for key, known := range map[string]Entry(nil) {\n\t\tif !there", test("TestCorrect"),
	},
	{
		"an event is acknowledged before its flush", "rollup",
		"flushed := make(chan error, 1)\n", "flushed := make(chan error, 2)\n\tflushed <- nil\n", simulation,
	},
	{
		"events of failing flushes are acknowledged", "rollup",
		"event <- cmp.Or(err, ErrBusy)", "_ = cmp.Or(err, ErrBusy)\n\t\tevent <- nil", simulation,
	},
	{
		"an event is done once an older one of its shard is held", "rollup",
		"superseded = newest.events", "superseded = append(newest.events, event)", test("TestCoalescerSupersedes"),
	},
	{
		"the reconcile cursor is never stored", "rollup",
		"resume := opts.Resume && !opts.DryRun", "resume := false && opts.Resume", test("TestReconcileAllGetsFurther"),
	},
	// The write side.
	{
		"a doubtful commit goes again without a marker", "shards",
		"if f.deciding() == \"\" {\n\t\t\treturn f.giveUp(ErrUnknown, err)\n\t\t}\n", "if f.deciding() == \"\" {\n\t\t\tf.doubt = nil\n\t\t\treturn f.failure(err)\n\t\t}\n", simulation,
	},
	{
		"the own marker is ignored", "shards",
		"case ours && !decisive.settled:", "case false:", test("TestOneIncrementUnderFaults"),
	},
	{
		"a doubtful answer is taken for a refusal", "internal/store",
		"case codes.ResourceExhausted, codes.Unavailable, codes.DeadlineExceeded, codes.Internal, codes.Unknown, codes.Canceled:\n\t\treturn Doubtful",
		"case codes.ResourceExhausted, codes.Unavailable, codes.DeadlineExceeded, codes.Internal, codes.Unknown, codes.Canceled:\n\t\treturn Contention", simulation,
	},
	{
		"RESOURCE_EXHAUSTED is taken for a refusal", "internal/store",
		"case codes.ResourceExhausted, codes.Unavailable,", "case codes.ResourceExhausted:\n\t\treturn Contention\n\tcase codes.Unavailable,", simulation,
	},
	{
		"the client library sends a commit again", "internal/store",
		"*api.CallOptions = apiv1.CallOptions{}", "_ = apiv1.CallOptions{}", simulation,
	},
	{
		"a key in doubt is settled by a marker of the batch", "shards",
		"if len(f.requests) == 1 && first.key != \"\" {\n\t\treturn false", "if len(f.requests) == 1 && first.key != \"\" {\n\t\treturn f.doubt != nil", walk("TestBatchesCountOnce|TestMembersCountOnce"),
	},
	{
		"a key's marker that was made alone is no condition", "shards",
		"w.CurrentDocument = store.UpdatedAtTime(m.at)", "w.CurrentDocument = nil", simulation,
	},
	{
		"what is in doubt is not settled before another commit", "shards",
		"func (f *batch) resume() step {\n\tif f.doubt != nil {", "func (f *batch) resume() step {\n\tif false {", walk("TestBatchesCountOnce|TestMembersCountOnce"),
	},
	{
		"a reset reads a page of memberships outside of its transaction", "shards",
		"c.someMembers(ctx, db.Layout.Fields, atOnce, time.Time{}, tx)", "c.someMembers(ctx, db.Layout.Fields, atOnce, time.Time{}, db)", test("TestLeavingBesideAResetOfManyMembers"),
	},
	{
		"a member's turn ends when its caller goes", "shards",
		"if out.pending {\n\t\tgo func()", "if false {\n\t\tgo func()", test("TestATurnEndsWithItsCommit"),
	},
	{
		"a resize reads shards outside of its transaction", "shards",
		"c.unlimited(ctx, tx, append(", "c.existing(ctx, c.client.db, append(", test("TestIncrementsBesideAMove"),
	},
	{
		"a command doesn't look for its own id", "internal/book",
		"if _, applied := k.Ledger.Ops[id]; applied {", "if _, applied := k.Ledger.Ops[id+id]; applied {", simulation,
	},
	{
		"a shard is made whether its counter is there or not", "shards",
		"makes && k.Doc == nil {", "makes || k.Doc == nil {", test("TestMissingShards"),
	},
	{
		"a call without a deadline waits for as long as it takes", "shards",
		"r.ended = c.patience.end(ctx)", "_ = &c.patience", test("TestACallEndsItself"),
	},
	{
		"withdrawn increments still count as waiting", "shards",
		"r.line.requests = slices.Delete(r.line.requests, at, at+1)\n\tq.waiting--\n", "r.line.requests = slices.Delete(r.line.requests, at, at+1)\n", test("TestRoomOfThoseWhoWentAway"),
	},
	{
		"growth ignores others", "shards",
		"grows = is == seen; grows {", "grows = true; grows {", simulation,
	},
	{
		"a rebase ignores the shards", "shards",
		"k.Rebase(field, k.Ledger.BaseFor(field.Shard, total))", "k.Rebase(field, total)", test("TestCommandsBeyondAnInt64"),
	},
	{
		"what is known of a text after a reset comes on top of 0", "shards",
		"\tif err := k.Enter(shards); err != nil {\n\t\treturn err\n\t}\n\tfor", "\tfor", test("TestAResetOfATextThatIsHeardOfLater"),
	},
	{
		"a rebase takes what the ledger knows for what the shards hold", "shards",
		"\t\tif err := k.Enter(shards); err != nil {", "\t\tif _, err := shards, error(nil); err != nil {", test("TestATotalIsWhatWasAskedFor"),
	},
	{
		"a counter that is made takes what the ledger knows for what the shards hold", "internal/book",
		"if err := k.Enter(shards); err != nil {", "if _, err := shards, error(nil); err != nil {", testIn("shards", "TestATotalIsWhatWasAskedFor"),
	},
	{
		"an exact read at another time than its base", "shards",
		"c.client.db.Sum(ctx, c.client.db.Layout.ShardsOf(c.id), field.Shard, at)", "c.client.db.Sum(ctx, c.client.db.Layout.ShardsOf(c.id), field.Shard, time.Time{})", test("TestSumIsOfOneTime"),
	},
	{
		"the markers of batches expire at once", "shards",
		"const batchMarkerTTL = time.Hour", "const batchMarkerTTL = time.Nanosecond", test("TestMarkersExpire"),
	},
	{
		"markers expire by the clock of their machine", "internal/store",
		"[]time.Time{db.Now(), time.Now()}", "[]time.Time{time.Now()}", testIn("shards", "TestMarkersExpireByTheLaterClock"),
	},
	{
		"the markers of an instance that was suspended expire at once", "internal/store",
		"[]time.Time{db.Now(), time.Now()}", "[]time.Time{db.Now()}", testIn("shards", "TestMarkersExpireByTheLaterClock"),
	},
	{
		"the markers of keys expire with those of batches", "shards",
		"ttl := c.cfg.KeyTTL\n", "ttl := batchMarkerTTL\n", test("TestMarkersExpire"),
	},
	{
		"a deletion goes on with the next life", "shards",
		"case r.begun != nil && !marked && r.begun.Over(now):", "case false:", test("TestLatePartOfADeletionSparesTheSuccessor|TestTwoDeletionsSpareTheSuccessor"),
	},
	{
		"a deletion forgets the ledger that its counter got meanwhile", "shards",
		"		r.begun = &now // it may", "		if r.begun == nil {\n			r.begun = &now\n		}\n		// it may", test("TestADeletionThatBeganBeforeTheLedger"),
	},
	// Certainty: these protect no count.
	{
		"what is in doubt is not settled at all", "shards",
		"\t\treturn settle\n\tcase store.Contention", "\t\treturn f.giveUp(ErrUnknown, err)\n\tcase store.Contention", statistic,
	},
	{
		"a commit that settles is sent once, and markers are read once", "shards",
		"return pause // for", "return f.giveUp(ErrUnknown, err) // for", statistic,
	},
	{
		"a marker that TTL took is no reason to settle again", "shards",
		"case f.doubt != nil && !decided:", "case false:", test("TestAMarkerThatIsGoneSettlesNothing"),
	},
	{
		"the doubt stays after another's marker decided", "shards",
		"f.doubt, f.conflict = nil, nil", "f.conflict = nil", test("TestAnothersMarkerEndsTheDoubt"),
	},
	{
		"no time is left for settling", "shards",
		"until.Add(-c.cfg.Timeout/4)", "until", statistic,
	},
	{
		"who leaves a batch has more time", "shards",
		"!left.IsZero() {\n\t\treturn left", "!left.IsZero() {\n\t\treturn until", test("TestLeavingABatchGivesNoMoreTime"),
	},
	{
		"who comes after one that has left a batch has no more time", "shards",
		"if !r.until.Equal(g.requests[0].until) {", "if false {", test("TestWhoComesAfterALeaverHasTimeOfTheirOwn"),
	},
	{
		"a commit without a time limit of its own", "shards",
		"ctx, cancel = context.WithTimeout(ctx, c.cfg.Timeout/2)", "ctx, cancel = context.WithCancel(ctx)", statistic,
	},
	{
		"a doubtful commit is given up though it has a marker", "shards",
		"if f.deciding() == \"\" {\n\t\t\treturn f.giveUp", "if f.requests[0].key == \"\" {\n\t\t\treturn f.giveUp", statistic,
	},
	// Members.
	{
		"a membership's commit makes no marker", "shards",
		"return f.exact || f.beside()",
		"return f.exact && first.member == nil", test("TestOneMemberUnderFaults"),
	},
	{
		"a join whose membership is there already", "shards",
		"store.Create(m.name, fields, store", "store.Update(m.name, nil, fields, nil, store",
		simulation,
	},
	{
		"a leave whose membership is not there", "shards",
		"store.DeleteIf(m.name, store.Exists(true))", "store.Delete(m.name)", simulation,
	},
	{
		"several operations of a member in one commit", "shards",
		"if slices.ContainsFunc(own, func(name string) bool { return g.keys[name] }) {", "if slices.Contains(own[:0], \"\") {", test("TestReplayedMembersShareACommit|TestMembersCountOnce|TestGathering"),
	},
	{
		"a counter is made for those who leave", "shards",
		"return r.member == nil || r.member.join })", "return true })", test("TestMembersMakeWhatIsMissing"),
	},
	{
		"a deletion leaves members", "shards",
		"all := slices.Concat(members, shards, beside)", "all := slices.Concat(shards, beside)", simulation,
	},
	{
		"a reset takes shards and leaves members", "shards",
		"for _, m := range members {\n\t\tk.Beside", "for _, m := range members[:0] {\n\t\tk.Beside", simulation,
	},
	{
		"a reset takes members that it was not to take", "shards",
		"case len(members) > 0 && !opts.RemoveMembers:", "case false:", simulation,
	},
	{
		"a reset reads members at another time than shards", "shards",
		"c.someMembers(ctx, db.Layout.Fields, most, k.At, db)", "c.someMembers(ctx, db.Layout.Fields, most, time.Time{}, db)", simulation,
	},
	{
		"a reset sets shards to zero", "shards",
		"return store.Update(doc.GetName(), store.Exists(true), nil, nil, transforms...)\n}", "return store.Update(doc.GetName(), store.Exists(true), c.client.zero(doc.GetName()).GetFields(), nil)\n}", simulation,
	},
	{
		"an audit counts members at another time", "shards",
		"s, at, of, err := c.parts(ctx)\n\tif err != nil {\n\t\treturn nil,", "s, at, of, err := c.parts(ctx)\n\tif at = s.UpdatedAt; err != nil {\n\t\treturn nil,", simulation,
	},
	// The functions.
	{
		"reconcile answers 200 on failures", "functions",
		"case err != nil || a.Failed > 0:", "case err != nil:", test("TestReconcileAnswersThatItFailed"),
	},
	{
		"a busy roll-up acknowledges", "functions",
		"return problem{Status: http.StatusServiceUnavailable, Detail: errNotCounted", "return problem{Status: http.StatusNoContent, Detail: errNotCounted", simulation,
	},
	// Several fields, and documents of the app's own.
	{
		"a field that is no integer keeps the others from being counted", "rollup",
		"!countable(names, doc, before, c.Odd)", "len(c.Odd) > 0", test("TestDecodeSeveralFields"),
	},
	{
		"a busy document starves its repair", "internal/book",
		"\tcase !k.Missing():\n", "\tcase k.Doc != nil && k.state == changed:\n\t\tcondition = store.UpdatedAtTime(k.Doc.GetUpdateTime().AsTime())\n\tcase !k.Missing():\n", testIn("rollup", "TestReconcileOfABusyDocument"),
	},
	{
		"a cleanup doesn't wait", "rollup",
		"long := k.At.Sub(since) >= cmp.Or(r.opts.CleanupAfter, defaultCleanupAfter)", "long := k.At.Sub(since) >= 0*cmp.Or(r.opts.CleanupAfter, defaultCleanupAfter)", simulation,
	},
	{
		"a cleanup takes what was counted since", "shards",
		"!k.Version().Equal(*r.version)", "false", test("TestRemove|TestTheDocumentComesBackDuringARemoval"),
	},
	{
		"a cleanup takes what was counted since the reconcile has read", "shards",
		"|| uncounted(k, shards)", "|| false", test("TestRemove"),
	},
	{
		"a cleanup takes what the ledger had no room for", "shards",
		"return !since.Empty() || len(since.Full) > 0", "return !since.Empty()", test("TestRemoveWithAFullLedger"),
	},
	{
		"a cleanup that was cut short takes what was counted since", "shards",
		"&& ending && last != nil && newer(shards, last.GetUpdateTime().AsTime()):", "&& ending && last != nil && false:", test("TestARemovalIsOffOnceSomethingIsCounted"),
	},
	{
		"a cleanup takes its own steps for counts", "shards",
		"store.Increment(\"steps\", 1)", "store.Increment(\"steps\", 0)", test("TestARemovalRunsOutOfTime|TestARemovalIsOffOnceSomethingIsCounted|TestTheDocumentComesBackDuringARemoval"),
	},
	{
		"a hosted counter has no ledger before its first event", "internal/book",
		"if doc == nil || names.Hosted && k.raw == nil { //", "if doc == nil { //", testIn("shards", "TestHosted"),
	},
}
