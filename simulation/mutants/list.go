package main

// mutants are the rules, one of them left out in each: first those of the roll-up, then those of commits in doubt, of
// commands and of limits.
var mutants = []mutant{
	{ // which the shrinking of a history is tried with
		"a refresh is committed on no condition", "internal/book",
		"w := store.Update(b.Doc.GetName(), store.IfVersion(b.Version()), s.set", "w := store.Update(b.Doc.GetName(), store.Exists(true), s.set", simulation,
	},
	{
		"a question covers events that came after it was asked", "rollup",
		"\t\t\tshown := e.shown(got.asOf)\n", "\t\t\tshown := o == succeeded || e.shown(got.asOf)\n", test("TestPacerCoversWhatCame"),
	},
	{
		"one field's as of is all fields'", "internal/book",
		"at := timeOf(rollupOf(b.Doc)[layout.AsOf].GetMapValue().GetFields()[field.Name])\n",
		"at := timeOf(rollupOf(b.Doc)[layout.AsOf].GetMapValue().GetFields()[field.Name])\n\tfor _, other := range rollupOf(b.Doc)[layout.AsOf].GetMapValue().GetFields() {\n\t\tif t := timeOf(other); !at.IsZero() && t.After(at) {\n\t\t\tat = t\n\t\t}\n\t}\n",
		simulation,
	},
	{
		"an equal answer is not written", "internal/book",
		"\tc := s.before.change(field, total)\n", "\tc := s.before.change(field, total)\n\tif !s.before.AsOf(field).IsZero() && proto.Equal(c.Before, total) {\n\t\treturn\n\t}\n", test("TestShow"),
	},
	{
		"the base is read before the document", "internal/book",
		"docs, at, err := books.db.GetPaths(ctx, paths, names.Counter(counter), names.BaseOf(counter))\n",
		"base, _, err := books.db.GetPaths(ctx, paths, names.BaseOf(counter))\n\tif err != nil {\n\t\treturn nil, err\n\t}\n\tdocs, at, err := books.db.GetPaths(ctx, paths, names.Counter(counter))\n\tdocs = append(docs, base...)\n",
		simulation,
	},
	{
		"a missing document covers events that came after it was looked for", "rollup",
		"\tif got.asOf != nil {\n\t\tbacklog.next = slices",
		"\tif got.asOf == nil && o == succeeded {\n\t\tfor _, w := range backlog.next {\n\t\t\tout.done = append(out.done, w.event)\n\t\t}\n\t\tbacklog.next = nil\n\t}\n\tif got.asOf != nil {\n\t\tbacklog.next = slices", test("TestPacerMissesADocumentForWhatHadCome"),
	},
	{
		"a refresh in flight covers an event that comes", "rollup",
		"range backlog.next { // not those in flight", "range slices.Concat(backlog.inFlight, backlog.next) { // not those in flight", test("TestPacerLooksAgainForWhatCameAfterTheLook"),
	},
	{
		"the time of a look covers other events", "rollup",
		"\t\t\te.at = got.readAt\n", "\t\t\te.at, e.timed = got.readAt, true\n", test("TestPacerStampsCoverNothing"),
	},
	{
		"an as of is believed beside another number", "internal/book",
		" || !proto.Equal(last, b.Doc.GetFields()[field.Name]) {", " || proto.Equal(last, nil) {", test("TestAsOf"),
	},
	{
		"what nobody has shown is left to others", "rollup",
		"b.At.Sub(r.asOf[f]) > 2*r.flight.interval", "false", test("TestWhoLooksLeavesTheNextRefresh|TestAFieldOfWhichOthersKnowNothing"),
	},
	{
		"the next refresh is an interval after an answer", "rollup",
		"r.flight.nextStart(b.NextRefresh(), r.began)", "r.flight.nextStart(b.NextRefresh(), r.client.db.Now())", test("TestACrowdBesideSlowQueries"),
	},
	{
		"a bounded sum leaves a shard out", "rollup",
		"if sums[field.Name].Numbers != shards[field.Apart()] {", "if sums[field.Name].Numbers > shards[field.Apart()] {", test("TestABoundedSumIsWhole"),
	},
	{
		"a doubtful commit goes again without a marker", "shards",
		"if b.deciding() == \"\" {\n\t\t\treturn b.giveUp(ErrUnknown, err)\n\t\t}\n", "if b.deciding() == \"\" {\n\t\t\tb.doubt = nil\n\t\t\treturn b.tryAgain(err)\n\t\t}\n", simulation,
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
		"a key's marker that was made alone is no condition", "shards",
		"return store.CreateOver(markerName(names, id), m.at, fields)", "w := store.Create(markerName(names, id), fields)\n\tif !m.at.IsZero() {\n\t\tw.CurrentDocument = nil\n\t}\n\treturn w", simulation,
	},
	{
		"growth ignores others", "shards",
		"grows = is == seen; grows {", "grows = true; grows {", simulation,
	},
	{
		"an exact read at another time than its base", "shards",
		"c.client.books.Sums(ctx, c.id, db.Layout.Sharded, nil, at)", "c.client.books.Sums(ctx, c.id, db.Layout.Sharded, nil, time.Time{})", test("TestSumIsOfOneTime"),
	},
	{
		"a conflict after a doubt ends the doubt", "internal/store",
		"		s.conflicts++\n", "		s.conflicts++\n		s.doubt = nil\n", test("TestADoubtOutlastsConflicts"),
	},
	{
		"a resize reads shards outside of its transaction", "shards",
		"c.readExisting(ctx, tx, append(", "c.readExisting(ctx, c.client.db, append(", test("TestIncrementsBesideAMove"),
	},
	{
		"a commit that is doubtful is taken for applied", "internal/store",
		"\t\ts.doubt = err\n", "\t\treturn end, nil\n", simulation,
	},
	{
		"events of failing refreshes are acknowledged", "rollup",
		"tell(s.redeliver, err)", "tell(s.redeliver, nil)", simulation,
	},
	{
		"an event is acknowledged before it is shown", "rollup",
		"\tshown := make(chan error, 1)\n", "\tshown := make(chan error, 2)\n\tshown <- nil\n", simulation,
	},
	{
		"a request is refused by some of the shards", "internal/escrow",
		"case all != nil && !r.fits(all, nil):", "case all != nil && !r.fits(held, nil):", test("TestDecideByLessThanAll"),
	},
	{
		"a commit takes where it gives back", "internal/escrow",
		"other.Count > 0 != (ask.Count > 0)", "other.Count > 0 != (ask.Count > 0) && false", test("TestDecideProperties"),
	},
	{
		"a take is on no condition", "shards",
		"shard.AddTo(where.field, ", "seats.AddTo(shard.Name, store.Exists(true), where.field, ", simulationOf("limits"),
	},
	{
		"a request is refused by what is known", "shards",
		"if p = decide(known, false, requests); p.Look {", "if p = decide(known, true, requests); p.Look {", simulationOf("limits"),
	},
	{
		"a hold that is over is confirmed", "internal/hold",
		"case until.GetTimestampValue().AsTime().After(at):", "case until.GetTimestampValue().AsTime().After(at) || true:", simulationOf("holds"),
	},
	{
		"a hold is on no condition of its record", "internal/hold",
		"	return store.CreateOver(r.Name, r.Version, fields, store.ServerTime(recordAt))\n", "	w := store.Create(r.Name, fields, store.ServerTime(recordAt))\n	w.CurrentDocument = nil\n	return w\n", testIn("shards", "TestALateReservation"),
	},
	{
		"a settle for more is on no condition of the shards", "shards",
		"shard.AddTo(field.Shard, p.", "seats.AddTo(shard.Name, store.Exists(true), field.Shard, p.", test("TestSettleForMore"),
	},
	{
		"who is refused more doesn't read the record", "shards",
		"if *r, err = holds.Read(ctx, asked); err != nil || !ended && r.More(used) > 0 {", "if _ = asked; !ended {", test("TestARefusalReadsTheRecord"),
	},
	{
		"amounts whose time is over are no room", "internal/hold",
		"return len(seats)+len(records) > 0, nil", "return len(seats)+0*len(records) > 0, nil", testIn("shards", "TestReservationsEnd"),
	},
	{
		"what came back stays in the shard that holds have", "internal/hold",
		"some, off.Holds = max(0, some), -r.Parts[id]", "some, off.Holds = max(0, some), -max(0, some)", testIn("shards", "TestReserve"),
	},
	{
		"a deletion leaves open holds", "shards",
		"			below = append(below, records...)\n", "			_ = records\n", test("TestHoldsGoWithTheirCounter"),
	},
	{
		"shards of a limit begin beside open holds", "internal/hold",
		"return append(writes, seats.Make(", "return append(writes[:0], seats.Make(", testIn("shards", "TestHoldsOfACounterThatWasDeletedByHand"),
	},
	{
		"a counter's next life begins beside open holds", "shards",
		"		tx.Write(earlier...)\n", "		_ = earlier\n", test("TestPlainHoldsOfACounterThatWasDeletedByHand"),
	},
	{
		"a rebase takes what is held for counted", "shards",
		"store.Add(total(field), held[i]))", "store.Add(total(field), 0*held[i]))", test("TestARebaseBesideHolds"),
	},
	{
		"an id stands where another's limited field does", "shards",
		`r.counter() + "/" + r.deltas`, `r.counter() + "\x00" + r.deltas`, test("TestAnIDThatNamesALimit"),
	},
	{
		"a limit's shards are those of an earlier life", "shards",
		"shards := book.Shards(docs).Counting(plain[0])", "shards := book.Shards(docs)", test("TestALimitBeginsTheNextLife"),
	},
	{
		"a limit is lowered once a crowd has gone", "shards",
		"limit, try%hold.RenewsAfter == 0)", "limit, false)", test("TestManyShardsChangeBesideACrowd"),
	},
	{
		"a settle for more reads all shards each time", "shards",
		"fromMemory := try%looksAfter > 0", "fromMemory := try == 1", test("TestSettleForMoreBesideACrowd"),
	},
	{
		"an import in place leaves what it has added where it was", "internal/extension",
		"takeOff(doc, map[string]int64{field.Name: n})", "takeOff(doc, map[string]int64{field.Name: 0})", simulation,
	},
	{
		"what is taken off the extension's shards isn't in the base", "internal/extension",
		"t.Book = b.WithBase(t.Amounts)", "t.Book = b.WithBase(nil)", testIn("rollup", "TestExtensionsClientsGoOn"),
	},
	{
		"clients' visits that no total shows are taken", "internal/extension",
		"if !slices.ContainsFunc(s.Changes, func(c book.FieldDiff) bool { return c.Field.Name == name }) {", "if _ = name; false {", testIn("rollup", "TestWhatTheExtensionKeeps"),
	},
	{
		"a field that no total shows keeps the others from being taken over", "internal/extension",
		"if b.MayShow(field) && !slices.Contains(kept, field.Name) {", "if b.MayShow(field) && len(kept) == 0 {", testIn("rollup", "TestOneFieldIsKept"),
	},
	{
		"a note ends though not all shards of the extension's were found", "rollup",
		"(r.asked.unanswered || r.unseen)", "r.asked.unanswered", testIn("rollup", "TestNotedClicksAreFound"),
	},
	{
		"a click whose take-over has failed is done", "rollup",
		"\tr.moved = moved\n", "\tr.moved = moved\n\tfor _, shard := range r.flight.shards {\n\t\tr.asOf[ofExtension+shard] = moved.At\n\t}\n", testIn("rollup", "TestFailedTakeOver"),
	},
	{
		"a take-over has the room of a base without the app's number", "internal/extension",
		"room := b.WithExtensionNumbers(fields.Names()).Base.Counts", "room := b.Base.Counts", testIn("rollup", "TestOddClicks"),
	},
	{
		"a page of a reset gives up the app's number", "shards",
		"err = errors.Join(err, e.Add(field, -n))", "e.SetBase(field, e.Base.Counts[field.Shard]-n)", testIn("rollup", "TestResetCutShort"),
	},
	{
		"a take-over's own writes are news", "rollup",
		"&& !extension.Holds(names.Sharded, after) {", "&& false && !extension.Holds(names.Sharded, after) {", test("TestTakenShardsAreNoNews"),
	},
	{
		"nobody looks whether the extension still runs", "internal/extension",
		"runs = Stopped(ctx, db)", "runs = nil", testIn("rollup", "TestExtensionStillRuns"),
	},
	{
		"a recount covers events that came while it ran", "rollup",
		"\t\tfor _, e := range events {\n\t\t\te.recounted", "\t\tevents, b.next = append(events, b.next...), nil\n\t\tfor _, e := range events {\n\t\t\te.recounted", test("TestEventsAreCoveredByALaterRecount"),
	},
	{
		"what is in doubt is not fenced at all", "shards",
		"\t\treturn fence\n\tcase store.Contention", "\t\treturn f.giveUp(ErrUnknown, err)\n\tcase store.Contention", statistic,
	},
	{
		"no time is left for fencing", "shards",
		"until.Add(-c.cfg.Timeout/4)", "until", statistic,
	},
	{
		"a commit without a time limit of its own", "shards",
		"within, cancel = context.WithTimeout(ctx, c.cfg.Timeout/2)", "within, cancel = context.WithCancel(ctx)", statistic,
	},
	{
		"a batch begins though there are no writes", "shards",
		"\tl.take(some, f.fill(some))", "\tsome = l.requests\n\tl.take(some, f.fill(some))", test("TestBudgetLetsACrowdThrough"),
	},
	{
		"who waits for writes waits for ever", "shards",
		"\t\tq.refuse(lines, time.Now().Add(-waitsForWrites))\n", "\t\t_ = lines\n", test("TestBudgetLetsACrowdThrough"),
	},
	{
		"who has asked for much counts as much as others", "shards",
		"1 / (1 + r.asked)", "1", test("TestBudgetGoesToWhoHasAskedForLeast"),
	},
	{
		"a crowd waits behind those of its counter who have a key each", "shards",
		"all.add(r, q.units, left)", "if n := len(all.requests); n == 0 || all.paid <= int(left) {\n\t\t\tall.add(r, q.units, left)\n\t\t\tif len(all.requests) == n {\n\t\t\t\tbreak\n\t\t\t}\n\t\t}", test("TestBudgetLetsACrowdPassKeys"),
	},
	{
		"who gives up takes others of its key along", "shards",
		"leavers = append(leavers, r.each()...)", "leavers = append(leavers, r)", test("TestCallsOfOneKeyGoOnApart"),
	},
	{
		"ending holds takes all of a walk's time", "rollup",
		"\t\t// Or whoever makes many holds of a second each would stop all walks.\n\t\thalf, cancel := halfOf(ctx)\n",
		"\t\thalf, cancel := context.WithCancel(ctx)\n", test("TestHoldsLeaveAWalkHalfOfItsTime"),
	},
	{
		"an idle counter's shards are read before the transaction that removes it", "shards",
		"\t\tshards, err := c.client.books.Shards(ctx, tx, c.id, time.Time{})\n\t\tif err != nil {\n\t\t\treturn err\n\t\t}\n\t\twritten :=",
		"\t\tshards, err := c.client.books.Shards(ctx, c.client.db, c.id, time.Time{})\n\t\tif err != nil {\n\t\t\treturn err\n\t\t}\n\t\twritten :=", test("TestRemoveIdleLosesNothing"),
	},
	{
		"an idle counter's document and base are read before the transaction that removes it", "shards",
		"\t\tbooks, _, err := c.client.books.Get(ctx, tx, []string{c.id})\n\t\tif err != nil {\n\t\t\treturn err\n\t\t}\n\t\tb := books[0]\n\t\tif b.Doc == nil {",
		"\t\tbooks, _, err := c.client.books.Get(ctx, c.client.db, []string{c.id})\n\t\tif err != nil {\n\t\t\treturn err\n\t\t}\n\t\tb := books[0]\n\t\tif b.Doc == nil {", test("TestRemoveIdleBesideAWrite"),
	},
}
