package bench

import (
	"fmt"
	"os"
	"time"

	framework "github.com/GoogleCloudPlatform/functions-framework-go/functions"

	"github.com/firestore-counters/counters/functions"
)

// Names of this package's functions, values of FUNCTION_TARGET.
const (
	noopFunction           = "BenchNoop"
	waitingFunction        = "BenchWaiting"
	noopEventFunction      = "BenchNoopEvent"
	blindIncrementFunction = "BenchBlindIncrement"
	blindRollupFunction    = "BenchBlindRollup"
	sumFunction            = "BenchSum"
)

// Register makes the benchmark's functions known to the functions framework, in the processes of
// the contestants, and serves profiles there when they are asked for.
func Register() {
	b := newBlindFunctions()
	framework.HTTP(noopFunction, noop)
	framework.HTTP(waitingFunction, waiting)
	framework.HTTP(noopEventFunction, noopEvent)
	framework.HTTP(blindIncrementFunction, b.increment)
	framework.HTTP(blindRollupFunction, b.rollup)
	framework.HTTP(sumFunction, b.sum)
	serveProfiles(os.Getenv(profilesVariable))
}

// contestant is one way to build a counter.
type contestant struct {
	name    string
	program string   // that serves its functions; "" for this one
	http    string   // function that takes increments, and reads
	trigger string   // function that takes the shards' events; "" for none
	environ []string // settings that it has and others don't
	limit   int64    // of its counters; 0 is none
	fields  string   // FIELDS, which has it; "" is the default
}

// Names of the contestants.
const (
	nameOurs     = "ours"
	nameOther    = "other" // ours of another build
	nameLimited  = "ours, a limit"
	nameUnmarked = "ours, no marker"
	nameFaster   = "ours, 50ms" // between roll-ups
	nameSlower   = "ours, 5s"   // the same
	nameSingle   = "ours, burst of 1"
	nameUnshared = "ours, MAX_BATCH=1"
	nameCompany  = "ours, COMMIT_INTERVAL=50ms"
	nameBlind    = "blind"
	nameNoop     = "no-op"
	nameWaiting  = "no-op, 10ms" // after a commit's time
	nameSum      = "sum"
)

// instanceMemory is that of an instance of a function, in bytes, unless a deployment says
// otherwise.
const instanceMemory = 512 << 20

// ours has the limit that our functions set for themselves in such an instance: this machine's
// memory is not such a limit.
func ours() contestant {
	return contestant{name: nameOurs, http: "Increment", trigger: "Rollup", environ: []string{"MEMBERS=any", fmt.Sprintf("GOMEMLIMIT=%d", functions.MemoryLimit(instanceMemory))}}
}

// unmarked is ours without the marker that shows whether a commit was applied when its answer is
// lost.
func unmarked() contestant {
	c := ours()
	c.name, c.environ = nameUnmarked, append(c.environ, "EXACT_WRITES=false")
	return c
}

// unshared is ours with a commit for each increment.
func unshared() contestant {
	c := ours()
	c.name, c.environ = nameUnshared, append(c.environ, "MAX_BATCH=1")
	return c
}

// company is ours where increments wait for company.
func company() contestant {
	c := ours()
	c.name, c.environ = nameCompany, append(c.environ, fmt.Sprintf("COMMIT_INTERVAL=%v", companyInterval))
	return c
}

// companyInterval is between the begins of two of its commits.
const companyInterval = 50 * time.Millisecond

func blind() contestant {
	return contestant{name: nameBlind, http: blindIncrementFunction, trigger: blindRollupFunction}
}

// nothing writes nothing, so that no event ever comes to it but those that a scenario posts.
func nothing() contestant {
	return contestant{name: nameNoop, http: noopFunction, trigger: noopEventFunction}
}

// waits is nothing that takes as long as a commit.
func waits() contestant { return contestant{name: nameWaiting, http: waitingFunction} }

func sumOnRead() contestant { return contestant{name: nameSum, http: sumFunction} }
