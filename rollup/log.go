package rollup

// Messages of the log that metrics and alerts filter on.
const (
	// LogRollup: a flush has counted what it held; with counter, events, shards, delta, duration_ms, lag_ms and
	// other_flushes.
	LogRollup = "roll-up"
	// LogRollupFailed: a flush has failed, and not for contention.
	LogRollupFailed = "roll-up failed"
	// LogContention: a flush has failed because too many want the counter's documents.
	LogContention = "contention"
	// LogDrift: a reconcile has taken off a total what neither its shards nor its base account for; with counter and drift.
	LogDrift = "drift"
	// LogAdopted: a counter without a ledger has got one; with counter, shards, total and, where there was another,
	// replaced_total.
	LogAdopted = "adopted"
	// LogProblem: something keeps a counter's total from being right; with counter and problem.
	LogProblem = "problem"
	// LogLedgerFull: a ledger knows as many shards as it can, and events of others are not counted; with counter.
	LogLedgerFull = "ledger is full"
)
