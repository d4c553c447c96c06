package cost

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/firestore-counters/counters/internal/book"
)

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if math.Abs(got-want) > within*math.Abs(want) {
		t.Errorf("%s = %v, want %v within %v", what, got, want, within)
	}
}

// What a million increments are known to cost, before the time of instances, and what an hour of an
// instance does.
func TestBill(t *testing.T) {
	t.Parallel()
	events := func(n float64) Function { return Function{Requests: n} }
	hour := Function{Requests: 3600, Busy: 3600, There: 3600}
	for _, tt := range []struct {
		name     string
		usage    Usage
		location string
		by       Billing
		want     float64
	}{
		{"two writes and two requests each", Usage{Writes: 2e6, Increment: events(1e6), Rollup: events(1e6)}, "us-central1", ByRequest, 2.60},
		{"the same in nam5", Usage{Writes: 2e6, Increment: events(1e6), Rollup: events(1e6)}, "nam5", ByRequest, 4.40},
		{"the same by the instance", Usage{Writes: 2e6, Increment: events(1e6), Rollup: events(1e6)}, "us-central1", ByInstance, 1.80},
		{"a marker each, and its deletion", Usage{Writes: 1e6, Deletes: 1e6}, "us-central1", Cheaper, 1.00},
		{"a request each", Usage{Increment: events(1e6)}, "nam5", ByRequest, 0.40},
		{"a read each", Usage{Reads: 1e6}, "us-central1", ByRequest, 0.30},
		{"an hour of an instance", Usage{Increment: hour}, "us-central1", ByRequest, 0.0909 + 0.00144},
		{"the same by the instance", Usage{Increment: hour}, "us-central1", ByInstance, 0.0684},
		{"two functions, each its cheaper way", Usage{Increment: hour, Rollup: Function{Requests: 10, Busy: 1, There: 900}}, "us-central1", Cheaper, 0.0684 + 2.525e-5 + 4e-6},
		{"an hour that is kept warm", Usage{Increment: Function{There: 3600, Kept: 3600}}, "us-central1", ByRequest, 0.0135},
	} {
		prices, err := PricesOf(tt.location)
		if err != nil {
			t.Fatal(err)
		}
		near(t, tt.name, prices.Bill(tt.usage, tt.by).Total(), tt.want, 1e-9)
	}
	mixed := List()[0].Bill(Usage{Increment: hour, Rollup: Function{Requests: 10, Busy: 1, There: 900}}, Cheaper)
	if mixed.Increment != ByInstance || mixed.Rollup != ByRequest {
		t.Errorf("billed by the %s and the %s", mixed.Increment, mixed.Rollup)
	}
}

// A million reads, writes and deletes, an hour of an instance by either way, and a million requests,
// in every location: worked out by hand from the pages that the price list names.
func TestPricesByHand(t *testing.T) {
	t.Parallel()
	const tier1, tier2 = 1, 2
	hours := map[int]struct{ byRequest, byInstance float64 }{ // 3,600 × (a vCPU + half a GiB), and $0.40
		tier1: {0.0864 + 0.0045 + 0.40, 0.0648 + 0.0036},
		tier2: {0.12096 + 0.0063 + 0.40, 0.07776 + 0.00432},
	}
	want := map[string]struct {
		region    string
		tier      int
		documents float64 // ten times the sum of the three prices for 100,000
	}{
		"us-central1":          {"us-central1", tier1, 1.30},
		"nam5":                 {"us-central1", tier1, 2.60},
		"eur3":                 {"europe-west4", tier1, 2.60},
		"us-west1":             {"us-west1", tier1, 1.30},
		"us-west2":             {"us-west2", tier2, 1.56},
		"europe-west1":         {"europe-west1", tier1, 1.43},
		"europe-central2":      {"europe-central2", tier2, 1.69},
		"asia-northeast1":      {"asia-northeast1", tier1, 1.66},
		"australia-southeast1": {"australia-southeast1", tier2, 1.66},
		"me-central1":          {"me-central1", tier2, 1.57},
	}
	used := Usage{Reads: 1e6, Writes: 1e6, Deletes: 1e6, Increment: Function{Requests: 1e6, Busy: 3600, There: 3600}}
	for _, p := range List() {
		w, ok := want[p.Location]
		if !ok {
			t.Errorf("%s is not checked by hand", p.Location)
			continue
		}
		if p.Run.Region != w.region || p.Tier != w.tier || p.Source == "" {
			t.Errorf("%s: functions in %s, tier %d, from %q", p.Location, p.Run.Region, p.Tier, p.Source)
		}
		near(t, p.Location+" by the request", p.Bill(used, ByRequest).Total(), w.documents+hours[w.tier].byRequest, 1e-9)
		near(t, p.Location+" by the instance", p.Bill(used, ByInstance).Total(), w.documents+hours[w.tier].byInstance, 1e-9)
	}
	if len(List()) != len(want) {
		t.Errorf("%d locations, want %d", len(List()), len(want))
	}
}

