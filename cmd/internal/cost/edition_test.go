package cost

import (
	"math"
	"testing"
	"time"
)

// Google's own examples of what a scan takes, and a shard's.
func TestScan(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ documents, bytes, want float64 }{
		{100, 1024, 25}, {100, 128, 4}, {128, 256, 8}, {1000, 32, 8}, // firebase.google.com/docs/firestore/enterprise/pricing-examples
		{0, shardBytes, 1}, {10, shardBytes, 1}, {100, shardBytes, 4}, {1000, shardBytes, 32},
	} {
		if got := scan(c.documents, c.bytes); got != c.want {
			t.Errorf("%v documents of %v bytes are %v units, want %v", c.documents, c.bytes, got, c.want)
		}
	}
}

// A million increments, by hand: what is written and deleted costs $0.26 a million, what is read $0.05.
func TestEnterprise(t *testing.T) {
	t.Parallel()
	standard := List()[0]
	p := standard.In(Enterprise)
	for _, c := range []struct{ rate, writes, deletes, reads float64 }{
		// each with its marker, and in its own roll-up: one sum()
		{0.1, 3e6, 1e6, 1e6},
		// 100 commits a second of shard and marker, and a roll-up; 200 shards are 7 units
		{1000, 201_000, 100_000, 1000 * 7},
		// 157 commits, as 64 at most share one
		{10_000, 2*157.4/1e4*1e6 + 100, 157.4 / 1e4 * 1e6, 100 * 10},
	} {
		l := Load{Rate: c.rate, Counters: 1, PerShard: HotRate, Commit: CommitTime, Interval: time.Second, Instances: 1}
		bill := p.Bill(l.PerMillion(l.ours()), Cheaper)
		for what, pair := range map[string][2]float64{
			"writes": {bill.Writes, c.writes * 0.26e-6}, "deletes": {bill.Deletes, c.deletes * 0.26e-6}, "reads": {bill.Reads, c.reads * 0.05e-6},
		} {
			if got, want := pair[0], pair[1]; math.Abs(got-want) > 0.02*want {
				t.Errorf("%v a second: %s $%.6f, want $%.6f", c.rate, what, got, want)
			}
		}
	}
	if got := p.In(Standard); got != standard {
		t.Errorf("back in Standard edition it is %+v", got)
	}
	// What was measured, or counted, without units is as many.
	if got, want := p.Bill(Usage{Reads: 1e6, Writes: 1e6}.Plus(Usage{Reads: 1e6}).PerMillion(1e6), Cheaper).Total(), 0.05*2+0.26; math.Abs(got-want) > 1e-9 {
		t.Errorf("without units $%v, want $%v", got, want)
	}
	// Tokyo's are of a price list; others cost as much more as their writes in Standard edition.
	tokyo, _ := PricesOf("asia-northeast1")
	europe, _ := PricesOf("eur3")
	if got := tokyo.In(Enterprise); math.Abs(got.Writes-0.03339) > 1e-12 || got.Deletes != got.Writes {
		t.Errorf("asia-northeast1: %+v", got)
	}
	if got := europe.In(Enterprise); math.Abs(got.Writes-2*p.Writes) > 1e-12 || math.Abs(got.Reads-2*p.Reads) > 1e-12 {
		t.Errorf("eur3: %+v", got)
	}
}
