package main

// ofRollup: Flushes, adoption and reconcile.
var ofRollup = []mutant{
	{
		"a flush without a time limit", "rollup",
		"context.WithTimeout(r.running, flushTimeout)", "context.WithCancel(r.running)", test("TestFlushEnds"),
	},
	{
		"events of failing flushes are never answered", "rollup",
		"if now.Sub(b.failing) < c.patienceNow() {", "if true {", test("TestCoalescerFailedFlushGoesAgain"),
	},
	{
		"instances that meet once meet each time", "rollup",
		"now.Add(least+time.Duration(c.spread()*float64(c.least)))", "now.Add(least+c.least/2)", test("TestCoalescerFailuresMoveApart"),
	},
	{
		"a process that ends is as patient as any", "rollup",
		"if c.draining {\n\t\treturn min(c.patience, 3*c.least)", "if false {\n\t\treturn min(c.patience, 3*c.least)", test("TestCoalescerDrainingIsImpatient"),
	},
	{
		"an event that the ledger has no room for is acknowledged as if it counted", "rollup",
		"case o == contended || o == own || full:", "case o == contended || o == own:", test("TestCoalescerNotesWhatHasNoRoom"),
	},
	{
		"a damaged ledger's events are answered with an error", "rollup",
		"errors.Is(err, ErrDamagedLedger), errors.Is(err, ErrLedgerFull):\n\t\treturn own", "errors.Is(err, ErrDamagedLedger), errors.Is(err, ErrLedgerFull):\n\t\treturn permanent", test("TestOneCountersTroubleIsItsOwn"),
	},
	{
		"contention is answered with an error", "rollup",
		"return contended", "return failed", test("TestOneCountersTroubleIsItsOwn"),
	},
	{
		"a commit that waits for a lock is answered with an error", "rollup",
		"errors.Is(err, ErrContention), errors.Is(err, store.ErrDoubt):", "errors.Is(err, ErrContention):", test("TestOneCountersTroubleIsItsOwn"),
	},
	{
		"a counter fails from the end of its first failure", "rollup",
		"b.failing = flush.started", "b.failing = now", test("TestCoalescerCountsFromWhenTheFirstFailureBegan"),
	},
	{
		"an event is acknowledged before it is noted", "rollup",
		"err := r.client.note(r.running, b.counter, cmp.Or(err, ErrLedgerFull))\n\t\tfor _, event := range s.noted {\n\t\t\tevent <- err", "_ = r.client.note(r.running, b.counter, cmp.Or(err, ErrLedgerFull))\n\t\tfor _, event := range s.noted {\n\t\t\tevent <- nil", test("TestANoteThatCannotBeWritten"),
	},
	{
		"a note's reason is cut within a character", "internal/store",
		`strings.ToValidUTF8(why[:min(len(why), maxWhy)], "")`, `strings.ToValidUTF8(why, "")[:min(len(why), maxWhy)]`, testIn("rollup", "TestANoteOfACounterWithALongName"),
	},
	{
		"an event is acknowledged for a note whose reconcile has begun", "internal/store",
		"n.Begun || n.Left || len(unasked) > 0 {", "n.Left || len(unasked) > 0 {", testIn("rollup", "TestAnEventBesideTheReconcileOfANote"),
	},
	{
		"a note goes though its queries got no answer", "rollup",
		"if err == nil && opts.noted && r.asked != nil && r.asked.unanswered {", "if false {", test("TestNoteStaysUntilItsQueriesAreAnswered"),
	}, {
		"events are acknowledged though their queries got no answer", "rollup",
		"noted := r.client.note(r.running, b.of.counter, errUnanswered)", "var noted error", test("TestQueryWithoutAnAnswer"),
	}, {
		"a revision takes a note away without asking for fields that it doesn't know", "rollup",
		"case len(unknown) > 0 && !begun.Left:", "case false:", test("TestANoteOfANewerRevision"),
	},
	{
		"a revision takes a note away that it has just left", "rollup",
		"n.Left && len(unknown) > 0 && now.Sub(n.LeftAt) < besideFor {", "len(unknown) > 0 && false {", test("TestANoteOfANewerRevision"),
	},
	{
		"a note of fields that were rolled back stays", "rollup",
		"n.Left && len(unknown) > 0 && now.Sub(n.LeftAt) < besideFor {", "n.Left && len(unknown) > 0 {", test("TestANoteOfANewerRevision"),
	},
	{
		"notes that are left hide others", "internal/store",
		"noteDue: Time(due),\n\t}, []string{noteBegun}))", "noteDue: Time(n.At),\n\t}, []string{noteBegun}))", testIn("rollup", "TestNotesThatAreLeftHideNoOther"),
	},
	{
		"nobody looks for notes that are left", "rollup",
		"left, err := c.db.LeftNotes(ctx, until, notesAtOnce)", "left, err := []store.Note(nil), error(nil)", test("TestANoteOfANewerRevision"),
	},
	{
		"a note that was left and is relied on again is not due", "internal/store",
		"fields[noteDue] = Time(n.Since)", "fields[noteDue] = Time(n.Due)", testIn("rollup", "TestNotesThatAreLeftHideNoOther"),
	},
	{
		"a revision relies on a note of one that asks for less", "internal/store",
		"n.Begun || n.Left || len(unasked) > 0 {", "n.Begun || n.Left || len(unasked) < 0 {", testIn("rollup", "TestANoteOfANewerRevision"),
	},
	{
		"a note is taken away that others rely on", "internal/store",
		"DeleteIf(db.Layout.Note(n.Counter), UpdatedAtTime(n.version))", "Delete(db.Layout.Note(n.Counter))", testIn("rollup", "TestAnEventBesideTheReconcileOfANote"),
	},
	{
		"a reconcile for a note leaves the floor", "rollup",
		"case r.opts.noted && !r.opts.DryRun:", "case false:", test("TestAReconcileForANoteEndsEarlierSnapshots"),
	},
	{
		"a duplicate is done while its twin waits", "rollup",
		"older := newest != nil && newest.state.Supersedes(s)", "older := newest != nil && !s.Supersedes(newest.state)", test("TestCoalescerSupersedes"),
	},
	{
		"a newer event forgets what a field was that is no integer any more", "rollup",
		"h.keep(append(newest.older, newest.state)...)\n", "", test("TestStateOfAFieldThatIsNoIntegerAnyMore"),
	},
	{
		"an older event is done that knows what a field was", "rollup",
		"newest.keep(s)\n		b.events++", "b.events++", test("TestStateOfAFieldThatIsNoIntegerAnyMore"),
	},
	{
		"a newer event forgets that a field was a text", "rollup",
		" || slices.ContainsFunc(slices.Concat(older, h.older), isMixed) {", " {", test("TestStateOfAFieldThatIsNoNumberAnyMore"),
	},
	{
		"an event that says that a field is a text is done once a newer one is held", "rollup",
		"s.Supersedes(newest.state) && !newest.tells(): //", "s.Supersedes(newest.state): //", test("TestStateOfAFieldThatIsNoNumberAnyMore"),
	},
	{
		"an event that says that a field was a text is done while a newer one is held", "rollup",
		"case older && (!tells(s) || b.next[s.Shard] == nil):", "case older:", test("TestStateOfAFieldThatIsNoNumberAnyMore"),
	},
	{
		"an event of a text doesn't say what was counted before", "rollup",
		"c.after(doc, after == nil).since(before)", "c.after(doc, after == nil)", test("TestDecodeSeveralFields"),
	},
	{
		"what was counted before a text is what was heard of it", "internal/ledger",
		"n, told := s.Was[field]; told {", "n, told := s.Was[field]; told && false {", test("TestMergeWhatIsBlank"),
	},
	{
		"an event of a text after a text waits", "rollup",
		"return len(s.Was) > 0 || s.WasOdd", "return len(s.Blank) > 0", test("TestStateOfAFieldThatIsNoNumberAnyMore"),
	},
	{
		"an event of a text after a fraction is covered by a newer one", "rollup",
		"return len(s.Was) > 0 || s.WasOdd", "return len(s.Was) > 0", test("TestStateOfAFieldThatIsNoNumberAnyMore"),
	},
	{
		"an event of a fraction says nothing of the integer before", "rollup",
		"range slices.Concat(c.Odd, c.Blank) {", "range c.Blank {", test("TestDecodeSeveralFields"),
	},
	{
		"what a fraction says of before it is dropped once a newer integer waits", "rollup",
		"func isMixed(s ledger.State) bool { return len(s.Odd)+len(s.Blank) > 0 }", "func isMixed(s ledger.State) bool { return len(s.Blank) > 0 }", test("TestOneFlushIsTheSameInAnyOrder"),
	},
	{
		"a fraction alone in its shard is poison, whatever it says of before it", "rollup",
		" && !tells(c.state()) {", " {", test("TestDecodeSeveralFields"),
	},
	{
		"what is no integer in a shard that was made again keeps what was counted of the one before", "internal/ledger",
		"if s.Made.After(known.AsOf) && ", "if false && ", testIn("rollup", "TestNoIntegerInAShardThatIsMadeAgain"),
	},
	{
		"a ledger that was restored keeps nothing of its shards' counts", "internal/ledger",
		"&& !(l.Restored && known.AsOf.Before(l.Created)) {", "{", testIn("rollup", "TestNoIntegerInAShardThatIsRestored"),
	},
	{
		"a ledger that was restored keeps what was counted of shards that are gone since", "internal/ledger",
		"l.Restored && known.AsOf.Before(l.Created)", "l.Restored", test("TestMergeIntoALedgerThatWasRestored"),
	},
	{
		"a walk that looks at each shard ends holds of fields with a limit alone", "rollup",
		"r.opts.each, r.held = true, false", "r.opts.each = true", test("TestAWalkThatLooksAtEachShardEndsHolds"),
	},
	{
		"a walk looks at no shard of a ledger that was restored", "rollup",
		" || k.Ledger.Restored", "", test("TestRestoredUntilAllShardsWereLookedAt"),
	},
	{
		"a copy in memory claims a time that has not come", "rollup",
		"\tif !l.Ahead() {\n\t\tc.known", "\tif true {\n\t\tc.known", test("TestWhatHasNotComeIsInNoCopy"),
	},
	{
		"a floor that has not come is kept", "rollup",
		"\tif l.Ahead() {\n\t\treturn time.Time{}", "\tif false {\n\t\treturn time.Time{}", test("TestWhatHasNotComeIsInNoCopy"),
	},
	{
		"a note is taken away for an answer that the ledger has no room for", "rollup",
		"full = full || r.opts.noted && len(merged.Full) > 0", "full = full || false", test("TestAnAnswerThatAFullLedgerHasNoRoomFor"),
	},
	{
		"a ledger that is made again takes its own total for what adoption has replaced", "internal/book",
		"known || !whole {\n\t\t\tledger.Put(&l.Replaced, field.Name, 0)", "known || !whole {\n\t\t\t_ = field.Name", testIn("internal/extension", "TestImportInPlaceAfterTheLedgerWasMadeAgain"),
	},
	{
		"a ledger that is made again forgets what adoption has replaced", "internal/book",
		"\t\tledger.Put(&l.Replaced, name, was)", "\t\t_, _ = name, was", testIn("internal/extension", "TestImportInPlaceAfterTheLedgerWasMadeAgain"),
	},
	{
		"a ledger that is made again says that what it has lost is imported", "internal/book",
		"!lost && !d.damaged {", "(!lost || true) && !d.damaged {", testIn("internal/extension", "TestImportInPlaceAfterTheLedgerWasMadeAgain"),
	},
	{
		"a ledger that is made again says that nothing is imported where that can't be read", "internal/book",
		"} else if len(base) > 0 {", "} else if false {", testIn("internal/extension", "TestImportInPlaceWhereNobodyKnowsWhatWasImported"),
	},
	{
		"what may have been imported is imported again", "internal/book",
		"lost && !again {", "lost && false {", testIn("internal/extension", "TestImportInPlaceWhereNobodyKnowsWhatWasImported"),
	},
	{
		"a field that is shown from now on takes a number of the total's size for its own", "internal/book",
		"k.takeOver(field, !ours)", "k.takeOver(field, !ours && false)", testIn("internal/extension", "TestImportInPlaceAfterAdoptionOfTheSameNumber"),
	},
	{
		"an event of a text is poison", "rollup",
		"!countable(names, doc, before, c.Odd)", "!countable(names, doc, before, slices.Concat(c.Odd, c.Blank))", test("TestDecodeSeveralFields"),
	},
	{
		"older states of a field that is no integer any more go as they came", "rollup",
		"a.AsOf.Compare(b.AsOf) })", "0 })", test("TestStateOfAFieldThatIsNoIntegerAnyMore"),
	},
	{
		"instances that share a counter don't take turns", "rollup",
		"return min(c.most, c.least*time.Duration(otherFlushes+1)*5/4)", "_ = otherFlushes\n\treturn c.least", test("TestCoalescerIntervalFollowsContention"),
	},
	{
		"a quiet counter waits for its second flush", "rollup",
		"return c.least * time.Duration(c.burst-1)", "return 0", test("TestCoalescerBurst"),
	},
	{
		"a bucket fills while it is full", "rollup",
		"next.Before(full) {", "false {", test("TestCoalescerBurst"),
	},
	{
		"a busy instance spends flushes early", "rollup",
		"if c.running > busyFlushes {", "if false {", test("TestABusyInstanceSpendsNothingEarly"),
	},
	{
		"instances that share a counter have a burst each", "rollup",
		"next = now.Add(b.interval)\n", "", test("TestABurstMeetsLittleContention"),
	},
	{
		"an instance to which a counter is new takes itself to be alone", "rollup",
		"f.otherFlushes = 1\n", "", test("TestANewInstanceFindsTheBucketEmpty"),
	},
	{
		"contention doesn't slow flushes down", "rollup",
		"b.interval = min(c.most, b.interval*2)", "", test("TestCoalescerIntervalFollowsContention"),
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
		"var patience = store.Patience{Conflicts: 6, Doubts: 12,", "var patience = store.Patience{Conflicts: 6, Doubts: 1,", test("TestApplyOutlastsDoubt"),
	},
	{
		"a flush doesn't look at the totals that it made", "rollup",
		"\tif !agrees {\n\t\tif err := f.book.Mend", "\tif !agrees && false {\n\t\tif err := f.book.Mend", simulation,
	},
	{
		"a flush leaves out fields that stay as they are", "internal/book",
		"\t\tif known && ledger.Add(was, k.Deltas[field.Name]) == total {\n", "\t\tif known && total == was {\n\t\t\tdelete(set, field.Name)\n\t\t} else if known {\n", testIn("rollup", "TestAFieldThatStaysAsItIsIsMended"),
	},
	{
		"without its document a counter counts nothing", "rollup",
		"if !k.Changed() && (remembered", "if k.Missing() || !k.Changed() && (remembered", simulation,
	},
	{
		"the first answer to a query adds to what was there", "internal/book",
		"\t\tif known && ledger.Add(was, k.Deltas[field.Name]) == total {\n", "\t\tif known || integer {\n", testIn("rollup", "TestFirstAnswerTakesTheNumbersPlace"),
	},
	{
		"deletions alone adopt a counter", "rollup",
		"if !adopts {", "if !adopts && false {", test("TestDeletionsAloneAdoptNothing"),
	},
	{
		"an event from the future counts", "rollup",
		"if t.After(now) {", "if false {", test("TestEventFromTheFutureIsPoison"),
	},
	{
		"adoption reads the shards before its transaction", "internal/book",
		"b.Shards(ctx, tx, counter,", "b.Shards(ctx, b.db, counter,", testIn("rollup", "TestAdoptionIsIsolated"),
	},
	{
		"a counter that is being deleted is adopted", "internal/book",
		"if Deleting(names, docs[1]) {\n\t\t\treturn ErrNothing", "if false {\n\t\t\treturn ErrNothing", testIn("rollup", "TestBeingDeleted"),
	},
	{
		"nobody is told that shards hold another field", "rollup",
		"if !counted && len(shards) > 0 && len(c.db.Layout.Fields) > 0 {", "if false {", test("TestShardsOfAnotherField"),
	},
	{
		"a reconcile doesn't look again behind what was impossible", "rollup",
		"if committed != nil && r.impossible {", "if committed != nil && r.impossible && false {", test("TestReconcileLooksBehindATotalThatIsRightByChance|TestReconcileLooksAgainAtAShardThatWasOverlooked"),
	},
	{
		"a reconcile takes a total that is right by chance for a ledger that is", "rollup",
		" || sum.GetIntegerValue() != known {", " || known < known {", test("TestReconcileLooksIntoALedgerBehindARightTotal"),
	},
	{
		"a walk takes sums that agree for a ledger that is right", "rollup",
		" || !k.Ledger.Uneven.IsZero() || k.Ledger.Restored", " || k.Ledger.Restored", test("TestAWalkLooksBehindSumsThatAgree"),
	},
	{
		"a walk looks at no shard that it has no reason to look at", "rollup",
		"opts.budget == nil || c.looks()", "opts.budget == nil", test("TestAWalkLooksBehindSumsThatAgree"),
	},
	{
		"a reconcile by name takes sums that agree for a ledger that is right", "rollup",
		"opts.budget == nil || c.looks()", "c.looks()", test("TestAWalkLooksBehindSumsThatAgree"),
	},
	{
		"a look from before something was taken off a shard is one after it", "internal/ledger",
		"&& l.Uneven.Equal(s.Uneven)", "", testIn("rollup", "TestALookFromBeforeAMove"),
	},
	{
		"a flush doesn't say that something was taken off a shard", "internal/ledger",
		"if e.less(known) && s", "if false && s", testIn("rollup", "TestAWalkLooksBehindSumsThatAgree"),
	},
	{
		"a resize doesn't say what it takes off shards", "shards",
		"\tk.Uneven(tx)\n\treturn nil", "\t_ = k\n\treturn nil", test("TestALedgerThatHasHeardOfNoMove"),
	},
	{
		"a reset doesn't say what it takes off shards", "shards",
		"\tk.TakeOff()\n", "", test("TestALedgerThatHasHeardOfNoMove"),
	},
	{
		"a reset doesn't say that it takes members off", "shards",
		"\t\tk.Uneven(tx)\n\t\treturn len(members), true, nil\n\t})", "\t\t_ = k\n\t\treturn len(members), true, nil\n\t})", test("TestALedgerThatHasHeardOfNoMove"),
	},
	{
		"a deletion doesn't say that it takes members off", "shards",
		"\t\tk.Uneven(tx)\n\t\treturn len(members), true, nil\n\tcase", "\t\treturn len(members), true, nil\n\tcase", test("TestALedgerThatHasHeardOfNoMove"),
	},
	{
		"a deletion doesn't say that it moves shards", "shards",
		"k.Uneven(tx)\n		if going", "if going", test("TestALedgerThatHasHeardOfNoMove"),
	},
	{
		"a reconcile takes an older revision's sums for its own", "internal/book",
		"removed = append(removed, layout.FieldPath(LedgerSums, key))", "_ = key", testIn("rollup", "TestSumsInALedger"),
	},
	{
		"what is in a field's place when it is first shown is part of its total", "internal/book",
		"is && known && !(replaced", "is && (known || !known) && !(replaced", testIn("rollup", "TestWhatIsNoDrift"),
	},
	{
		"what was shown from the shards, or by another query, is part of a query's number", "internal/book",
		"_, known := k.Ledger.Sums[field.Key()]\n", "_, known := k.Ledger.Sums[field.Key()]\n\t\tknown = known || field.Counted != nil\n", testIn("rollup", "TestAQueryThatIsShownAgainIsNoDrift|TestTwoQueriesForAField"),
	},
	{
		"a ledger says that a document shows its sums that is missing", "internal/book",
		"if !l.Gone.IsZero() {\n\t\treturn nil", "if false {\n\t\treturn nil", testIn("rollup", "TestADocumentThatIsBackIsNoDrift"),
	},
	{
		"a ledger says that a document shows its sums that has no room for them", "internal/store",
		"req.Writes = p.Smaller(req.Writes)", "req.Writes = req.Writes[:1]", testIn("rollup", "TestADocumentThatIsFull"),
	},
	{
		"a field of the shards that gets another name counts on from what is there", "internal/book",
		"sums[field.Key()] = l", "sums[field.Shard] = l", testIn("rollup", "TestSumsInALedger"),
	},
	{
		"a number that an increment has made the ledger beside is drift", "internal/book",
		"replaced && k.Ledger.Flushes == 0", "replaced && k.Ledger.Flushes == -1", testIn("rollup", "TestTheNumberBeforeTheFirstIncrementIsNoDrift"),
	},
	{
		"a reconcile that finds nothing leaves the sums of an older revision", "rollup",
		" && k.Signed(),", " && (true || k.Signed()),", test("TestSumsInALedger"),
	},
	{
		"a reconcile passes over shards that hold no integer", "rollup",
		"if has != numbers {", "if false && has != numbers {", test("TestReconcileReportsWhatIsNotAnInteger"),
	},
	{
		"entries of shards that are gone stay in the ledger", "rollup",
		"if f.merge(k); len(f.diff.Full) > 0 && !f.full && k.Ledger.Gaps() >= spare {", "if f.merge(k); false {", test("TestFullLedger"),
	},
	{
		"a deletion that was cut short stays so", "rollup",
		"if r.over = r.opts.Remove != nil; !r.over {", "if r.over = r.opts.Remove == nil; !r.over {", test("TestReconcileFinishesADeletion"),
	},
	{
		"a deletion that was cut short, and whose document is missing, stays so", "internal/book",
		" || k.Doc == nil && k.Ledger != nil && k.Ledger.Ending", "", testIn("rollup", "TestADeletionGoesOnWhateverItsShardsHold"),
	},
	{
		"a reconcile without a time limit for one counter", "rollup",
		"context.WithTimeout(ctx, opts.limit)", "context.WithCancel(ctx)", test("TestReconcileAllGetsFurther"),
	},
	{
		"the reconcile cursor skips the rest of a page", "rollup",
		"if n > 0 {\n\t\t\t\t\tat.Done = ids[n-1]\n\t\t\t\t}", "at.Done = ids[len(ids)-1]", test("TestReconcileAllGetsFurther"),
	},
	{
		"the reconcile cursor skips a page", "rollup",
		"if n > 0 {\n\t\t\t\t\tat.Done = ids[n-1]\n\t\t\t\t}", "at = store.Cursor{Page: next}", test("TestReconcileAllGetsFurther"),
	},
	{
		"the reconcile cursor begins a page again", "rollup",
		"if n > 0 {\n\t\t\t\t\tat.Done = ids[n-1]\n\t\t\t\t}", "", test("TestReconcileAllGetsFurther"),
	},
	{
		"a reconcile cursor that Firestore has forgotten is fatal", "rollup",
		"if status.Code(err) == codes.InvalidArgument && at.Page != \"\" {", "if status.Code(err) == codes.InvalidArgument && at.Page != \"\" && false {", test("TestReconcileAllWithACursorThatIsForgotten"),
	},
	{
		"a dry run moves the reconcile cursor", "rollup",
		"resume := opts.Resume && !opts.DryRun", "resume := opts.Resume", test("TestDryRunOfAll"),
	},
	{
		"a total grows by no more than an increment can", "internal/book",
		"if known && ledger.Add(was, k.Deltas[field.Name]) == total {", "if known {", testIn("rollup", "TestATotalThatGrowsBeyondAnIncrement"),
	},
	{
		"a cleanup of many shards forgets what they hold", "shards",
		"held[name] = append(held[name], n)", "_ = append(held[name], n)", test("TestDeletionCutShortAnywhere|TestTheDocumentComesBackDuringARemoval"),
	},
	{
		"a cleanup that runs out of time begins to wait again", "internal/book",
		"map[string]*firestorepb.Value{LedgerEnding: store.Bool(true)}", "map[string]*firestorepb.Value{}", testIn("rollup", "TestCleanupThatIsCutShortGoesOnAtOnce"),
	},
	{
		"a document that is back is still said to be gone", "internal/book",
		"d.Back = !l.Gone.IsZero()\n", "", testIn("rollup", "TestCleanupOfADocumentThatIsBack|TestCleanupAfterTheLastTime|TestEventsOfADocumentThatIsNotThere"),
	},
	{
		"a deletion goes on though the document was back", "internal/book",
		"[]string{LedgerSums}, store.ServerTime(LedgerGone)))", "[]string{LedgerSums}))", testIn("rollup", "TestADeletionThatTheDocumentComesBackTo"),
	},
	{
		"what a document shows that is back during a deletion is drift", "internal/book",
		"[]string{LedgerSums}, store.ServerTime", "nil, store.ServerTime", testIn("rollup", "TestADeletionThatTheDocumentComesBackTo"),
	},
	{
		"a note of documents below what is gone is taken away", "rollup",
		"if r.opts.noted && k.Missing() {", "if false {", test("TestANoteOfDocumentsOfACounterThatIsGone"),
	},
}
