package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/googleapis/gax-go/v2"
	sysload "github.com/shirou/gopsutil/v4/load"
)

// ErrNotIdle says that a machine does other work: what is measured on it then is not for docs.
var ErrNotIdle = errors.New("the machine isn't idle")

const (
	// idlePerCore is how large the load average of an idle machine may be, for each of its cores.
	idlePerCore = 0.15
	// idlePatience is how long an idle machine takes at most until its load average says so: it
	// halves every 42 s, from 20 to 0.3 in four and a half minutes.
	idlePatience = 5 * time.Minute
	idleLook     = 15 * time.Second
)

// WaitUntilIdle waits until the load average says that this machine does nothing else, and returns
// it. Say is told of each look. Errors: [ErrNotIdle] after five minutes, or once it no longer
// falls, with what was seen and what to do; and the context's.
func WaitUntilIdle(ctx context.Context, say func(string)) (float64, error) {
	return waitUntilIdle(ctx, runtime.NumCPU(), loadAverage, say)
}

func waitUntilIdle(ctx context.Context, cores int, look func() (one, five float64, err error), say func(string)) (float64, error) {
	most := idlePerCore * float64(cores)
	before := 0.0
	for waited := time.Duration(0); ; waited += idleLook {
		one, five, err := look()
		if err != nil {
			return 0, fmt.Errorf("%w, as far as can be told: read its load average: %w", ErrNotIdle, err)
		}
		if one <= most {
			return one, nil
		}
		// one minute in which it hasn't fallen: somebody is at work
		working := waited > 0 && waited%time.Minute == 0 && one >= before
		if working || waited >= idlePatience {
			return one, fmt.Errorf("%w: its load average is %.2f over a minute, %.2f over five, and figures for docs want %.2f at most on %s. See what runs (top), end it, and try again. Figures that are not for docs can be taken at any time, without --docs", ErrNotIdle, one, five, most, plural(cores, "core"))
		}
		if waited%time.Minute == 0 {
			before = one
		}
		say(fmt.Sprintf("the load average is %.2f; waiting until it is %.2f or less, for %v at most", one, most, idlePatience-waited))
		if err := gax.Sleep(ctx, idleLook); err != nil {
			return one, err
		}
	}
}

func loadAverage() (one, five float64, err error) {
	avg, err := sysload.Avg()
	if err != nil {
		return 0, 0, err
	}
	return avg.Load1, avg.Load5, nil
}
