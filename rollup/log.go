package rollup

// Messages of the log lines that metrics and alerts look for. Their attributes are read too: delta, events and lag_ms of
// a roll-up, counter and drift of a drift.
const (
	LogRollup     = "roll-up"    // a flush has committed
	LogContention = "contention" // a flush lost against another's and is tried again
	LogDrift      = "drift"      // a total differed from its shards and was corrected
)
