package main

// ofCommands: Creation, deletion, imports and the other commands.
var ofCommands = []mutant{
	{
		"a creation begins at zero", "internal/book",
		"fields = view(names, k.Ledger, totals)\n", "fields = view(names, k.Ledger, map[string]int64{names.Fields[0].Name: 0})\n", simulation,
	},
	{
		"a creation makes another ledger beside the one that is there", "internal/book",
		"case k.raw == nil:\n\t\tif k, _,", "case true:\n\t\tif k, _,", testIn("shards", "TestCreateShowsWhatThePathHasCounted"),
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
		"a life without a ledger is never over", "internal/book",
		"return !l.doc.IsZero() && !now.doc.IsZero() && !now.doc.Equal(l.doc)", "return false", testIn("shards", "TestTwoDeletionsSpareASuccessorWithoutALedger"),
	},
	{
		"a life without a ledger is over with its document", "internal/book",
		"return !l.doc.IsZero() && !now.doc.IsZero() && !now", "return !l.doc.IsZero() && !now", testIn("shards", "TestADeletionWhoseDocumentIsDeletedByHand"),
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
		"books.Shards(ctx, tx, r.id,", "books.Shards(ctx, db, r.id,", simulation,
	},
	{
		"a large deletion is not marked", "shards",
		"case large && k.Doc != nil && !book.Deleting(db.Layout, k.Doc):", "case false:", test("TestDeleteLarge|TestCountingBesideADeletion|TestDeletionCutShortAnywhere"),
	},
	{
		"members of whom only shards tell stay", "shards",
		"r.learn(shards, k.Ledger)", "r.learn(nil, k.Ledger)", test("TestMembersOfOtherRevisionsGoWithTheirCounter"),
	},
	{
		"a deletion takes members off twice", "shards",
		"append(transforms, store.Increment(layout.FieldPath(field), -n))", "append(transforms, store.Increment(layout.FieldPath(field), -2*n))", test("TestDeletionCutShortAnywhere|TestRemove"),
	},
	{
		"a command goes on with the next life", "internal/book",
		"!life.IsZero() && !k.Ledger.Created.Equal(life)", "!life.IsZero() && !k.Ledger.Created.Equal(life) && false", test("TestTwoLives"),
	},
	{
		"a command in doubt whose counter is gone is refused", "internal/store",
		"return end, fmt.Errorf(\"%w: %w\", ErrDoubt, a.err) // the", "return end, a.err // the", testIn("internal/book", "TestTwoLives"),
	},
	{
		"a command doesn't look into the ledger of a counter that is being deleted", "internal/book",
		"if k.Ledger == nil {\n\t\tk.Ledger =", "if k.Ledger == nil || k.Deleting() {\n\t\tk.Ledger =", test("TestRunWhileTheCounterIsBeingDeleted"),
	},
	{
		"what is in doubt is not looked at once more", "internal/store",
		"if err == nil && len(req.Writes) == 0 {", "if err == nil && len(req.Writes) < 0 {", testIn("internal/book", "TestTheLastLook"),
	},
	{
		"a commit leaves the document as it is", "internal/book",
		"set := view(k.names(), k.Ledger, totals)", "set := view(k.names(), &ledger.Ledger{}, nil)", simulation,
	},
	{
		"what a reset has replaced comes back with an import", "internal/book",
		"ledger.Put(&k.diff.Replaced, field.Name, 0)", "_ = field.Name", test("TestAnewForgetsWhatWasReplaced"),
	},
	{
		"ids of commands stay in the ledger", "internal/book",
		"past := pastDoubt(k.Ledger, k.At)", "past := pastDoubt(k.Ledger, k.At)[:0]", test("TestIdsGoWhenTheyAreSettled"),
	},
	{
		"ids of commands fill the ledger", "internal/book",
		"if len(k.Ledger.Ops)-len(past) >= ledger.MaxOps {", "if false {", test("TestMoreCommandsThanMayBeInDoubt"),
	},
	{
		"ids of commands stay in a ledger that nothing writes", "internal/book",
		"past := pastDoubt(k.Ledger, k.At)", "past := pastDoubt(k.Ledger, k.Ledger.Updated)", test("TestMoreCommandsThanMayBeInDoubt"),
	},
	{
		"an import says what its last attempt found", "internal/book",
		"\t\t\t\tlast = book\n", "\t\t\t\t_ = book\n", testIn("internal/extension", "TestImportTellsWhatALateCommitBrought"),
	},
	{
		"an import adds what was imported before", "internal/extension",
		"before, again := k.Ledger.Imported[key]\n\t\tfound := Imported{Value: value, Added", "_, again := k.Ledger.Imported[key]\n\t\tbefore := int64(0)\n\t\tfound := Imported{Value: value, Added", simulation,
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
		"now.Sub(state.GetUpdateTime().AsTime()) >= quiet", "now.Sub(state.GetUpdateTime().AsTime()) >= 0", simulation,
	},
	{
		"an import in place brings the replaced number each time", "internal/extension",
		"if !again {\n\t\t\tamounts", "if true {\n\t\t\tamounts", test("TestImportInPlaceAfterAdoption"),
	},
	{
		"an import in place adds shard by shard", "internal/extension",
		"added := ledger.Parts(amounts...)", "added := []int64{0}\n\t\tfor _, n := range amounts {\n\t\t\tadded[0] = ledger.Add(added[0], n)\n\t\t}", test("TestImportInPlaceIsOneSum"),
	},
	{
		"an import in place takes off shards what has no room", "internal/extension",
		"found.Added = added[0]; len(added) > 1 {", "found.Added = added[0]; false {", test("TestImportInPlaceBeyondAnInt64"),
	},
	{
		"an import in place takes less off a shard than it adds", "internal/extension",
		"n = max(n, -math.MaxInt64)", "n = max(n, math.MinInt64)", test("TestImportInPlaceOfTheSmallestInteger"),
	},
	{
		"an import adds document by document", "internal/extension",
		"return ledger.Add(s.terms...) }", "var n int64; for _, term := range s.terms { n = ledger.Add(n, term) }; return n }", test("TestImportIsOneSum"),
	},
	{
		"an import adds a part of what has come since the last one", "internal/extension",
		"if ledger.Add(before, found.Added) != value {", "if false {", test("TestImportOfADifferenceBeyondAnInt64"),
	},
	{
		"what is beyond an int64 on the way is lost", "shards",
		"held[name] = ledger.Parts(counts...)", "held[name] = []int64{ledger.Add(counts[0], ledger.Add(counts[1:]...))}", test("TestResizeNearTheEndsOfAnInt64|TestDeletionNearTheEndsOfAnInt64"),
	},
	{
		"a resize moves what has no room", "shards",
		"n := fold(tx, append(book.Shards{target}, moved...), keep); n > 1 {", "n := fold(tx, append(book.Shards{target}, moved...), keep); n < 1 {", test("TestResizeNearTheEndsOfAnInt64"),
	},
	{
		"a resize takes away shards that the counter has again", "shards",
		"shard != nil && number >= s.NumShards", "shard != nil && number >= s.NumShards-1000", test("TestResizeBesideAResize"),
	},
}
