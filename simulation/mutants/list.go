package main

import "slices"

// mutants are the rules, one of them left out in each.
var mutants = slices.Concat(seldomMissed, ofLedger, ofRollup, ofCounted, ofCommands, ofWrites, ofFunctions)

// seldomMissed are the rules that a simulation misses, most of them, and some others.
var seldomMissed = []mutant{
	// The roll-up.
	{
		"an older state counts too", "internal/ledger",
		"case ok && !known.olderThan(s, count):", "case ok && s.AsOf.Equal(known.AsOf):", simulation,
	},
	{
		"no floor for shards that the ledger doesn't know", "internal/ledger",
		"case !s.Gone && !s.AsOf.After(sum.Floor): //", "case false: //", simulation,
	},
	{
		"a flush without the ledger's condition", "rollup",
		"store.UpdatedAtTime(l.Updated), fields, mask),\n\t\tstore.Update(c.db.Counter(counter), store.Exists(true), totals, totalsMask, transforms...),\n\t}, incremented",
		"nil, fields, mask),\n\t\tstore.Update(c.db.Counter(counter), store.Exists(true), totals, totalsMask, transforms...),\n\t}, incremented", simulation,
	},
	{
		"a total without exists", "rollup",
		"store.Exists(true), totals, totalsMask, transforms...),\n\t}, incremented", "nil, totals, totalsMask, transforms...),\n\t}, incremented", simulation,
	},
	{
		"a flush that is doubtful is taken for applied", "rollup",
		"if doubtful++; doubtful == doubts {\n\t\t\t\treturn u, err", "if doubtful++; doubtful > 0 {\n\t\t\t\treturn u, nil", simulation,
	},
	{
		"a deleted shard is as old as its last version", "rollup",
		"AsOf: c.Before.Updated.Add(time.Microsecond), Gone: true}", "AsOf: c.Before.Updated, Gone: true}", simulation,
	},
	{
		"adoption keeps the total that was", "rollup",
		"fields[name] = store.Int(sum.Total())\n", "if fields[name] = was[name]; was[name] == nil {\n\t\t\t\tfields[name] = store.Int(sum.Total())\n\t\t\t}\n", simulation,
	},
	{
		"a snapshot says nothing about shards that are gone", "internal/ledger",
		"for key, known := range s.Shards {", "for key, known := range map[string]Entry(nil) {", simulation,
	},
	{
		"an event is acknowledged before its flush", "rollup",
		"flushed := make(chan error, 1)\n", "flushed := make(chan error, 2)\n\tflushed <- nil\n", simulation,
	},
	{
		"events of failing flushes are acknowledged", "rollup",
		"event <- cmp.Or(err, ErrLedgerFull)", "_ = cmp.Or(err, ErrLedgerFull)\n\t\tevent <- nil", simulation,
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
		"if !f.marked() {\n\t\t\treturn f.giveUp(ErrUnknown, err)\n\t\t}\n", "", simulation,
	},
	{
		"the own marker is ignored", "shards",
		"\t\tdefault:\n\t\t\treturn f.applied()\n", "", test("TestOneIncrementUnderFaults"),
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
		"resp, err = api.Commit(db.outgoing(ctx), req, once)", "resp, err = api.Commit(db.outgoing(ctx), req)", simulation,
	},
	{
		"the last look at a key's marker is dropped", "shards",
		"f.settling = &v\n\t\treturn readMarkers", "return f.giveUp(ErrUnknown, v.err)", statistic,
	},
	{
		"what is in doubt is not settled before it leaves", "shards",
		"case !f.doubt:\n\t\treturn f.decide(v)", "case true:\n\t\treturn f.decide(v)", walk("TestBatchesCountOnce|TestMembersCountOnce"),
	},
	{
		"a move without a condition", "shards",
		"remove := deleteIf(c.shardName(from), docs[0].GetUpdateTime().AsTime())", "remove := store.Delete(c.shardName(from))", test("TestIncrementBesideAMove"),
	},
	{
		"a command without the ledger's condition", "shards",
		"store.Update(db.LedgerOf(c.id), store.UpdatedAtTime(l.Updated), fields, mask),\n\t\t// Set", "store.Update(db.LedgerOf(c.id), nil, fields, mask),\n\t\t// Set", simulation,
	},
	{
		"a command doesn't look for its own id", "shards",
		"slices.Contains(l.Ops, attemptID(op, n)) {", "slices.Contains(l.Ops, attemptID(op+op, n)) {", simulation,
	},
	{
		"a shard is made whether its counter is there or not", "shards",
		"gone[id] = true\n\t\t\t\tc.known.forget(id)\n\t\t\t\tcontinue", "c.known.forget(id)", simulation,
	},
	{
		"withdrawn increments still count as waiting", "shards",
		"of.requests = slices.Delete(of.requests, at, at+1)\n\tq.waiting--\n", "of.requests = slices.Delete(of.requests, at, at+1)\n", test("TestRoomOfThoseWhoWentAway"),
	},
	{
		"growth ignores others", "shards",
		"if is != seen {\n", "if is < 0 {\n", simulation,
	},
	{
		"a rebase ignores the shards", "shards",
		"ch.bases[name] = sum.BaseFor(total)", "ch.bases[name] = total", test("TestCommandsBeyondAnInt64"),
	},
	{
		"an exact read with an earlier counter's base", "shards",
		"if !ledger.Of(db.Layout, docs[1], docs[0]) {\n\t\tdocs[1] = nil // an earlier counter's\n\t}\n\tfor i", "if false {\n\t\tdocs[1] = nil\n\t}\n\tfor i", test("TestSumBesideAnEarlierCountersLedger"),
	},
	{
		"an exact read at another time than its base", "shards",
		"c.client.db.Sum(ctx, c.client.db.ShardsOf(c.id), field.Shard, at)", "c.client.db.Sum(ctx, c.client.db.ShardsOf(c.id), field.Shard, time.Time{})", test("TestSumIsOfOneTime"),
	},
	{
		"the markers of batches expire at once", "shards",
		"const batchMarkerTTL = time.Hour", "const batchMarkerTTL = time.Nanosecond", test("TestMarkersExpire"),
	},
	{
		"the markers of keys expire with those of batches", "shards",
		"ttl := c.cfg.KeyTTL\n", "ttl := batchMarkerTTL\n", test("TestMarkersExpire"),
	},
	{
		"a creation over a counter that is being deleted", "shards",
		"case c.client.isDeleting(counter):\n\t\treturn nil, false, fmt.Errorf(\"%w: it is being deleted; delete it again to finish that\", ErrExists)\n", "case c.client.isDeleting(counter):\n", test("TestFinishDeletion"),
	},
	{
		"a creation leaves what an earlier counter left", "shards",
		"if len(writes) > 0 {\n\t\t// The roll-up,", "if false {\n\t\t// The roll-up,", simulation,
	},
	{
		"a deletion whose last commit has no condition", "shards",
		"deleteIf(db.Counter(c.id), counter.GetUpdateTime().AsTime())}", "store.Delete(db.Counter(c.id))}", test("TestLatePartOfADeletionSparesTheSuccessor"),
	},
	{
		"a deletion takes the next counter after a lost answer", "shards",
		"case counter == nil || !created.Equal(made):", "case counter == nil:", test("TestLatePartOfADeletionSparesTheSuccessor|TestTwoDeletionsSpareTheSuccessor|TestACommandFindsASuccessor|TestCommandsUnderFaults"),
	},
	// Certainty: these protect no count.
	{
		"what is in doubt is not settled at all", "shards",
		"f.settling = &v\n\t\treturn settle", "return f.giveUp(ErrUnknown, v.err)", statistic,
	},
	{
		"a commit that settles is sent once", "shards",
		"f.failures >= 2*maxFailures {\n\t\treturn f.giveUp(ErrUnknown, err)", "f.failures > 0 {\n\t\treturn f.giveUp(ErrUnknown, err)", statistic,
	},
	{
		"no time is left for settling", "shards",
		"f.until.Add(-c.cfg.Timeout/4)", "f.until", statistic,
	},
	{
		"a commit without a time limit of its own", "shards",
		"ctx, cancel = context.WithTimeout(ctx, c.cfg.Timeout/2)", "ctx, cancel = context.WithCancel(ctx)", statistic,
	},
	{
		"a doubtful commit is given up though it has a marker", "shards",
		"if !f.marked() {\n\t\t\treturn f.giveUp", "if true {\n\t\t\treturn f.giveUp", statistic,
	},
	{
		"a quota is given up at once", "shards",
		"return f.failure(err)\n\t\t}\n\t\treturn pause", "return f.giveUp(ErrUnknown, err)\n\t\t}\n\t\treturn pause", statistic,
	},
	{
		"markers are read once", "shards",
		"f.failures >= 2*maxFailures {\n\t\treturn f.giveUp(ErrBusy, err)", "f.failures > 0 {\n\t\treturn f.giveUp(ErrBusy, err)", statistic,
	},
	// Members.
	{
		"memberships are the marker of their commit", "shards",
		"f.own = f.own || slices.ContainsFunc(b.requests, func(r *request) bool { return r.member != nil })\n\treturn f\n}\n\n// marked reports whether the batch's commits make markers.\nfunc (f *inFlight) marked() bool { return f.own || len(f.requests) == 1 && f.requests[0].key != \"\" }",
		"f.own = f.own && !slices.ContainsFunc(b.requests, func(r *request) bool { return r.member != nil })\n\treturn f\n}\n\nfunc (f *inFlight) marked() bool { return f.own || len(f.requests) == 1 && f.requests[0].document() != \"\" }",
		simulation,
	},
	{
		"a join whose membership is there already", "shards",
		"return store.Create(m.name, map[string]*firestorepb.Value{\n\t\tmemberID:    store.String(m.member),\n\t\tmemberShard: store.String(shard),\n\t\tmarkerBatch: store.String(batch),\n\t}, store",
		"return store.Update(m.name, nil, map[string]*firestorepb.Value{\n\t\tmemberID:    store.String(m.member),\n\t\tmemberShard: store.String(shard),\n\t\tmarkerBatch: store.String(batch),\n\t}, []string{memberID, memberShard, markerBatch}, store",
		simulation,
	},
	{
		"a leave whose membership is not there", "shards",
		"w := store.Delete(m.name)\n\t\tw.CurrentDocument = store.Exists(true)\n", "w := store.Delete(m.name)\n", simulation,
	},
	{
		"a membership that its own commit made was there before", "shards",
		"len(f.requests) == 1 && !f.doubt && r.member != nil", "len(f.requests) == 1 && r.member != nil", simulation,
	},
	{
		"a member is as asked already while a commit is in doubt", "shards",
		"\t\tif f.doubt {\n\t\t\t// Another operation", "\t\tif false {\n\t\t\t// Another operation", simulation,
	},
	{
		"several operations of a member in one commit", "shards",
		"if own := r.document(); own != \"\" && g.keys[own] {", "if false {", test("TestReplayedMembersShareACommit|TestMembersCountOnce|TestGathering"),
	},
	{
		"a counter is made for those who leave", "shards",
		"return r.member == nil || r.member.join })", "return true })", test("TestMembersMakeWhatIsMissing"),
	},
	{
		"a deletion leaves members", "shards",
		"if len(listed) == 0 {\n\t\tfor _, m := range members {", "if false {\n\t\tfor _, m := range members {", simulation,
	},
	{
		"a deletion takes members before shards", "shards",
		"if len(listed) == 0 {\n\t\tfor _, m := range members {", "if len(writes) == 0 || true {\n\t\tfor _, m := range members {", simulation,
	},
	{
		"a deletion at once of a counter that has members", "shards",
		"atOnce && len(members) == 0 && !s.inferred", "atOnce && !s.inferred", simulation,
	},
	{
		"a deletion at once whoever joins meanwhile", "shards",
		"there[s.id] = true\n\t\twrites = append(writes, deleteIf(c.shardName(s.id), s.updated))", "there[s.id] = true\n\t\twrites = append(writes, store.Delete(c.shardName(s.id)))", simulation,
	},
	{
		"a creation leaves an earlier counter's members", "shards",
		"if len(writes) == 0 { // after the shards", "if false { // after the shards", simulation,
	},
	{
		"a reset takes shards and leaves members", "shards",
		"for _, m := range members {\n\t\tch.writes", "for _, m := range members[:0] {\n\t\tch.writes", simulation,
	},
	{
		"a reset takes members that it was not to take", "shards",
		"case len(members) > 0 && !opts.RemoveMembers:", "case false:", simulation,
	},
	{
		"a reset reads members at another time than shards", "shards",
		"members, err := c.someMembers(ctx, db.FieldNames(), fewMembers+1, at)", "members, err := c.someMembers(ctx, db.FieldNames(), fewMembers+1, time.Time{})", simulation,
	},
	{
		"a reset sets shards to zero", "shards",
		"return store.Update(doc.GetName(), store.Exists(true), nil, nil, transforms...)\n}", "return store.Update(doc.GetName(), store.Exists(true), c.client.db.NoCounts(), c.shardPaths())\n}", simulation,
	},
	{
		"an audit counts members at another time", "shards",
		"db.Count(ctx, db.MembersOf(c.id, field.Name), at)", "db.Count(ctx, db.MembersOf(c.id, field.Name), docs[0].GetUpdateTime().AsTime())", simulation,
	},
	{
		"those whose shard is gone are not taken off", "rollup",
		"by[first] += n\n", "_ = n\n", test("TestCleanupOfADocumentThatWasBackUnseen"),
	},
	// The functions.
	{
		"reconcile answers 200 on failures", "functions",
		"if err != nil || s.Failed > 0 {\n\t\treturn http.StatusInternalServerError", "if err != nil {\n\t\treturn http.StatusInternalServerError", test("TestReconcileAnswersThatItFailed"),
	},
	{
		"a busy roll-up acknowledges", "functions",
		"return problem{Status: http.StatusServiceUnavailable, Detail: errNotCounted", "return problem{Status: http.StatusNoContent, Detail: errNotCounted", simulation,
	},
	// Several fields, and documents of the app's own.
	{
		"all fields of a shard share one time", "internal/ledger",
		"known, ok = sum.Shards[key]\n\t\t\t}\n",
		"known, ok = sum.Shards[key]\n\t\t\t}\n\t\t\tfor _, other := range l.Sums {\n\t\t\t\tif e := other.Shards[key]; ok && e.AsOf.After(known.AsOf) {\n\t\t\t\t\tknown.AsOf = e.AsOf\n\t\t\t\t}\n\t\t\t}\n", test("TestMergeOfSeveralFields|TestFieldsOfTwoRevisions"),
	},
	{
		"a field that is no integer keeps the others from being counted", "rollup",
		"if len(c.After.Counts) == 0 && len(fields) > 0 {", "if len(c.After.Counts) < len(fields) {", test("TestDecodeSeveralFields"),
	},
	{
		"a field that is added forgets the number it replaces", "rollup",
		"ledger.Set(fields, name, ledger.FieldReplaced, store.Int(was))\n", "_ = was\n", test("TestAnOldNumberIsReplaced"),
	},
	{
		"a flush adds to the totals of an app's document", "rollup",
		"if c.db.Hosted {\n\t\t// The app may write back", "if false {\n\t\t// The app may write back", simulation,
	},
	{
		"a document of the app's that is made again is another counter", "internal/ledger",
		"return names.Hosted || counter", "return counter", test("TestOf"),
	},
	{
		"nothing says that events were passed over", "rollup",
		"if !c.db.Hosted || !goneAt(doc).IsZero() {", "if true {", test("TestEventsOfADocumentThatIsNotThere"),
	},
	{
		"counting goes on after events were passed over", "internal/ledger",
		"return !l.Gone.IsZero() || slices", "return slices", test("TestBehindAfterItsDocumentWasGone"),
	},
	{
		"a busy document starves its repair", "rollup",
		"store.Update(c.db.Counter(counter), store.Exists(true), totals, totalsMask, transforms...),\n\t}\n}",
		"store.Update(c.db.Counter(counter), store.UpdatedAtTime(doc.GetUpdateTime().AsTime()), totals, totalsMask, transforms...),\n\t}\n}", test("TestReconcileOfABusyDocument"),
	},
	{
		"a cleanup doesn't wait", "rollup",
		"if since.IsZero() || since.After(due) {", "if since.IsZero() || since.After(due) && false {", simulation,
	},
	{
		"a cleanup takes what a new document has", "rollup",
		"case docs[1] != nil || !goneAt(docs[0]).Equal(since):", "case docs[0] == nil:", test("TestCleanupOfADocumentThatIsBack"),
	},
	{
		"a cleanup takes members without their -1", "rollup",
		"if field.Shard != \"\" {", "if false {", simulation,
	},
	{
		"a cleanup takes shards before members", "rollup",
		"removed, err := c.removeMembers(ctx, tx, counter, docs[0])", "removed, err := false, error(nil)", simulation,
	},
	{
		"a hosted counter has no ledger before its first event", "shards",
		"ledgers = append(ledgers, c.db.LedgerOf(id))", "_ = ledgers", test("TestHosted"),
	},
}
