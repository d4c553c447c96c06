package dev

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// fleet is a supervisor whose instances are known to a test.
type fleet struct {
	*supervisor
	out syncBuffer

	mu    sync.Mutex
	addrs map[string][]string // :: function → where its instances answer.
}

func newFleet(t testing.TB, instances int, functions ...string) *fleet {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{addrs: make(map[string][]string)}
	f.supervisor = &supervisor{
		program: program, functions: functions, instances: instances, environ: os.Environ(),
		output: newOutput(&f.out, instances), logger: testLogger(t),
		changed: func(function string, now []answering) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.addrs[function] = addrsOf(now)
		},
	}
	return f
}

func startFleet(t testing.TB, instances int, functions ...string) *fleet {
	t.Helper()
	f := newFleet(t, instances, functions...)
	if err := f.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.stop)
	return f
}

func (f *fleet) of(function string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.addrs[function]
}

// pid asks the function at an address for its process.
func pid(t testing.TB, addr string) int {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get("http://" + addr + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	pid, err := strconv.Atoi(answer.Header.Get("X-Pid"))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// syncBuffer is a buffer that several goroutines use.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func TestEachInstanceIsAProcess(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 2, "Echo", "Hang")
	if !f.ready() {
		t.Error("all have started, and not all are ready")
	}
	pids := map[int]bool{os.Getpid(): true}
	for _, function := range []string{"Echo", "Hang"} {
		addrs := f.of(function)
		if len(addrs) != 2 {
			t.Fatalf("%s answers at %v, want two addresses", function, addrs)
		}
		for _, addr := range addrs {
			pids[pid(t, addr)] = true
		}
	}
	if len(pids) != 5 {
		t.Errorf("4 instances and this test are %d processes", len(pids))
	}
}

func TestEndedProcessIsStartedAgain(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 1, "Exit", "Echo")
	first := f.of("Exit")
	if _, err := http.Get("http://" + first[0]); err == nil {
		t.Fatal("a process that has ended answered")
	}
	eventually(t, "another process is there", func() bool {
		now := f.of("Exit")
		return len(now) == 1 && now[0] != first[0]
	})
	if out := f.out.String(); !strings.Contains(out, "Exit      | about to end\n") {
		t.Errorf("its last words are not among\n%s", out)
	}
}

func TestKilledProcessIsStartedAgain(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 2, "Echo")
	before := f.of("Echo")
	f.setKill(time.Second, 1)
	eventually(t, "both are other processes", func() bool {
		now := f.of("Echo")
		return len(now) == 2 && now[0] != before[0] && now[1] != before[1]
	})
	f.setKill(0, 0)
	eventually(t, "both are back", func() bool { return len(f.of("Echo")) == 2 })
}

// Where a start takes longer than it is until the next kill, one process starts at a time, and the others serve.
func TestNoneIsKilledWhileOneStarts(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3, "Echo")
	f.environ = append(f.environ, slowStart+"=500ms")
	if err := f.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.stop)
	f.setKill(100*time.Millisecond, 1)
	eventually(t, "three were killed", func() bool {
		if n := len(f.of("Echo")); n < 2 {
			t.Fatalf("%d of three processes answer", n)
		}
		return f.kills.Load() == 3
	})
}

func TestFunctionThatDoesNotStart(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1, "Echo", "NoSuchFunction")
	err := f.start(t.Context())
	if !errors.Is(err, errNotReady) || !strings.Contains(err.Error(), "NoSuchFunction") {
		t.Errorf("got %v", err)
	}
	if out := f.out.String(); !strings.Contains(out, `no matching function found with name: "NoSuchFunction"`) {
		t.Errorf("the reason is not among\n%s", out)
	}
	if len(f.of("Echo")) != 0 {
		t.Error("a process is left")
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := newFleet(t, 1, "Echo").start(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// What a process gets when its parent is gone, however it went, is the end of its standard input.
func TestProcessEndsWithItsParent(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "Hang")
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil { // Ctrl-C is for the parent.
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get("http://" + p.Addr) // It is still there, and busy.
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if err := p.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if _, err := io.ReadAll(answer.Body); err == nil {
		t.Error("the request in flight ended well")
	}
}

// A port that was free may go to another process that is started at the same time. Then the other
// one would get this one's requests: the process that lost its port is found out, although its port
// answers.
func TestLostPortIsFoundOut(t *testing.T) {
	t.Parallel()
	first := startProcess(t, "Echo")
	second := startProcess(t, "Echo")
	lost := *second
	lost.Addr = first.Addr
	if err := lost.Ready(t.Context()); !errors.Is(err, errNotReady) || !strings.Contains(err.Error(), first.Addr) {
		t.Errorf("err = %v, want one that says that another process listens at %s", err, first.Addr)
	}
}

func startProcess(t *testing.T, function string) *Process {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := StartProcess(t.Context(), program, function, os.Environ(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	if err := p.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p
}
