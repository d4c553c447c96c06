package dev

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// supervisor keeps a number of processes of each function running, or as many as it is asked for.
type supervisor struct {
	program   string   // Path of the program that serves functions, this one.
	functions []string // Names, the values of FUNCTION_TARGET.
	instances int      // Processes per function.
	gateway   string   // The origin of the gateway that they stand behind.
	scaled    bool     // One of each is started, and from then on they come and go with grow and shrink.
	environ   []string // What every process gets, beside the variables that tell it what to serve.
	output    *output
	logger    *slog.Logger

	// changed gets the instances of a function that answer now, whenever one came or went. There is
	// one call at a time.
	changed func(function string, now []answering)

	ctx     context.Context // Ends when the processes shall stop.
	cancel  context.CancelFunc
	running sync.WaitGroup

	kills atomic.Int64 // processes that were killed on purpose

	mu   sync.Mutex
	all  []*instance
	kill context.CancelFunc // Ends the killing of processes; nil when there is none.
}

// start starts all processes and returns when each has answered once. On an error, as after the
// context's end, all of them are stopped again.
func (s *supervisor) start(ctx context.Context) error {
	s.ctx, s.cancel = context.WithCancel(context.Background())
	first := make(chan error)
	for _, function := range s.functions {
		for n := range s.instances {
			i := &instance{supervisor: s, function: function, number: n + 1}
			s.all = append(s.all, i)
		}
	}
	begun := 0
	s.mu.Lock()
	for _, i := range s.all {
		if !s.scaled || i.number == 1 {
			begun++
			s.begin(i, first)
		}
	}
	s.mu.Unlock()
	var err error
	for range begun {
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

// begin lets an instance run until it is ended. s.mu is held.
func (s *supervisor) begin(i *instance, first chan<- error) {
	ctx, end := context.WithCancel(s.ctx)
	i.end = end
	s.running.Go(func() {
		i.run(ctx, first)
		end()
		s.mu.Lock()
		i.end = nil
		s.mu.Unlock()
	})
}

// grow starts one more instance of a function. It reports false when all are running, or the
// processes shall stop.
func (s *supervisor) grow(function string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.all {
		if i.function == function && i.end == nil && s.ctx.Err() == nil {
			s.begin(i, nil)
			return true
		}
	}
	return false
}

// shrink ends the instance at an address, as Cloud Run does: first it gets no more requests, then
// SIGTERM.
func (s *supervisor) shrink(addr string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.all {
		if i.addr == addr && addr != "" {
			s.noteAddr(i, "")
			i.end()
		}
	}
}

// stop ends all processes: with SIGTERM, and after the ten seconds that Cloud Run grants, with
// SIGKILL.
func (s *supervisor) stop() {
	s.setKill(0, 0)
	s.cancel()
	s.running.Wait()
}

// setKill makes a random process be killed every so often, as a crash would end it; 0 stops that.
// The seed decides which one, and when in the interval.
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

// killOne kills a process: the chosen one or, where that isn't to run, the next. It kills none while one starts: where
// that takes longer than it is until the next kill, all would start all the time, and none serve.
func (s *supervisor) killOne(choice int) {
	if s.starts() {
		return
	}
	for n := range s.all {
		if i := s.all[(choice+n)%len(s.all)]; i.kill() {
			s.kills.Add(1)
			s.logger.Info("killed a function, as --kill asks for", "function", i.function, "instance", i.number)
			return
		}
	}
}

// starts reports whether a process that is to run doesn't answer yet.
func (s *supervisor) starts() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.all, func(i *instance) bool { return i.end != nil && !i.answers() })
}

// ready reports whether every function has an instance that answers, or will have one as soon as
// there is a request.
func (s *supervisor) ready() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.scaled {
		return true
	}
	answering := make(map[string]bool)
	for _, i := range s.all {
		if i.addr != "" {
			answering[i.function] = true
		}
	}
	return len(answering) == len(s.functions)
}

// setAnswering notes that an instance's process answers.
func (s *supervisor) setAnswering(of *instance, p *Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of.current = p.cmd.Process
	s.noteAddr(of, p.Addr)
}

// setAddr notes where an instance answers, or with "" that it doesn't, and passes it on.
func (s *supervisor) setAddr(of *instance, addr string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noteAddr(of, addr)
}

// noteAddr is setAddr where the lock is held.
func (s *supervisor) noteAddr(of *instance, addr string) {
	if of.addr == addr {
		return
	}
	of.addr = addr
	var now []answering
	for _, i := range s.all {
		if i.function == of.function && i.addr != "" {
			now = append(now, answering{i.addr, i.current})
		}
	}
	s.changed(of.function, now)
}