// The rates from which on a function costs less by the instance, by the bill on both sides of them.
func TestBorders(t *testing.T) {
	t.Parallel()
	prices := List()[0]
	l := Load{Rate: 100, Counters: 1, PerShard: HotRate, Commit: CommitTime, Interval: time.Second, Instances: 1}
	near(t, "Increment's", l.Borders(prices, Ours).Increment, 9.4, 0.02)
	near(t, "sum()'s", l.Borders(prices, SumOnRead).Increment, 9.4, 0.02)
	if b := l.Borders(prices, SumOnRead); b.Rollup != 0 {
		t.Errorf("sum() has a roll-up, by the instance from %v/s on", b.Rollup)
	}
	for _, name := range []Name{Ours, Unshared, Blind, SumOnRead, OneDocument} {
		b := l.Borders(prices, name)
		for of, border := range map[string]float64{"Increment": b.Increment, "Rollup": b.Rollup} {
			if border == 0 {
				continue
			}
			for factor, want := range map[float64]Billing{0.99: ByRequest, 1.01: ByInstance} {
				at := l
				at.Rate = border * factor
				bill := prices.Bill(at.design(name).Usage, Cheaper)
				if got := map[string]Billing{"Increment": bill.Increment, "Rollup": bill.Rollup}[of]; got != want {
					t.Errorf("%s, %s at %.2f/s: by the %s, want by the %s", name, of, at.Rate, got, want)
				}
			}
		}
	}
	// An instance that nobody lets go costs less by the request, whatever is asked of it: in a crowd
	// of them there is hardly a request a second each.
	l.Instances = 1000
	if b := l.Borders(prices, Ours); b.Increment < 5000 {
		t.Errorf("over 1,000 instances from %.0f/s on", b.Increment)
	}
}

// No way to build a counter costs less than the floor, at whatever rate.
func TestFloor(t *testing.T) {
	t.Parallel()
	p := List()[0]
	for rate := 0.01; rate < 1e5; rate *= 3 {
		for _, counters := range []int{1, 300} {
			for _, interval := range []time.Duration{0, 50 * time.Millisecond, time.Second} {
				l := Load{Rate: rate, Counters: counters, PerShard: HotRate, Commit: CommitTime, CommitInterval: interval, Interval: time.Second, Instances: 1}
				floor := p.Bill(l.floor().Usage, Cheaper).Total()
				for _, d := range l.Designs() {
					for _, by := range Billings {
						if p.Bill(d.Usage, by).Total() < floor*(1-1e-9) {
							t.Errorf("%v/s, %d counters, COMMIT_INTERVAL=%v: %s by the %s costs less than the floor", rate, counters, interval, d.Name, by)
						}
					}
				}
			}
		}
	}
}

// What the cheaper way of each function comes to is never more than either way of both.
func TestCheaperIsCheaper(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom(List()).Draw(t, "prices")
		function := func(name string) Function {
			f := Function{Requests: rapid.Float64Range(0, 1e9).Draw(t, name), There: rapid.Float64Range(0, 1e6).Draw(t, name)}
			f.Busy = f.There * rapid.Float64Range(0, 1).Draw(t, name)
			f.Kept = (f.There - f.Busy) * rapid.Float64Range(0, 1).Draw(t, name)
			return f
		}
		u := Usage{Increment: function("Increment"), Rollup: function("Rollup")}
		least := p.Bill(u, Cheaper).Total()
		for _, by := range Billings {
			if total := p.Bill(u, by).Total(); total < least*(1-1e-12) {
				t.Errorf("by the %s it is $%v, each by its cheaper way $%v", by, total, least)
			}
		}
	})
}

