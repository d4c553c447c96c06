package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/firestore-counters/counters/cmd/internal/cost"
	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/emulator/eventarc"
)

func startStage(t *testing.T, c contestant, s setup) *stage {
	t.Helper()
	s.shards = 5
	all, err := open(t.Context(), []contestant{c}, s, "hot")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(all.close)
	return all[0]
}

// add sends increments, and waits for their events.
func (st *stage) add(t *testing.T, increments int) *load {
	t.Helper()
	l := closedLoop(t.Context(), clients(10, st.https), time.Minute, post("/hot").upTo(increments))
	if errs := l.errors(); len(errs) > 0 {
		t.Fatalf("%s: errors %v", st.name, errs)
	}
	if pending := st.settle(t.Context(), time.Minute); pending > 0 {
		t.Fatalf("%s: %d events were not taken", st.name, pending)
	}
	return l
}

// Every contestant does what it is there for: counts right when nothing goes wrong, and uses what
// it is known to.
func TestContestants(t *testing.T) {
	t.Parallel()
	const increments = 200
	for _, tt := range []struct {
		contestant
		total, sum int64
		writes     func(commits float64) float64
	}{
		{ours(), increments, increments, nil},
		{unmarked(), increments, increments, nil},
		{blind(), increments, increments, func(float64) float64 { return 2 * increments }},
		{sumOnRead(), 0, increments, func(float64) float64 { return increments }},
		{nothing(), 0, 0, func(float64) float64 { return 0 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			st := startStage(t, tt.contestant, setup{instances: 2, environ: []string{"ROLLUP_INTERVAL=50ms"}})
			st.begin()
			l := st.add(t, increments)
			u := st.usage(l)
			counter, err := st.counters.Counter("hot")
			if err != nil {
				t.Fatal(err)
			}
			rolled, err := counter.Get(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			sum, err := counter.Sum(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if rolled.Total != tt.total || sum.Total != tt.sum {
				t.Errorf("total = %d, shards = %d, want %d, %d", rolled.Total, sum.Total, tt.total, tt.sum)
			}
			if tt.writes != nil && u.Writes != tt.writes(u.Requests()) {
				t.Errorf("writes = %v", u.Writes)
			}
			events := float64(0)
			if st.events != nil {
				events = float64(st.events.Stats().Posts)
			}
			if u.Increment.Requests != increments || u.Rollup.Requests != events {
				t.Errorf("requests = %v and %v, want %v of increments and %v of events", u.Increment.Requests, u.Rollup.Requests, increments, events)
			}
			if tt.name == "ours" && (u.Deletes == 0 || u.Deletes > increments || u.Writes < 2*u.Deletes) {
				t.Errorf("%v writes and %v markers for %v increments", u.Writes, u.Deletes, increments)
			}
			for _, f := range []cost.Function{u.Increment, u.Rollup} {
				// Billed by the instance, those that took a request are there all the time.
				took, instances := l.elapsed.Seconds(), 2.0
				if f.Requests == 0 {
					instances = 0
				}
				if f.Busy > instances*(took+0.1) || f.Requests > 0 && f.Busy <= 0 || f.There > instances*(took+0.1) || f.Requests > 0 && f.There < took {
					t.Errorf("%+v on at most 2 instances in %v s", f, took)
				}
			}
		})
	}
}

// With every event twice and some answers lost, the blind total is wrong and ours is right.
func TestDrift(t *testing.T) {
	t.Parallel()
	for _, c := range []contestant{ours(), blind()} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			st := startStage(t, c, setup{events: eventarc.Faults{Duplicate: 1, Seed: 1}, faults: emulator.Faults{LoseAnswers: 0.1, Seed: 1}})
			row, err := st.drift(t.Context(), 300)
			if err != nil {
				t.Fatal(err)
			}
			r := Result{Rows: []Row{row}}
			drift, shards := r.metric(c.name, "", "drift").Median, r.metric(c.name, "", "of it, shards").Median
			if c.name == "ours" && (drift != 0 || shards != 0) {
				t.Errorf("ours drifts by %v, its shards by %v", drift, shards)
			}
			if c.name == "blind" && (drift < 300 || shards < 1) {
				t.Errorf("blind drifts by %v, its shards by %v, and every event came twice", drift, shards)
			}
		})
	}
}

