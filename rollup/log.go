package rollup

// Messages of the log that metrics and alerts filter on. Each comes with the counter.
const (
	LogRollup     = "roll-up"    // a flush; with events, shards, delta, duration_ms, lag_ms, other_flushes
	LogContention = "contention" // a flush failed because too many write the counter's documents
	LogDrift      = "drift"      // a reconcile took off a total what its ledger doesn't account for; with drift
)

// Further messages, also with the counter.
const (
	logRollupFailed  = "roll-up failed" // a flush failed, and not for contention
	logRecount       = "recount"        // documents were counted for a field; with collection, events, reads, values, duration_ms
	logRecountFailed = "recount failed" // they could not be; with collection and error, or field and problem
	logAdopted       = "adopted"        // a counter has got a ledger; with shards, total and any replaced_total
	logProblem       = "problem"        // something keeps a total from being right; with problem
	logLedgerFull    = "ledger is full" // states of more shards than a ledger holds were refused; with refused, known
)
