package main

// ofSpeaking are mutants of how instances share a counter: one speaks for all, and the others follow.
var ofSpeaking = []mutant{
	{
		"what is newer than a flush's snapshot goes with it", "rollup",
		"	if now.IsZero() {\n		now = f.snap.At // on", "	if true {\n		now = f.snap.At // on", test("TestASnapshotFromBeforeAnothersFlush"),
	},
	{
		"a snapshot is taken before the ledger was", "internal/book",
		"err != nil || now.Before(k.Ledger.Updated) {\n			return now, reads, false\n		}\n		doc, at = docs[0], now", "err != nil {\n			return now, reads, false\n		}\n		doc, at = docs[0], now.Add(-time.Second)", testIn("rollup", "TestAFlushSpeaksForAll"),
	},
	{
		"a follower takes what it holds for counted", "rollup",
		"			open[s.Shard] = true\n", "			open[\"another\"] = true\n", simulation,
	},
	{
		"a follower waits with a deletion, which no snapshot covers", "rollup",
		"			if s.Gone {\n				return false\n			}\n", "", test("TestAFollowerOfADeletion"),
	},
	{
		"a follower waits with answers that nobody else has", "rollup",
		"len(b.answered) == 0 && !c.draining", "!c.draining", test("TestCoalescerFlushesWhatNobodyElseCan"),
	},
	{
		"an instance that ends follows", "rollup",
		"len(b.answered) == 0 && !c.draining", "len(b.answered) == 0", test("TestCoalescerFlushesWhatNobodyElseCan"),
	},
	{
		"an event is done by the snapshot of a flush that failed", "rollup",
		"	f.spoke, f.news = true,", "	f.floor = f.snap.At\n	f.spoke, f.news = true,", test("TestTheFloorOfAFlushThatFailed"),
	},
	{
		"a deletion is done by a snapshot of after its version", "rollup",
		"b != nil && !s.Gone && !s.AsOf.After(b.floor)", "b != nil && !s.AsOf.After(b.floor)", test("TestCoalescerAcknowledgesWhatIsCovered"),
	},
	{
		"an event of after the snapshot is done", "rollup",
		"b != nil && !s.Gone && !s.AsOf.After(b.floor)", "b != nil && !s.Gone && !b.floor.IsZero()", simulation,
	},
	{
		"what a snapshot covers waits for the next flush", "rollup",
		"	if b.covers(s) {\n		b.events++", "	if false {\n		b.events++", test("TestCoalescerAcknowledgesWhatIsCovered"),
	},
	{
		"what came while a snapshot was counted waits for the next flush", "rollup",
		"			if b.covers(h.state) { // it came meanwhile", "			if false {", test("TestCoalescerAcknowledgesWhatIsCovered"),
	},
	{
		"a snapshot tells what a field was before it was a text", "rollup",
		"return len(s.Odd)+len(s.Blank) > 0 }) {", "return false }) {", test("TestWhatASnapshotIsNotFor"),
	},
	{
		"a counter that is being deleted is read", "internal/book",
		"doc != nil && !k.Ledger.Ending && !Deleting(k.names(), doc)", "doc != nil", testIn("rollup", "TestWhatASnapshotIsNotFor"),
	},
	{
		"a snapshot is counted for which the ledger has no room", "internal/ledger",
		"if after.Apply(d); after.Numbers() > MaxNumbers {", "if after.Apply(d); false {", test("TestSpeak"),
	},
	{
		"a flush corrects what can't be", "internal/ledger",
		"if d.Floor.IsZero() || d.Impossible {", "if d.Floor.IsZero() {", test("TestSpeak"),
	},
	{
		"what a batch takes off a shard is looked at by its own snapshot", "rollup",
		"if f.diff.Uneven.IsZero() { //", "if true { //", test("TestASnapshotBesideWhatIsTakenOff"),
	},
	{
		"a snapshot takes reads that nothing has paid for", "rollup",
		"	s.paid -= own\n", "	_ = own\n", test("TestSnapshotsAreBoundedByEvents"),
	},
	{
		"the purse is never empty", "rollup",
		"	*p -= purse(2 * (reads - own))\n", "	_ = own\n", test("TestSnapshotsAreBoundedByEvents"),
	},
	{
		"a snapshot reads as many shards as there are", "rollup",
		"At: at, Limit: allowed + 1})", "At: at})", test("TestAFlushSpeaksAsFarAsItIsPaidFor"),
	},
	{
		"snapshots go on for ever", "rollup",
		"		s.worth = max(0, s.worth-1)\n", "", test("TestSnapshotsGoOnWhileTheyHaveNews"),
	},
	{
		"others' events are no news", "rollup",
		"	return untold > 1 && 3*untold > len(told)+untold\n", "	return false\n", test("TestNews"),
	},
	{
		"late events are no news", "rollup",
		"if untold++; at.Sub(e.AsOf) > lateAfter {", "if untold++; at.Before(e.AsOf) {", test("TestNews"),
	},
	{
		"late events ask for no snapshot", "rollup",
		"		b.asked()\n		b.hurries =", "		b.hurries =", test("TestCoalescerSpeaks"),
	},
	{
		"what is late waits for its interval", "rollup",
		"b.hurries = c.least > time.Second && !b.hurried && !c.shared(b, now)", "b.hurries = false", test("TestCoalescerHurriesOnce"),
	},
	{
		"what is late always goes at once", "rollup",
		"b.hurries = c.least > time.Second && !b.hurried && !c.shared(b, now)", "b.hurries = !c.shared(b, now)", test("TestCoalescerHurriesOnce"),
	},
	{
		"what is late goes at once beside a speaker", "rollup",
		"b.hurries = c.least > time.Second && !b.hurried && !c.shared(b, now)", "b.hurries = !b.hurried", test("TestCoalescerHurriesOnce"),
	},
	{
		"others' flushes ask for no snapshot", "rollup",
		"		b.asked()\n		b.noticed = now\n", "		b.noticed = now\n", test("TestCoalescerFollows"),
	},
	{
		"a quiet counter's first flush takes a snapshot", "rollup",
		"b.flushed && b.worth > 0, b", "b.worth > 0, b", test("TestCoalescerSpeaks"),
	},
	{
		"who speaks takes turns", "rollup",
		"if f.otherFlushes == 0 || f.spoke {", "if f.otherFlushes == 0 {", test("TestCoalescerSpeakerTakesNoTurns"),
	},
	{
		"nobody follows", "rollup",
		"|| !spoken && !f.hopes(k) ||", "|| !f.hopes(k) ||", test("TestAFollower"),
	},
	{
		"a follower looks at once", "rollup",
		"c.wait(b, now.Add(lookIn(c.least+waited, f.ago, c.spread())))", "c.wait(b, now)", test("TestCoalescerFollows"),
	},
	{
		"who can't pay doesn't wait for who can", "rollup",
		"return floor.After(made) && now.Sub(floor) < believed*interval", "return false", test("TestHopes|TestAnInstanceThatCantPayWaits"),
	},
	{
		"a flush that had to wait leaves no room for another's", "rollup",
		" || waited > 0 && last {", " || waited > 0 && false && last {", test("TestCoalescerLeavesRoom"),
	},
	{
		"an instance that has lost its copy takes its own flush for another's", "rollup",
		" && !l.Updated.Equal(f.batch.mine):", ":", test("TestAnInstanceWithoutItsCopyIsAlone"),
	},
}
