package cost

import (
	"math"
	"time"
)

// Load is what is asked of one counter, and what it runs on.
type Load struct {
	Rate   float64 // increments a second, arriving at random
	Reads  float64 // reads of the total a second, by frontends that ask Firestore
	Shards int     // 1 to 1000

	Commit    time.Duration // how long a commit takes
	Interval  time.Duration // ROLLUP_INTERVAL
	Instances int           // of each function
	Thrift    bool          // EXACT_WRITES=false: no marker with a commit
}

// Name tells the ways to build a counter apart.
type Name string

// The designs that are compared. In all of them, increments come to a function by HTTP.
const (
	Ours        Name = "this project"
	Blind       Name = "blind trigger"
	SumOnRead   Name = "sum() on read"
	OneDocument Name = "one document"
	Floor       Name = "floor" // one request of a function per increment, and nothing else
)

// Design is what a way to build a counter would use.
type Design struct {
	Name       Name
	Usage      Usage   // in a second
	Commits    float64 // of increments, a second
	RollUps    float64 // writes of the total a second
	Unworkable string  // why it would not hold, in a few words; "" where it would
}

// hotRate is how many writes a second a document takes, sustained. Google's pages used to say so, and call it
// workload-dependent today; it is a rule of thumb.
const hotRate = 1

// How this project gathers increments: one commit of a counter is in flight at a time, further ones as long as many
// increments wait.
const (
	manyWaiting = 64
	maxFlights  = 4
	maxBatch    = 500 // increments in a commit
)

// aggregated is how many index entries an aggregation counts for one billed read.
const aggregated = 1000

// Designs are all designs under a load, in the order of the constants.
func (l Load) Designs() []Design {
	return []Design{l.ours(), l.blind(), l.sumOnRead(), l.oneDocument(), l.floor()}
}

// PerMillion is what a million increments use, at the load's rate, with the reads of the time that they take.
func (l Load) PerMillion(d Design) Usage { return d.Usage.PerMillion(l.Rate) }

// commits are those of one instance a second.
func commits(rate, commit float64) float64 {
	many := min(rate/manyWaiting, maxFlights/commit)
	return max(paced(rate, commit), many, rate/maxBatch)
}

// ours is a commit for all increments that arrive while another is in flight, and a roll-up per interval.
func (l Load) ours() Design {
	commit := l.Commit.Seconds()
	commits := commits(l.Rate/float64(l.Instances), commit) * float64(l.Instances)
	writes := commits * 2
	deletes := commits
	if l.Thrift {
		writes, deletes = commits, 0
	}

	interval := l.Interval.Seconds()
	events := commits / float64(l.Instances) // to one instance of the roll-up
	flushes := paced(events, max(interval, commit)) * float64(l.Instances)
	reads := 0.0
	if l.Instances > 1 {
		reads = 2 * flushes // the ledger and the counter, since others have written them
	}
	busy := max(gathered(events, interval, commit), inFlight(events, l.request()))
	d := Design{
		Name:    Ours,
		Commits: commits,
		RollUps: flushes,
		Usage: Usage{
			Reads:           reads + l.Reads,
			Writes:          writes + 2*flushes, // the total, and the ledger
			Deletes:         deletes,            // of markers, by TTL
			Requests:        l.Rate + commits,
			InstanceSeconds: l.instances(l.Rate, l.request()) + busy*float64(l.Instances),
		},
	}
	if commits > hotRate*float64(l.Shards) {
		d.Unworkable = tooFewShards
	}
	return d
}

// blind is a commit per increment, and another per event.
func (l Load) blind() Design {
	d := Design{
		Name:    Blind,
		Commits: l.Rate,
		RollUps: l.Rate,
		Usage: Usage{
			Reads:           l.Reads,
			Writes:          2 * l.Rate,
			Requests:        2 * l.Rate,
			InstanceSeconds: 2 * l.instances(l.Rate, l.request()),
		},
	}
	switch {
	case l.Rate > hotRate:
		d.Unworkable = "the total takes about one write a second"
	case l.Rate > hotRate*float64(l.Shards):
		d.Unworkable = tooFewShards
	}
	return d
}

// sumOnRead is a commit per increment, and an aggregation per read.
func (l Load) sumOnRead() Design {
	d := Design{
		Name:    SumOnRead,
		Commits: l.Rate,
		Usage: Usage{
			Reads:           l.Reads * math.Ceil(float64(l.Shards)/aggregated),
			Writes:          l.Rate,
			Requests:        l.Rate,
			InstanceSeconds: l.instances(l.Rate, l.request()),
		},
	}
	if l.Rate > hotRate*float64(l.Shards) {
		d.Unworkable = tooFewShards
	}
	return d
}

// oneDocument is a counter without shards.
func (l Load) oneDocument() Design {
	d := l.sumOnRead()
	d.Name, d.Usage.Reads, d.Unworkable = OneDocument, l.Reads, ""
	if l.Rate > hotRate {
		d.Unworkable = "a document takes about one write a second"
	}
	return d
}

func (l Load) floor() Design {
	return Design{Name: Floor, Usage: Usage{Requests: l.Rate}, Unworkable: "counts nothing"}
}

const tooFewShards = "too few shards: each takes about one write a second"

// request is the billed time of one request that commits.
func (l Load) request() float64 { return max(l.Commit, billingStep).Seconds() }

// instances are the billed seconds a second of all instances under requests that take as long as given.
func (l Load) instances(rate, seconds float64) float64 {
	n := float64(l.Instances)
	return n * inFlight(rate/n, seconds)
}

// inFlight is the share of time in which at least one request is in flight, when they come at random and each takes the
// same time.
func inFlight(rate, seconds float64) float64 { return -math.Expm1(-rate * seconds) }

// paced is how many rounds a second there are when a round begins at once with an arrival that finds none, and takes as
// long as given, and what arrives during one shares the next: a round follows the one before at once, unless nothing
// has come, and then with the next arrival.
func paced(rate, seconds float64) float64 {
	if rate <= 0 {
		return 0
	}
	return 1 / (seconds + math.Exp(-rate*seconds)/rate)
}

// gathered is the share of time in which at least one event waits for its roll-up: what comes within an interval after
// a roll-up waits for the interval's end, and then for the commit.
func gathered(rate, interval, commit float64) float64 {
	if rate <= 0 {
		return 0
	}
	waiting := interval + math.Expm1(-rate*interval)/rate // from the first arrival after a roll-up to the next one
	return min(1, (commit+waiting)*paced(rate, max(interval, commit)))
}
