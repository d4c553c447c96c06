package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	psproc "github.com/shirou/gopsutil/v4/process"

	"github.com/firestore-counters/counters/cmd/internal/dev"
)

// process is a function in a process of its own.
type process struct {
	*dev.Process
	*caller
	function string
	log      *tail
	printed  atomic.Int64 // bytes of its log
}

// startAttempts is how often a process is started that ends before it answers: its port may have
// gone to another one.
const startAttempts = 3

// startAnswering starts a process, and returns when it answers.
func startAnswering(ctx context.Context, program, function string, environ []string, metered bool) (*process, error) {
	for attempt := 1; ; attempt++ {
		p, err := startProcess(program, function, environ, metered)
		if err != nil {
			return nil, err
		}
		if err = p.Ready(ctx); err == nil {
			return p, nil
		}
		p.stop()
		if attempt == startAttempts || ctx.Err() != nil {
			return nil, fmt.Errorf("function %s: %w: %s", function, err, p.log)
		}
	}
}

// startProcess starts a process of a program, of this one when that is "", and doesn't wait until
// it answers. Metered, it counts the bytes of its log.
func startProcess(program, function string, environ []string, metered bool) (_ *process, err error) {
	if program == "" {
		if program, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("find this program, to run functions with: %w", err)
		}
	}
	p := &process{function: function, log: &tail{}}
	// Its standard output, a JSON line per roll-up, goes nowhere.
	var out io.Writer
	if metered {
		out = counting{io.Discard, &p.printed}
	}
	if p.Process, err = dev.StartProcess(context.Background(), program, function, environ, out, p.log); err != nil {
		return nil, err
	}
	p.caller = newCaller(p.Addr)
	return p, nil
}

// stop ends the process, and the connections to it.
func (p *process) stop() {
	p.caller.close()
	p.Process.Close()
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

// memory is the process's resident memory in bytes.
func (p *process) memory() (int64, error) {
	of, err := psproc.NewProcess(int32(p.PID()))
	if err != nil {
		return 0, err
	}
	info, err := of.MemoryInfo()
	if err != nil {
		return 0, err
	}
	return int64(info.RSS), nil
}

// cpuSeconds are those that a process has used so far; zero where that can't be found out.
func cpuSeconds(pid int) float64 {
	of, err := psproc.NewProcess(int32(pid))
	if err != nil {
		return 0
	}
	times, err := of.Times()
	if err != nil {
		return 0
	}
	return times.User + times.System
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
