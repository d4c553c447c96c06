package cost

import (
	"fmt"
	"math"
	"regexp"
	"strings"

	"github.com/firestore-counters/counters/internal/settings"
)

// down is a number that a setting has: with so many decimals, and never more than it was.
func down(v float64, decimals int) float64 {
	scale := math.Pow(10, float64(decimals))
	return math.Floor(v*scale) / scale
}

// rounded is what the setting has of units.
func rounded(u settings.Ceiling) settings.Ceiling {
	return settings.Ceiling{
		Writes: down(u.Writes, 2), Reads: down(u.Reads, 2), Creates: down(u.Creates, 3), Bytes: down(u.Bytes, 0), Logs: down(u.Logs, 0), Requests: down(u.Requests, 2),
	}
}

// Share is what a ceiling leaves to a function.
type Share struct {
	Instances int              `json:"instances"`
	Billing   Billing          `json:"billing"`
	Day       float64          `json:"usd_per_day_of_instances"`
	Units     settings.Ceiling `json:"ceiling"` // a second and instance
}

// Ceiling is how a day never costs more than its owner says, in US dollars.
type Ceiling struct {
	Day       float64 `json:"usd_per_day"`
	Increment Share   `json:"increment"`
	Rollup    Share   `json:"rollup"`
	Reconcile Share   `json:"reconcile"`
	Hot       float64 `json:"hot_per_second"`  // increments without a key of one counter that fit
	Even      float64 `json:"even_per_second"` // increments that fit where each takes a commit of its own: of many counters, with a key, or a member's
	KeptBack  float64 `json:"usd_per_day_kept_back"`

	prices unitPrices
	walks  float64 // seconds a day that an instance of Reconcile is there
}

// TooLowError is a ceiling that can't be kept.
type TooLowError struct{ Day, Least float64 }

func (e *TooLowError) Error() string {
	return fmt.Sprintf("%.2f US dollars a day can't be kept: want %.2f at least", e.Day, e.Least)
}

// How a ceiling is split. What its instances cost all day comes first.
const (
	// keptBack is for instances that overlap for a moment, when there is a new revision or Cloud Run
	// replaces one, and for a second attempt of Reconcile.
	keptBack = 0.03
	// What is left is for answers, for documents of Increment and Rollup, for Reconcile's, and for logs.
	forAnswers, forDocuments, forWalks, forLogs = 0.51, 0.44, 0.03, 0.02

	// ceilingDay is a day of units, in seconds: an instance may have saved ten minutes' worth.
	ceilingDay, ceilingSaved = secondsADay + ceilingSaved, 600
	secondsADay              = 86_400

	answerBytes = 370  // of an increment's answer: 250 of headers that any has, 50 of others, the rest of it JSON
	eventBytes  = 2048 // of a shard's event
	deliveries  = 2    // of an event: a refusal has it come again
	writesOfOne = 2    // of an increment that is alone in its commit: its shard's, and a marker's
	// readsOfWrite are what a roll-up takes beside its write, of a counter that the instance does not remember: document,
	// base and a sum. Each further field that an increment adds to is a sum more, and Increment pays a write more for it.
	readsOfWrite  = 3
	madeDocuments = 15  // of a new counter: its document, its base, a marker and ten shards, and some more
	rolledUpBytes = 400 // of Rollup's line in the log for each roll-up
	walkedBytes   = 40  // of Reconcile's, for each read
	writesOfReads = 0.1 // that Reconcile may make for each read
	scannedUnits  = 4   // read units that a question of 100 shards scans in Enterprise edition
	gib           = 1 << 30
)

// unitPrices are what units cost at most, in US dollars each.
type unitPrices struct {
	request, write, shown, read, answered, logged float64 // shown is a write of Rollup, which makes no event
}

// unitPrices are those of a deployment whose functions are billed in these ways. A write is of a shard, which makes an
// event; or of a marker, which TTL deletes.
func (p Prices) unitPrices(increment, rollup Billing) (u unitPrices) {
	event := (1 + deliveries) * eventBytes * p.PubSubTiB / (1 << 40)
	if rollup == ByRequest {
		event += deliveries * p.Requests / 1e6
	}
	u.shown, u.read = p.Writes/1e5, p.Reads/1e5
	if p.Edition == Enterprise {
		u.read *= scannedUnits
	}
	u.write = u.shown + max(p.Deletes/1e5, event)
	if increment == ByRequest {
		u.request = p.Requests / 1e6
	}
	u.answered, u.logged = p.AnswerGiB/gib, p.LogGiB/gib
	return u
}

