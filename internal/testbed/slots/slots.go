// Package slots has more tests run at a time than there are cores: those that wait, for a deadline or another process,
// don't keep those that work from their turn.
package slots

import (
	"flag"
	"runtime"
	"strconv"
)

// AtATime is how many parallel tests run at a time, at least: half of them wait, and the others still meet their
// deadlines where two cores are busy with another package, too.
const AtATime = 8

// Widen is called by TestMain, before the tests run. What -parallel says stands.
func Widen() {
	flag.Parse()
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.parallel" || f.Name == "test.fuzz" }) // fuzzing has a process for each
	if !said && runtime.GOMAXPROCS(0) < AtATime {
		if err := flag.Set("test.parallel", strconv.Itoa(AtATime)); err != nil {
			panic(err) // no test calls it
		}
	}
}
