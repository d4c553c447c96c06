package simulation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Plan is what a world is like. It is drawn from a seed, and a seed and a length make the same plan
// always.
type Plan struct {
	Seed   uint64
	Storm  time.Duration // of an epoch: what goes on and goes wrong before the next calm
	Epochs int
	Rate   float64 // operations a second

	Increments, Rollups int // instances
	Environ             []string

	Messages MessageFaults
	Events   EventFaults
	// How often, on average; 0 is never.
	Crashes, Cuts, Silences, Replacements, Foreign, Damage time.Duration
	Sweep                                                  time.Duration // between two sweeps of expired markers
	Outage                                                 time.Duration // of the roll-up, from the middle of the first storm on
	DocWriteRate                                           float64       // of a hot document; 0 is no limit
	Index                                                  time.Duration // that a query scans 10,000 replaced entries in
	Enterprise                                             bool          // Firestore's edition
	Named                                                  bool          // increments name themselves; else there are few counters, and many increments of each

	Counters string // COUNTERS
	IDs      int    // which kind of ids counters have; 0 are plain

	Wire   bool          // messages go over HTTP/2, on connections in memory
	Likes  bool          // beside total, likes are counted
	Older  bool          // some instances are of a revision that doesn't know likes, or counts other documents
	Hosted bool          // the counters' documents are the app's own
	App    time.Duration // between two writes of the app's

	Members int  // how many there are who come and go in each field of a counter; 0 is none
	Holds   bool // of them some hold a seat until a time
	SDK     bool // of them some do it without a function

	InPlace bool          // imports are of the app's own document
	Live    bool          // what clients of the extension add is taken over at once
	Workers time.Duration // between two runs of the extension that counters are imported from

	Counted      []CountedField // fields that count documents; mostly none
	OlderCounted []CountedField // those that the older revision knows
	Documents    time.Duration  // between two writes of such documents

	Mix Mix

	Ahead  time.Duration // Firestore's clock, of those of all instances; below 0 it is behind
	Clocks time.Duration // how far those of two instances are apart, at most

	Neighbour      string        // COUNTERS of another deployment in the same database; "" is none
	NeighbourEvery time.Duration // between two increments of its counters

	Reordered bool  // the older revision has the same fields in another order
	Renamed   bool  // the older revision shows likes by another name
	Auth      bool  // callers are users, who show tokens
	Starts    bool  // some counters are made from a number
	Limits    bool  // likes have a limit, and increments give back
	Declared  int64 // which is the one of a counter that nobody gave another
	Many      int   // documents that a collection has from the beginning

	// pages opens web pages in a world, and returns what goes on in them in a storm, and until all is
	// settled. Tests set it.
	pages func(*world) (storm func(context.Context), settle func())

	Only  []int  // of the operations, by their number in the whole world; nil is all
	Order uint64 // what the runtime draws, beside the seed
}

// Mix is how often an operation is of a kind, relative to each other.
type Mix struct {
	Add, Key, Bulk, Snippet, Exact, Read, Resize, Reset, Rebase, Delete, ByHand, Rival, Large, Double, Member float64
	Old, Import                                                                                               float64 // what clients of the extension add, and imports of it
	Odd                                                                                                       float64 // writes to shards of what is no integer
	Shrink                                                                                                    float64 // shrinks of which every event is lost
	Limit                                                                                                     float64 // limits that are set or removed
	Amount                                                                                                    float64 // amounts that are held
	Pieces                                                                                                    float64 // lives of shards only
	Ends                                                                                                      float64 // of shards near the ends of an int64
}

// calmFor is how long a calm is: longer than the longest pause of Eventarc's after which the last
// of a row of events comes.
const calmFor = 40 * time.Minute

