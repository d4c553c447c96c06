package main

// mutants are the rules, one of them left out in each.
var mutants = []mutant{
	// The roll-up.
	{
		"an older state counts too", "internal/ledger",
		"case ok && !known.olderThan(s):", "case ok && s.AsOf.Equal(known.AsOf):", simulation,
	},
	{
		"no floor for shards that the ledger doesn't know", "internal/ledger",
		"case !ok && !s.AsOf.After(l.Floor):", "case false:", simulation,
	},
	{
		"a flush without the ledger's condition", "rollup",
		"store.Update(c.db.LedgerOf(counter), store.UpdatedAtTime(l.Updated), fields, mask),\n\t\tstore.Update(c.db.Counter(counter), store.Exists(true), nil, nil,",
		"store.Update(c.db.LedgerOf(counter), nil, fields, mask),\n\t\tstore.Update(c.db.Counter(counter), store.Exists(true), nil, nil,", simulation,
	},
	{
		"a total without exists", "rollup",
		"store.Update(c.db.Counter(counter), store.Exists(true), nil, nil,", "store.Update(c.db.Counter(counter), nil, nil, nil,", simulation,
	},
	{
		"a flush that is doubtful is taken for applied", "rollup",
		"if doubtful++; doubtful == doubts {\n\t\t\t\treturn a, err", "if doubtful++; doubtful > 0 {\n\t\t\t\treturn a, nil", simulation,
	},
	{
		"a deleted shard is as old as its last version", "rollup",
		"AsOf: c.Before.Updated.Add(time.Microsecond), Gone: true}", "AsOf: c.Before.Updated, Gone: true}", simulation,
	},
	{
		"adoption keeps the total that was", "rollup",
		"store.LedgerID: store.String(l.ID), store.Total: store.Int(sum)}", "store.LedgerID: store.String(l.ID), store.Total: was[store.Total]}", simulation,
	},
	{
		"a snapshot says nothing about shards that are gone", "internal/ledger",
		"for key, known := range l.Shards {", "for key, known := range map[string]Entry(nil) {", simulation,
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
		"superseded = newest.events", "superseded = append(newest.events, event)", simulation,
	},
	{
		"the reconcile cursor is never stored", "rollup",
		"resume := opts.Resume && !opts.DryRun", "resume := false && opts.Resume", tests,
	},
	// The write side.
	{
		"a doubtful commit goes again without a marker", "shards",
		"if !f.marked() {\n\t\t\treturn f.giveUp(ErrUnknown, err)\n\t\t}\n", "", simulation,
	},
	{
		"the own marker is ignored", "shards",
		"\t\tdefault:\n\t\t\treturn f.applied()\n", "", simulation,
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
		"f.settling = &v\n\t\treturn readMarkers", "return f.decide(v)", simulation,
	},
	{
		"what is in doubt is not settled before it leaves", "shards",
		"case !f.doubt:\n\t\treturn f.decide(v)", "case true:\n\t\treturn f.decide(v)", simulation,
	},
	{
		"a move without a condition", "shards",
		"remove := deleteIf(c.shardName(from), docs[0].GetUpdateTime().AsTime())", "remove := store.Delete(c.shardName(from))", simulation,
	},
	{
		"a command without the ledger's condition", "shards",
		"store.Update(c.client.db.LedgerOf(c.id), store.UpdatedAtTime(l.Updated), fields, mask),\n\t\tcounter,", "store.Update(c.client.db.LedgerOf(c.id), nil, fields, mask),\n\t\tcounter,", simulation,
	},
	{
		"a command doesn't look for its own id", "shards",
		"case slices.Contains(ledger.Ops, op):", "case slices.Contains(ledger.Ops, op+op):", simulation,
	},
	{
		"a shard is made whether its counter is there or not", "shards",
		"gone[id] = true\n\t\t\t\tc.known.forget(id)\n\t\t\t\tcontinue", "c.known.forget(id)", simulation,
	},
	{
		"withdrawn increments still count as waiting", "shards",
		"of.requests = slices.Delete(of.requests, at, at+1)\n\tq.waiting--\n", "of.requests = slices.Delete(of.requests, at, at+1)\n", tests,
	},
	{
		"growth ignores others", "shards",
		"if is != seen {\n", "if is < 0 {\n", simulation,
	},
	{
		"a rebase ignores the shards", "shards",
		"of.Base = ledger.Sub(total, of.Total())", "of.Base = total", simulation,
	},
	{
		"an exact read with an earlier counter's base", "shards",
		"if ledger.Of(docs[1], docs[0]) {", "if docs[1] != nil {", simulation,
	},
	{
		"an exact read at another time than its base", "shards",
		"c.client.db.Sum(ctx, c.client.db.ShardsOf(c.id), field.Shard, at)", "c.client.db.Sum(ctx, c.client.db.ShardsOf(c.id), field.Shard, time.Time{})", simulation,
	},
	{
		"the markers of batches expire at once", "shards",
		"const batchMarkerTTL = time.Hour", "const batchMarkerTTL = time.Nanosecond", simulation,
	},
	{
		"the markers of keys expire with those of batches", "shards",
		"ttl := c.cfg.KeyTTL\n", "ttl := batchMarkerTTL\n", simulation,
	},
	{
		"a creation over a counter that is being deleted", "shards",
		"case isDeleting(counter):\n\t\treturn nil, false, fmt.Errorf(", "case false:\n\t\treturn nil, false, fmt.Errorf(", tests,
	},
	{
		"a creation leaves what an earlier counter left", "shards",
		"if len(writes) > 0 {\n\t\treturn writes, false, nil\n\t}\n\treturn c.creation(opts, op), true, nil", "return c.creation(opts, op), true, nil", simulation,
	},
	{
		"a deletion whose last commit has no condition", "shards",
		"deleteIf(db.Counter(c.id), counter.GetUpdateTime().AsTime())), true, nil", "store.Delete(db.Counter(c.id))), true, nil", simulation,
	},
	{
		"a deletion takes the next counter after a lost answer", "shards",
		"case counter == nil || !created.Equal(made):", "case counter == nil:", simulation,
	},
	// The functions.
	{
		"reconcile answers 200 on failures", "functions",
		"case s.Failed > 0:\n\t\t\tcode = http.StatusInternalServerError", "case s.Failed > 0:\n\t\t\tcode = http.StatusOK", tests,
	},
	{
		"a busy roll-up acknowledges", "functions",
		`w.Header().Set("Retry-After", "1")` + "\n", "w.WriteHeader(204)\n", simulation,
	},
}
