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

// What a query scans in Enterprise edition, where nothing of ours that it asks for has an index: a shard is some 90
// bytes with its name, rounded up here; what is only counted is taken for 32 bytes a document.
const shardBytes, countedBytes, unitBytes = 128, 32, 4 << 10

// scan is the read units of a query that scans so many documents.
func scan(documents, bytes float64) float64 { return math.Max(1, math.Ceil(documents*bytes/unitBytes)) }

// Designs are all designs under a load, in the order of the constants. The floor is a write for all
// increments of a counter that come while a commit is in flight, or within the interval between two,
// and a function on one instance: who answers after a commit can't do with less.
func (l Load) Designs() []Design {
	names := []Name{Ours, Unshared, Blind, SumOnRead, OneDocument, Floor}
	if l.Documents > 0 {
		names = append(names, Counted, CountOnRead)
	}
	var designs []Design
	for _, name := range names {
		designs = append(designs, l.design(name))
	}
	return designs
}

// design is one of them: each of ours takes longer to work out than all others.
func (l Load) design(name Name) Design {
	switch name {
	case Ours:
		return l.ours()
	case Unshared:
		return l.unshared()
	case Blind:
		return l.blind()
	case SumOnRead:
		return l.sumOnRead()
	case OneDocument:
		return l.oneDocument()
	case Floor:
		return l.floor()
	case Counted:
		return l.counted()
	case CountOnRead:
		return l.countOnRead()
	}
	return Design{}
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

// rolledUp completes one of ours: a refresh per interval, which asks for the shards' sum and writes the document.
func (l Load) rolledUp(name Name, batches, markers float64, takes time.Duration) Design {
	each := batches / float64(l.Counters*l.Instances) // events of a counter to one instance of the roll-up
	refreshes, looked, waits := l.refreshes(each)
	holding := 1 - math.Pow(1-waits, float64(l.Counters)) // an event of at least one counter
	busy := max(holding, inFlight(batches/float64(l.Instances), billed(l.Commit)))
	d := l.sharded(Design{
		Name:    name,
		Commits: batches,
		RollUps: refreshes,
		Takes:   takes,
		Usage: Usage{
			Writes:    batches + markers + refreshes,
			Deletes:   markers, // by TTL
			Increment: l.function(l.Rate, takes),
			Rollup:    Function{Requests: batches, Busy: busy * float64(l.Instances), There: l.there(batches)},
		},
	})
	// A question is one read, as long as entries that were replaced don't slow the index: what is asked then takes up
	// to two, and a quarter of a read an event, which is no matter beside the event's own commit.
	d.Usage.Reads, d.Usage.ReadUnits = l.Reads+looked+refreshes, l.Reads+looked+refreshes*scan(float64(d.Shards), shardBytes)
	return d
}

// refresh is how long a refresh takes, in seconds: it asks, then commits.
func (l Load) refresh() float64 { return 2 * l.Commit.Seconds() }

const (
	remembered = 5000 // counters that an instance of Rollup has in memory
	lookReads  = 2    // the document and its base, where another instance may have written them, or nobody remembers them
)

// refreshes are how many a second there are of all counters, at most one per interval and counter, if each instance
// gets so many events of each; how many documents are read for them; and the share of time in which an event of a
// counter waits at an instance. An instance that finds that another has just refreshed a counter writes nothing.
func (l Load) refreshes(each float64) (refreshes, reads, waits float64) {
	counters, instances := float64(l.Counters), float64(l.Instances)
	one, waits := bucket(each, l.Interval.Seconds(), l.refresh(), burst)
	together := one
	if instances > 1 {
		together, _ = bucket(each*instances, l.Interval.Seconds(), l.refresh(), burst)
	}
	refreshes = counters * together
	looks := max(0, counters*instances*one-refreshes)
	return refreshes, lookReads * (looks + (1-l.remembers(each))*refreshes), waits
}

// remembers is how likely an instance has a counter as it is: it has refreshed it last, is still there, and has not
// forgotten it over others. That is too little of a busy counter, which one instance refreshes again and again.
func (l Load) remembers(each float64) float64 {
	counters := float64(l.Counters)
	return inFlight(each*counters, linger.Seconds()) * min(1, remembered/counters) / float64(l.Instances)
}

// burst is how many refreshes a quiet counter has at once, by default: ROLLUP_BURST.
const burst = 5

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
	d.Usage.Reads, d.Usage.ReadUnits = l.Reads*math.Ceil(float64(d.Shards)/aggregated), l.Reads*scan(float64(d.Shards), shardBytes)
	return d
}

