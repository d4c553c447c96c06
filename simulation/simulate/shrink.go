package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/firestore-counters/counters/simulation"
)

// orders is how many orders of goroutines a smaller world is tried in before it passes for right:
// with less in it, a race may be won by another.
const orders = 3

// shrinking is a seed that fails, and what is left of it.
type shrinking struct {
	w     *worlds
	o     options
	seed  uint64
	least simulation.Less
	worst simulation.Report
	runs  int
	until time.Time
}

// shrink leaves out what a failing seed fails without: shorter storms, parts of the plan, and then
// operations, by halves and quarters and so on, until nothing more can go or the time is up.
func (w *worlds) shrink(ctx context.Context, o options, failed simulation.Report) (simulation.Less, simulation.Report, error) {
	s := &shrinking{w: w, o: o, seed: failed.Seed, least: o.less, worst: failed, until: time.Now().Add(o.shrink)}
	began, before := time.Now(), failed.Operations
	for {
		was := s.runs
		size := s.size()
		if err := s.shorter(ctx); err != nil {
			return s.least, s.worst, err
		}
		if err := s.parts(ctx); err != nil {
			return s.least, s.worst, err
		}
		if err := s.operations(ctx); err != nil {
			return s.least, s.worst, err
		}
		if s.size() == size || s.runs == was || s.over() {
			break
		}
	}
	fmt.Printf("shrunk from %d operations to %d, and without %d of %d parts of the plan, in %d runs and %s\n\n",
		before, s.left(), len(s.least.Without), len(simulation.Parts()), s.runs, time.Since(began).Round(time.Second))
	return s.least, s.worst, nil
}

func (s *shrinking) over() bool { return time.Now().After(s.until) }

func (s *shrinking) left() int {
	if s.least.Only != nil {
		return len(s.least.Only)
	}
	return s.worst.Operations
}

func (s *shrinking) size() [3]int { return [3]int{s.least.Operations, -len(s.least.Without), s.left()} }

// try runs smaller worlds side by side, and takes the first of the list that fails, if any does.
func (s *shrinking) try(ctx context.Context, smaller []simulation.Less) error {
	for batch := range slices.Chunk(smaller, s.o.procs) {
		if s.over() {
			return nil
		}
		reports := make([]simulation.Report, len(batch))
		orderOf := make([]uint64, len(batch))
		errs := make([]error, len(batch))
		var all sync.WaitGroup
		for n, less := range batch {
			all.Go(func() {
				for order := range uint64(orders) {
					orderOf[n] = s.least.Order + order
					less.Order = orderOf[n]
					if reports[n], errs[n] = s.w.one(ctx, s.seed, less); errs[n] != nil || len(reports[n].Violations) > 0 {
						return
					}
				}
			})
		}
		all.Wait()
		s.runs += len(batch)
		for n, r := range reports {
			if errs[n] != nil {
				return errs[n]
			}
			if len(r.Violations) > 0 {
				s.least, s.worst = batch[n], r
				s.least.Order = orderOf[n]
				fmt.Fprintf(os.Stderr, "%4d runs: %d operations, without %d parts\n", s.runs, s.left(), len(s.least.Without))
				return nil
			}
		}
	}
	return nil
}

// shorter halves storms.
func (s *shrinking) shorter(ctx context.Context) error {
	for s.least.Only == nil && s.least.Operations > 1 && !s.over() {
		less := s.least
		less.Operations = min(less.Operations, max(s.worst.Operations, 1)) / 2
		before := s.least.Operations
		if less.Operations < 1 {
			return nil
		}
		if err := s.try(ctx, []simulation.Less{less}); err != nil {
			return err
		}
		if s.least.Operations == before {
			return nil
		}
	}
	return nil
}

// parts leaves out parts of the plan, each that it fails without.
func (s *shrinking) parts(ctx context.Context) error {
	left := slices.DeleteFunc(simulation.Parts(), func(name string) bool { return slices.Contains(s.least.Without, name) })
	for len(left) > 0 && !s.over() {
		n := min(len(left), s.o.procs)
		var smaller []simulation.Less
		for _, name := range left[:n] {
			less := s.least
			less.Without = append(slices.Clone(less.Without), name)
			smaller = append(smaller, less)
		}
		before := len(s.least.Without)
		if err := s.try(ctx, smaller); err != nil {
			return err
		}
		if len(s.least.Without) > before { // those before it are needed
			taken := s.least.Without[before]
			left = left[slices.Index(left, taken)+1:]
			continue
		}
		left = left[n:]
	}
	return nil
}

// operations leaves out operations: half of them, then quarters, and so on to each alone.
func (s *shrinking) operations(ctx context.Context) error {
	if s.least.Only == nil {
		less := s.least
		less.Only = make([]int, s.worst.Operations)
		for n := range less.Only {
			less.Only[n] = n
		}
		s.least = less
	}
	for chunks := 2; len(s.least.Only) > 0 && !s.over(); {
		only := s.least.Only
		chunks = min(chunks, len(only))
		var smaller []simulation.Less
		for n := range chunks {
			from, to := n*len(only)/chunks, (n+1)*len(only)/chunks
			less := s.least
			less.Only = slices.Concat(only[:from], only[to:])
			if less.Only == nil {
				less.Only = []int{}
			}
			smaller = append(smaller, less)
		}
		if err := s.try(ctx, smaller); err != nil {
			return err
		}
		switch {
		case len(s.least.Only) < len(only):
			chunks = max(chunks-1, 2)
		case chunks == len(only):
			return nil
		default:
			chunks *= 2
		}
	}
	return nil
}
