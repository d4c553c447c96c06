package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/firestore-counters/counters/shards"
)

// newProgress shows that work goes on, on a terminal, and nothing elsewhere.
func newProgress(w io.Writer, what string) *progressbar.ProgressBar {
	w = onTerminal(w)
	return progressbar.NewOptions(-1, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(), progressbar.OptionShowTotalBytes(false), progressbar.OptionShowIts(), progressbar.OptionSetItsString("counters"),
		progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100_000_000),
		// a spinner that turns by itself races with Add (progressbar 3.19)
		progressbar.OptionSetSpinnerChangeInterval(0))
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
	w := onTerminal(cmd.ErrOrStderr())
	var n atomic.Int64
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
				bar = progressbar.NewOptions(-1, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what),
					progressbar.OptionSetElapsedTime(true), progressbar.OptionClearOnFinish(), progressbar.OptionSetSpinnerChangeInterval(0))
			}
			if n := n.Load(); n > 0 {
				bar.Describe(fmt.Sprintf("%s: %d %s", what, n, counted))
			}
			_ = bar.Add(1)
		}
	}()
	return func(now int) { n.Store(int64(now)) }, func() int {
		close(ended)
		<-gone
		return int(n.Load())
	}
}
