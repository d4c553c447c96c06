// Package exact builds the simulation so that a seed is a history, byte for byte.
//
// testing/synctest makes time virtual and leaves all else to the runtime: which goroutine is next,
// which case of a select, where a map begins, what math/rand/v2 returns. [Overlay] lays some edits
// over the sources of Go's own runtime, for go build -overlay, and with them, in a bubble that was
// seeded and on one P (GOMAXPROCS=1):
//
//   - Goroutines that are ready wait in one queue, and the next one is drawn from it. What is no
//     goroutine of the bubble (the collector, a test's own) runs beside it and doesn't change its
//     order; who is preempted goes on next.
//   - select, timers of one time and math/rand/v2 draw from the same seed, and maps begin where it
//     says. Keys hash alike in every process and on every machine, AES or not; addresses all hash
//     to one.
//   - A mutex measures in virtual time how long somebody has waited.
//   - No goroutine of the bubble collects garbage, or waits for those who do.
//
// It is the same code that runs, natively, on the same runtime but for these lines. The other way
// that is known is one thread of WebAssembly, whose host fakes clock and randomness.
//
// A world needs a process of its own: what others have left in it (lazy tables, pools) shifts what
// is drawn.
package exact

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Environ is what go build needs in its environment beside the overlay. Since Go 1.26 the heap
// begins at a random address. Addresses are known by where it begins without that.
const Environ = "GOEXPERIMENT=norandomizedheapbase64"

// ErrRuntime says that the edits don't fit Go's runtime: they are of another version.
var ErrRuntime = errors.New("the edits are of another version of Go's runtime")

// edit is one change of a file of the standard library. old is in it exactly once.
type edit struct{ file, old, new string }

// edits are of Go 1.26. Another version whose sources they don't fit is refused.
var edits = []edit{
	// What is ready.
	{"runtime/proc.go", "	runqput(mp.p.ptr(), gp, next)\n	wakep()\n", "	exactPut(mp.p.ptr(), gp, next)\n	wakep()\n"},
	{"runtime/proc.go", "		runqput(pp, newg, true)\n\n		if mainStarted {", "		exactPut(pp, newg, true)\n\n		if mainStarted {"},
	{"runtime/proc.go", "	dropg()\n	runqput(pp, gp, false)\n	schedule()", "	dropg()\n	exactPut(pp, gp, false)\n	schedule()"},
	{"runtime/proc.go", "		runqput(pp, gp, true)\n	} else {\n		lock(&sched.lock)\n		globrunqput(gp)",
		"		runqput(pp, gp, true)\n	} else if !preempted && exact.state != 0 && gp.bubble != nil {\n		exactPut(pp, gp, false)\n	} else {\n		lock(&sched.lock)\n		globrunqput(gp)"},
	{"runtime/proc.go", "	// Poll network.\n	// This netpoll is only an optimization", "	if gp := exactGet(); gp != nil {\n		return gp, false, false\n	}\n\n	// Poll network.\n	// This netpoll is only an optimization"},
	// What is drawn.
	{"runtime/rand.go", "	mp := getg().m\n	c := &mp.chacha8\n", "	if exact.state != 0 && getg().bubble != nil {\n		return exactRand()\n	}\n	mp := getg().m\n	c := &mp.chacha8\n"},
	{"runtime/rand.go", "func maps_rand() uint64 {\n	return rand()", "func maps_rand() uint64 {\n	return exactMaps()"},
	{"internal/sync/hashtriemap.go", "uintptr(runtime_rand())", "1"},
	{"runtime/select.go", "j := cheaprandn(uint32(norder + 1))", "j := exactRandn(uint32(norder + 1))"},
	{"runtime/time.go", "t.rand = cheaprand()", "t.rand = exactRandn(1 << 31)"},
	{"runtime/alg.go", "		cpu.X86.HasAES && // AESENC\n", "		false && // AESENC\n"},
	{"runtime/alg.go", "if GOARCH == \"arm64\" && cpu.ARM64.HasAES {", "if false {"},
	{"runtime/alg.go", "uintptr(bootstrapRand())", "uintptr(i+1) * 0x9e3779b9"},
	{"runtime/hash64.go", "	a := r8(p)\n	return mix(m5^8,", "	a := r8(p)\n	if a>>36 == 0xc || a>>36 == 4 {\n		return 1 // an address in the heap: others in each process\n	}\n	return mix(m5^8,"},
	// What takes time.
	{"runtime/sema.go", "func internal_sync_nanotime() int64 {\n", "func internal_sync_nanotime() int64 {\n	if gp := getg(); exact.state != 0 && gp.bubble != nil {\n		return gp.bubble.now\n	}\n"},
	{"runtime/mgc.go", "		// Disassociate the G from its synctest bubble while allocating.\n", "		if exact.state != 0 {\n			return\n		}\n"},
	{"runtime/mgcmark.go", "		// Disassociate the G from its synctest bubble while allocating.\n", "		if exact.state != 0 {\n			return\n		}\n"},
	// What costs time, and changes no history. A call has goroutines of its own whose stacks grew from
	// 2 kB to 16: that was a tenth of all time.
	{"runtime/stack.go", "var startingStackSize uint32 = fixedStack", "var startingStackSize uint32 = 16 << 10"},
	{"runtime/stack.go", "	if debug.adaptivestackstart == 0 {", "	if true {"},
}

