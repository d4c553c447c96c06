// Command bench measures this project beside what people build today, on this machine: "go run
// ./cmd/bench --quick". It is a program of its own so that plots, load and histograms are no part
// of the command line that everybody else runs.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/firestore-counters/counters/cmd/bench/internal/bench"
	"github.com/firestore-counters/counters/cmd/internal/dev"
)

// Exit codes besides 0.
const (
	exitFailed = 1
	exitUsage  = 2 // the arguments are wrong, and nothing was measured
	exitNoDocs = 3 // the machine did other work, or not all was measured: no docs were written
)

func main() {
	dev.ServeIfChild(bench.Register)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // The second of these signals ends the program at once.
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run runs the program with its arguments and returns its exit code. What is wrong is one line.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cmd := newCommand()
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	understood := false
	cmd.PreRun = func(*cobra.Command, []string) { understood = true }
	err := cmd.ExecuteContext(ctx)
	switch {
	case err == nil:
		return 0
	case !understood:
		fmt.Fprintf(stderr, "bench: %v; see: bench --help\n", err)
		return exitUsage
	}
	fmt.Fprintln(stderr, "bench:", err)
	if errors.Is(err, bench.ErrNotIdle) || errors.Is(err, bench.ErrDocs) {
		return exitNoDocs
	}
	if errors.Is(err, errUsage) || errors.Is(err, bench.ErrScenario) || errors.Is(err, bench.ErrAgainst) {
		return exitUsage
	}
	return exitFailed
}
