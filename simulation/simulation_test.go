package simulation

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"
)

var (
	firstSeed  = flag.Uint64("sim.seed", 1, "the first seed")
	seeds      = flag.Int("sim.seeds", 6, "how many seeds are run")
	hours      = flag.Float64("sim.hours", 0, "and on, until so many virtual hours have passed")
	operations = flag.Int("sim.operations", 200, "operations in a storm, at most")
	rate       = flag.Float64("sim.rate", 0, "operations a second, instead of the plan's 0.1 to 5")
	trace      = flag.Int("sim.trace", 0, "print so many entries of the history before each violation")
	step       = flag.Uint64("sim.step", 1, "every so many seeds one is run")
	without    = flag.String("sim.without", "", "parts of the plan that are left out, with commas between them")
	with       = flag.String("sim.with", "", "parts that plans have, with commas between them: other seeds are left out")
	only       = flag.String("sim.only", "", "operations that are begun, as 3,7-9, or none; all unless set")
	histories  = flag.String("sim.histories", "", "a directory that each history is written into, as SEED.txt")
	order      = flag.Uint64("sim.order", 0, "another order of goroutines")
	report     = flag.Bool("sim.report", false, "print a line of JSON for each seed, and fail for none")
)

// TestMain lets the heap grow to five times what is in use before it is collected: a world's
// garbage is gone with the world, and at the usual twice, collecting takes a third of the time (16
// s became 11).
func TestMain(m *testing.M) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	http.DefaultTransport = Keys{} // for the keys that sign callers' tokens
	os.Exit(m.Run())
}

// again says how a world is run again that failed. Only a build of package exact, as simulate makes
// it, has the same history again: in any other one goroutines, maps and the system's own random
// choices are not drawn from the seed.
func again(seed uint64) string {
	return fmt.Sprintf("again, the same each time: go run ./simulation/simulate -seed=%d -operations=%d -rate=%g, if that fails too; "+
		"else as it was, until it fails: go test ./simulation -run '^TestSimulation$' -count=20 -failfast -sim.seed=%d -sim.seeds=1 -sim.operations=%d -sim.rate=%g -sim.trace=40",
		seed, *operations, *rate, seed, *operations, *rate)
}

// planned is the plan of a seed, as flags have it.
func planned(t *testing.T, seed uint64) Plan {
	p := PlanOf(seed)
	p.Rate = cmp.Or(*rate, p.Rate)
	numbers, err := Numbers(*only)
	if err != nil {
		t.Fatal(err)
	}
	less := Less{Operations: *operations, Only: numbers, Order: *order}
	if *without != "" {
		less.Without = strings.Split(*without, ",")
	}
	if p, err = p.Less(less); err != nil {
		t.Fatal(err)
	}
	return p
}

// has reports whether the plan of a seed has all of these parts, with commas between them.
func has(t *testing.T, seed uint64, parts string) bool {
	for part := range strings.SplitSeq(parts, ",") {
		p := PlanOf(seed)
		less, err := p.Less(Less{Without: []string{part}})
		if err != nil {
			t.Fatal(err)
		}
		if reflect.DeepEqual(p, less) {
			return false
		}
	}
	return true
}

// TestSimulation runs the worlds of a few seeds.
func TestSimulation(t *testing.T) {
	var next atomic.Uint64
	next.Store(*firstSeed)
	var total figures
	began := time.Now()
	t.Run("worlds", func(t *testing.T) {
		workers := runtime.GOMAXPROCS(0)
		if seedRuntime != nil {
			workers = 1
		}
		for worker := range workers {
			t.Run(fmt.Sprint(worker), func(t *testing.T) {
				if seedRuntime == nil {
					t.Parallel()
				}
				for {
					seed := next.Add(*step) - *step
					if (seed-*firstSeed) / *step >= uint64(*seeds) && total.hours() >= *hours {
						return
					}
					if *with != "" && !has(t, seed, *with) {
						continue
					}
					ran := false
					t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
						ran = true
						p := planned(t, seed)
						if *report {
							tell(t, p)
							return
						}
						h, faults := simulate(t, p)
						check(t, p, h)
						total.add(p, h, faults)
						if t.Failed() {
							t.Log(again(seed))
						}
					})
					if !ran { // -failfast, or -run of others
						return
					}
				}
			})
		}
	})
	if !*report {
		t.Logf("from seed %d on: %s, in %s", *firstSeed, &total, time.Since(began).Round(time.Second))
	}
}

// Once no more worlds are run, because one has failed and that is enough or because others are
// asked for, it is over.
func TestSimulationEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	none := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestSimulation$/worlds/./none", "-sim.hours=1")
	if out, err := none.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// figures are what worlds come to. Its methods are safe for concurrent use.
type figures struct {
	mu                  sync.Mutex
	virtual             time.Duration
	operations, commits int
	faults              Faults
}