// added is a file of the runtime's. state is 0 outside of a world, and all is as it was.
const added = `package runtime

import _ "unsafe"

var exact struct {
	state uint64
	maps  uint64 // of a world: where each of its maps begins
	ready gQueue // of goroutines of a bubble; sched.lock is held
}

//go:linkname exactSeed
func exactSeed(seed uint64) { exact.state, exact.maps = seed, seed>>32 }

// exactMaps draws nothing: what is made once in a process, or is made again when a pool was
// emptied, would shift all that is drawn after it.
func exactMaps() uint64 {
	if exact.state == 0 || getg().bubble == nil {
		return 1
	}
	return exact.maps
}

//go:nosplit
func exactRand() uint64 {
	exact.state += 0x9e3779b97f4a7c15
	if exact.state == 0 {
		exact.state = 1
	}
	z := exact.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

//go:nosplit
func exactRandn(n uint32) uint32 {
	if exact.state == 0 || getg().bubble == nil {
		return cheaprandn(n)
	}
	return uint32(uint64(uint32(exactRand())) * uint64(n) >> 32)
}

// exactPut is runqput.
func exactPut(pp *p, gp *g, next bool) {
	if exact.state == 0 || gp.bubble == nil {
		runqput(pp, gp, next)
		return
	}
	lock(&sched.lock)
	exact.ready.pushBack(gp)
	unlock(&sched.lock)
}

// exactGet draws the next goroutine, once nothing else is ready.
func exactGet() *g {
	if exact.ready.empty() {
		return nil
	}
	lock(&sched.lock)
	q := &exact.ready
	gp := q.pop()
	if q.size > 0 {
		for n := uint32(uint64(uint32(exactRand())) * uint64(q.size+1) >> 32); n > 0; n-- {
			q.pushBack(gp)
			gp = q.pop()
		}
	}
	unlock(&sched.lock)
	return gp
}
`

// seeding gives the simulation what seeds a bubble.
const seeding = `package simulation

import _ "unsafe"

//go:linkname exactSeed runtime.exactSeed
func exactSeed(seed uint64)

func init() { seedRuntime = exactSeed }
`

// Overlay writes what go build -overlay takes into dir, and returns the file's name. simulation is
// the directory of the simulation's sources; more are further files to be replaced, by their
// absolute paths.
func Overlay(dir, simulation string, more map[string]string) (string, error) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("go env: %w", err)
	}
	root := filepath.Join(strings.TrimSpace(string(out)), "src")
	texts := map[string]string{} // :: name of a file
	for _, e := range edits {
		name := filepath.Join(root, e.file)
		if texts[name] == "" {
			source, err := os.ReadFile(name)
			if err != nil {
				return "", err
			}
			texts[name] = string(source)
		}
		if n := strings.Count(texts[name], e.old); n != 1 {
			return "", fmt.Errorf("%w: %q is in %s %d times", ErrRuntime, e.old, name, n)
		}
		texts[name] = strings.Replace(texts[name], e.old, e.new, 1)
	}
	texts[filepath.Join(root, "runtime", "exact.go")] = added
	sources, err := filepath.Abs(simulation)
	if err != nil {
		return "", err
	}
	texts[filepath.Join(sources, "seeding.go")] = seeding
	replace := map[string]string{}
	for name, by := range more {
		replace[name] = by
	}
	for name, text := range texts {
		by := filepath.Join(dir, "exact_"+filepath.Base(filepath.Dir(name))+"_"+filepath.Base(name))
		if err := os.WriteFile(by, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[name] = by
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "exact.json")
	return name, os.WriteFile(name, b, 0o600)
}
