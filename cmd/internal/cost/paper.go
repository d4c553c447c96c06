package cost

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/firestore-counters/counters/internal/groupcommit"
	"github.com/firestore-counters/counters/internal/layout"
)

// CommitTime is what a commit is taken to last unless a load says otherwise, and what the benchmark
// has commits last. Production's take longer, where increments share more of them: what is worked
// out from this is rather too much.
const CommitTime = 10 * time.Millisecond

// Load is what is asked of counters, and what they run on.
type Load struct {
	Rate     float64 `json:"rate"`      // increments a second, of all counters together, arriving at random; above 0
	Counters int     `json:"counters"`  // that share the increments and reads evenly; at least 1
	Reads    float64 `json:"reads"`     // reads of totals a second, by frontends that ask Firestore
	Shards   int     `json:"shards"`    // of each counter, up to 1000; 0 for as many as a design needs
	PerShard float64 `json:"per_shard"` // writes a second that one document takes, sustained; usually [HotRate]

	// Documents are what a counter counts, where each increment is a document that is made, changed
	// or deleted anyway, such as a comment; 0 where there are none. Its own write is the app's, and
	// in no design.
	Documents int `json:"documents,omitempty"`

	Commit         time.Duration `json:"commit_ns"`          // how long a commit takes
	CommitInterval time.Duration `json:"commit_interval_ns"` // COMMIT_INTERVAL
	Interval       time.Duration `json:"interval_ns"`        // ROLLUP_INTERVAL
	Instances      int           `json:"instances"`          // of each function
	InexactWrites  bool          `json:"inexact_writes"`     // EXACT_WRITES=false: no marker with a commit
	Keys           float64       `json:"keys,omitempty"`     // the share of increments that have an Idempotency-Key, 0 to 1
}

// Name tells the ways to build a counter apart.
type Name string

// The designs that are compared. In all of them, increments come to a function by HTTP.
const (
	Ours        Name = "this project"
	Unshared    Name = "MAX_BATCH=1" // of this project: no increment shares a commit, or waits for one
	Blind       Name = "blind trigger"
	SumOnRead   Name = "sum() on read"
	OneDocument Name = "one document"
	Floor       Name = "floor" // what no way to build a counter can leave out: see [Load.Designs]

	Counted     Name = "counted field" // where there is a document for each increment
	CountOnRead Name = "count() on read"
)

// Design is what a way to build counters would use.
type Design struct {
	Name       Name    `json:"name"`
	Shards     int     `json:"shards,omitempty"`     // of each counter, as the load says or as many as it needs
	Unworkable string  `json:"unworkable,omitempty"` // why it would not hold, in a few words
	Usage      Usage   `json:"per_second"`
	Commits    float64 `json:"commits_per_second"` // of increments: writes of shards, which counters may share a commit for
	RollUps    float64 `json:"roll_ups_per_second"`

	// Takes is how long an increment takes, on average: until its commit begins, and that commit. What
	// the network and the function add is not in it. 0 where nothing is committed.
	Takes time.Duration `json:"takes_ns,omitempty"`
}

// HotRate is how many writes a second a document takes, sustained. Google's pages used to say so,
// and call it workload-dependent today; it is a rule of thumb.
const HotRate = 1

// spare is how many times more the shards could take than they get. They are picked at random: at
// half load one of them now and then has two writes to take at once, and at full load there is
// always one that falls behind.
const spare = 2

// aggregated is how many index entries an aggregation counts for one billed read.
const aggregated = 1000

// Designs are all designs under a load, in the order of the constants. The floor is a write for all
// increments of a counter that come while a commit is in flight, or within the interval between two,
// and a function on one instance: who answers after a commit can't do with less.
func (l Load) Designs() []Design {
	designs := []Design{l.ours(), l.unshared(), l.blind(), l.sumOnRead(), l.oneDocument(), l.floor()}
	if l.Documents > 0 {
		designs = append(designs, l.counted(), l.countOnRead())
	}
	return designs
}

// PerMillion is what a million increments use, at the load's rate, with the reads of the time that
// they take.
func (l Load) PerMillion(d Design) Usage { return d.Usage.PerMillion(l.Rate) }

