package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/firestore-counters/counters/shards"
)

// progress shows that long work goes on: on a terminal in place, once it has taken a second, and elsewhere, as in a
// log, by a line a minute.
type progress struct {
	w       io.Writer
	erase   string // what takes back the line that is shown; empty where that stays
	counted string // what is counted, behind its number, such as " documents gone"; empty where that is clear
	end     func()

	mu    sync.Mutex
	what  string
	n, of int // how many are done, and of how many; 0 where nobody knows
}

func newProgress(w io.Writer, what, counted string) *progress {
	p := &progress{w: w, what: what, counted: counted}
	pause := time.Minute
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.erase, pause = "\r\x1b[K", time.Second
	}
	began, ended := time.Now(), make(chan struct{})
	var showing sync.WaitGroup
	showing.Go(func() {
		ticks := time.NewTicker(pause)
		defer ticks.Stop()
		for {
			select {
			case <-ticks.C:
				p.show(time.Since(began).Round(time.Second))
			case <-ended:
				return
			}
		}
	})
	p.end = sync.OnceFunc(func() {
		close(ended)
		showing.Wait()
		p.Clear()
	})
	return p
}

func (p *progress) show(long time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	said := p.what
	switch {
	case p.of > 0:
		said += fmt.Sprintf(": %d of %d", p.n, p.of)
	case p.n > 0:
		said += fmt.Sprintf(": %d%s", p.n, p.counted)
	}
	if p.erase != "" {
		fmt.Fprintf(p.w, "%s%s, after %v", p.erase, said, long)
		return
	}
	fmt.Fprintf(p.w, "counters: %s, after %v\n", said, long)
}

// Say says what is being done now.
func (p *progress) Say(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what = what
}

// Add says that one more is done.
func (p *progress) Add() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n++
}

// Set says how many are done, and of how many; 0 where nobody knows.
func (p *progress) Set(n, of int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n, p.of = n, of
}

// Clear makes room for a line that stays.
func (p *progress) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprint(p.w, p.erase)
}

// Finish ends it, and returns how many were done. It may be called twice.
func (p *progress) Finish() int {
	p.end()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n
}

// cutShort adds to the error of a command that works in steps how far it came, and that it may be
// given again. What ended before its first step, in an error that is clear, has left nothing.
func cutShort(err error, n int, counted, verb string) error {
	if err == nil || n == 0 && !errors.Is(err, shards.ErrUnknown) && !errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w (%d%s by then; %s it again to finish)", err, n, counted, verb)
}