func TestPricesOfUnknownLocation(t *testing.T) {
	t.Parallel()
	if _, err := PricesOf("mars-north1"); err == nil || !strings.Contains(err.Error(), "europe-west1") {
		t.Errorf("err = %v, want one that names the locations", err)
	}
	if _, ok := RunIn("mars-north1"); ok {
		t.Error("mars-north1 has prices of Cloud Run")
	}
}

func TestInstanceTime(t *testing.T) {
	t.Parallel()
	ms := func(begin, end int) Period {
		return Period{time.Duration(begin) * time.Millisecond, time.Duration(end) * time.Millisecond}
	}
	for _, tt := range []struct {
		name    string
		periods []Period
		want    int // milliseconds
	}{
		{"none", nil, 0},
		{"one, rounded up", []Period{ms(5, 6)}, 100},
		{"one of a whole step", []Period{ms(0, 100)}, 100},
		{"one of a step and a bit", []Period{ms(0, 101)}, 200},
		{"apart", []Period{ms(0, 1), ms(1000, 1001)}, 200},
		{"at once", []Period{ms(0, 100), ms(0, 100), ms(20, 30)}, 120},
		{"one after the other", []Period{ms(0, 300), ms(200, 500)}, 500},
		{"one within another, out of order", []Period{ms(400, 450), ms(0, 1000)}, 1000},
	} {
		if got := InstanceTime(tt.periods); got != time.Duration(tt.want)*time.Millisecond {
			t.Errorf("%s: %v, want %d ms", tt.name, got, tt.want)
		}
	}
}

// An instance is billed for no less than the time in which something was in flight, and for no more
// than the clock shows, whatever the order.
func TestInstanceTimeIsBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var periods []Period
		var first, last time.Duration = math.MaxInt64, 0
		touched := map[time.Duration]bool{} // milliseconds in which something was in flight
		for range rapid.IntRange(1, 20).Draw(t, "requests") {
			begin := time.Duration(rapid.IntRange(0, 2000).Draw(t, "begin")) * time.Millisecond
			end := begin + time.Duration(rapid.IntRange(1, 500).Draw(t, "length"))*time.Millisecond
			periods = append(periods, Period{begin, end})
			first, last = min(first, begin), max(last, end)
			for at := begin; at < end; at += time.Millisecond {
				touched[at] = true
			}
		}
		got := InstanceTime(periods)
		if least := time.Duration(len(touched)) * time.Millisecond; got < least {
			t.Errorf("billed %v, and requests were in flight for %v", got, least)
		}
		if most := last - first + BillingStep; got > most {
			t.Errorf("billed %v of %v", got, most)
		}
	})
}

// The formulas against arrivals at random that are played through.
func TestBucket(t *testing.T) {
	t.Parallel()
	const arrivals = 50_000 // that begin a round
	for _, holds := range []int{1, burst} {
		for _, tt := range []struct{ rate, interval, takes float64 }{
			{1, 1, 0.01}, {0.9, 1, 0.02}, {1.1, 1, 0.02}, {0.5, 1, 0.02}, {0.1, 1, 0.01}, {10, 1, 0.01}, {100, 1, 0.01}, {3, 0.5, 0.05},
		} {
			dice := rand.New(rand.NewPCG(1, 2))
			var busyUntil, busy float64
			full, ahead := 0.0, float64(holds-1)*tt.interval // when the bucket is full again
			rounds := 0
			next := dice.ExpFloat64() / tt.rate
			for range arrivals {
				// The first that waits begins a round, as soon as one may begin; who has come until then shares it.
				first := next
				start := max(first, full-ahead)
				for next <= start {
					next += dice.ExpFloat64() / tt.rate
				}
				rounds++
				full = max(full, start) + tt.interval
				busy += start + tt.takes - max(first, busyUntil)
				busyUntil = start + tt.takes
			}
			now := max(next, busyUntil)
			perSecond, waits := bucket(tt.rate, tt.interval, tt.takes, holds)
			what := fmt.Sprintf("%+v, a bucket of %d: ", tt, holds)
			near(t, what+"rounds a second", float64(rounds)/now, perSecond, 0.03)
			near(t, what+"busy share", busy/now, waits, 0.08)
		}
	}
}

