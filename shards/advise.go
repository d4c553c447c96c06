package shards

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// ErrInvalidLoad says that there is no advice for such a load.
var ErrInvalidLoad = errors.New("invalid load")

// Load is what a counter has to take.
type Load struct {
	Peak      float64       // increments a second, above 0
	Instances int           // of the increment function, at the peak; default 1
	Latency   time.Duration // of a commit; default 30ms
	PerShard  float64       // writes a second that one document takes, sustained; default 1
}

// Advice is how many shards a load asks for.
type Advice struct {
	Commits float64 `json:"commits_per_second"` // on all shards
	Shards  int     `json:"shards"`             // beyond [MaxShards] where no counter can take it
}

// spare is how many times more the shards could take than they get. They are picked at random: at half load one of them
// now and then has two writes to take at once, and at full load there is always one that falls behind.
const spare = 2

// AdviseBatched is what the load asks for when all increments go through this package, whose instances have one commit
// of a counter in flight, or up to four once 64 increments wait. Errors: [ErrInvalidLoad].
func (l Load) AdviseBatched() (Advice, error) {
	l = l.withDefaults()
	single := float64(l.Instances) / l.Latency.Seconds() // one commit after the other
	return l.advise(min(l.Peak, max(single, min(l.Peak/manyWaiting, maxFlights*single))))
}

// AdviseUnbatched is what the load asks for when every increment is a write of its own, as those of public clients are.
// Errors: [ErrInvalidLoad].
func (l Load) AdviseUnbatched() (Advice, error) {
	l = l.withDefaults()
	return l.advise(l.Peak)
}

func (l Load) withDefaults() Load {
	orElse(&l.Instances, 1)
	orElse(&l.Latency, 30*time.Millisecond)
	orElse(&l.PerShard, 1)
	return l
}

func (l Load) advise(commits float64) (Advice, error) {
	if !(l.Peak > 0 && l.Peak <= 1e9) || l.Instances < 1 || l.Latency < time.Millisecond || !(l.PerShard > 0 && l.PerShard <= 1e6) {
		return Advice{}, fmt.Errorf("%w: %g increments a second on %d instances, %v a commit, %g writes a second on a shard; want more than 0 of each, and 1ms or more",
			ErrInvalidLoad, l.Peak, l.Instances, l.Latency, l.PerShard)
	}
	return Advice{Commits: commits, Shards: int(math.Ceil(spare * commits / l.PerShard))}, nil
}
