package dev

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	psnet "github.com/shirou/gopsutil/v4/net"

	"github.com/firestore-counters/counters/internal/testbed/freeport"
)

const (
	grace            = 10 * time.Second // Between SIGTERM and SIGKILL, as on Cloud Run.
	startTimeout     = 60 * time.Second // A loaded machine takes its time; one that takes longer has other worries.
	readinessPolling = time.Millisecond
)

// Process is a function in a process of its own.
type Process struct {
	Addr    string    // where it answers, host:port
	Started time.Time // just before it was

	cmd    *exec.Cmd
	stdin  io.Closer // closed, it ends the process: see ServeIfChild
	ended  chan struct{}
	result error // why it ended; readable then
}

// StartProcess starts a program, one that calls [ServeIfChild], to serve a function at a free port
// of 127.0.0.1. It doesn't wait until that answers: see [Process.Ready]. When the context ends, the
// process gets SIGTERM, and SIGKILL ten seconds later, as on Cloud Run. What it prints goes to
// stdout and stderr; to nowhere where they are nil.
func StartProcess(ctx context.Context, program, function string, environ []string, stdout, stderr io.Writer) (*Process, error) {
	return launch(ctx, program, function, environ, stdout, stderr, "", false)
}

// launch is [StartProcess], of a process behind the gateway of that origin, or none, that may be stopped for a while if
// frozen says so.
func launch(ctx context.Context, program, function string, environ []string, stdout, stderr io.Writer, gateway string, frozen bool) (*Process, error) {
	port, err := freeport.Find()
	if err != nil {
		return nil, fmt.Errorf("start function %s: %w", function, err)
	}
	p := &Process{Addr: net.JoinHostPort("127.0.0.1", port), ended: make(chan struct{})}
	p.cmd = exec.CommandContext(ctx, program)
	p.cmd.Env = append(append([]string{}, environ...), serveVariable+"="+cmp.Or(gateway, "none"), "FUNCTION_TARGET="+function, "PORT="+port)
	p.cmd.Stdout, p.cmd.Stderr = stdout, stderr
	p.cmd.Cancel = func() error {
		if p.cmd.Process.Signal(syscall.SIGTERM) != nil {
			return p.cmd.Process.Kill() // Windows knows no SIGTERM.
		}
		if frozen {
			thaw(p.cmd.Process)
		}
		return nil
	}
	if frozen {
		freezable(p.cmd)
	}
	p.cmd.WaitDelay = grace
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start function %s: %w", function, err)
	}
	p.Started = time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start function %s: %w", function, err)
	}
	go func() {
		p.result = p.cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// PID is the id of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Wait returns when the process has ended, with an error unless it did so by itself and well.
func (p *Process) Wait() error {
	<-p.ended
	return p.result
}

// Close ends the process at once, whatever it is doing, and returns when it has ended.
func (p *Process) Close() {
	_ = p.stdin.Close()
	select {
	case <-p.ended:
	case <-time.After(2 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// Ready returns nil once the process answers HTTP. It returns an error when it ends before, when
// something else listens at its port, and when the context ends. It asks OPTIONS *, HTTP's own
// ping: Go's server answers it by itself, while any other request would run the function.
func (p *Process) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	ping := (&http.Request{Method: http.MethodOptions, Header: http.Header{}, URL: &url.URL{Scheme: "http", Host: p.Addr, Opaque: "*"}}).WithContext(ctx)
	transport := &http.Transport{DisableKeepAlives: true}
	for {
		if answer, err := transport.RoundTrip(ping); err == nil {
			answer.Body.Close()
			return p.listens()
		}
		select {
		case <-p.ended:
			return fmt.Errorf("%w: %w", errNotReady, p.result)
		case <-time.After(readinessPolling):
		case <-ctx.Done():
			return fmt.Errorf("%w: it does not answer: %w", errNotReady, ctx.Err())
		}
	}
}

// listens returns an error unless it is this process that listens at its port: a port that was free
// a moment ago may have gone to another one, that was started at the same time and would take the
// requests. Linux hands out its table of sockets in pieces, and one may be missed while others come and go: it
// is read some times.
func (p *Process) listens() error {
	for range 10 {
		sockets, err := psnet.ConnectionsPid("tcp", int32(p.PID()))
		for _, s := range sockets {
			if s.Status == "LISTEN" && net.JoinHostPort(s.Laddr.IP, strconv.Itoa(int(s.Laddr.Port))) == p.Addr {
				return nil
			}
		}
		select {
		case <-p.ended:
			return fmt.Errorf("%w: %w", errNotReady, p.result)
		case <-time.After(readinessPolling):
		}
		if err != nil {
			return nil // a system that doesn't tell is trusted
		}
	}
	return fmt.Errorf("%w: another process listens at its port, %s", errNotReady, p.Addr)
}

// errNotReady means that a process never answered a request.
var errNotReady = errors.New("it never answered")