// answer is what an answer costs that is as long as an increment's.
func (u unitPrices) answer() float64 { return u.request + answerBytes*u.answered }

// even is what an increment costs that takes a commit of its own, and a roll-up of its own.
func (u unitPrices) even() float64 {
	return writesOfOne*u.write + u.shown + (readsOfWrite+1)*u.read + rolledUpBytes*u.logged
}

// walked is what a read of Reconcile costs, with what may follow from it.
func (u unitPrices) walked() float64 { return u.read + writesOfReads*u.write + walkedBytes*u.logged }

// all is what the instances of a deployment cost that are there all day, and Reconcile's while it walks.
func (d Deployment) all(p Prices, increment, rollup int) (ofIncrement, ofRollup, ofReconcile float64) {
	day := func(n int, by Billing, seconds float64) float64 {
		return p.Run.Total(Function{Busy: float64(n) * seconds, There: float64(n) * seconds}, d.Size, by)
	}
	return day(increment, d.IncrementBilling, secondsADay), day(rollup, d.RollupBilling, secondsADay),
		day(1, ByRequest, min(secondsADay, d.Walks.runs()*d.Walks.Seconds))
}

// Walks is when Reconcile runs: a cron expression, and the seconds that a run takes at most.
type Walks struct {
	Schedule string
	Seconds  float64
}

// minutes match the minutes of a schedule that runs once an hour in each of them, at most.
var minutes = regexp.MustCompile(`^[0-9]+(,[0-9]+)* `)

// runs are how many there are a day, at most: so many an hour, or one a minute where that isn't plain.
func (w Walks) runs() float64 {
	if of := minutes.FindString(w.Schedule); of != "" {
		return 24 * float64(1+strings.Count(of, ","))
	}
	return secondsADay / 60
}

// there is how many seconds a day an instance of Reconcile is there, at most.
func (w Walks) there() float64 { return min(secondsADay, w.runs()*(w.Seconds+linger.Seconds())) }

// Within works out how the deployment never costs more than so many US dollars a day: how many instances, unless it
// says; the way to pay for each function that has none, by the request where that can be kept; and what each may spend.
// Error: a [*TooLowError].
func (d Deployment) Within(p Prices, day float64) (Ceiling, error) {
	ways := []Billing{ByRequest, ByInstance}
	if d.IncrementBilling != Cheaper && d.RollupBilling != Cheaper {
		ways = ways[:1]
	}
	least := math.Inf(1)
	for _, way := range ways {
		tried := d
		for _, by := range []*Billing{&tried.IncrementBilling, &tried.RollupBilling} {
			if *by == Cheaper {
				*by = way
			}
		}
		c, err := tried.within(p, day)
		if err == nil {
			return c, nil
		}
		least = min(least, err.Least)
	}
	return Ceiling{}, &TooLowError{day, least}
}

// within is Within, by ways to pay that are known.
func (d Deployment) within(p Prices, day float64) (c Ceiling, _ *TooLowError) {
	u := p.unitPrices(d.IncrementBilling, d.RollupBilling)
	left := func(day float64, increment, rollup int) float64 {
		a, b, c := d.all(p, increment, rollup)
		return day*(1-keptBack) - a - b - c
	}
	// An increment a second on each instance.
	increment, rollup := max(1, d.Increment.Max, d.Increment.Min), max(1, d.Rollup.Max, d.Rollup.Min)
	needs := float64(increment) * u.even() * ceilingDay / forDocuments
	if rest := left(day, increment, rollup); rest < needs {
		return c, &TooLowError{day, math.Ceil(100*(day+(needs-rest)/(1-keptBack))) / 100}
	}
	rates := func(rest float64) (hot, even float64) {
		return forAnswers * rest / ceilingDay / u.answer(), forDocuments * rest / ceilingDay / u.even()
	}
	// As many as what is left keeps busy, or a few more.
	hot, even := rates(left(day, increment, rollup))
	if d.Increment.Max == 0 {
		increment = max(increment, int(math.Ceil(hot/perIncrement)))
	}
	if d.Rollup.Max == 0 {
		rollup = max(rollup, int(math.Ceil(even/d.perRollup())))
	}
	rest := left(day, increment, rollup)
	hot, even = rates(rest)
	walked := forWalks * rest / (d.Walks.there() + ceilingSaved) / u.walked()
	n, m := float64(increment), float64(rollup)
	of := settings.Ceiling{
		Writes: writesOfOne * even / n, Reads: even / n, Creates: writesOfOne * even / n / (2 * madeDocuments), Bytes: hot * answerBytes / n, Logs: forLogs * rest / ceilingDay / u.logged / n,
	}
	if d.IncrementBilling == ByRequest {
		of.Requests = hot / n
	}
	d.Increment.Max, d.Rollup.Max = increment, rollup
	c = d.Bounded(p, rounded(of), rounded(settings.Ceiling{Writes: even / m, Reads: readsOfWrite * even / m, Logs: rolledUpBytes * even / m}),
		rounded(settings.Ceiling{Writes: writesOfReads * walked, Reads: walked, Logs: walkedBytes * walked}))
	c.Day, c.KeptBack, c.Hot, c.Even = day, day*keptBack, hot, even
	return c, nil
}

