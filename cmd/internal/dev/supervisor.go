package dev

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

// supervisor keeps a number of processes of each function running.
type supervisor struct {
	program   string   // Path of the program that serves functions, this one.
	functions []string // Names, the values of FUNCTION_TARGET.
	instances int      // Processes per function.
	environ   []string // What every process gets, beside the variables that tell it what to serve.
	output    *output
	logger    *slog.Logger

	// changed gets the addresses, host:port, at which the instances of a function answer now, whenever one came or
	// went. There is one call at a time.
	changed func(function string, addrs []string)

	ctx     context.Context // Ends when the processes shall stop.
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu   sync.Mutex
	all  []*instance
	kill context.CancelFunc // Ends the killing of processes; nil when there is none.
}

// start starts all processes and returns when each has answered once. On an error, as after the context's end, all of
// them are stopped again.
func (s *supervisor) start(ctx context.Context) error {
	s.ctx, s.cancel = context.WithCancel(context.Background())
	first := make(chan error)
	for _, function := range s.functions {
		for n := range s.instances {
			i := &instance{supervisor: s, function: function, number: n + 1}
			s.all = append(s.all, i)
		}
	}
	for _, i := range s.all {
		s.running.Go(func() { i.run(s.ctx, first) })
	}
	var err error
	for range s.all {
		select {
		case e := <-first:
			err = errors.Join(err, e)
		case <-ctx.Done():
			err = errors.Join(err, ctx.Err())
		}
		if err != nil {
			s.cancel()
			s.running.Wait()
			return fmt.Errorf("start the functions: %w", err)
		}
	}
	return nil
}

// stop ends all processes: with SIGTERM, and after the ten seconds that Cloud Run grants, with SIGKILL.
func (s *supervisor) stop() {
	s.setKill(0, 0)
	s.cancel()
	s.running.Wait()
}

// setKill makes a random process be killed every so often, as a crash would end it; 0 stops that. The seed decides
// which one, and when in the interval.
func (s *supervisor) setKill(every time.Duration, seed uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kill != nil {
		s.kill()
		s.kill = nil
	}
	if every <= 0 || s.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithCancel(s.ctx)
	s.kill = cancel
	s.running.Go(func() {
		dice := rand.New(rand.NewPCG(seed, 1))
		for {
			// Half the interval up to one and a half of it.
			wait := every/2 + time.Duration(dice.Float64()*float64(every))
			choice := dice.IntN(len(s.all))
			select {
			case <-time.After(wait):
				s.killOne(choice)
			case <-ctx.Done():
				return
			}
		}
	})
}

// killOne kills a process: the chosen one or, while that isn't running, the next.
func (s *supervisor) killOne(choice int) {
	for n := range s.all {
		if i := s.all[(choice+n)%len(s.all)]; i.kill() {
			s.logger.Info("killed a function, as --kill asks for", "function", i.function, "instance", i.number)
			return
		}
	}
}

// ready reports whether every function has an instance that answers.
func (s *supervisor) ready() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	answering := make(map[string]bool)
	for _, i := range s.all {
		if i.addr != "" {
			answering[i.function] = true
		}
	}
	return len(answering) == len(s.functions)
}

// setAddr notes where an instance answers, or with "" that it doesn't, and passes it on.
func (s *supervisor) setAddr(of *instance, addr string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of.addr == addr {
		return
	}
	of.addr = addr
	var addrs []string
	for _, i := range s.all {
		if i.function == of.function && i.addr != "" {
			addrs = append(addrs, i.addr)
		}
	}
	s.changed(of.function, addrs)
}
