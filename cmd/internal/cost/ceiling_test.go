package cost

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// bounded is a deployment that a ceiling is asked of, with what counters deploy takes by default.
func bounded(increment, rollup Billing) Deployment {
	return Deployment{IncrementBilling: increment, RollupBilling: rollup, Size: Deployed, Flushes: 64, Walks: Walks{"7 * * * *", 300}}
}

// What fits below a ceiling, and the least that can be kept.
func TestCeilings(t *testing.T) {
	t.Parallel()
	standard := List()[0]
	enterprise := standard.In(Enterprise)
	for _, c := range []struct {
		prices            Prices
		billing           Billing
		day               float64
		hot, even         float64 // increments a second
		increment, rollup int     // instances
		by                Billing
	}{
		{standard, Cheaper, 5, 102, 1.55, 1, 1, ByInstance}, // by the request, an instance each is $4.36, and no request is paid yet
		{standard, Cheaper, 10, 63, 4.25, 1, 1, ByRequest},
		{standard, ByInstance, 10, 461, 6.96, 1, 1, ByInstance},
		{standard, Cheaper, 50, 538, 36.2, 1, 1, ByRequest},
		{standard, ByInstance, 50, 3331, 50.2, 1, 1, ByInstance},
		{standard, ByInstance, 500, 35_500, 530, 5, 1, ByInstance},
		{enterprise, Cheaper, 5, 102, 3.06, 1, 1, ByInstance},
		{enterprise, Cheaper, 10, 63, 6.84, 1, 1, ByRequest},
		{enterprise, ByInstance, 50, 3331, 99.6, 1, 1, ByInstance},
	} {
		got, err := bounded(c.billing, c.billing).Within(c.prices, c.day)
		if err != nil {
			t.Errorf("$%v: %v", c.day, err)
			continue
		}
		if got.Increment.Instances != c.increment || got.Rollup.Instances != c.rollup || got.Increment.Billing != c.by || got.Rollup.Billing != c.by {
			t.Errorf("$%v: %+v", c.day, got)
		}
		near(t, "hot", got.Hot, c.hot, 0.02)
		near(t, "even", got.Even, c.even, 0.05)
	}
	for _, c := range []struct {
		increment, rollup Billing
		least             float64
	}{{ByRequest, ByRequest, 5.94}, {ByInstance, ByInstance, 4.50}, {Cheaper, Cheaper, 4.50}, {ByRequest, ByInstance, 5.06}} {
		_, err := bounded(c.increment, c.rollup).Within(standard, 1)
		low, is := errors.AsType[*TooLowError](err)
		if !is {
			t.Fatal(err)
		}
		near(t, "the least by the "+string(c.increment)+" and the "+string(c.rollup), low.Least, c.least, 0.01)
	}
	// Instances that are asked for are paid, too.
	more := bounded(ByInstance, ByInstance)
	more.Increment.Max, more.Rollup.Min = 3, 2
	got, err := more.Within(standard, 50)
	if err != nil || got.Increment.Instances != 3 || got.Rollup.Instances != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	for schedule, runs := range map[string]float64{"7 * * * *": 24, "0,30 * * * *": 48, "*/5 * * * *": 1440, "0 3 * * *": 24} {
		if got := (Walks{Schedule: schedule}).runs(); got != runs {
			t.Errorf("%s: %v a day, want %v", schedule, got, runs)
		}
	}
}

// Rollup may ask for as many sums as increments of several fields call for, each of which Increment counts as a write
// beside shard and marker.
func TestRollupHasReadsForFields(t *testing.T) {
	t.Parallel()
	for _, day := range []float64{5, 50, 500} {
		c, err := bounded(ByInstance, ByInstance).Within(List()[0], day)
		if err != nil {
			t.Fatal(err)
		}
		for fields := 1.0; fields <= 20; fields++ {
			increments := c.Increment.Units.Writes * float64(c.Increment.Instances) / (2 + fields - 1)
			reads, writes := c.Rollup.Units.Reads*float64(c.Rollup.Instances), c.Rollup.Units.Writes*float64(c.Rollup.Instances)
			if reads < 0.99*increments*(2+fields) || writes < 0.99*increments {
				t.Errorf("$%v a day: %v increments a second of %v fields, and %v reads and %v writes for their roll-ups", day, increments, fields, reads, writes)
			}
		}
	}
}