// PlanOf draws a plan. Each kind of fault is on in about half of all plans, so that no fault hides
// another.
func PlanOf(seed uint64) Plan {
	r := dice(seed, "plan", 0)
	some := func(p float64) float64 { // p at most, or not at all
		on, x := r.IntN(2) == 0, r.Float64()
		if !on {
			return 0
		}
		return p * x
	}
	now := func(short, long time.Duration) time.Duration {
		on, d := r.IntN(2) == 0, between(r, short, long)
		if !on {
			return 0
		}
		return d
	}
	p := Plan{
		Seed:       seed,
		Storm:      between(r, 10*time.Minute, 3*time.Hour),
		Epochs:     1 + r.IntN(3),
		Increments: 1 + r.IntN(3),
		Rollups:    1 + r.IntN(3),
		Messages: MessageFaults{
			Slow: some(0.1), Late: some(0.1), NeverSent: some(0.1), LostAnswer: some(0.2), LostSilence: some(0.02),
			Contention: some(0.2), Quota: some(0.05), TornStream: some(0.1),
		},
		Events:   EventFaults{Drop: some(0.2), Late: some(0.1), Duplicate: some(0.5), Reorder: some(0.5)},
		Crashes:  now(2*time.Minute, time.Hour),
		Cuts:     now(5*time.Minute, time.Hour),
		Silences: now(5*time.Minute, time.Hour), Replacements: now(5*time.Minute, time.Hour), Foreign: now(10*time.Minute, time.Hour),
		Sweep: between(r, time.Minute, 24*time.Hour),
		Named: r.IntN(4) > 0,
		Mix: Mix{
			Add: 50, Key: 10 * r.Float64(), Bulk: some(20), Snippet: some(20), Exact: 10, Read: 5,
			Resize: some(4), Reset: some(2), Rebase: some(2), Delete: some(2), ByHand: some(2), Rival: some(1), Large: some(0.2), Double: some(5),
		},
	}
	if r.IntN(4) == 0 {
		p.DocWriteRate = 1 + 4*r.Float64()
	}
	p.Rate = between(r, 0.1, 5)
	p.Environ = []string{
		"GOOGLE_CLOUD_PROJECT=" + project,
		fmt.Sprintf("MAX_INCREMENT=%d", 1<<62), // increments name themselves by their bits
		fmt.Sprintf("AUTO_CREATE=%v", r.IntN(2) == 0),
		fmt.Sprintf("NUM_SHARDS=%d", 1+r.IntN(6)),
		fmt.Sprintf("MAX_SHARDS=%d", []int{0, 8, 16}[r.IntN(3)]),
		fmt.Sprintf("CACHE_TTL=%s", between(r, time.Second, 10*time.Minute).Round(time.Second)),
		fmt.Sprintf("ROLLUP_INTERVAL=%s", []string{"10ms", "1s", "5s"}[r.IntN(3)]),
		fmt.Sprintf("ROLLUP_BURST=%d", []int{1, 5, 20}[r.IntN(3)]),
		fmt.Sprintf("EXACT_WRITES=%v", r.IntN(4) > 0),
		"RESET=any",
	}
	if p.Likes = r.IntN(2) == 0; p.Likes {
		p.Older = r.IntN(3) == 0
	}
	if p.Hosted = r.IntN(3) == 0; p.Hosted {
		p.App = between(r, time.Second, 5*time.Minute)
		p.Mix.Rival = 0 // what the app makes and deletes is one commit
		p.Environ = append(p.Environ, "HOSTED=true", "AUTO_CREATE=false",
			fmt.Sprintf("CLEANUP_AFTER=%s", between(r, time.Second, 3*time.Hour).Round(time.Second)))
	}
	p.members()
	p.drawCounted()
	p.Reordered = p.Older && p.Likes && dice(seed, "reordered", 0).IntN(2) == 0
	older := list(false, p.OlderCounted) // what the older revision knows
	p.drawImports()
	p.drawLive()
	if p.drawRenamed(); p.Renamed {
		older = strings.Replace(list(true, p.OlderCounted), ",likes", ","+olderLikes+"=likes", 1)
	}
	if p.Reordered {
		older = strings.Replace(list(true, p.OlderCounted), "total=count,likes", "likes,total=count", 1)
	}
	p.Environ = append(p.Environ, older)
	p.drawPaths()
	p.drawDoubles()
	p.drawNeighbour()
	p.drawRare()
	p.drawShrinks()
	p.drawAuth()
	p.drawClocks()
	p.drawLives()
	p.drawCrowd()
	p.drawLimits()
	p.drawAmounts()
	p.drawCeiling()
	p.drawFirestore()
	if r := dice(seed, "outage", 0); r.IntN(8) == 0 {
		p.Outage = between(r, time.Hour, 2*eventsLast)
	}
	return p
}

// drawRare draws what is in few plans only, from dice of its own.
func (p *Plan) drawRare() {
	r := dice(p.Seed, "rare", 0)
	if ahead := time.Duration(r.Int64N(int64(10*time.Minute))) - 5*time.Minute; r.IntN(4) == 0 {
		p.Ahead = ahead
	}
	if r.IntN(12) == 0 { // nothing but commands and reconciles tells what becomes of counters
		p.Events = EventFaults{Drop: 1}
	}
	if dice(p.Seed, "a fifth", 0).IntN(6) == 0 { // one later event of a field makes it right
		p.Events.Drop = 0.2
	}
	if often := between(r, 0.3, 5.0); r.IntN(3) == 0 && !p.Named && p.Members == 0 {
		p.Mix.Odd = often
	}
	if r := dice(p.Seed, "company", 0); r.IntN(3) == 0 {
		p.Environ = append(p.Environ, fmt.Sprintf("COMMIT_INTERVAL=%s", []string{"50ms", "1s"}[r.IntN(2)]))
	}
	if r := dice(p.Seed, "damage", 0); r.IntN(6) == 0 {
		p.Damage = between(r, 20*time.Second, 20*time.Minute)
	}
	if many := 1000 + r.IntN(200); r.IntN(4) == 0 && len(p.Counted) > 0 { // a query of them is more than one read
		p.Many = many
	}
}

