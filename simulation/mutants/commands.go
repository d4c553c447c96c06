package main

// ofCommands: Creation, deletion, imports and the other commands.
var ofCommands = []mutant{
	{
		"a part of a deletion without a condition", "shards",
		"return append(writes, store.Update(db.Counter(c.id), unchanged, nil, nil)), false, nil", "return writes, false, nil", test("TestLatePartOfADeletionSparesTheSuccessor"),
	},
	{
		"a deletion at once leaves shards that are being made", "shards",
		"writes = append(writes, none(c.shardName(id)))", "_ = id", test("TestShardMadeBesideADeletion"),
	},
	{
		"a deletion at once of a counter whose number of shards is inferred", "shards",
		"atOnce && len(members) == 0 && !s.inferred", "atOnce && len(members) == 0 && (!s.inferred || true)", test("TestInferredShardMadeBesideADeletion"),
	},
	{
		"a creation removes shards of one that is being made", "shards",
		"return append(writes, none(c.client.db.Counter(c.id))), false, nil", "return writes, false, nil", test("TestAutoCreateBetweenRemovals|TestCreateBesideAnAdoption"),
	},
	{
		"a creation removes shards that were written since", "shards",
		"writes = append(writes, deleteIf(c.shardName(s.id), s.updated))\n\t}\n\tif len(writes)", "writes = append(writes, store.Delete(c.shardName(s.id)))\n\t}\n\tif len(writes)", test("TestLateRemovalOfShardsSparesTheirSuccessors"),
	},
	{
		"a creation removes members that have joined since", "shards",
		"writes = append(writes, deleteIf(m.GetName(), m.GetUpdateTime().AsTime()))\n\t\t}\n\t}\n\tif earlier", "writes = append(writes, store.Delete(m.GetName()))\n\t\t}\n\t}\n\tif earlier", test("TestLateRemovalOfMembersSparesTheirSuccessors"),
	},
	{
		"a creation reads shards at another time than the ledger", "shards",
		"leftovers, err := c.shardsAt(ctx, at)", "leftovers, err := c.shardsAt(ctx, time.Time{})", test("TestAutoCreateReadsShardsAndMembersAtOneTime"),
	},
	{
		"a damaged ledger of an earlier counter is in the way", "shards",
		"return c.beside(there, same, n, op), true, nil\n\t}\n\treturn nil, false, nil", "return c.beside(there, same, n, op), true, nil\n\t}\n\treturn nil, false, err", test("TestCreateOverADamagedLedger"),
	},
	{
		"AUTO_CREATE removes what others have acknowledged", "shards",
		"CreateOptions{keep: true}", "CreateOptions{}", test("TestAutoCreateKeepsWhatWasAcknowledged"),
	},
	{
		"AUTO_CREATE beside shards without the ledger's condition", "shards",
		"), ledgerAsRead, c.stillThere(there[0])}", "), c.stillThere(there[0])}", test("TestLateCreationBesideShardsBringsNothingBack"),
	},
	{
		"AUTO_CREATE beside shards that are being removed", "shards",
		"), ledgerAsRead, c.stillThere(there[0])}", "), ledgerAsRead}", test("TestAutoCreateBesideARemovalOfShards"),
	},
	{
		"AUTO_CREATE over shards that are being removed", "shards",
		"if len(there) > 0 && off[there[0].id] == nil {", "if false {", test("TestAutoCreateBesideARemovalOfShards"),
	},
	{
		"AUTO_CREATE over a ledger without its condition", "shards",
		"store.Update(db.LedgerOf(c.id), store.UpdatedAtTime(l.Updated), fields, mask),\n\t}\n\tfor id", "store.Update(db.LedgerOf(c.id), nil, fields, mask),\n\t}\n\tfor id", test("TestLateCreationOverALedgerTakesNothingOffAgain"),
	},
	{
		"a field with members begins at zero with its counter", "shards",
		"if joined[name] {\n\t\t\tcontinue", "if false {\n\t\t\tcontinue", test("TestRevivalOfFieldsWithAndWithoutMembers"),
	},
	{
		"a field that only another revision counts keeps its count", "shards",
		"field.Shard = sum.Field //", "_ = sum.Field //", test("TestRevivalByARevisionThatCountsFewerFields"),
	},
	{
		"a field that nobody knows in shards keeps its count", "shards",
		"if field.Shard == \"\" {\n\t\t\t// It isn't known", "if false {\n\t\t\t// It isn't known", test("TestRevivalByARevisionThatCountsFewerFields"),
	},
	{
		"members who have left are owed to a new counter", "shards",
		"if all != 0 {\n", "if true {\n", test("TestRevivalOfFieldsWithAndWithoutMembers"),
	},
	{
		"a new counter has an earlier one's imports", "shards",
		"mask := []string{ledger.FieldID, ledger.FieldImported}", "mask := []string{ledger.FieldID}", simulation,
	},
	{
		"an inferred number of shards is a bottleneck", "shards",
		"return max(s.NumShards, c.least)", "return s.NumShards", test("TestInferredShardsAreNoBottleneck"),
	},
	{
		"a command goes on with a counter's successor", "shards",
		"case of != \"\" && l.ID != of:", "case of != \"\" && l.ID != of && false:", test("TestACommandFindsASuccessor"),
	},
	{
		"a command that is refused in doubt is refused", "shards",
		"it may have come before that.\n\t\t\treturn fmt.Errorf(\"%w: %w\", ErrUnknown, err)", "\n\t\t\treturn err", test("TestRefusedInDoubtIsUnknown"),
	},
	{
		"a command in doubt whose counter is gone is refused", "shards",
		"case doubt == nil:\n\t\t\treturn err", "case doubt == nil || errors.Is(err, ErrNotFound):\n\t\t\treturn err", test("TestACommandWhoseCounterIsDeleted"),
	},
	{
		"a command doesn't look into the ledger of a counter that is being deleted", "shards",
		"if l != nil && slices.Contains", "if l != nil && !c.client.isDeleting(counter) && slices.Contains", test("TestACommandWhoseCounterIsDeleted"),
	},
	{
		"a command in doubt doesn't look once more", "shards",
		"return c.lookOnce(ctx, next, doubt)", "return fmt.Errorf(\"%w: %w\", ErrUnknown, doubt)", test("TestCommandsInDoubtFindOut"),
	},
	{
		"an import says what its last attempt found", "shards",
		"last = ch\n\t\t\t\treturn nil, true, nil", "_ = ch\n\t\t\t\treturn nil, true, nil", test("TestImportTellsWhatALateCommitBrought"),
	},
	{
		"an import adds what was imported before", "shards",
		"Added: ledger.Sub(value, l.Imported[key])}", "Added: value}", test("TestImportExtension"),
	},
	{
		"an import reads its source at two times", "shards",
		"extensionShards, At: at})", "extensionShards})\n\t_ = at", test("TestImportReadsItsSourceAtOneTime"),
	},
	{
		"an import forgets others", "shards",
		"if other != key {", "if false {", test("TestImportExtension"),
	},
	{
		"an import in place leaves what it has added where it was", "shards",
		"ch.writes = append(ch.writes, takeOff(doc, name, n))", "ch.writes = append(ch.writes, takeOff(doc, name, 0))", test("TestImportInPlace"),
	},
	{
		"an import in place loses the number that is there", "shards",
		"if err := c.keepTotals(ctx); err != nil {", "if err := error(nil); err != nil {", test("TestImportInPlace"),
	},
	{
		"an import in place beside the extension", "shards",
		"now.Sub(state.GetUpdateTime().AsTime()) < extensionQuiet", "now.Sub(state.GetUpdateTime().AsTime()) < 0", test("TestImportInPlaceRefuses|TestImportInPlaceAfterTheExtension"),
	},
	{
		"an import in place brings the replaced number each time", "shards",
		"if !again && sum.Replaced != nil {", "if sum.Replaced != nil {", test("TestImportInPlaceAfterAdoption"),
	},
	{
		"a resize doesn't make up for shards of another", "shards",
		"return c.keepShards(ctx, n)", "return nil", test("TestResizeBesideAResize"),
	},
}
