package dev

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	grace            = 10 * time.Second // Between SIGTERM and SIGKILL, as on Cloud Run.
	startTimeout     = 60 * time.Second // A loaded machine takes its time; one that takes longer has other worries.
	startAttempts    = 3                // A port may be lost to somebody else, though hardly twice.
	shortestRestart  = 100 * time.Millisecond
	longestRestart   = 5 * time.Second
	stableAfter      = 10 * time.Second // A process that ran for so long is restarted without delay.
	readinessPolling = 10 * time.Millisecond
)

// errNotReady is the end of a process that has never answered a request.
var errNotReady = errors.New("it ended before it answered")

// instance is one process of a function, and after its end the next one in its place.
type instance struct {
	supervisor *supervisor
	function   string
	number     int    // From 1.
	addr       string // Where it answers, host:port; empty while it doesn't. Guarded by the supervisor's lock.

	mu      sync.Mutex
	process *os.Process // nil while there is none that may be killed.
	killed  bool        // The process was killed on purpose.
}

// run keeps a process running until the context ends. It sends nil on first when the process has answered for the
// first time, or an error when it gives up because none ever did.
func (i *instance) run(ctx context.Context, first chan<- error) {
	tell := func(err error) {
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
				tell(nil)
			}
		})
		if ctx.Err() != nil {
			return
		}
		log := i.supervisor.logger.With("function", i.function, "instance", i.number)
		switch {
		case first != nil && (attempt == startAttempts || !errors.Is(err, errNotReady)):
			tell(fmt.Errorf("function %s: %w", i.function, err))
			return
		case i.takeKilled():
			wait = shortestRestart
			continue // At once: a crash on purpose says nothing about the program.
		case time.Since(began) > stableAfter:
			wait = shortestRestart
		}
		log.Warn("a function ended by itself and is started again", "after", time.Since(began).Round(time.Millisecond).String(), "wait", wait.String(), "error", err)
		select {
		case <-time.After(wait):
			wait = min(2*wait, longestRestart)
		case <-ctx.Done():
			return
		}
	}
}

// once starts a process and returns after its end. It calls ready when the process answers requests.
func (i *instance) once(ctx context.Context, ready func()) error {
	s := i.supervisor
	port, err := freePort()
	if err != nil {
		return err
	}
	cmd := Command(ctx, s.program, i.function, port, s.environ)
	lines := s.output.lines(prefix(i.function, i.number, s.instances))
	cmd.Stdout, cmd.Stderr = lines, lines
	cmd.Cancel = func() error {
		if cmd.Process.Signal(syscall.SIGTERM) != nil {
			return cmd.Process.Kill() // Windows knows no SIGTERM.
		}
		return nil
	}
	cmd.WaitDelay = grace
	if _, err := cmd.StdinPipe(); err != nil { // Closed by Wait, or by our end: see ServeIfChild.
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	i.setProcess(cmd.Process)

	answers, ended := context.WithCancel(ctx)
	var polling sync.WaitGroup
	answered := false
	polling.Go(func() {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		if answered = untilAnswers(answers, addr); answered {
			s.setAddr(i, addr)
			ready()
		} else if answers.Err() == nil {
			s.logger.Error("a function does not answer and is ended", "function", i.function, "instance", i.number, "after", startTimeout.String())
			_ = cmd.Process.Kill()
		}
	})
	err = cmd.Wait()
	i.setProcess(nil)
	ended()
	polling.Wait()
	s.setAddr(i, "")
	lines.flush()
	if !answered {
		return fmt.Errorf("%w: %w", errNotReady, err)
	}
	return err
}

func (i *instance) setProcess(p *os.Process) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.process = p
}

// kill ends the process with SIGKILL. It returns false when there is none.
func (i *instance) kill() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.process == nil || i.process.Kill() != nil {
		return false
	}
	i.process, i.killed = nil, true
	return true
}

// takeKilled tells whether the process that has just ended was killed on purpose.
func (i *instance) takeKilled() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	killed := i.killed
	i.killed = false
	return killed
}

// freePort returns a port that was free a moment ago.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// untilAnswers returns true once the server answers HTTP, and false when the context has ended or the server takes
// too long. It asks OPTIONS *, HTTP's own ping: Go's server answers it by itself, while any other request would run
// the function.
func untilAnswers(ctx context.Context, addr string) bool {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	ping := (&http.Request{Method: http.MethodOptions, Header: http.Header{}, URL: &url.URL{Scheme: "http", Host: addr, Opaque: "*"}}).WithContext(ctx)
	transport := &http.Transport{DisableKeepAlives: true}
	for {
		if answer, err := transport.RoundTrip(ping); err == nil {
			answer.Body.Close()
			return true
		}
		select {
		case <-time.After(readinessPolling):
		case <-ctx.Done():
			return false
		}
	}
}