func (f *figures) add(p Plan, h History, faults Faults) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.virtual += p.Length()
	for _, e := range h {
		switch e.What.(type) {
		case Begin:
			f.operations++
		case Commit:
			f.commits++
		}
	}
	if f.faults == nil {
		f.faults = Faults{}
	}
	for kind, n := range faults {
		f.faults[kind] += n
	}
}

func (f *figures) hours() float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.virtual.Hours()
}

func (f *figures) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	sum := 0
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(f.faults)) {
		sum += f.faults[kind]
		kinds = append(kinds, fmt.Sprint(kind, " ", f.faults[kind]))
	}
	return fmt.Sprintf("%.0f virtual hours, %d operations, %d commits, %d faults (%s)", f.virtual.Hours(), f.operations, f.commits, sum, strings.Join(kinds, ", "))
}

// TestOverTheWire runs two worlds, one with all faults and one without, whose messages are encoded
// and go over HTTP/2, on connections in memory. In all others they are handed to the server as they
// are, which must make no difference.
func TestOverTheWire(t *testing.T) {
	t.Parallel()
	for _, p := range []Plan{PlanOf(*firstSeed), PlanOf(*firstSeed + 1).Faultless()} {
		p = p.Shortened(*operations / 2)
		p.Wire = true
		h, _ := simulate(t, p)
		check(t, p, h)
	}
}

// TestFaultless holds worlds in which nothing goes wrong to how fast and how sparing the roll-up is meant to be,
// however many of its instances share a counter. Beyond a ceiling totals are older, as long as it takes to earn the
// rest: theirs is one that they don't meet, which holds up nothing.
func TestFaultless(t *testing.T) {
	t.Parallel()
	for i := range 3 {
		p := PlanOf(*firstSeed + uint64(i)).Faultless().Shortened(*operations)
		p.Replacements = 0
		p.Environ = append(p.Environ, "ROLLUP_INTERVAL=1s", "CEILING=writes=1000,reads=1000,creates=100")
		p.Rollups = 1 + i
		h, _ := simulate(t, p)
		check(t, p, h)
		for _, v := range Bounds(h.Of(""), 6*time.Second, 80) { // events take up to a second to arrive, a flush waits for up to 1.25 s per instance
			t.Errorf("seed %d: %s", p.Seed, v)
		}
	}
}

// Eventarc tries for a day: of an outage that is shorter every event comes, and of one that is
// longer a reconcile makes up for those that don't.
func TestOutage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		outage  time.Duration
		givenUp bool
	}{{20 * time.Hour, false}, {30 * time.Hour, true}} {
		p := PlanOf(*firstSeed).Faultless().Shortened(*operations / 4)
		p.Outage = test.outage
		h, faults := simulate(t, p)
		check(t, p, h)
		if n := faults["event given up"]; n > 0 != test.givenUp {
			t.Errorf("after %s, %d events were given up", test.outage, n)
		}
	}
}

// TestPlaces runs a world of each kind of ids and paths, with another deployment below its
// counters, beside them or above, and sees that counters are where they are meant to be, and that
// both deployments have counted.
func TestPlaces(t *testing.T) {
	t.Parallel()
	for ids := range 4 {
		for n, path := range []string{flatCounters, nestedCounters} {
			t.Run(fmt.Sprint(ids, " ", path), func(t *testing.T) {
				t.Parallel()
				p := PlanOf(*firstSeed + uint64(2*ids+n)).Shortened(*operations / 4)
				p.Counters, p.IDs, p.Neighbour, p.NeighbourEvery = path, ids, neighbours[(ids+n)%len(neighbours)], p.Storm/20
				p.Environ = append(p.Environ, "COUNTERS="+path)
				for n, f := range p.Counted {
					if f.Wildcard != "" {
						p.Counted[n] = p.replies()
					}
				}
				h, _ := simulate(t, p)
				check(t, p, h)
				named := []string{p.id("named-1"), p.id("named-2"), p.id("named-3"), p.id(signedNames + "1"), p.id(signedNames + "2"), p.id(signedNames + "3"), p.id("plain-1"), p.id("plain-2"), p.id("plain-3")}
				bases := 0
				for _, e := range h {
					switch what := e.What.(type) {
					case Commit:
						for _, ch := range what.Changes {
							if ch.Doc.Kind == "base" && slices.Contains(named, ch.Doc.Counter) {
								bases++
							}
						}
					case Operations:
						if what.Neighbours == 0 {
							t.Error("the neighbour has counted nothing")
						}
					}
				}
				if bases == 0 {
					t.Error("there is no base of such a counter")
				}
			})
		}
	}
}

// longest is how long a world may take. Virtual time stands still as long as a goroutine is blocked
// on a mutex, say, which a deadlock makes forever.
const longest = 10 * time.Minute

// watch ends the process, with all its goroutines' stacks, unless it is stopped in time.
func watch(seed uint64, longest time.Duration) (stop func() bool) {
	return time.AfterFunc(longest, func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("seed %d has not ended after %v; %s", seed, longest, again(seed)))
	}).Stop
}