// What a roll-up reads, as package rollup has it.
func TestWhatARollUpReads(t *testing.T) {
	t.Parallel()
	source := ""
	for _, name := range []string{"client.go", "refresh.go"} {
		text, err := os.ReadFile("../../../rollup/" + name)
		if err != nil {
			t.Fatal(err)
		}
		source += string(text)
	}
	if book.Reads != 2 {
		t.Errorf("document and base take %d reads, want 2", book.Reads)
	}
	for _, rule := range []string{fmt.Sprintf("remembered = %d\n", remembered), "reads = len(fields)\n", "r.reads += book.Reads\n"} {
		if !strings.Contains(source, rule) {
			t.Errorf("package rollup has no %q", rule)
		}
	}
}

// Instances that share a counter write as one does. The others look.
func TestFollowersLook(t *testing.T) {
	t.Parallel()
	l := Load{Rate: 1000, Counters: 1, Shards: 1, PerShard: HotRate, Commit: CommitTime, Interval: time.Second, Instances: 1}
	alone := l.ours()
	l.Instances = 3
	three := l.ours()
	near(t, "roll-ups", three.RollUps, alone.RollUps, 0.01)
	// two look each second; which one writes is taken to change
	near(t, "reads more", three.Usage.Reads-alone.Usage.Reads, 2*2+2*2./3, 0.02) // the one shard is listed more often
	l.Rate, l.Instances = 0.1, 1
	near(t, "reads of a quiet counter", l.ours().Usage.Reads, 0.1, 0.01)
	l.Rate = 1e-5 // its instance is gone
	near(t, "reads of a forgotten counter", l.ours().Usage.Reads, 3e-5, 0.01)
}

// A key's marker is a write and a deletion more, unless its increment is alone in its commit: the formula against
// arrivals at random that are played through.
func TestKeys(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rate             float64
		commit, interval time.Duration
	}{
		{0.1, CommitTime, 0}, {10, CommitTime, 0}, {100, CommitTime, 0}, {1000, CommitTime, 0}, {30, 40 * time.Millisecond, 0}, {20, CommitTime, 50 * time.Millisecond},
	} {
		dice := rand.New(rand.NewPCG(3, 4))
		next, due, made := 0.0, 0.0, 0
		const commits = 50_000
		for range commits {
			start := max(next, due)
			n := 0
			for ; next <= start; n++ {
				next += dice.ExpFloat64() / tt.rate
			}
			if n > 1 {
				made += n
			}
			due = start + max(tt.commit, tt.interval).Seconds()
		}
		l := Load{Rate: tt.rate, Counters: 1, PerShard: HotRate, Commit: tt.commit, CommitInterval: tt.interval, Interval: time.Second, Instances: 1}
		without := l.ours()
		l.Keys = 1
		with := l.ours()
		if more := with.Usage.Deletes - without.Usage.Deletes; math.Abs(more-float64(made)/due) > 0.01*tt.rate || math.Abs(with.Usage.Writes-without.Usage.Writes-more) > 1e-9 {
			t.Errorf("%+v: %v writes and %v deletions more a second, want %v", tt, with.Usage.Writes-without.Usage.Writes, more, float64(made)/due)
		}
	}
	// Counters that share commits are hardly ever alone in one; a commit's own marker goes with EXACT_WRITES, a key's
	// stays.
	l := Load{Rate: 5000, Counters: 1000, PerShard: HotRate, Commit: CommitTime, Interval: time.Second, Instances: 1}
	without := l.ours().Usage.Deletes
	l.Keys = 1
	near(t, "markers of keys over a thousand counters", l.ours().Usage.Deletes-without, 5000, 0.01)
	l.InexactWrites, l.Keys = true, 0.5
	near(t, "markers of keys alone", l.ours().Usage.Deletes, 2500, 1e-9)
	near(t, "the same, unshared", l.unshared().Usage.Deletes, 2500, 1e-9)
}

