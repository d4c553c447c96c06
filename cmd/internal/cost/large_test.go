package cost

import (
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// Whatever is asked for, more of it uses more of every bound, and the first to end is the one that
// docs/at-large.md names.
func TestAtLarge(t *testing.T) {
	t.Parallel()
	var before Large
	for _, rate := range []float64{1e3, 1e4, 1e5, 1e6} {
		l := AtLarge(rate)
		if l.HotCommits <= before.HotCommits || l.Writes <= before.Writes || l.Events <= before.Events || l.Increment < before.Increment || l.Rollup < before.Rollup || l.Ramp < before.Ramp {
			t.Errorf("%g increments a second take %+v, and fewer take %+v", rate, l, before)
		}
		before = l
	}
	if l := AtLarge(1e5); l.Shards > 1 || l.Rollups > 1 || l.Increments > 1 || l.Ramped(time.Hour) < 1 || l.Ramped(2*time.Hour) > 1 {
		t.Errorf("at 100,000 a second only a database that has not grown for long ends: %+v", l)
	}
	if l := AtLarge(3e5); l.Shards < 1 || l.Rollups > 1 || l.Increments > 1 {
		t.Errorf("at 300,000 a second the hot counter's shards end, and nothing else: %+v", l)
	}
}

// So many instances may be asked for as the table needs.
func TestLargeMayBeDeployed(t *testing.T) {
	t.Parallel()
	table := LargeTable()
	largest := table[len(table)-1]
	for file, caps := range map[string]map[string]int{
		"../../counters/internal/deployment/wanted.go": {
			`const mostInstances = (\d+)`: max(largest.Rollup, largest.Increment),
		},
		"../../../terraform/variables.tf": {
			`var\.rollup_max_instances <= (\d+)`: largest.Rollup, `var\.increment_max_instances <= (\d+)`: largest.Increment,
		},
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for pattern, need := range caps {
			found := regexp.MustCompile(pattern).FindSubmatch(text)
			if found == nil {
				t.Fatalf("%s has no %s", file, pattern)
			}
			if most, _ := strconv.Atoi(string(found[1])); most < need {
				t.Errorf("%s takes up to %d instances, and %d are needed: %s", file, most, need, found[0])
			}
		}
	}
}
