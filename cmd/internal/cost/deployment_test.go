package cost

import (
	"testing"
	"time"
)

// What a deployment costs by what it is given, and never more in its better way, whatever the load.
func TestDeploymentCosts(t *testing.T) {
	t.Parallel()
	p := List()[0]
	d := Deployment{
		Load:      Load{Rate: 1000, Counters: 1, PerShard: HotRate, Commit: CommitTime, Interval: time.Second, Instances: 1},
		Increment: Instances{Max: 10}, Rollup: Instances{Max: 2}, IncrementBilling: ByRequest, RollupBilling: ByRequest, Size: Deployed, Flushes: 64,
	}
	hour := func(perSecond float64) float64 { return perSecond * 3600 }
	near(t, "Increment by the request, an hour", hour(d.Expected(p).Increment), 0.0909+1.44, 1e-6)
	if better := d.Better(p); better.IncrementBilling != ByInstance || better.RollupBilling != ByInstance {
		t.Errorf("the better way is by the %s and the %s", better.IncrementBilling, better.RollupBilling)
	}
	near(t, "at worst, Increment by the request, an hour", hour(d.Worst(p).Increment), 10*0.0909+1_560*3600*0.4e-6, 1e-6) // 500 counters a request
	d.IncrementBilling = ByInstance
	near(t, "Increment by the instance, an hour", hour(d.Expected(p).Increment), 0.0684, 1e-6)
	near(t, "at worst, Increment by the instance, an hour", hour(d.Worst(p).Increment), 10*0.0684, 1e-6)
	// 780,000 shards a second and a marker for each 500, all but 1,600 of which wait for their roll-up: each of two
	// instances has 64 in flight, of 80 ms
	near(t, "at worst, documents, an hour", hour(d.Worst(p).Documents), 3600*(3*1_600*0.3e-6+(780_000+1_560+1_600)*0.9e-6+1_560*0.1e-6), 1e-6)
	near(t, "at worst, answers and events, an hour", hour(d.Worst(p).Network), 3600*(780_000*26*0.23/(1<<30)+(780_000+8_000)*2048*40.0/(1<<40)), 1e-6)
	users := d
	users.OfUsers = true
	near(t, "what users write at worst", users.Worst(p).Rate, 470_000, 1e-6)
	d.Rate = 20_000
	near(t, "at 20,000 a second, an hour", hour(d.Expected(p).Increment), 3*0.0684, 1e-6)
	for d.Rate = 0.01; d.Rate < 1e5; d.Rate *= 4 {
		for _, d.IncrementBilling = range Billings {
			for _, d.RollupBilling = range Billings {
				for _, d.Increment.Min = range []int{0, 1, 3} {
					least := d.Better(p).Expected(p).Total()
					if least > d.Expected(p).Total()*(1+1e-12) {
						t.Errorf("%v/s: the better way costs more than by the %s and the %s", d.Rate, d.IncrementBilling, d.RollupBilling)
					}
				}
			}
		}
	}
}
