package shards

// Messages of the log lines that metrics look for.
const (
	LogAmbiguous = "ambiguous commit" // a commit's answer was lost
	// a commit met another's and is tried again, on another shard
	LogContention = "contention"
)