func TestDesigns(t *testing.T) {
	t.Parallel()
	l := Load{Rate: 1000, Counters: 1, Reads: 10, Shards: 100, PerShard: HotRate, Commit: 10 * time.Millisecond, Interval: time.Second, Instances: 1}
	designs := map[Name]Design{}
	for _, d := range l.Designs() {
		designs[d.Name] = d
	}
	ours := designs[Ours]
	near(t, "commits", ours.Commits, 100, 0.01)
	near(t, "roll-ups", ours.RollUps, 1, 0.01)
	near(t, "writes", ours.Usage.Writes, 201, 0.001)
	near(t, "reads", ours.Usage.Reads, 10+1, 0.01) // a question's, and the load's
	near(t, "deletes", ours.Usage.Deletes, 100, 0.01)
	near(t, "requests", ours.Usage.Requests(), 1100, 0.01)
	for _, f := range []Function{ours.Usage.Increment, ours.Usage.Rollup} {
		near(t, "busy", f.Busy, 1, 0.01)
		near(t, "there", f.There, 1, 0.01)
	}
	// A commit of those that came meanwhile, and an instance: nobody can do with less.
	floor := designs[Floor]
	near(t, "the floor's writes", floor.Usage.Writes, 100, 0.01)
	near(t, "the floor's instances", floor.Usage.Increment.There+floor.Usage.Rollup.There, 1, 0.01)
	for name, workable := range map[Name]bool{Ours: true, Blind: false, SumOnRead: false, OneDocument: false} {
		if (designs[name].Unworkable == "") != workable {
			t.Errorf("%s: unworkable because %q", name, designs[name].Unworkable)
		}
	}

	l.InexactWrites = true
	unmarked := l.ours()
	near(t, "writes without markers", unmarked.Usage.Writes, 101, 0.001)
	near(t, "requests without markers", unmarked.Usage.Requests(), 1100, 0.01)

	// Over many counters each increment is a write of a shard and waits for a roll-up of its own,
	// and some share a commit and its marker.
	l.InexactWrites, l.Counters, l.Shards = false, 10_000, 0
	spread := l.ours()
	near(t, "commits over many counters", spread.Commits, 1000, 0.01)
	near(t, "markers over many counters", spread.Usage.Deletes, 400, 0.01)
	near(t, "writes over many counters", spread.Usage.Writes, 1000+400+1000, 0.1)
	// half of the counters are remembered
	near(t, "reads over many counters", spread.Usage.Reads, 10+1000+1000, 0.1)
	near(t, "roll-ups over many counters", spread.RollUps, 1000, 0.1)
	near(t, "instances over many counters", spread.Usage.Increment.Busy+spread.Usage.Rollup.Busy, 2, 0.01)
	if spread.Shards != 1 || spread.Unworkable != "" {
		t.Errorf("a tenth of an increment a second: %d shards, %q", spread.Shards, spread.Unworkable)
	}

	l.Rate, l.Counters = 0.5, 1
	for _, d := range l.Designs() {
		if d.Name != Floor && d.Unworkable != "" {
			t.Errorf("%s does not hold at half an increment a second: %s", d.Name, d.Unworkable)
		}
	}
	if sum := (Load{Rate: 1, Counters: 1, Reads: 1, Shards: 1000, PerShard: 1, Commit: time.Millisecond, Instances: 1}).sumOnRead(); sum.Usage.Reads != 1 {
		t.Errorf("a sum over 1,000 shards is %v reads, want 1", sum.Usage.Reads)
	}
}

// How many shards a load asks for: through the increment function, and where every increment is a
// write of its own.
func TestShardsThatALoadNeeds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rate            float64
		change          func(*Load)
		batched, direct int
	}{
		{0.1, nil, 1, 1},
		{10, nil, 20, 20}, // hardly any two share a commit
		{1000, nil, 67, 2000},
		// a second commit begins where 64 wait
		{1000, func(l *Load) { l.Commit = 100 * time.Millisecond }, 32, 2000},
		{1000, func(l *Load) { l.PerShard = 5 }, 14, 400},
		{1000, func(l *Load) { l.Instances = 4 }, 267, 2000},
		{100_000, nil, 267, 200_000}, // four commits of more than 700 each
		{1000, func(l *Load) { l.Counters = 1000 }, 2, 2},
		{1000, func(l *Load) { l.Shards = 3 }, 3, 3}, // as it says
	} {
		l := Load{Rate: tt.rate, Counters: 1, PerShard: HotRate, Commit: 30 * time.Millisecond, Interval: time.Second, Instances: 1}
		if tt.change != nil {
			tt.change(&l)
		}
		ours, direct := l.ours(), l.sumOnRead()
		if math.Abs(float64(ours.Shards-tt.batched)) > 0.02*float64(tt.batched)+1 || direct.Shards != tt.direct {
			t.Errorf("%+v: %d and %d shards, want about %d and %d", l, ours.Shards, direct.Shards, tt.batched, tt.direct)
		}
		if l.Shards == 0 && (direct.Unworkable != "") != (tt.direct > 1000) {
			t.Errorf("%+v: %d shards, and unworkable because %q", l, direct.Shards, direct.Unworkable)
		}
	}
}