// drawCrowd draws worlds in which many instances of the roll-up share the counters, that come and go,
// and in half of them a crowd, for minutes.
func (p *Plan) drawCrowd() {
	r := dice(p.Seed, "crowd", 0)
	instances, crowd, rate, lasts := 1+r.IntN(8), r.IntN(2) == 0, between(r, 5.0, 30.0), between(r, time.Minute, 10*time.Minute)
	goes, writes := between(r, 10*time.Second, 10*time.Minute), 1+4*r.Float64()
	if r.IntN(3) > 0 {
		return
	}
	p.Rollups = instances
	if r.IntN(2) == 0 {
		p.Crashes, p.Replacements = goes, goes
	}
	if crowd {
		p.Rate, p.Storm, p.Epochs = rate, lasts, 1
	}
	if r.IntN(2) == 0 {
		p.DocWriteRate = writes
	}
}

// drawCeiling draws a ceiling of each instance that holds up some of what is asked for, from dice of its own.
func (p *Plan) drawCeiling() {
	r := dice(p.Seed, "ceiling", 0)
	if writes, reads, creates := between(r, 1.0, 30.0), between(r, 1.0, 30.0), between(r, 0.01, 1.0); r.IntN(6) == 0 {
		p.Environ = append(p.Environ, fmt.Sprintf("CEILING=writes=%.2f,reads=%.2f,creates=%.3f", writes, reads, creates))
	}
}

// drawFirestore draws Firestore's edition, and how slow replaced entries make an index, from dice of its own: questions
// of a busy counter take long after a few hundred increments.
func (p *Plan) drawFirestore() {
	r := dice(p.Seed, "firestore", 0)
	if slow := between(r, 5*time.Second, time.Minute); r.IntN(4) == 0 {
		p.Index = slow
	}
	p.Enterprise = r.IntN(4) == 0
}

// drawShrinks draws shrinks whose events are all lost, from dice of their own.
func (p *Plan) drawShrinks() {
	r := dice(p.Seed, "shrinks", 0)
	if often := between(r, 0.3, 3.0); r.IntN(3) == 0 {
		p.Mix.Shrink = often
	}
}

// olderLikes is what the older revision calls likes, where it calls them something else.
const olderLikes = "hearts"

// drawRenamed draws whether likes have had another name, from dice of their own. Who renames what
// has members, or what is imported, has to move these too.
func (p *Plan) drawRenamed() {
	p.Renamed = dice(p.Seed, "renamed", 0).IntN(2) == 0 && p.Older && p.Likes && !p.Reordered && p.Members == 0 && p.Mix.Old == 0
}

// newest is the environment of the newest revision.
func (p Plan) newest() []string {
	fields := list(p.Likes, p.Counted)
	if p.Limits {
		fields = strings.Replace(fields, ",likes", fmt.Sprintf(",likes=limit(%d)", p.Declared), 1)
	}
	return append(slices.Clip(p.Environ), fields)
}

// Fields are the fields that are counted, the first of them as "".
func (p Plan) Fields() []string {
	if p.Likes {
		return []string{"", "likes"}
	}
	return []string{""}
}

// differ are the fields that the older revision doesn't know, or means something else by.
func (p Plan) differ() (names []string) {
	if !p.Reordered {
		names = slices.Clone(p.Fields()[1:])
	}
	for _, f := range p.Counted {
		if !slices.Contains(p.OlderCounted, f) {
			names = append(names, f.Name)
		}
	}
	return names
}

// Shortened is the plan with storms of so many operations at most.
func (p Plan) Shortened(operations int) Plan {
	p.Storm = min(p.Storm, time.Duration(float64(operations)/p.Rate*float64(time.Second)))
	return p
}

// Faultless is the plan without anything that goes wrong.
func (p Plan) Faultless() Plan {
	p.Messages, p.Events, p.DocWriteRate, p.Index = MessageFaults{}, EventFaults{}, 0, 0
	p.Crashes, p.Cuts, p.Silences, p.Foreign, p.Damage, p.App, p.Outage, p.Older, p.Renamed = 0, 0, 0, 0, 0, 0, 0, false, false
	p.Ahead, p.Clocks = 0, 0
	if p.Live {
		p.Workers = 0 // what has clients of the extension counts nothing while it still runs
	}
	p.Mix.Delete, p.Mix.ByHand, p.Mix.Rival, p.Mix.Large, p.Mix.Odd, p.Mix.Pieces, p.Mix.Ends, p.Mix.Shrink, p.Starts = 0, 0, 0, 0, 0, 0, 0, 0, false
	return p
}

// Length is how much virtual time a run takes, more or less.
func (p Plan) Length() time.Duration { return time.Duration(p.Epochs) * (p.Storm + calmFor) }