// A day in which everything is spent that the settings let the functions spend never costs more than the ceiling,
// whatever the prices, the way to pay and the instances; and the least that is named can be kept, and no cent less.
func TestCeilingIsKept(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom(append(List(), Dearest("moon-base1"))).Draw(t, "prices").In(rapid.SampledFrom(Editions).Draw(t, "edition"))
		d := bounded(rapid.SampledFrom(append(Billings, Cheaper)).Draw(t, "of Increment"), rapid.SampledFrom(append(Billings, Cheaper)).Draw(t, "of Rollup"))
		d.Increment.Max, d.Rollup.Max = rapid.IntRange(0, 20).Draw(t, "Increment"), rapid.IntRange(0, 20).Draw(t, "Rollup")
		d.Size.GiB = rapid.SampledFrom([]float64{0.5, 1, 4}).Draw(t, "GiB")
		d.Walks = Walks{rapid.SampledFrom([]string{"7 * * * *", "1,31 * * * *", "* * * * *"}).Draw(t, "schedule"), rapid.Float64Range(61, 1760).Draw(t, "walk")}
		day := math.Exp(rapid.Float64Range(0, 12).Draw(t, "ln $"))
		c, err := d.Within(p, day)
		if low, is := errors.AsType[*TooLowError](err); is {
			if low.Least <= day {
				t.Fatalf("$%v is refused, and $%v would do", day, low.Least)
			}
			if c, err = d.Within(p, low.Least); err != nil {
				t.Fatalf("the least is refused, too: %v", err)
			}
			if _, err := d.Within(p, low.Least-0.02); err == nil {
				t.Fatalf("less than $%v can be kept", low.Least)
			}
			day = low.Least
		}
		if spent := spends(t, c, p, d); spent > day {
			t.Fatalf("$%v are spent of $%v: %+v", spent, day, c)
		}
		total := 0.0
		for _, part := range c.Parts() {
			total += part.Day
		}
		if total > day*(1+1e-9) || total < 0.9*day {
			t.Fatalf("the parts are $%v of $%v: %+v", total, day, c.Parts())
		}
	})
}

// spends is what a day costs at most: the settings as the functions read them, and what Google bills for each.
func spends(t *rapid.T, c Ceiling, p Prices, d Deployment) (dollars float64) {
	runs, ok := map[string]float64{"7 * * * *": 24, "1,31 * * * *": 48, "* * * * *": 1440}[d.Walks.Schedule]
	if !ok {
		t.Fatal(d.Walks.Schedule)
	}
	for function, share := range map[string]Share{"Increment": c.Increment, "Rollup": c.Rollup, "Reconcile": c.Reconcile} {
		busy, there := 86_400.0, 86_400.0
		if function == "Reconcile" {
			busy, there = min(busy, runs*d.Walks.Seconds), min(there, runs*(d.Walks.Seconds+900))
		}
		perSecond := d.Size.VCPU*p.ByRequest.VCPU + d.Size.GiB*p.ByRequest.GiB
		if share.Billing == ByInstance {
			perSecond = d.Size.VCPU*p.ByInstance.VCPU + d.Size.GiB*p.ByInstance.GiB
		}
		n := float64(share.Instances)
		dollars += n * busy * perSecond
		for pair := range strings.SplitSeq(share.Units.String(), ",") {
			unit, value, _ := strings.Cut(pair, "=")
			rate, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			// What is saved in ten minutes; or with a new instance every quarter of an hour, what each begins with.
			spent := rate * n * (there + max(600, 4*24*10))
			switch unit {
			case "requests":
				dollars += spent * 0.40e-6 // billed by the request
			case "writes": // each is a marker that is deleted, or a shard whose event is published, delivered twice and answered
				after := 3 * 2048 * 40.0 / (1 << 40)
				if c.Rollup.Billing == ByRequest {
					after += 2 * 0.40e-6
				}
				if function == "Rollup" {
					after = 0
				}
				dollars += spent * (p.Writes/1e5 + max(after, map[bool]float64{true: p.Deletes / 1e5}[function != "Rollup"]))
			case "reads":
				units := map[Edition]float64{Standard: 1, Enterprise: 4}[p.Edition]
				dollars += spent * units * p.Reads / 1e5
			case "bytes":
				dollars += spent * 0.23 / (1 << 30)
			case "logs":
				dollars += spent * 0.50 / (1 << 30)
			case "creates": // are writes, too
			default:
				t.Fatalf("what does %s cost?", unit)
			}
		}
		if share.Units.Requests == 0 && function == "Increment" && share.Billing == ByRequest {
			t.Fatalf("requests have no bound: %v", share.Units)
		}
	}
	return dollars
}
