package main

// ofLimits are mutants of what is decided about a field with a limit.
var ofLimits = []mutant{
	{
		"a request is refused without a look", "internal/escrow",
		"case looked:\n", "case true:\n", simulationOf("limits"),
	},
	{
		"who finds no room beside others is refused", "internal/escrow",
		"\t\t\tcontinue\n\t\t}\n\t\tfor place", "\t\t\td.Refused = append(d.Refused, i)\n\t\t\tcontinue\n\t\t}\n\t\tfor place", test("TestDecideProperties"),
	},
	{
		"what doesn't fit into one shard is refused", "internal/escrow",
		"case r.fits(held, nil):", "case r.fits(held, nil) && len(known) == 0:", test("TestDecideProperties"),
	},
	{
		"a caller gives a member's back", "internal/escrow",
		"n.Give <= h.Own()", "n.Give <= h.Count", test("TestDecideProperties"), // members are in other bits than callers, in the simulation
	},
	{
		"a lower limit takes away what is taken", "internal/escrow",
		"part := min(shards[at].Room(), ", "part := min(shards[at].Share, ", simulationOf("limits"),
	},
	{
		"a take is on no condition", "shards",
		"store.UpdatedAtTime(t.after.version)", "store.Exists(true)", simulationOf("limits"),
	},
	{
		"a field that had no limit is counted on no condition", "shards",
		"store.UpdatedAtTime(t.after.version)", "(map[bool]*firestorepb.Precondition{true: store.Exists(true), false: store.UpdatedAtTime(t.after.version)})[len(p.Plan) == 0]",
		test("TestLimitOfASecondField"),
	},
	{
		"what is known of shards is tried, however old it is", "shards",
		"known := f.misses == 0 || f.misses%4 > 0", "known := true", test("TestAllKnownSharesAreOld"),
	},
	{
		"a shard that holds a fraction is made anew for a limit", "shards",
		"moves && err != nil", "moves && err != nil && false", test("TestLimitBesideAFraction"),
	},
	{
		"a shard beside the limit that holds a fraction is taken away", "internal/book",
		"numbers = numbers && counts && (!shards.Plain() || Movable(nil, doc) == nil)", "numbers = numbers && counts", testIn("shards", "TestSharesBesideAFraction"),
	},
	{
		"a counter is made beside shards that have a limit", "internal/book",
		"case !k.Limited():", "case true:", testIn("shards", "TestLimitWithoutALedger"),
	},
	{
		"a limit that was set under another name stays in the document", "internal/book",
		"names.OwnPath(layout.Limits))\n}", "names.OwnPath(layout.Limits)+\".total\")\n}", testIn("shards", "TestLimitOfARenamedField"),
	},
	{
		"a field shows the limit of another that isn't shown", "internal/book",
		"\t\tdelete(shown, field.Name)\n", "", test("TestShownLimits"),
	},
	{
		"a document that is made again shows no limits", "internal/book",
		"limits := k.Ledger.Limits; len(limits) > 0 ||", "limits := k.Ledger.Limits; false ||", testIn("rollup", "TestHostedShowsLimits"),
	},
	{
		"a document shows the limits that another had", "internal/book",
		"if ownsLimits(names, l.Limits) && !maps.Equal", "if false && !maps.Equal", testIn("rollup", "TestHostedShowsLimits"),
	},
	{
		"limits are in the app's document, and not in our map", "internal/book",
		"if names.Hosted {\n\t\town = ", "if false {\n\t\town = ", testIn("shards", "TestHostedLimit"),
	},
	{
		"what a document says of limits is believed", "internal/book",
		"GetMapValue().GetFields()) > 0\n\t}\n\treturn false", "GetMapValue().GetFields()) > 0\n\t}\n\treturn len(LimitsOf(k.names(), k.Doc)) > 0", testIn("shards", "TestALimitThatIsNone"),
	},
	{
		"shards with a limit are not seen where the ledger is lost", "shards",
		"errors.Is(err, ErrLimited) && is == nil {", "false && is == nil {", testIn("shards", "TestHostedLimitOutlivesItsLedger"),
	},
	{
		"a counter is resized and reset beside a limit where the ledger is lost", "shards",
		"err = k.CheckUnlimited(ctx, tx)", "err = map[bool]error{true: ErrLimited}[k.Limited()]", test("TestLimitThatShardsAloneKnow"),
	},
	{
		"an increment makes a shard beside a limit where the ledger is lost", "shards",
		"err = k.CheckUnlimited(reading, tx)", "err = nil", test("TestLimitThatShardsAloneKnow"),
	},
	{
		"a removal takes members off a shard beside those of a limit", "shards",
		"if len(limited) > 0 || k.Limited() {", "if false {", testIn("shards", "TestTheDocumentComesBackDuringARemovalBelowALimit"),
	},
	{
		"a removal leaves the members' part of the shards", "shards",
		"of(change.Shard).Change(field, before, change.Of(before))", "of(change.Shard).Add(field, change.Count+0*before.Count)", testIn("shards", "TestTheDocumentComesBackDuringARemovalBelowALimit"),
	},
	{
		"a removal takes more off shards than they hold", "shards",
		"net := escrow.Net{Leave: min(n, all.Members)}", "net := escrow.Net{Leave: n}", testIn("shards", "TestRemovalBelowALimitThatSomethingBroke"),
	},
	{
		"a walk sees no limits", "internal/book",
		"LedgerUneven, LedgerLimits, LedgerFloor, LedgerMade", "LedgerUneven, LedgerFloor, LedgerMade", testIn("rollup", "TestHoldsWithoutEntriesEnd"),
	},
	{
		"a shard is made for a counter with a limit", "shards",
		"	if limited {\n\t\treturn nil, nil, errHasLimit", "	if false {\n\t\treturn nil, nil, errHasLimit", test("TestLimitWhileAnIncrementIsOnItsWay"),
	},
	{
		"a counter with a limit has as many shards as it says", "shards",
		"n := max(len(all), n); n > Max", "n := len(all); n > Max", test("TestLimitsAreOfSmallCounters"),
	},
	{
		"who was counted before is refused", "shards",
		"o, ok := r.earlier(there)\n		switch {\n		case ok:", "o, ok := r.earlier(there)\n		switch {\n		case false && ok:", simulationOf("limits"),
	},
	{
		"a member's seat is as a caller's", "shards",
		"asked[i][at] = escrow.By(a.by, r.member != nil)", "asked[i][at] = escrow.By(a.by, false)", simulationOf("limits"),
	},
	{
		"a counter with a limit is reset", "shards",
		"if k.Limited() {\n\t\t\treturn false, ErrLimited", "if false {\n\t\t\treturn false, ErrLimited", simulationOf("limits"),
	},
	{
		"a shard says whether it had room before", "internal/book",
		"ledger.Put(&w.fields, layout.RoomOf(field), store.Bool(to.Room() > 0))", "ledger.Put(&w.fields, layout.RoomOf(field), store.Bool(from.Room() > 0))", testIn("shards", "TestLimitsComeAndGo"),
	},
	{
		"a shard that gets room of a limit doesn't say so", "internal/book",
		"ledger.Put(&w.fields, layout.RoomOf(field), store.Bool(to.Room() > 0))", "if from.Share == to.Share {\n\t\tledger.Put(&w.fields, layout.RoomOf(field), store.Bool(to.Room() > 0))\n\t}", testIn("shards", "TestAnotherLimitSaysWhereThereIsRoom"),
	},
	{
		"a shard to which a seat is given back doesn't say so", "internal/book",
		"ledger.Put(&w.fields, layout.RoomOf(field), store.Bool(to.Room() > 0))", "if from.Members <= to.Members {\n\t\tledger.Put(&w.fields, layout.RoomOf(field), store.Bool(to.Room() > 0))\n\t}", simulationOf("holds"),
	},
	{
		"shards are made that say that they have room, and have none", "internal/book",
		"store.Bool(held.Room() > 0)", "store.Bool(true)", testIn("shards", "TestLimit"),
	},
	{
		"a shard that says otherwise whether it has room is right", "internal/book",
		"GetBooleanValue() != (held.Room() > 0):", "GetBooleanValue() != (held.Room() > 0) && false:", testIn("shards", "TestSharesThatSomethingElseWrote"),
	},
	{
		"members' part of a new limit is not known", "internal/book",
		"escrow.Even(of.Members, len(ids))", "escrow.Even(0*of.Members, len(ids))", simulationOf("limits"),
	},
	{
		"a counter with a limit is resized", "shards",
		"s, k, _, err := c.unlimited(ctx, tx)", "s, k, _, err := c.existing(ctx, tx)", simulationOf("limits"),
	},
	{
		"a request is refused by what is known", "shards",
		"p := decide(shards, false, requests, nil)", "p := decide(shards, true, requests, nil)", simulationOf("limits"),
	},
	{
		"a look leaves shards out", "shards",
		"docs, read, err := c.db.DocumentsAsOf(ctx, store.Query{Collection: c.db.Layout.ShardsOf(counter)})\n", "docs, read, err := c.db.DocumentsAsOf(ctx, store.Query{Collection: c.db.Layout.ShardsOf(counter)})\n\t\tdocs = docs[:(len(docs)+1)/2]\n", test("TestALookOfWhoGivesBack"),
	},
	{
		"who doesn't fit into the shards that were found is refused", "shards",
		"return c.noRoom(requests[i], p) == nil })", "return false })", test("TestWhatALookCosts"),
	},
	{
		"the sums of a refusal are of two times", "shards",
		"c.db.Sum(ctx, shards, at.field, read)", "c.db.Sum(ctx, shards, at.field, map[bool]time.Time{true: {}, false: read}[true])", test("TestSumsOfARefusalAreOfOneTime"),
	},
	{
		"a limit that was removed refuses", "shards",
		"if err != nil || n == 0 {", "if _ = n; err != nil {", test("TestALimitIsRemovedBeforeARefusal"),
	},
	{
		"shards with room of one field have all of a new limit's", "shards",
		"if !covers(places, shards, requests) {", "if false {", test("TestALookForRoomBesideANewLimit"),
	},
	{
		"who leaves is refused by sums that leave members out", "shards",
		"case limited && a.by <= 0:", "case false:", test("TestALookOfWhoLeaves"),
	},
	{
		"who takes nothing looks for room", "shards",
		"case limited && a.by <= 0:", "case limited && a.by < 0:", test("TestALookOfWhoTakesNothing"),
	},
	{
		"what a new limit finds taken depends on the order of shards", "shards",
		"taken, beyond = ledger.Add(counts...)", "taken, beyond = func() (n int64) {\n\t\tfor _, m := range counts {\n\t\t\tn = ledger.Add(n, m)\n\t\t}\n\t\treturn n\n\t}()", test("TestLimitNearTheEndsOfAnInt64"),
	},
	{
		"what is taken beyond an int64 is below a limit", "shards",
		"case taken > limit, beyond:", "case taken > limit, beyond && false:", test("TestLimitNearTheEndsOfAnInt64"),
	},
	{
		"what shares are mended for depends on the order of shards", "internal/book",
		"escrow.Held{Count: ledger.Add(taken...)", "escrow.Held{Count: func() (n int64) {\n\t\tfor _, m := range taken {\n\t\t\tn = ledger.Add(n, m)\n\t\t}\n\t\treturn n\n\t}()", testIn("shards", "TestSharesThatSomethingElseWrote"),
	},
	{
		"what a text in a shard with a limit had counted is kept beside the limit", "internal/ledger",
		"if _, limited := l.Limits[name]; limited {", "if false {", testIn("shards", "TestATextInAShardWithALimit|TestALateTextBesideALimit"),
	},
	{
		"a text in a shard with a limit is to be set to 0", "rollup",
		"limited && len(blank) > 0 {", "limited && false {", testIn("shards", "TestATextInAShardWithALimit"),
	},
	{
		"a base beside a limit is right", "internal/book",
		"has && base != 0 {", "has && base != 0 && false {", testIn("shards", "TestABaseBesideALimit"),
	},
	{
		"shards before the one that a look begins at are looked for among all", "shards",
		"if again || !few ||", "if again || few ||", test("TestWhatALookCosts"),
	},
	{
		"takes stay in the shards that were found first", "shards",
		"if busy || h.version.Before(rested) {", "if busy || !h.version.IsZero() {", test("TestTakesSpread"),
	},
	{
		"a commit's shards are remembered as they were before", "shards",
		"t.after.fields[place.field] = after", "t.after.fields[place.field] = before", simulationOf("limits"),
	},
	{
		"shards forget how much is members'", "internal/book",
		"if by != 0 {", "if by != 0 && name != layout.MembersIn(field) {", simulationOf("limits"),
	},
	{
		"what is spread goes to one shard", "internal/escrow",
		"some := min(n, has(left[at]))", "some := n * min(1, has(left[at]))", simulationOf("limits"),
	},
	{
		"what is given back makes no room for what the same commit takes", "internal/escrow",
		"taken <= h.Room()+n.Give+n.Leave", "taken <= h.Room()", test("TestDecide"),
	},
	{
		"a limit is set by shards that are read outside of its transaction", "shards",
		"all, err := tx.Documents(ctx, store.Query{Collection: c.client.db.Layout.ShardsOf(c.id)})", "all, err := c.client.db.Documents(ctx, store.Query{Collection: c.client.db.Layout.ShardsOf(c.id)})", simulationOf("limits"),
	},
	{
		"shards keep their ids when a counter gets its first limit", "internal/layout",
		"const limitedPrefix = \"limited-\"", "const limitedPrefix = \"\"", simulationOf("limits"),
	},
	{
		"who leaves is refused for a limit", "shards",
		"case r.member != nil && !r.member.join:\n\t\t\to.err", "case false:\n\t\t\to.err", test("TestLeavingBesideAJoinUnderALimit"),
	},
	{
		"a hold comes again after it was over", "internal/hold",
		"if !version.IsZero() {\n\t\tw.CurrentDocument = store.UpdatedAtTime(version)\n\t}", "w.CurrentDocument = nil", testIn("shards", "TestALateHold"),
	},
	{
		"a confirmation keeps a later hold", "internal/hold",
		"store.Update(name, store.UpdatedAtTime(m.GetUpdateTime().AsTime()), nil, []string{Until})", "store.Update(name, store.Exists(true), nil, []string{Until})", testIn("shards", "TestALateConfirmation"),
	},
	{
		"a seat is gone whose confirmation is on its way", "internal/hold",
		"return map[State]Action{Held: Confirm, Over: End}[s]\n}\n\n// Holds are those", "return map[State]Action{Held: Confirm}[s]\n}\n\n// Holds are those", simulationOf("holds"),
	},
	{
		"a hold that is over is confirmed", "internal/hold",
		"case until.GetTimestampValue().AsTime().After(at):", "case until.GetTimestampValue().AsTime().After(at) || true:", simulationOf("holds"),
	},
	{
		"what ends a hold ends a later one", "internal/hold",
		"store.DeleteIf(m.GetName(), store.UpdatedAtTime(m.GetUpdateTime().AsTime()))", "store.DeleteIf(m.GetName(), store.Exists(true))", simulationOf("holds"),
	},
	{
		"a hold ends, and its seat is not given back", "internal/hold",
		"return n, append(writes, back...), nil", "_ = back\n\treturn n, writes, nil", simulationOf("holds"),
	},
	{
		"whoever finds no room looks for no holds", "shards",
		"case ended: // there", "case ended && false: // there", test("TestHold"),
	},
	{
		"who was refused by sums looks for holds that are over now", "shards",
		"field, p.read[where])", "field, time.Time{})", test("TestAHoldIsEndedBeforeARefusal"),
	},
	{
		"who was refused by all shards looks for holds that are over now", "shards",
		"times[place{counter, field}] = read", "times[place{counter, field}] = map[bool]time.Time{false: read}[true]", test("TestAHoldIsEndedBeforeARefusal"),
	},
	{
		"holds that can't be ended make room", "internal/hold",
		"ended, more = ended || n > 0, n == atOnce", "ended, more = true, n == atOnce", testIn("shards", "TestHoldsOfShardsThatSomethingElseWrote"),
	},
	{
		"who joins is there until its hold is over", "shards",
		"if counted || d == 0 && !out.maybeHeld {", "if counted || d == 0 {", test("TestConfirm"),
	},
	{
		"holds without entries never end", "rollup",
		"if _, limited := k.Ledger.Limits[field.Shard]; limited || r.opts.each {", "if false {", testIn("shards", "TestHoldsWithoutEntries"),
	},
	{
		"holds of a field without a limit never end without entries", "rollup",
		"limited || r.opts.each {", "limited {", test("TestHoldsWithoutEntriesEnd"),
	},
	{
		"a ledger has no room for a base of each field", "internal/layout",
		"(MaxNumbers-len(f))/max(1, len(sums))", "MaxNumbers/max(1, len(sums))", testIn("shards", "TestShardsTimesFieldsFitALedger"),
	},
	{
		"an instance ends no holds", "rollup",
		"err := hold.In(r.client.db).EndAll(r.running); err", "err := error(nil); hold.Free != 0 && err", test("TestHoldsEndOnTime"),
	},
	{
		"the entry of who left is looked at forever", "internal/hold",
		"state == Free || state == Kept {", "state == Free && state == Kept {", testIn("rollup", "TestHoldsEndOnTime"),
	},
	{
		"a ledger that is made again has no limits", "internal/book",
		"k.Ledger.Limits = LimitsIn(shards)", "k.Ledger.Limits = nil", testIn("shards", "TestLimitOutlivesItsLedger"),
	},
	{
		"shares are given out anew where more is taken than the limit", "internal/book",
		"if all.Share = limit; !all.Valid() {", "if all.Share = limit; false {", testIn("shards", "TestSharesThatSomethingElseWrote"),
	},
	{
		"a shard beside those of a limit stays", "internal/book",
		"case !layout.IsLimited(id):\n\t\t\twhy", "case false:\n\t\t\twhy", testIn("shards", "TestSharesThatSomethingElseWrote"),
	},
	{
		"what is beside a limit in a field without one is lost", "internal/book",
		"rest[name] = append(rest[name], n)", "_, _ = rest, name", testIn("shards", "TestSharesProperties"),
	},
	{
		"what the first shard of a limit has no room for is lost", "internal/book",
		"store.Int(parts[0]), parts[1:], true", "store.Int(parts[0]), nil, true", testIn("shards", "TestWhatIsBesideALimitIsOneSum"),
	},
	{
		"what is beside a limit is added to a shard, and not set", "internal/book",
		"ok && len(counts) > 0 {", "ok && len(counts) > 0 && false {", testIn("shards", "TestWhatIsBesideALimitIsOneSum"),
	},
	{
		"a removed limit takes away what the other shard has no room for", "internal/book",
		"sums[field] = store.Int(sum[0]); len(sum) > 1 {", "sums[field] = store.Int(sum[0]); false {", testIn("shards", "TestARemovedLimitLeavesSums"),
	},
	{
		"a hold of a field that gets a limit ends on no condition", "internal/hold",
		"if len(limited) > 0 { // the field", "if false { // the field", testIn("shards", "TestHoldEndsWhileItsFieldGetsALimit"),
	},
	{
		"the membership of an entry that something else wrote is read", "internal/hold",
		"h.db.Layout.Hold(name) == entry.GetName()", "name != \"\"", testIn("rollup", "TestHoldsThatNothingEnds"),
	},
	{
		"a hold that is over while others are ended is put off", "internal/hold",
		"case Of(entry, began) != Over:", "case false:", testIn("shards", "TestAHoldIsOverWhileOthersEnd"),
	},
	{
		"holds that nothing ends are in the way of others", "internal/hold",
		"err != nil || cleared < entriesAtOnce", "err != nil || cleared >= 0", testIn("rollup", "TestHoldsThatNothingEnds"),
	},
}