// A goroutine that is blocked on a mutex forever hangs its bubble: the watchdog ends that, and says
// of which seed it was and where.
func TestWatchdog(t *testing.T) {
	if os.Getenv("SIM_HANGS") != "" {
		defer watch(7, 100*time.Millisecond)()
		synctest.Test(t, func(*testing.T) {
			var mu sync.Mutex
			mu.Lock()
			mu.Lock()
		})
	}
	t.Parallel()
	hangs := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWatchdog$")
	hangs.Env = append(os.Environ(), "SIM_HANGS=true")
	out, err := hangs.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "seed 7 has not ended after") || !strings.Contains(string(out), "simulation.TestWatchdog.func") {
		t.Errorf("%v: %s", err, out)
	}
}

// collect collects garbage in the background, which no goroutine of an exact world does, once there
// is twice as much as when that was last done, and half a gigabyte more.
func collect() (stop func()) {
	const heap = "/memory/classes/heap/objects:bytes"
	inUse := func() uint64 {
		sample := []metrics.Sample{{Name: heap}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	ended := make(chan struct{})
	go func() {
		most := uint64(0)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			if inUse() >= most {
				runtime.GC()
				most = 2*inUse() + 512<<20
			}
			select {
			case <-tick.C:
			case <-ended:
				return
			}
		}
	}()
	return func() { close(ended) }
}

// tell prints what becomes of a plan as a line of JSON.
func tell(t *testing.T, p Plan) {
	h, faults := simulate(t, p)
	r := Report{Seed: p.Seed, Hash: h.Hash(), Hours: p.Length().Hours(), Faults: faults}
	for _, e := range h {
		switch what := e.What.(type) {
		case Begin:
			r.Calls++
		case Commit:
			r.Commits++
		case Operations:
			r.Operations = what.Begun
		}
	}
	for of, v := range violations(p, h) {
		if r.Violations = append(r.Violations, v.String()); len(r.Violations) == 1 && *trace > 0 {
			r.Trace = entriesBefore(of, v, *trace)
		}
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("\n%s\n", b)
}

// simulate runs a plan in a bubble.
func simulate(t *testing.T, p Plan) (h History, faults Faults) {
	began := time.Now()
	defer watch(p.Seed, longest)()
	if seedRuntime != nil {
		cryptotest.SetGlobalRandom(t, p.Seed)
		defer collect()()
	}
	synctest.Test(t, func(t *testing.T) {
		var err error
		if h, faults, err = Run(p); err != nil {
			t.Fatal(err)
		}
	})
	if *histories != "" {
		if err := os.WriteFile(filepath.Join(*histories, fmt.Sprint(p.Seed, ".txt")), h.Text(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if !*report { // which says the hash itself
		history := ""
		if seedRuntime != nil { // in any other build each is another
			history = " history " + h.Hash() + ","
		}
		t.Logf("seed %d:%s %.1f virtual hours, %d entries, in %v", p.Seed, history, p.Length().Hours(), len(h), time.Since(began).Round(time.Millisecond))
	}
	return h, faults
}

// check fails a test for what is wrong in a history, in any field.
func check(t *testing.T, p Plan, all History) {
	t.Helper()
	for h, v := range violations(p, all) {
		t.Errorf("(hosted %t, older %t, counted %v) %s", p.Hosted, p.Older, p.Counted, v)
		for _, line := range entriesBefore(h, v, *trace) {
			t.Log(line)
		}
	}
}

// violations are what is wrong in a history, each with the history in which it is an entry: that of
// a field, or all.
func violations(p Plan, all History) iter.Seq2[History, Violation] {
	return func(yield func(History, Violation) bool) {
		for _, field := range p.Fields() {
			h := all.Of(field)
			for _, v := range Check(h) {
				if v.Message = fmt.Sprintf("field %q: %s", cmp.Or(field, "total"), v.Message); !yield(h, v) {
					return
				}
			}
		}
		for _, v := range CheckAnswers(all) {
			if !yield(all, v) {
				return
			}
		}
	}
}

// entriesBefore are the last entries, at most, that led to a violation: of the counter that it
// names.
func entriesBefore(h History, v Violation, most int) (lines []string) {
	for n, about := min(v.Entry, len(h)-1), counterIn(v.Message); n >= 0 && len(lines) < most; n-- {
		if b, ok := h[n].What.(Begin); ok && b.Kind == Increment {
			continue // its commit says as much
		}
		if s := h[n].String(); strings.Contains(s, about) {
			lines = append(lines, fmt.Sprintf("%d %s", n, s))
		}
	}
	slices.Reverse(lines)
	return lines
}

// counterIn is the counter that a violation names, "" where it names none.
func counterIn(message string) string {
	if _, field, ok := strings.Cut(message, `field "`); ok {
		_, message, _ = strings.Cut(field, `"`)
	}
	_, rest, _ := strings.Cut(message, `"`)
	id, _, _ := strings.Cut(rest, `"`)
	return id
}
