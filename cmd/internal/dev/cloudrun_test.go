//go:build all

package dev

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/firestore-counters/counters/emulator/eventarc"
	"github.com/firestore-counters/counters/internal/testbed/chance"
)

// Three instances of each function come and go under load: they start while requests wait, are
// ended while they have some, think only while they have any, and go when there are none. Nothing
// is lost.
func TestCloudRun(t *testing.T) {
	t.Parallel()
	s := startSystem(t, Config{
		Instances: 3, CloudRun: CloudRun{Concurrency: 20, Idle: 500 * time.Millisecond},
		Push:    eventarc.Push{Window: 5, Transit: 10 * time.Millisecond, AckDeadline: 10 * time.Second, Shortest: 100 * time.Millisecond, Longest: time.Second},
		Environ: []string{"ROLLUP_INTERVAL=200ms", "LOG_LEVEL=ERROR"},
	})
	c := &chaosClients{System: s, rand: chance.Of(t), layout: oneField, t: t, client: s.client(t)}
	seen := s.watchInstances(t)

	for round := range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		var turnover, clients sync.WaitGroup
		turnover.Go(func() { s.replaceInstances(ctx, c.rand) })
		for n := range 60 {
			clients.Go(func() { c.incrementWithKeys(100*round+n, 20) })
		}
		clients.Wait()
		cancel()
		turnover.Wait()
		eventually(t, "no instance is left", func() bool { return s.running(incrementFunction)+s.running(rollupFunction) == 0 })
	}
	if err := s.WaitForEvents(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := c.keyed.Load(); got != 3600 {
		t.Errorf("%d increments were answered, want 3600", got)
	}
	c.check("keyed")
	if got := c.sumOf("keyed", "count"); got != 3600 {
		t.Errorf("%d are counted, want 3600", got)
	}
	// How many Rollup needs depends on how far the window of pushes gets: on a slow machine, one.
	for function, least := range map[string]int{incrementFunction: 2, rollupFunction: 1} {
		most, all := seen(function)
		if most < least || most > 3 || all < 4 {
			t.Errorf("%s has had %d instances at a time, and %d in all; want %d to 3, and others in their place", function, most, all, least)
		}
		t.Logf("%s: %d instances in all", function, all)
	}
	t.Logf("events %+v", s.Events())
}

// watchInstances looks at the instances that answer until the test ends, and tells how many there
// were at most, and in all.
func (s *System) watchInstances(t *testing.T) func(function string) (most, all int) {
	var mu sync.Mutex
	most, all := map[string]int{}, map[string]map[string]bool{}
	for _, function := range []string{incrementFunction, rollupFunction} {
		all[function] = map[string]bool{}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() {
		for ctx.Err() == nil {
			mu.Lock()
			for function := range all {
				service := s.services[function]
				service.mu.Lock()
				most[function] = max(most[function], len(service.instances))
				for _, i := range service.instances {
					all[function][i.addr] = true
				}
				service.mu.Unlock()
			}
			mu.Unlock()
			time.Sleep(time.Millisecond)
		}
	})
	t.Cleanup(func() { cancel(); watching.Wait() })
	return func(function string) (int, int) {
		mu.Lock()
		defer mu.Unlock()
		return most[function], len(all[function])
	}
}

// running is how many processes of a function there are.
func (s *System) running(function string) (n int) {
	s.supervisor.mu.Lock()
	defer s.supervisor.mu.Unlock()
	for _, i := range s.supervisor.all {
		if i.function == function && i.end != nil {
			n++
		}
	}
	return n
}

// replaceInstances ends an instance every so often, whatever it is doing.
func (s *System) replaceInstances(ctx context.Context, dice *rand.Rand) {
	for ctx.Err() == nil {
		service := s.services[[]string{incrementFunction, rollupFunction}[dice.IntN(2)]]
		service.mu.Lock()
		addr := ""
		if n := len(service.instances); n > 0 {
			addr = service.instances[dice.IntN(n)].addr
		}
		service.mu.Unlock()
		s.supervisor.shrink(addr)
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}