// oneDocument is a counter without shards.
func (l Load) oneDocument() Design {
	d := l.sumOnRead()
	d.Name, d.Shards, d.Usage.Reads, d.Usage.ReadUnits, d.Unworkable = OneDocument, 0, l.Reads, 0, ""
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
	perSecond, waits := bucket(each, interval, l.refresh(), 1)
	recounts := counters * instances * perSecond
	holding := 1 - math.Pow(1-waits, counters)
	looked := lookReads * (1 - l.remembers(each))
	return Design{
		Name:    Counted,
		RollUps: recounts,
		Usage: Usage{
			Reads:     l.Reads + recounts*(query+looked),
			ReadUnits: l.Reads + recounts*(scan(float64(l.Documents), countedBytes)+looked),
			Writes:    recounts,
			Rollup:    Function{Requests: l.Rate, Busy: instances * max(holding, inFlight(l.Rate/instances, billed(l.Commit))), There: l.there(l.Rate)},
		},
	}
}

// countOnRead is a query per read, and nothing else.
func (l Load) countOnRead() Design {
	return Design{Name: CountOnRead, Usage: Usage{
		Reads: l.Reads * math.Ceil(float64(l.Documents)/aggregated), ReadUnits: l.Reads * scan(float64(l.Documents), countedBytes),
	}}
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

// bucket is how many rounds a second there are, and the share of time in which somebody waits for one or is in it,
// where they are taken from a bucket that holds so many and earns one per interval: a round begins with an arrival, or
// once there is one in the bucket, is for all who have come by then, and takes so long.
func bucket(rate, interval, takes float64, holds int) (perSecond, waits float64) {
	interval = max(interval, takes)
	switch comes := rate * interval; {
	case rate <= 0:
		return 0, 0
	case comes < 0.02: // nobody waits
		return rate, min(1, rate*takes)
	case comes > 30: // somebody always does
		return 1 / interval, 1
	}
	// The level is in so many cells an interval. What that gets wrong halves with their size.
	const cells = 8
	coarse, more := levels(rate, interval, holds, cells)
	cycle, waited := levels(rate, interval, holds, 2*cells)
	cycle, waited = 2*cycle-coarse, max(0, 2*waited-more)+takes
	return min(rate, 1/interval, 1/cycle), min(1, waited/cycle)
}

// levels are how long it takes from one round to the next, and how long somebody waits meanwhile. The level of the
// bucket is the time until it is full again, when a round has just begun: from one interval to all of them. Whoever
// comes while that is more than ahead waits. From round to round it is a Markov chain, of levels of a cell each.
func levels(rate, interval float64, holds, cells int) (cycle, waited float64) {
	cell, ahead := interval/float64(cells), float64(holds-1)*interval
	next := make([][]float64, (holds-1)*cells+1) // :: level → level at the next round → how likely
	top := len(next) - 1
	for from := range next {
		next[from] = make([]float64, len(next))
		below := 0.0 // how likely it has come down to less when somebody comes
		for to := range top {
			if down := interval + float64(from-to)*cell - cell/2; down > 0 {
				next[from][to] = math.Exp(-rate*down) - below
				below += next[from][to]
			}
		}
		next[from][top] = 1 - below // where somebody has waited, too
	}
	for from, likely := range stationary(next) {
		wait := max(0, interval+float64(from)*cell-ahead) // of who comes at once
		cycle += likely * (wait + math.Exp(-rate*wait)/rate)
		waited += likely * (wait + math.Expm1(-rate*wait)/rate)
	}
	return cycle, waited
}

// stationary is how likely each state of a Markov chain is in the long run, by the algorithm of Grassmann, Taksar and
// Heyman, which subtracts nothing. It overwrites the chain.
func stationary(next [][]float64) []float64 {
	for last := len(next) - 1; last > 0; last-- {
		leaves := 0.0
		for _, p := range next[last][:last] {
			leaves += p
		}
		for from := range last {
			next[from][last] /= leaves
			for to, p := range next[last][:last] {
				next[from][to] += next[from][last] * p
			}
		}
	}
	likely, all := make([]float64, len(next)), 1.0
	likely[0] = 1
	for to := 1; to < len(next); to++ {
		for from := range to {
			likely[to] += likely[from] * next[from][to]
		}
		all += likely[to]
	}
	for state := range likely {
		likely[state] /= all
	}
	return likely
}
