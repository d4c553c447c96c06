package rollup

import "time"

// Messages of the log that metrics and alerts filter on. Each comes with the counter.
const (
	// a flush; with events, shards, delta, duration_ms, lag_ms, other_flushes
	LogRollup     = "roll-up"
	LogContention = "contention" // a flush failed because too many write the counter's documents
	// a document showed another total than its ledger has, and was set; with drift, by how much
	LogDrift = "drift"
	// events of a counter can't be counted, for a reason of its own: it must be reconciled, and each
	// time that this fails it is said again; with age_s, since when, and error
	LogNoted = "counter must be reconciled"
)

// Further messages, also with the counter.
const (
	logRollupFailed = "roll-up failed" // a flush failed, and not for contention
	// queries were asked; with collection, events, reads, values, duration_ms
	logRecount = "recount"
	// one has no answer; with collection and error, or field and problem
	logRecountFailed = "recount failed"
	// a counter has got a ledger; with shards, total and any replaced_total
	logAdopted = "adopted"
	// a ledger that could not be used was made again; with shards, total, base
	logRebuilt       = "rebuilt"
	logNotedDone     = "what was noted is reconciled"       // with age_s
	logNotesUnread   = "notes can't be read"                // of counters that must be reconciled
	logHoldsNotEnded = "holds that are over can't be ended" // which is tried again; with error
	logProblem       = "problem"                            // something keeps a total from being right; with problem
	// of more shards than a ledger holds; with refused, known: see LogNoted
	logLedgerFull = "ledger is full"
)

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
