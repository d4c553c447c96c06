package main

// ofLedger: The ledger: which states count, and which hide others.
var ofLedger = []mutant{
	{
		"the floor doesn't hold for shards that the ledger knows", "internal/ledger",
		"if !s.Gone && !s.AsOf.After(l.Floor) ||", "if !ok && !s.Gone && !s.AsOf.After(l.Floor) ||", test("TestMerge"),
	},
	{
		"no floor for shards that the ledger doesn't know", "internal/ledger",
		"if !s.Gone && !s.AsOf.After(l.Floor) ||", "if false ||", simulation,
	},
	{
		"a deletion from before the floor is passed over", "internal/ledger",
		"if !s.Gone && !s.AsOf.After(l.Floor) ||", "if !s.AsOf.After(l.Floor) ||", test("TestMerge"),
	},
	{
		"a state holds no field but the first", "internal/ledger",
		"case !layout.CountsField(field) ||", "case field != \"count\" || !layout.CountsField(field) ||", simulation,
	},
	{
		"a deletion that a full ledger has no room for is passed over", "internal/ledger",
		"d.Full = append(d.Full, key) // a deletion, too", "if s.Gone {\n\t\t\t\tcontinue\n\t\t\t}\n\t\t\td.Full = append(d.Full, key) // a deletion, too", testIn("rollup", "TestALedgerFullOfShardsThatAreThere"),
	},
	{
		"a ledger of another format is read as if it were of this one", "internal/book",
		"if err := usable(fields, shards); err != nil {", "if err := usable(fields, shards); false {", test("TestDecodeLedgerOfAnother"),
	},
	{
		"an import that a base has no room for takes from its source what it doesn't add", "internal/book",
		"ledger.Sub(base, was) != added {", "false {", test("TestAnImportThatABaseHasNoRoomFor"),
	},
	{
		"any number of sources is imported into one counter", "internal/book",
		"if !again && (len", "if false && (len", testIn("internal/extension", "TestImportsAreBounded"),
	},
	{
		"a newer state keeps what it lacks", "internal/ledger",
		"for _, name := range s.Odd {\n\t\tif n := before", "for name := range known.Counts {\n\t\tif n := before", test("TestMergeSeveralFields"),
	},
	{
		"a field that is no integer any more counts nothing", "internal/ledger",
		"for _, name := range s.Odd {\n		if n := before", "for _, name := range s.Odd[:0] {\n		if n := before", test("TestMerge|TestMergeSeveralFields|TestSet"),
	},
	{
		"what was counted of a field that becomes a text is forgotten", "internal/ledger",
		"		l.keep(&d, kept)\n		if e.less", "		if e.less", test("TestMergeWhatIsBlank"),
	},
	{
		"what was counted of a field that a snapshot finds a text is forgotten", "internal/ledger",
		"			l.keep(&d, kept)\n", "			_ = kept\n", test("TestMergeWhatIsBlank"),
	},
	{
		"what shards counted that became texts goes into the base one by one", "internal/ledger",
		"d.Base[name] = Add(append(slices.Clone(d.Kept[name]), l.Base[name])...)", "_ = slices.Sorted[int64]\n\t\tif _, has := d.Base[name]; !has {\n\t\t\td.Base[name] = l.Base[name]\n\t\t}\n\t\td.Base[name] = Add(d.Base[name], n)", test("TestBlankShardsAreOneSum"),
	},
	{
		"a fraction that becomes an integer again counts on top of what was counted", "internal/book",
		"number && math.Abs(n.DoubleValue) < 1<<63 {", "number && math.Abs(n.DoubleValue) < 0 {", testIn("rollup", "TestDecodeSeveralFields"),
	},
	{
		"a ledger that is made again knows of fields that are no integers what the shards do", "internal/book",
		"k.Ledger.States = readable(docs[0].GetFields())", "_ = readable(docs[0].GetFields())", testIn("rollup", "TestRebuildKeepsWhatIsNoInteger"),
	},
	{
		"a ledger of a backup that is made again takes its shards for new ones", "internal/book",
		"new(decoder).restored(docs[0])", "false", testIn("rollup", "TestNoIntegerInAShardThatIsRestored"),
	},
	{
		"a ledger that was restored counts as that for good", "internal/ledger",
		"d.Renewed = l.Restored", "d.Renewed = false", testIn("rollup", "TestRestoredUntilAllShardsWereLookedAt"),
	},
	{
		"a ledger whose shards were looked at since a restore isn't written if all is right", "internal/ledger",
		" && !d.Renewed\n", "\n", testIn("rollup", "TestRestoredUntilAllShardsWereLookedAt"),
	},
	{
		"what comes late from before an import counts", "internal/book",
		" || l.Restored && l.Floor.Before(l.Created) {", " {", testIn("rollup", "TestALateTextAfterAnImport"),
	},
	{
		"a text in a shard with a limit goes into the base once the limit is removed", "internal/book",
		"limited && kind == ledger.Blank {", "false && limited && kind == ledger.Blank {", testIn("rollup", "TestATextBesideALimitThatIsRemoved"),
	},
	{
		"what a field has replaced is lost where it was counted by another name", "internal/book",
		"counted && (ours || len(l.Sums) == 0):", "counted && (ours || len(l.Sums) == 0 || true):", testIn("internal/extension", "TestImportInPlaceOfWhatWasShownByAnotherName"),
	},
	{
		"a field that an earlier version counted replaces its own total", "internal/book",
		"counted && (taken || !marked):", "counted && (taken || !marked && false):", testIn("internal/extension", "TestImportInPlaceOfAFieldThatWasHidden"),
	},
	{
		"a field that is counted elsewhere replaces its own total", "internal/book",
		"if _, taken := l.Replaced[field.Name]; taken {", "if _, taken := l.Replaced[field.Name]; false && taken {", testIn("internal/extension", "TestImportInPlaceOfAFieldThatIsCountedElsewhere"),
	},
	{
		"a document doesn't beat a deletion of its time", "internal/ledger",
		"return old.Gone && !s.Gone", "return false", test("TestMerge|TestMergeCountsExactlyOnce"),
	},
	{
		"a snapshot takes a field that is no integer for 0", "internal/ledger",
		"e, kept := l.after(state, known)\n", "e, kept := l.after(state, Entry{Counts: Counts{}})\n", test("TestCorrect"),
	},
	{
		"a snapshot overwrites what is newer", "internal/ledger",
		"case ok && !known.AsOf.After(now) && !s.At.Equal(now) && !known.olderThan(state):", "case false:", test("TestCorrect"),
	},
	{
		"a snapshot takes away what was made since", "internal/ledger",
		"if !there[key] && (known.AsOf.After(now) || !known.AsOf.After(s.At)) {", "if !there[key] {", test("TestCorrect"),
	},
	{
		"a snapshot raises no floor", "internal/ledger",
		"Floor: s.At, Impossible", "Floor: l.Floor, Impossible", test("TestCorrect|TestLateEventOfAShardThatTheLedgerNeverKnew"),
	},
	{
		"a snapshot from before the floor counts", "internal/ledger",
		"if !l.Floor.After(now) && !s.At.After(l.Floor) {", "if false {", test("TestSnapshotFromBeforeTheFloor"),
	},
	{
		"a shard that a snapshot shows has to be younger than the floor", "internal/ledger",
		"maps.Equal(e.Counts, known.Counts):", "maps.Equal(e.Counts, known.Counts), !ok && !state.AsOf.After(l.Floor):", test("TestCorrect"),
	},
	{
		"an entry of a time that has not come stays", "internal/ledger",
		"(known.AsOf.After(now) || !known.AsOf.After(s.At))", "!known.AsOf.After(s.At)", test("TestCorrect"),
	},
	{
		"a total beyond an int64 wraps", "internal/ledger",
		"case hi > math.MaxInt32:\n\t\treturn math.MaxInt64\n", "case false:\n", test("TestSumsSaturate"),
	},
	{
		"a ledger's field of another type is guessed", "internal/book",
		"d.damaged = d.damaged || v != nil && !ok\n\treturn v.GetIntegerValue()", "_ = ok\n\treturn v.GetIntegerValue()", test("TestDecodeDamagedLedger"),
	},
	{
		"a long shard id names its entry", "internal/ledger",
		"if len(shard) <= maxKey && !(", "if !(", test("TestLedgerIsBounded"),
	},
	{
		"a ledger is not bounded", "internal/ledger",
		"if more > 0 && held+added+more > MaxNumbers {", "if false {", test("TestLedgerIsBounded"),
	},
	{
		"ids that no document can have are counted", "internal/layout",
		"if !ok || ValidateID(path[at+1:]) != nil {", "if !ok {", test("TestParseShard"),
	},
	{
		"a double that may stand for another integer is one", "internal/store",
		"math.Abs(f) < 1<<53", "math.Abs(f) <= 1<<53", test("TestInteger"),
	},
	{
		"a whole double is no integer", "internal/store",
		"if f := n.DoubleValue; f == math.Trunc(f)", "if f := n.DoubleValue; f == 0 && f == math.Trunc(f)", testIn("shards", "TestWholeDoublesAreIntegers"),
	},
}