// sharded completes a design whose commits are spread over shards.
func (l Load) sharded(d Design) Design {
	each := d.Commits / float64(l.Counters)
	if d.Shards = l.Shards; d.Shards == 0 {
		d.Shards = int(math.Ceil(spare * each / l.PerShard))
	}
	switch {
	case d.Unworkable != "":
	case d.Shards > layout.MaxShards:
		d.Unworkable = fmt.Sprintf("it needs %d shards, and a counter has %d at most", d.Shards, layout.MaxShards)
	case each > l.PerShard*float64(d.Shards):
		d.Unworkable = fmt.Sprintf("too few shards, each gets %s writes a second and takes about %g", number(each/float64(d.Shards)), l.PerShard)
	}
	return d
}

// ours is a commit for all increments of a counter that arrive while another is in flight, or less
// than an interval ago began, which counters share where many have one in flight, and a roll-up per interval.
func (l Load) ours() Design {
	instances, counters := float64(l.Instances), float64(l.Counters)
	batches := counters * instances * groupcommit.Rate(l.Rate/counters/instances, l.Commit, l.CommitInterval)
	// one in each commit
	markers := instances * groupcommit.SharedRate(l.Counters, l.Rate/counters/instances, l.Commit, l.CommitInterval)
	if l.InexactWrites {
		markers = 0
	}
	takes := l.Commit + groupcommit.Wait(l.Counters, l.Rate/counters/instances, l.Commit, l.CommitInterval)
	return l.rolledUp(Ours, batches, markers+l.keyMarkers(batches, markers), takes)
}

// keyMarkers is how many markers keys make beside those of commits: one for each, unless its increment is alone in its
// commit, whose marker it is then.
func (l Load) keyMarkers(batches, markers float64) float64 {
	if l.InexactWrites {
		return l.Keys * l.Rate
	}
	// One increment or none comes while a batch is in flight, and then begins the next.
	meanwhile := l.Rate / float64(l.Counters*l.Instances) * max(l.Commit, l.CommitInterval).Seconds()
	alone := batches * math.Exp(-meanwhile) * (1 + meanwhile)
	if shared := batches / markers; shared > 1 { // batches of several counters are in a commit, and seldom just one
		alone *= math.Exp(1-shared) / shared
	}
	return l.Keys * (l.Rate - alone)
}

// unshared is ours with a commit, a marker and an event for each increment.
func (l Load) unshared() Design {
	markers := l.Rate
	if l.InexactWrites {
		markers = l.Keys * l.Rate
	}
	return l.rolledUp(Unshared, l.Rate, markers, l.Commit)
}

// rolledUp completes one of ours: a roll-up per interval.
func (l Load) rolledUp(name Name, batches, markers float64, takes time.Duration) Design {
	commit, interval := l.Commit.Seconds(), l.Interval.Seconds()
	instances, counters := float64(l.Instances), float64(l.Counters)

	each := batches / counters / instances // events of a counter to one instance of the roll-up
	// Bursts of a few at once (ROLLUP_BURST) leave nothing together that could go apart. That is up
	// to a tenth too many, where about one event an interval comes.
	flushes := counters * instances * min(paced(each, commit), 1/max(interval, commit))
	reads := l.Reads
	if l.Instances > 1 {
		reads += 2 * flushes // the ledger and the counter, since others have written them
	}
	// an event of at least one counter
	holding := 1 - math.Pow(1-gathered(each, interval, commit), counters)
	busy := max(holding, inFlight(batches/instances, billed(l.Commit)))
	return l.sharded(Design{
		Name:    name,
		Commits: batches,
		RollUps: flushes,
		Takes:   takes,
		Usage: Usage{
			Reads: reads,
			// a flush writes the total and the ledger
			Writes:    batches + markers + 2*flushes,
			Deletes:   markers, // by TTL
			Increment: l.function(l.Rate, takes),
			Rollup:    Function{Requests: batches, Busy: busy * instances, There: l.there(batches)},
		},
	})
}

// blind is a commit per increment, and another per event.
func (l Load) blind() Design {
	d := Design{
		Name:    Blind,
		Takes:   l.Commit,
		Commits: l.Rate,
		RollUps: l.Rate,
		Usage: Usage{
			Reads:     l.Reads,
			Writes:    2 * l.Rate,
			Increment: l.function(l.Rate, l.Commit),
			Rollup:    l.function(l.Rate, l.Commit),
		},
	}
	if each := l.Rate / float64(l.Counters); each > l.PerShard {
		d.Unworkable = fmt.Sprintf("the total gets %s writes a second, and takes about %g", number(each), l.PerShard)
	}
	return l.sharded(d)
}

