package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/firestore-counters/counters/cmd/counters/internal/dev"
)

// process is a function in a process of its own.
type process struct {
	*dev.Process
	function string
	log      *tail
}

// startAttempts is how often a process is started that ends before it answers: its port may have gone to another one.
const startAttempts = 3

// startAnswering starts a process, and returns when it answers.
func startAnswering(ctx context.Context, function string, environ []string) (*process, error) {
	for attempt := 1; ; attempt++ {
		p, err := startProcess(function, environ)
		if err != nil {
			return nil, err
		}
		if err = p.Ready(ctx); err == nil {
			return p, nil
		}
		p.Close()
		if attempt == startAttempts || ctx.Err() != nil {
			return nil, fmt.Errorf("function %s: %w: %s", function, err, p.log)
		}
	}
}

// startProcess starts a process and doesn't wait until it answers.
func startProcess(function string, environ []string) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program, to run functions with: %w", err)
	}
	p := &process{function: function, log: &tail{}}
	// Its standard output, a JSON line per roll-up, goes nowhere.
	p.Process, err = dev.StartProcess(context.Background(), program, function, environ, nil, p.log)
	return p, err
}

// alive is an error when the process has ended.
func (p *process) alive() error {
	select {
	case <-p.Ended():
		return fmt.Errorf("function %s has ended: %s", p.function, p.log)
	default:
		return nil
	}
}

// connect returns a connection to the process as soon as it takes one.
func (p *process) connect(ctx context.Context) (*httpConn, error) {
	for {
		c, err := dialHTTP(ctx, p.Addr)
		if err == nil {
			return c, nil
		}
		select {
		case <-p.Ended():
			return nil, p.alive()
		case <-ctx.Done():
			return nil, fmt.Errorf("function %s does not answer: %w", p.function, err)
		case <-time.After(time.Millisecond):
		}
	}
}

// memory is the process's resident memory in bytes. It reports false where that can't be found out.
func (p *process) memory() (int64, bool) {
	pid := strconv.Itoa(p.PID())
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
