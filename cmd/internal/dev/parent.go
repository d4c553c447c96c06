package dev

import (
	"context"
	"os"
	"strings"
	"time"
)

// UntilOrphaned returns a context that ends also when "go run" has started this program and is
// gone. It passes Ctrl-C on, but when it is ended otherwise, it leaves what it runs behind, to hold
// its ports forever. A program that was built and then started outlives its parent, as usual.
func UntilOrphaned(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	program, err := os.Executable()
	if err != nil || !strings.Contains(program, "go-build") { // In a temporary directory, or in the build cache.
		return ctx, cancel
	}
	parent := os.Getppid()
	go func() {
		for {
			select {
			case <-time.After(200 * time.Millisecond):
				if os.Getppid() != parent {
					cancel()
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, cancel
}