// sumOnRead is a commit per increment, and an aggregation per read.
func (l Load) sumOnRead() Design {
	d := l.sharded(Design{
		Name:    SumOnRead,
		Takes:   l.Commit,
		Commits: l.Rate,
		Usage:   Usage{Writes: l.Rate, Increment: l.function(l.Rate, l.Commit)},
	})
	d.Usage.Reads = l.Reads * math.Ceil(float64(d.Shards)/aggregated)
	return d
}

// oneDocument is a counter without shards.
func (l Load) oneDocument() Design {
	d := l.sumOnRead()
	d.Name, d.Shards, d.Usage.Reads, d.Unworkable = OneDocument, 0, l.Reads, ""
	if each := l.Rate / float64(l.Counters); each > l.PerShard {
		d.Unworkable = fmt.Sprintf("the document gets %s writes a second, and takes about %g", number(each), l.PerShard)
	}
	return d
}

// recountWait is how long an event of a large collection waits at most, with the default settings.
const recountWait = 41 * time.Second

// counted is a query and a roll-up, at most one per interval and counter, for events that come
// meanwhile. A query that takes N reads waits for N events, or for recountWait.
func (l Load) counted() Design {
	instances, counters := float64(l.Instances), float64(l.Counters)
	query := math.Ceil(float64(l.Documents) / aggregated)
	each := l.Rate / counters / instances // events of a counter to one instance
	interval := max(l.Interval.Seconds(), min((query-1)/each, recountWait.Seconds()))
	commit := 2 * l.Commit.Seconds() // the query takes time, too
	recounts := counters * instances * paced(each, max(interval, commit))
	reads := l.Reads + recounts*query
	if l.Instances > 1 {
		reads += 2 * recounts
	}
	holding := 1 - math.Pow(1-gathered(each, interval, commit), counters)
	return Design{
		Name:    Counted,
		RollUps: recounts,
		Usage: Usage{
			Reads:  reads,
			Writes: 2 * recounts,
			Rollup: Function{Requests: l.Rate, Busy: instances * max(holding, inFlight(l.Rate/instances, billed(l.Commit))), There: l.there(l.Rate)},
		},
	}
}

// countOnRead is a query per read, and nothing else.
func (l Load) countOnRead() Design {
	return Design{Name: CountOnRead, Usage: Usage{Reads: l.Reads * math.Ceil(float64(l.Documents)/aggregated)}}
}

func (l Load) floor() Design {
	counters := float64(l.Counters)
	commits := counters * groupcommit.Rate(l.Rate/counters, l.Commit, l.CommitInterval)
	one := l
	one.Instances = 1
	return Design{
		Name: Floor, Commits: commits, Unworkable: "is what all have in common, and shows no total",
		Usage: Usage{Writes: commits, Increment: one.function(l.Rate, l.Commit)},
	}
}

// number is a rate in a few digits.
func number(v float64) string {
	if v >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// billed is the billed time of one request, in seconds.
func billed(takes time.Duration) float64 { return max(takes, BillingStep).Seconds() }

// function is one whose requests each take as long as given.
func (l Load) function(rate float64, takes time.Duration) Function {
	n := float64(l.Instances)
	return Function{Requests: rate, Busy: n * inFlight(rate/n, billed(takes)), There: l.there(rate)}
}

// linger is how long an instance stays after its last request: Cloud Run says up to 15 minutes.
const linger = 15 * time.Minute

// there is how many instances of a function are there, on average.
func (l Load) there(rate float64) float64 {
	n := float64(l.Instances)
	return n * inFlight(rate/n, linger.Seconds()+billed(l.Commit))
}

// inFlight is the share of time in which at least one request is in flight, when they come at
// random and each takes the same time.
func inFlight(rate, seconds float64) float64 { return -math.Expm1(-rate * seconds) }

// paced is how many rounds a second there are when a round begins at once with an arrival that
// finds none, and takes as long as given, and what arrives during one shares the next: a round
// follows the one before at once, unless nothing has come, and then with the next arrival.
func paced(rate, seconds float64) float64 {
	if rate <= 0 {
		return 0
	}
	return 1 / (seconds + math.Exp(-rate*seconds)/rate)
}

// gathered is the share of time in which at least one event waits for its roll-up: what comes
// within an interval after a roll-up waits for the interval's end, and then for the commit.
func gathered(rate, interval, commit float64) float64 {
	if rate <= 0 {
		return 0
	}
	// from the first arrival after a roll-up to the next one
	waiting := interval + math.Expm1(-rate*interval)/rate
	return min(1, (commit+waiting)*paced(rate, max(interval, commit)))
}