// Bounded is a deployment whose functions may spend so much a second on each instance, of which there are as many as it
// says, in the ways to pay that it says.
func (d Deployment) Bounded(p Prices, increment, rollup, reconcile settings.Ceiling) Ceiling {
	a, b, r := d.all(p, d.Increment.Max, d.Rollup.Max)
	return Ceiling{
		prices: p.unitPrices(d.IncrementBilling, d.RollupBilling), walks: d.Walks.there(),
		Increment: Share{d.Increment.Max, d.IncrementBilling, a, increment},
		Rollup:    Share{d.Rollup.Max, d.RollupBilling, b, rollup},
		Reconcile: Share{1, ByRequest, r, reconcile},
	}
}

// Total is what a day costs at most, by the parts; infinite where something that costs has no bound.
func (c Ceiling) Total() (total float64) {
	for _, p := range c.Parts() {
		total += p.Day
	}
	i, up, walk := c.Increment.Units, c.Rollup.Units, c.Reconcile.Units
	least := min(i.Writes, i.Reads, i.Bytes, i.Logs, up.Writes, up.Reads, up.Logs, walk.Writes, walk.Reads, walk.Logs)
	if least == 0 || c.Increment.Billing == ByRequest && i.Requests == 0 {
		return math.Inf(1)
	}
	return total
}

// perRollup is how many roll-ups an instance makes a second: each asks, then commits.
func (d Deployment) perRollup() float64 {
	return min(perRollup, float64(d.Flushes)/(LargeQuery+LargeCommit).Seconds())
}

// Part is a line of a ceiling: what a function may spend, and what that costs a day.
type Part struct {
	Function string  `json:"function"`
	What     string  `json:"what"`
	Rate     float64 `json:"per_second_and_instance,omitempty"` // 0 for instances
	Day      float64 `json:"usd_per_day"`
}

// Parts are what the ceiling is made of, by the units as the setting has them.
func (c Ceiling) Parts() (parts []Part) {
	add := func(function, what string, rate, each, seconds float64) {
		if rate > 0 {
			parts = append(parts, Part{function, what, rate, rate * each * seconds})
		}
	}
	for _, f := range []struct {
		name    string
		share   Share
		write   float64
		seconds float64
	}{
		{"Increment", c.Increment, c.prices.write, ceilingDay * float64(c.Increment.Instances)},
		{"Rollup", c.Rollup, c.prices.shown, ceilingDay * float64(c.Rollup.Instances)},
		{"Reconcile", c.Reconcile, c.prices.write, c.walks + ceilingSaved},
	} {
		parts = append(parts, Part{f.name, "instances", 0, f.share.Day})
		u := f.share.Units
		add(f.name, "requests", u.Requests, c.prices.request, f.seconds)
		add(f.name, "bytes of answers", u.Bytes, c.prices.answered, f.seconds)
		add(f.name, "writes", u.Writes, f.write, f.seconds)
		add(f.name, "reads", u.Reads, c.prices.read, f.seconds)
		add(f.name, "bytes of logs", u.Logs, c.prices.logged, f.seconds)
	}
	if c.KeptBack > 0 {
		parts = append(parts, Part{"", "kept back", 0, c.KeptBack})
	}
	return parts
}
