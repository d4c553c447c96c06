// Command simulate runs simulated worlds so that a seed is a history, and shrinks what fails: see
// packages simulation and exact. Each world has a process of its own.
//
//	go run ./simulation/simulate -seed=7
//	go run ./simulation/simulate -hours=10000
//
// The first runs one seed, and prints the hash of its history; the second runs seeds until so many
// virtual hours have passed, beginning with the time of day unless a seed is given, and ends with
// one line of what there was. A violation ends it: the seed is run again with less and less, and
// the shortest history is printed that still has one, with the command that runs just that. It
// exits 1 then.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/firestore-counters/counters/simulation"
)

// options are the flags.
type options struct {
	seed    uint64
	seeds   int
	hours   float64
	rate    float64
	less    simulation.Less
	trace   int
	overlay string
	procs   int
	shrink  time.Duration
}

func main() {
	o, err := parse(os.Args[1:])
	if err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		fmt.Fprintln(os.Stderr, "simulate:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	violated, err := run(ctx, o)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "interrupted")
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, "simulate:", err)
		os.Exit(1)
	case violated:
		os.Exit(1)
	}
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("simulate", flag.ContinueOnError)
	flags.Uint64Var(&o.seed, "seed", 0, "the first seed; without -hours and -seeds the only one; the time of day unless set")
	flags.IntVar(&o.seeds, "seeds", 0, "so many seeds")
	flags.Float64Var(&o.hours, "hours", 0, "seeds until so many virtual hours have passed; 1,000 where no seed is given")
	flags.Float64Var(&o.rate, "rate", 0, "operations a second, instead of the plan's 0.1 to 5")
	flags.IntVar(&o.less.Operations, "operations", 1500, "operations in a storm, at most")
	without := flags.String("without", "", "parts of the plan that are left out, with commas between them: "+strings.Join(simulation.Parts(), ", "))
	only := flags.String("only", "", "operations that are begun, as 3,7-9, or none; all unless set")
	flags.Uint64Var(&o.less.Order, "order", 0, "another order of goroutines")
	flags.IntVar(&o.trace, "trace", 60, "print so many entries of the history that led to a violation, at most")
	flags.StringVar(&o.overlay, "overlay", "", "a file for go build -overlay: a planted fault, say (mutants -overlay writes one)")
	flags.IntVar(&o.procs, "parallel", runtime.NumCPU(), "how many worlds run side by side")
	flags.DurationVar(&o.shrink, "shrink", 5*time.Minute, "how long a seed that fails is shrunk; 0 is not at all")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 || o.seeds < 0 || o.hours < 0 || o.procs < 1 || o.less.Operations < 1 || o.rate < 0 {
		return o, errors.New("want flags alone, and no number below 0; -parallel and -operations are 1 or more")
	}
	if *without != "" {
		o.less.Without = strings.Split(*without, ",")
	}
	if o.less.Only, err = simulation.Numbers(*only); err != nil {
		return o, err
	}
	if _, err := (simulation.Plan{}).Less(o.less); err != nil {
		return o, err
	}
	given := o.seed != 0
	o.seed = cmp.Or(o.seed, uint64(time.Now().Unix())*1000)
	switch {
	case o.seeds > 0 || o.hours > 0:
	case given:
		o.seeds = 1
	default:
		o.hours = 1000
	}
	return o, nil
}

// last is the seed after the last one: which they are depends on their plans alone.
func (o options) last() uint64 {
	hours, seed := 0.0, o.seed
	for ; int(seed-o.seed) < o.seeds || hours < o.hours; seed++ {
		p := simulation.PlanOf(seed)
		p.Rate = cmp.Or(o.rate, p.Rate)
		if p, err := p.Less(o.less); err == nil {
			hours += p.Length().Hours()
		}
	}
	return seed
}

// run runs what is asked for, and reports whether a promise was broken.
func run(ctx context.Context, o options) (violated bool, err error) {
	w, err := build(ctx, o)
	if err != nil {
		return false, err
	}
	defer w.remove()
	failed, err := w.all(ctx, o)
	if err != nil || failed == nil {
		return false, err
	}
	fmt.Printf("seed %d fails: %s\n", failed.Seed, failed.Violations[0])
	less, shortest := o.less, *failed
	if o.shrink > 0 {
		if less, shortest, err = w.shrink(ctx, o, *failed); err != nil {
			return true, err
		}
	}
	for _, line := range shortest.Trace {
		fmt.Println(line)
	}
	fmt.Println()
	for _, v := range shortest.Violations {
		fmt.Println(v)
	}
	fmt.Println("history", shortest.Hash)
	fmt.Println("again:", o.command(failed.Seed, less))
	return true, nil
}

// command is what runs just that again.
func (o options) command(seed uint64, less simulation.Less) string {
	words := []string{"go run ./simulation/simulate", fmt.Sprint("-seed=", seed)}
	if o.rate > 0 {
		words = append(words, fmt.Sprint("-rate=", o.rate))
	}
	for _, f := range less.Flags() {
		words = append(words, "-"+f)
	}
	if o.overlay != "" {
		words = append(words, "-overlay="+o.overlay)
	}
	return strings.Join(append(words, "-shrink=0"), " ")
}