func TestChoices(t *testing.T) {
	t.Parallel()
	prices, err := PricesOf("us-central1")
	if err != nil {
		t.Fatal(err)
	}
	l := Load{Counters: 1, Reads: 1, PerShard: HotRate, Commit: 10 * time.Millisecond, Interval: time.Second, Instances: 1}
	choices := l.Choices(prices, Cheaper)
	var names []Name
	for i, c := range choices {
		names = append(names, c.Name)
		if i > 0 && c.From <= choices[i-1].From {
			t.Errorf("choices are not in order: %v", choices)
		}
	}
	if want := []Name{OneDocument, SumOnRead, Ours}; !slices.Equal(names, want) {
		t.Fatalf("choices = %v, want %v", names, want)
	}
	// Both sides of each border, by the bill itself.
	for _, border := range choices[1:] {
		for factor, chosen := range map[float64]bool{0.7: false, 1.4: true} {
			at := l
			at.Rate = border.From * factor
			best, ok := at.Cheapest(prices, Cheaper)
			if !ok || (best.Name == border.Name) != chosen {
				t.Errorf("at %.2f/s the cheapest is %s, and from %.2f/s on it is to be %s", at.Rate, best.Name, border.From, border.Name)
			}
			for _, other := range at.Designs() {
				if other.Unworkable == "" && other.Name != Blind && prices.Bill(other.Usage, Cheaper).Total() < prices.Bill(best.Usage, Cheaper).Total() {
					t.Errorf("at %.2f/s %s is cheaper than %s", at.Rate, other.Name, best.Name)
				}
			}
		}
	}
}

// A million changes of documents that a field counts: a write and a query each where they come
// seldom, and far fewer where they come often; a large collection waits.
func TestCountedFields(t *testing.T) {
	t.Parallel()
	prices, err := PricesOf("us-central1")
	if err != nil {
		t.Fatal(err)
	}
	load := Load{Rate: 0.01, Counters: 1, PerShard: HotRate, Commit: CommitTime, Interval: time.Second, Instances: 1, Documents: 500}
	seldom := load.PerMillion(load.counted())
	near(t, "seldom: writes", seldom.Writes, 1e6, 0.02)
	near(t, "seldom: reads", seldom.Reads, 1e6, 0.02)
	near(t, "seldom: requests", seldom.Requests(), 1e6, 1e-9)
	near(t, "seldom: dollars", prices.Bill(seldom, Cheaper).Total(), 4.12, 0.01)
	if ours := prices.Bill(load.PerMillion(load.ours()), Cheaper).Total(); ours < 1.5*prices.Bill(seldom, Cheaper).Total() {
		t.Errorf("shards for the same: $%.2f a million", ours)
	}
	load.Rate = 100
	often := load.counted()
	near(t, "often: recounts a second", often.RollUps, 1, 0.01)
	near(t, "often: reads a second", often.Usage.Reads, 1, 0.01)
	// 50 reads, so at most every half a second, which is less than the interval
	load.Documents = 50_000
	near(t, "50,000: reads a second", load.counted().Usage.Reads, 50, 0.01)
	load.Rate = 1
	near(t, "50,000, once a second: reads a second", load.counted().Usage.Reads, 50./41, 0.05)
	load.Documents = 10_000_000
	near(t, "10,000,000, once a second: recounts a second", load.counted().RollUps, 1./41, 0.05)

	// Few reads of what changes now and then: neither is needed.
	load.Rate, load.Documents, load.Reads = 1, 500, 1
	if best, ok := load.Cheapest(prices, Cheaper); !ok || best.Name != CountOnRead {
		t.Errorf("for a read per change %s is the cheapest", best.Name)
	}
	load.Rate, load.Reads, load.Documents = 100, 100, 5000
	if best, ok := load.Cheapest(prices, Cheaper); !ok || best.Name != Counted {
		t.Errorf("for a hundred changes and reads a second %s is the cheapest", best.Name)
	}
}