// The events that the benchmark makes count as real ones do, of shards that hold what they say.
func TestEventSource(t *testing.T) {
	t.Parallel()
	for _, c := range []contestant{ours(), blind(), nothing()} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			st := startStage(t, c, setup{only: "trigger", environ: []string{"ROLLUP_INTERVAL=50ms"}})
			source := newEventSource("hot", 5)
			counter, err := st.counters.Counter("hot")
			if err != nil {
				t.Fatal(err)
			}
			st.pause() // of that there is an event, too
			if err := counter.Add(t.Context(), 500); err != nil {
				t.Fatal(err)
			}
			l := closedLoop(t.Context(), clients(50, st.triggers), time.Minute, source.next(500))
			if l.answered() != 500 {
				t.Fatalf("%d of 500 events were taken, errors %v", l.answered(), l.errors())
			}
			want := int64(500)
			if c.name == "no-op" {
				want = 0
			}
			if s, err := counter.Get(t.Context()); err != nil || s.Total != want {
				t.Errorf("total = %d, %v, want %d", s.Total, err, want)
			}
		})
	}
}

// While a stage is paused its events wait.
func TestPause(t *testing.T) {
	t.Parallel()
	st := startStage(t, blind(), setup{})
	st.pause()
	l := closedLoop(t.Context(), clients(1, st.https), time.Minute, post("/hot").upTo(3))
	if pending := st.settle(t.Context(), time.Second); l.answered() != 3 || pending != 3 {
		t.Fatalf("%d answered, %d events pending, want 3 of both", l.answered(), pending)
	}
	if err := st.resume(); err != nil {
		t.Fatal(err)
	}
	if pending := st.settle(t.Context(), time.Minute); pending != 0 {
		t.Errorf("%d events pending", pending)
	}
}

// A function that doesn't come up is an error that says why, and leaves nothing behind.
func TestStageThatDoesNotStart(t *testing.T) {
	t.Parallel()
	_, err := openStage(t.Context(), ours(), setup{shards: 1, environ: []string{"ROLLUP_INTERVAL=never"}})
	if err == nil || !strings.Contains(err.Error(), "ROLLUP_INTERVAL=never") {
		t.Errorf("err = %v, want one that names the setting", err)
	}
}

func TestProcessMemoryAndCPU(t *testing.T) {
	t.Parallel()
	st := startStage(t, nothing(), setup{only: "http"})
	if bytes, err := st.https[0].memory(); err != nil || bytes < 1<<20 || bytes > 1<<30 {
		t.Errorf("%d bytes, %v", bytes, err)
	}
	before := st.cpu()
	for st.cpu().plus(before.times(-1)).Function == 0 { // told in hundredths of a second
		st.add(t, 1000)
	}
	if cpu := st.cpu(); cpu.Here <= 0 || cpu.Trigger != 0 {
		t.Errorf("CPU seconds %+v, want some here and none of a trigger", cpu)
	}
}

// Where a contestant fails, the others have their figures, and the result says who failed and why.
func TestRaceWithoutOne(t *testing.T) {
	t.Parallel()
	deaf := nothing()
	deaf.name, deaf.http = "deaf", "Increment"
	s := &session{Options: Options{Quick: true}, scenario: "hot"}
	var r Result
	_, err := s.race(t.Context(), &r, race{
		contestants: []contestant{nothing(), deaf}, setup: setup{shards: 1, only: "http"}, counters: []string{"there"}, next: post("/missing"),
		clients: []int{4}, warm: 20 * time.Millisecond, rounds: 2, window: 20 * time.Millisecond,
		columns: throughput, figure: rate, pairs: [][2]string{{"deaf", nameNoop}},
	})
	if err == nil || !strings.Contains(err.Error(), "deaf: no request was answered with success (404: ") {
		t.Errorf("err = %v, want who failed, and how", err)
	}
	if m := r.metric(nameNoop, "", "increments/s"); len(r.Rows) != 1 || m.Rounds != 2 || m.Median <= 0 {
		t.Errorf("rows %+v, want the two rounds of the other", r.Rows)
	}
}

