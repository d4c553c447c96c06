// Command counters works with distributed counters on Firestore, and runs the whole system on one
// machine.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	// Certificates for where there are none, as in an image of this program alone.
	_ "golang.org/x/crypto/x509roots/fallback"

	"github.com/firestore-counters/counters/cmd/internal/dev"
	"github.com/firestore-counters/counters/cmd/internal/terminal"
)

func main() {
	dev.ServeIfChild()
	ctx, stop := signal.NotifyContext(context.Background(), endingSignals()...)
	context.AfterFunc(ctx, stop) // The second of these signals ends the program at once.
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// endingSignals are the signals that ask for a clean end: Ctrl-C, kill, and a closed terminal
// unless nohup is to outlive that.
func endingSignals() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// run runs the program with its arguments and returns its exit code: 0, or when it printed an error
// 1, 2 where the arguments are wrong, and 130 where it was interrupted.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	args = flagsAnywhere(root, args)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	understood := false
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := missingFlags(cmd); err != nil { // which the library would say in words of its own
			return err
		}
		understood = true
		return nil
	}
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && cmd == root && !understood {
		err = cmp.Or(unknownCommand(root, args), err)
	}
	code := exitFailed
	switch {
	case err == nil:
		return 0
	case !understood: // before anything was done: the arguments are wrong
		err = fmt.Errorf("%w; see: %s --help", err, cmd.CommandPath())
		code = exitUsage
	case wrongUsage(err):
		code = exitUsage
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		err = fmt.Errorf("interrupted: %w", err)
		code = exitInterrupted
	default:
		err = forbidden(err)
	}
	fmt.Fprintln(stderr, "counters:", terminal.Error(err))
	return code
}
