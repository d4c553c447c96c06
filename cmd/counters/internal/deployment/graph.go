package deployment

import (
	"context"
	"errors"
	"sync"
)

// work is done as soon as what it needs is.
type work struct {
	name  string
	needs []string // of other work; what is no work is there
	alone string   // what only one of those that name it may change at a time
	do    func(context.Context) error
}

// errSkipped is the error of what was not begun: what it needs has failed.
var errSkipped = errors.New("what it needs failed")

// atOnce is how many commands run at a time at most: each takes a second of a processor, and a build minutes of
// waiting.
const atOnce = 8

// sideBySide does all work, and returns the errors by its names. What fails ends nothing but what needs it, and that
// only unless all is to be tried.
func sideBySide(ctx context.Context, all []work, tryAll bool) map[string]error {
	var mu sync.Mutex
	failed, ended, alone := map[string]error{}, map[string]chan struct{}{}, map[string]chan struct{}{}
	for _, w := range all {
		ended[w.name], alone[w.alone] = make(chan struct{}), make(chan struct{}, 1)
	}
	room := make(chan struct{}, atOnce)
	var running sync.WaitGroup
	for _, w := range all {
		running.Go(func() {
			defer close(ended[w.name])
			var err error
			for _, need := range w.needs {
				if ended[need] == nil {
					continue
				}
				<-ended[need]
				mu.Lock()
				if failed[need] != nil && !tryAll {
					err = errSkipped
				}
				mu.Unlock()
			}
			if err == nil {
				if w.alone != "" {
					alone[w.alone] <- struct{}{}
					defer func() { <-alone[w.alone] }()
				}
				room <- struct{}{}
				if err = context.Cause(ctx); err == nil {
					err = w.do(ctx)
				}
				<-room
			}
			if err != nil {
				mu.Lock()
				failed[w.name] = err
				mu.Unlock()
			}
		})
	}
	running.Wait()
	return failed
}
