package dev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/googleapis/gax-go/v2"
)

const (
	startAttempts   = 3 // A port may be lost to another process, though hardly twice.
	shortestRestart = 100 * time.Millisecond
	longestRestart  = 5 * time.Second
	stableAfter     = 10 * time.Second // A process that ran for so long is restarted without delay.
)

// instance is one process of a function, and after its end the next one in its place.
type instance struct {
	supervisor *supervisor
	function   string
	number     int // From 1.

	// Guarded by the supervisor's lock.
	addr    string             // Where it answers, host:port; empty while it doesn't.
	current *os.Process        // What answers there.
	end     context.CancelFunc // Ends it; nil while it isn't to run.

	mu      sync.Mutex
	process *os.Process // nil while none answers
	killed  bool        // The process was killed on purpose.
}

// run keeps a process running until the context ends. It sends nil on first when the process has
// answered for the first time, or an error when it gives up because none ever did.
func (i *instance) run(ctx context.Context, first chan<- error) {
	notify := func(err error) {
		select {
		case first <- err:
		case <-ctx.Done():
		}
		first = nil
	}
	wait := shortestRestart
	for attempt := 1; ; attempt++ {
		began := time.Now()
		err := i.once(ctx, func() {
			if first != nil {
				notify(nil)
			}
		})
		if ctx.Err() != nil {
			return
		}
		log := i.supervisor.logger.With("function", i.function, "instance", i.number)
		switch {
		case first != nil && (attempt == startAttempts || !errors.Is(err, errNotReady)):
			notify(fmt.Errorf("function %s: %w", i.function, err))
			return
		case i.takeKilled():
			wait = shortestRestart
			continue // At once: a crash on purpose says nothing about the program.
		case time.Since(began) > stableAfter:
			wait = shortestRestart
		}
		log.Warn("a function ended by itself and is started again", "after", time.Since(began).Round(time.Millisecond).String(), "wait", wait.String(), "error", err)
		if gax.Sleep(ctx, wait) != nil {
			return
		}
		wait = min(2*wait, longestRestart) // in steps that the log tells, rather than at random: there is no crowd to spread
	}
}

// once starts a process and returns after its end. It calls ready when the process answers
// requests.
func (i *instance) once(ctx context.Context, ready func()) error {
	s := i.supervisor
	lines := s.output.lines(prefix(i.function, i.number, s.instances))
	defer lines.flush()
	p, err := launch(ctx, s.program, i.function, s.environ, lines, lines, s.gateway, s.scaled)
	if err != nil {
		return err
	}
	if err := p.Ready(ctx); err != nil {
		if ctx.Err() != nil {
			_ = p.Wait() // it has got SIGTERM
		} else {
			p.Close()
		}
		return err
	}
	i.setProcess(p.cmd.Process)
	s.setAnswering(i, p)
	ready()
	err = p.Wait()
	i.setProcess(nil)
	s.setAddr(i, "")
	return err
}

func (i *instance) setProcess(p *os.Process) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.process = p
}

// answers reports whether a process does, and was not killed.
func (i *instance) answers() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.process != nil
}

// kill ends the process with SIGKILL. It returns false when none answers.
func (i *instance) kill() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.process == nil || i.process.Kill() != nil {
		return false
	}
	i.process, i.killed = nil, true
	return true
}

// takeKilled reports whether the process that has just ended was killed on purpose.
func (i *instance) takeKilled() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	killed := i.killed
	i.killed = false
	return killed
}