// What Cloud Run logs of a busy counter costs nearly what all else does.
func TestRequestLogs(t *testing.T) {
	t.Parallel()
	prices, err := PricesOf("us-central1")
	if err != nil {
		t.Fatal(err)
	}
	gib, usd := prices.RequestLogs(2.851e9) // a month, of 1,000 increments a second
	near(t, "GiB", gib, 2655, 0.01)
	near(t, "dollars", usd, 1303, 0.01)
	if _, usd := prices.RequestLogs(50e6); usd != 0 {
		t.Errorf("what is free is $%.2f", usd)
	}
}

// Without sharing an increment costs a commit, a marker and an event of its own, and takes a commit's
// time, as a blind trigger's does; with it, half a commit more at most. It is never what is
// recommended.
func TestUnshared(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{1, 25, 100, 1000, 4000} {
		for _, commit := range []time.Duration{10 * time.Millisecond, 40 * time.Millisecond} {
			l := Load{Rate: rate, Counters: 1, PerShard: 100, Commit: commit, Interval: time.Second, Instances: 1}
			of := map[Name]Design{}
			for _, d := range l.Designs() {
				of[d.Name] = d
			}
			ours, unshared := of[Ours], of[Unshared]
			if unshared.Commits != rate || unshared.Usage.Deletes != rate || unshared.Usage.Requests() != 2*rate || unshared.RollUps > 1 {
				t.Errorf("%v/s: %+v", rate, unshared)
			}
			if unshared.Takes != commit || of[Blind].Takes != commit || ours.Takes < commit || ours.Takes > commit*3/2+1 {
				t.Errorf("%v/s, %v a commit: ours takes %v, without sharing %v, blind %v", rate, commit, ours.Takes, unshared.Takes, of[Blind].Takes)
			}
			if p := List()[0]; p.Bill(unshared.Usage, Cheaper).Total() < p.Bill(ours.Usage, Cheaper).Total() {
				t.Errorf("%v/s, %v a commit: it is cheaper not to share", rate, commit)
			}
			l.PerShard = HotRate
			if best, _ := l.Cheapest(List()[0], Cheaper); best.Name == Unshared {
				t.Errorf("%v/s: %s is recommended", rate, best.Name)
			}
			l.InexactWrites = true
			if d := l.unshared(); d.Usage.Deletes != 0 || d.Usage.Writes >= unshared.Usage.Writes {
				t.Errorf("%v/s, without markers: %+v", rate, d)
			}
		}
	}
}

// Waiting for company takes time and saves commits, the more of both the longer it is. A lone
// increment takes a commit's time.
func TestCommitInterval(t *testing.T) {
	t.Parallel()
	p := List()[0]
	l := Load{Rate: 1000, Counters: 1, PerShard: HotRate, Commit: CommitTime, CommitInterval: 50 * time.Millisecond, Interval: time.Second, Instances: 1}
	d := l.ours()
	// 20 shards and 20 markers a second, a roll-up's write and its question, 20 deletions, and two instances
	near(t, "a million at 1,000/s", p.Bill(l.PerMillion(d), ByInstance).Total(), 41_000*0.9e-6+20_000*0.1e-6+1000*0.3e-6+2*1000*0.000019, 1e-3)
	near(t, "seconds that one takes", d.Takes.Seconds(), 0.035, 1e-3)
	for rate := 0.01; rate < 1e5; rate *= 3 {
		for _, counters := range []int{1, 300} {
			l := Load{Rate: rate, Counters: counters, PerShard: HotRate, Commit: CommitTime, Interval: time.Second, Instances: 1}
			last := l.ours()
			for _, l.CommitInterval = range []time.Duration{time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond, time.Second} {
				d := l.ours()
				if d.Commits > last.Commits*(1+1e-9) || d.Usage.Deletes > last.Usage.Deletes*(1+1e-9) {
					t.Errorf("%v/s, %d counters, %v: %v commits a second, and %v with less", rate, counters, l.CommitInterval, d.Commits, last.Commits)
				}
				if d.Takes > l.CommitInterval+2*CommitTime+time.Millisecond {
					t.Errorf("%v/s, %d counters, %v: an increment takes %v", rate, counters, l.CommitInterval, d.Takes)
				}
				last = d
			}
		}
	}
	l.Rate = 0.01
	if d := l.ours(); d.Takes > CommitTime+time.Millisecond {
		t.Errorf("a lone increment takes %v", d.Takes)
	}
}
