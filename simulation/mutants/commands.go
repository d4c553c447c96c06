package main

// ofCommands: Creation, deletion, imports and the other commands.
var ofCommands = []mutant{
	{
		"a creation begins at zero", "shards",
		"fields := db.View(l)\n", "fields := db.View(&ledger.Ledger{Gone: l.Gone})\n", simulation,
	},
	{
		"a creation makes another ledger beside the one that is there", "shards",
		"c.size(ctx, tx, nil, docs[1], opts.Shards,", "c.size(ctx, tx, nil, nil, opts.Shards,", test("TestCreateShowsWhatThePathHasCounted"),
	},
	{
		"a creation or a deletion doesn't look for its own marker", "shards",
		"if err != nil || docs[0] != nil {\n\t\t\treturn err", "if err != nil || docs == nil {\n\t\t\treturn err", test("TestCreateLosesItsAnswer|TestACreationInDoubtMakesNoSecondLife|TestADeletionInDoubtSparesTheSuccessor"),
	},
	{
		"a creation or a deletion leaves no marker", "shards",
		"tx.Write(c.marks(id, marker{batch: id}))", "", test("TestCreateLosesItsAnswer|TestACreationInDoubtMakesNoSecondLife|TestADeletionInDoubtSparesTheSuccessor"),
	},
	{
		"a life without a ledger is never over", "shards",
		"return !l.doc.IsZero() && !now.doc.IsZero() && !now.doc.Equal(l.doc)", "return false", test("TestTwoDeletionsSpareASuccessorWithoutALedger"),
	},
	{
		"a life without a ledger is over with its document", "shards",
		"return !l.doc.IsZero() && !now.doc.IsZero() && !now", "return !l.doc.IsZero() && !now", test("TestADeletionWhoseDocumentIsDeletedByHand"),
	},
	{
		"a deletion that gets no further goes on", "shards",
		"shards[:atOnce+1], false); going == 0 {", "shards[:atOnce+1], false); going < 0 {", test("TestADeletionThatGetsNoFurther"),
	},
	{
		"a deletion leaves the ledger", "shards",
		"all := slices.Concat(members, shards, beside)", "all := slices.Concat(members, shards, beside[:0])", simulation,
	},
	{
		"a deletion reads shards outside of its transaction", "shards",
		"shards, err := tx.Documents(ctx, store.Query{Collection: db.", "shards, err := db.Documents(ctx, store.Query{Collection: db.", simulation,
	},
	{
		"a large deletion is not marked", "shards",
		"case large && doc != nil && !db.Deleting(doc):", "case false:", test("TestDeleteLarge|TestCountingBesideADeletion|TestDeletionCutShortAnywhere"),
	},
	{
		"members of whom only shards tell stay", "shards",
		"r.learn(shards, itsLedger)", "r.learn(nil, itsLedger)", test("TestMembersOfOtherRevisionsGoWithTheirCounter"),
	},
	{
		"a deletion takes members off twice", "shards",
		"store.Increment(layout.FieldPath(field.Shard), -n)", "store.Increment(layout.FieldPath(field.Shard), -2*n)", test("TestDeletionCutShortAnywhere|TestRemove"),
	},
	{
		"a command goes on with the next life", "internal/command",
		"!life.IsZero() && !l.Created.Equal(life)", "!life.IsZero() && !l.Created.Equal(life) && false", test("TestTwoLives"),
	},
	{
		"a command in doubt whose counter is gone is refused", "internal/store",
		"return nil, fmt.Errorf(\"%w: %w\", ErrDoubt, err) // the", "return nil, err // the", testIn("internal/command", "TestTwoLives"),
	},
	{
		"a command doesn't look into the ledger of a counter that is being deleted", "internal/command",
		"if l == nil {", "if l == nil || db.Deleting(doc) {", test("TestRunWhileTheCounterIsBeingDeleted"),
	},
	{
		"what is in doubt is not looked at once more", "internal/store",
		"if err == nil && len(req.Writes) == 0 {", "if err == nil && len(req.Writes) < 0 {", testIn("internal/command", "TestTheLastLook"),
	},
	{
		"a command leaves the document as it is", "internal/command",
		"db.Show(counter, store.Exists(true), l)", "db.Show(counter, store.Exists(true), &ledger.Ledger{})", simulation,
	},
	{
		"what a reset has replaced comes back with an import", "internal/command",
		"set && ch.Anew {", "set && false {", test("TestAnewForgetsWhatWasReplaced"),
	},
	{
		"ids of commands stay in the ledger", "internal/command",
		"settled := settledIn(l, now)", "settled := settledIn(l, now)[:0]", test("TestIdsGoWhenTheyAreSettled"),
	},
	{
		"ids of commands fill the ledger", "internal/command",
		"if len(l.Ops)-len(settled) >= ledger.MaxOps {", "if false {", test("TestMoreCommandsThanMayBeInDoubt"),
	},
	{
		"ids of commands stay in a ledger that nothing writes", "internal/command",
		"settled := settledIn(l, now)", "settled, _ := settledIn(l, l.Updated), now", test("TestMoreCommandsThanMayBeInDoubt"),
	},
	{
		"a command doesn't note that the document is back", "internal/command",
		"db.Meet(l, doc, life, &diff)\n", "", test("TestACommandNotesThatTheDocumentIsBack"),
	},
	{
		"an import says what its last attempt found", "internal/command",
		"\t\t\t\tlast = ch\n", "\t\t\t\t_ = ch\n", testIn("internal/extension", "TestImportTellsWhatALateCommitBrought"),
	},
	{
		"an import adds what was imported before", "internal/extension",
		"Added: ledger.Sub(value, l.Imported[key])}", "Added: value}", simulation,
	},
	{
		"an import reads its source at two times", "internal/extension",
		"store.Query{Collection: name + \"/\" + shardsID, At: at})", "store.Query{Collection: name + \"/\" + shardsID})\n\t_ = at", test("TestImportReadsItsSourceAtOneTime"),
	},
	{
		"an import in place leaves what it has added where it was", "internal/extension",
		"takeOff(doc, field.Name, n))", "takeOff(doc, field.Name, 0))", simulation,
	},
	{
		"an import in place loses the number that is there", "internal/extension",
		"if err := c.keepTotals(ctx); err != nil {", "if err := error(nil); err != nil {", test("TestImportInPlace"),
	},
	{
		"an import in place beside the extension", "internal/extension",
		"now.Sub(state.GetUpdateTime().AsTime()) < quiet", "now.Sub(state.GetUpdateTime().AsTime()) < 0", simulation,
	},
	{
		"an import in place brings the replaced number each time", "internal/extension",
		"if !again {\n\t\t\tfound.Added", "if true {\n\t\t\tfound.Added", test("TestImportInPlaceAfterAdoption"),
	},
	{
		"what is beyond an int64 on the way is lost", "shards",
		"held[name] = ledger.Parts(counts...)", "held[name] = []int64{ledger.Add(counts[0], ledger.Add(counts[1:]...))}", test("TestResizeNearTheEndsOfAnInt64|TestDeletionNearTheEndsOfAnInt64"),
	},
	{
		"a resize moves what has no room", "shards",
		"n := fold(tx, append([]*firestorepb.Document{target}, moved...), keep); n > 1 {", "n := fold(tx, append([]*firestorepb.Document{target}, moved...), keep); n < 1 {", test("TestResizeNearTheEndsOfAnInt64"),
	},
	{
		"a resize takes away shards that the counter has again", "shards",
		"shard == nil || number < s.NumShards", "shard == nil || number < s.NumShards-1000", test("TestResizeBesideAResize"),
	},
}
