package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/firestore-counters/counters/shards"
)

// progress shows that long work goes on: a bar on a terminal, and elsewhere, as in a log, a line a
// minute.
type progress struct {
	*progressbar.ProgressBar
	end     func()
	now, of atomic.Int64 // which the bar forgets where nobody knows of how many
}

func newProgress(w io.Writer, what string) *progress {
	p := &progress{ProgressBar: progressbar.NewOptions(-1, progressbar.OptionSetWriter(onTerminal(w)), progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(), progressbar.OptionShowTotalBytes(false), progressbar.OptionShowIts(), progressbar.OptionSetItsString("counters"),
		progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100_000_000),
		// a spinner that turns by itself races with Add (progressbar 3.19)
		progressbar.OptionSetSpinnerChangeInterval(0))}
	p.end = everyMinute(w, func() string {
		if of := p.of.Load(); of > 0 {
			return fmt.Sprintf("%s: %d of %d", what, p.now.Load(), of)
		}
		return fmt.Sprintf("%s: %d", what, p.now.Load())
	})
	return p
}

// Add says that so many more are done.
func (p *progress) Add(n int) error {
	p.now.Add(int64(n))
	return p.ProgressBar.Add(n)
}

// Set says that so many are done, of so many.
func (p *progress) Set(n, of int) {
	p.now.Store(int64(n))
	p.of.Store(int64(of))
	p.ChangeMax(of)
	_ = p.ProgressBar.Set(n)
}

// Finish ends it, and may be called twice.
func (p *progress) Finish() error {
	p.end()
	return p.ProgressBar.Finish()
}

// everyMinute writes a line a minute of what there is to say, and for how long it has been, where w
// is no terminal. It ends, and writes nothing more, once the function that it returns has returned.
func everyMinute(w io.Writer, say func() string) (end func()) {
	if onTerminal(w) != io.Discard {
		return func() {}
	}
	began, ended := time.Now(), make(chan struct{})
	var writing sync.WaitGroup
	writing.Go(func() {
		lines := time.NewTicker(time.Minute)
		defer lines.Stop()
		for {
			select {
			case <-lines.C:
				fmt.Fprintf(w, "counters: %s, after %v\n", say(), time.Since(began).Round(time.Second))
			case <-ended:
				return
			}
		}
	})
	return sync.OnceFunc(func() {
		close(ended)
		writing.Wait()
	})
}

// onTerminal is w where that is a terminal, and nothing else: a file would fill with what a
// terminal writes over.
func onTerminal(w io.Writer) io.Writer {
	if f, ok := w.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
		return io.Discard
	}
	return w
}

// longWork is how long something may take before it shows that it is under way.
const longWork = time.Second

// cutShort adds to the error of a command that works in steps how far it came, and that it may be
// given again. What ended before its first step, in an error that is clear, has left nothing.
func cutShort(err error, n int, counted, verb string) error {
	if err == nil || n == 0 && !errors.Is(err, shards.ErrUnknown) && !errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w (%d %s by then; %s it again to finish)", err, n, counted, verb)
}

// underWay shows that something is being done, whose end nobody knows, for how long it has been,
// and how many of what is counted there are by now, until end is called, which returns that.
func underWay(cmd *cobra.Command, what, counted string) (count func(int), end func() int) {
	w := cmd.ErrOrStderr()
	var n atomic.Int64
	say := func() string {
		if n := n.Load(); n > 0 {
			return fmt.Sprintf("%s: %d %s", what, n, counted)
		}
		return what
	}
	endLines, endBar := everyMinute(w, say), turning(onTerminal(w), say)
	return func(now int) { n.Store(int64(now)) }, func() int {
		endLines()
		endBar()
		return int(n.Load())
	}
}

// turning shows on a terminal, once something takes long, that it is under way, until end is called.
func turning(w io.Writer, say func() string) (end func()) {
	ended, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		pause := longWork
		var bar *progressbar.ProgressBar
		for {
			select {
			case <-ended:
				if bar != nil {
					_ = bar.Finish()
				}
				return
			case <-time.After(pause):
			}
			if bar == nil {
				pause = 200 * time.Millisecond
				bar = progressbar.NewOptions(-1, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(say()),
					progressbar.OptionSetElapsedTime(true), progressbar.OptionClearOnFinish(), progressbar.OptionSetSpinnerChangeInterval(0))
			}
			bar.Describe(say())
			_ = bar.Add(1)
		}
	}()
	return func() {
		close(ended)
		<-gone
	}
}
