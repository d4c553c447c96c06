package bench

import "github.com/GoogleCloudPlatform/functions-framework-go/functions"

// Names of this package's functions, values of FUNCTION_TARGET.
const (
	noopFunction           = "BenchNoop"
	noopEventFunction      = "BenchNoopEvent"
	blindIncrementFunction = "BenchBlindIncrement"
	blindRollupFunction    = "BenchBlindRollup"
	sumFunction            = "BenchSum"
)

// Register makes the benchmark's functions known to the functions framework, in the processes of the contestants.
func Register() {
	b := newBlindFunctions()
	functions.HTTP(noopFunction, noop)
	functions.HTTP(noopEventFunction, noopEvent)
	functions.HTTP(blindIncrementFunction, b.increment)
	functions.HTTP(blindRollupFunction, b.rollup)
	functions.HTTP(sumFunction, b.sum)
}

// contestant is one way to build a counter.
type contestant struct {
	name    string
	http    string   // function that takes increments, and reads
	trigger string   // function that takes the shards' events; "" for none
	environ []string // settings that it has and others don't
}

func ours() contestant { return contestant{name: "ours", http: "Increment", trigger: "Rollup"} }

// thrifty is ours without the marker that tells whether a commit was applied when its answer is lost.
func thrifty() contestant {
	c := ours()
	c.name, c.environ = "ours, no marker", []string{"EXACT_WRITES=false"}
	return c
}

func blind() contestant {
	return contestant{name: "blind", http: blindIncrementFunction, trigger: blindRollupFunction}
}

// nothing writes nothing, so that no event ever comes to it but those that a scenario posts.
func nothing() contestant {
	return contestant{name: "no-op", http: noopFunction, trigger: noopEventFunction}
}

func sumOnRead() contestant { return contestant{name: "sum", http: sumFunction} }
