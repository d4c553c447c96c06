package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/firestore-counters/counters/cmd/counters/internal/dev"
)

// startTimeout is how long a process may take until it answers.
const startTimeout = 30 * time.Second

// process is a function in a process of its own.
type process struct {
	function string
	addr     string    // host:port
	started  time.Time // just before the process was
	cmd      *exec.Cmd
	stdin    io.Closer // closed, it ends the process
	log      *tail
	ended    chan struct{}
}

// startAttempts is how often a process is started that ends before it answers: somebody else may have taken its port.
const startAttempts = 3

// startAnswering starts a process, and returns when it takes connections.
func startAnswering(ctx context.Context, function string, environ []string) (*process, error) {
	for attempt := 1; ; attempt++ {
		p, err := startProcess(function, environ)
		if err != nil {
			return nil, err
		}
		c, err := p.connect(ctx)
		if err == nil {
			c.close()
			return p, nil
		}
		p.stop()
		if attempt == startAttempts || ctx.Err() != nil {
			return nil, err
		}
	}
}

// alive is an error when the process has ended.
func (p *process) alive() error {
	select {
	case <-p.ended:
		return fmt.Errorf("function %s has ended: %s", p.function, p.log)
	default:
		return nil
	}
}

// startProcess starts a process and doesn't wait until it answers.
func startProcess(function string, environ []string) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program, to run functions with: %w", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("find a free port: %w", err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()

	p := &process{function: function, addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), log: &tail{}, ended: make(chan struct{})}
	p.cmd = dev.Command(context.Background(), program, function, port, environ)
	p.cmd.Stderr = p.log // its standard output, one JSON line per roll-up, goes nowhere
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start function %s: %w", function, err)
	}
	p.started = time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start function %s: %w", function, err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// connect returns a connection to the process as soon as it takes one.
func (p *process) connect(ctx context.Context) (*httpConn, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		c, err := dialHTTP(ctx, p.addr)
		if err == nil {
			return c, nil
		}
		select {
		case <-p.ended:
			return nil, fmt.Errorf("function %s ended before it answered: %s", p.function, p.log)
		case <-ctx.Done():
			return nil, fmt.Errorf("function %s does not answer: %w", p.function, err)
		case <-time.After(time.Millisecond):
		}
	}
}

// memory is the process's resident memory in bytes. It reports false where that can't be found out.
func (p *process) memory() (int64, bool) {
	pid := strconv.Itoa(p.cmd.Process.Pid)
	if runtime.GOOS == "linux" {
		fields, err := os.ReadFile("/proc/" + pid + "/statm")
		if err != nil {
			return 0, false
		}
		parts := strings.Fields(string(fields))
		if len(parts) < 2 {
			return 0, false
		}
		pages, err := strconv.ParseInt(parts[1], 10, 64)
		return pages * int64(os.Getpagesize()), err == nil
	}
	out, err := exec.Command("ps", "-o", "rss=", "-p", pid).Output()
	if err != nil {
		return 0, false
	}
	kib, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	return kib << 10, err == nil
}

// stop ends the process.
func (p *process) stop() {
	p.stdin.Close()
	select {
	case <-p.ended:
	case <-time.After(2 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// tail keeps the last lines that a process wrote, to show when it fails.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const longestTail = 2000

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if len(t.text) > longestTail {
		t.text = append(t.text[:0], t.text[len(t.text)-longestTail:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.text))
}