// With another build to compare with, the scenarios run ours and the other's, and divide the one by
// the other.
func TestAgainst(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), Options{Quick: true, Scenarios: []string{"lone"}, Against: program})
	if err != nil {
		t.Fatal(err)
	}
	lone := r.Results[0]
	if lone.Error != "" || len(lone.Rows) != 2 || len(r.Goals) != 0 {
		t.Fatalf("error %q, rows %+v, goals %+v; want two contestants and no goals", lone.Error, lone.Rows, r.Goals)
	}
	if m := r.ratio("lone:ours/other"); m.Rounds != 7 || m.Median <= 0 {
		t.Errorf("ours ÷ other = %+v, want seven rounds", m)
	}
	// a race that compares nothing else
	if r, err = Run(t.Context(), Options{Quick: true, Scenarios: []string{"members"}, Against: program}); err != nil {
		t.Fatal(err)
	}
	for _, load := range []string{joins, keyed} {
		if m := r.ratio("members, " + load + ":ours/other"); m.Rounds != 1 || m.Median <= 0 {
			t.Errorf("%s, ours ÷ other = %+v, want one round", load, m)
		}
	}
	if _, err := Run(t.Context(), Options{Quick: true, Scenarios: []string{"lone"}, Against: program + "-missing"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a build that isn't there: %v", err)
	}
}

// A profile of each of our functions is written, of one long round.
func TestProfiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r, err := Run(t.Context(), Options{Quick: true, Scenarios: []string{"lone"}, Profiles: dir})
	if err != nil || r.Results[0].Error != "" {
		t.Fatalf("%v, %+v", err, r.Results)
	}
	for _, name := range []string{"lone-ours-Increment.pprof"} {
		if f, err := os.Stat(filepath.Join(dir, name)); err != nil || f.Size() < 100 {
			t.Errorf("%s: %v, %v", name, f, err)
		}
	}
}

// A run that is called off returns what it has, and says so.
func TestRunEndsEarly(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	rounds := 0
	r, err := Run(ctx, Options{Quick: true, Scenarios: []string{"lone", "lag"}, Step: func(scenario, what string) {
		if strings.HasPrefix(what, "round") {
			if rounds++; rounds == 5 { // four contestants: one round is through
				cancel()
			}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if !r.Interrupted || len(r.Results) != 1 {
		t.Fatalf("interrupted %v, results %+v", r.Interrupted, r.Results)
	}
	lone := r.Results[0]
	if m := lone.metric("ours", "", "p50"); lone.Error == "" || m.Rounds != 1 || math.IsNaN(m.Median) || m.Median <= 0 {
		t.Errorf("error %q, p50 of ours %+v; want the one round", lone.Error, m)
	}
}

func TestRunRefusesUnknownScenarios(t *testing.T) {
	t.Parallel()
	if _, err := Run(t.Context(), Options{Scenarios: []string{"hot", "warm"}}); err == nil || !strings.Contains(err.Error(), "warm") {
		t.Errorf("err = %v", err)
	}
}

// What is deployed holds nothing of the benchmark.
func TestNotDeployed(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-deps", "github.com/firestore-counters/counters").Output()
	if err != nil {
		t.Fatal(fmt.Errorf("list what is deployed: %w", err))
	}
	deployed := strings.Fields(string(out))
	if len(deployed) < 100 {
		t.Fatalf("only %d packages are deployed", len(deployed))
	}
	for _, p := range deployed {
		for _, local := range []string{"internal/bench", "internal/cost", "counters/emulator"} {
			if strings.HasSuffix(p, local) {
				t.Errorf("%s is deployed", p)
			}
		}
	}
}
