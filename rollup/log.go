package rollup

// Messages of the log that metrics and alerts filter on. Each comes with the counter.
const (
	LogRollup        = "roll-up"        // a flush; with events, shards, delta, duration_ms, lag_ms, other_flushes
	LogRollupFailed  = "roll-up failed" // a flush failed, and not for contention
	LogContention    = "contention"     // a flush failed because too many write the counter's documents
	LogRecount       = "recount"        // documents were counted for a field; with collection, events, reads, values, duration_ms
	LogRecountFailed = "recount failed" // they could not be; with collection and error, or field and problem
	LogDrift         = "drift"          // a reconcile took off a total what its ledger doesn't account for; with drift
	LogAdopted       = "adopted"        // a counter has got a ledger; with shards, total and any replaced_total
	LogProblem       = "problem"        // something keeps a total from being right; with problem
	LogLedgerFull    = "ledger is full" // states of more shards than a ledger holds were refused; with refused, known
)
