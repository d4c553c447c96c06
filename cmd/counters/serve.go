package main

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"

	"github.com/GoogleCloudPlatform/functions-framework-go/funcframework"
	"github.com/spf13/cobra"

	"github.com/firestore-counters/counters/functions"
	"github.com/firestore-counters/counters/internal/settings"
)

func newServeCommand() *cobra.Command {
	var host, port string
	cmd := &cobra.Command{
		Use:   "serve " + strings.Join(functions.Names(), "|"),
		Short: "Run one function, as in a container",
		Long: `Run one function on the functions framework, as Cloud Run runs it in a container. Settings come from the environment,
and logs go to standard output. After SIGTERM it answers what it has begun, and ends.

It accepts everything that reaches its port. Something else must deliver events to Rollup: "counters dev" runs all of it.`,
		Example: `  counters serve Increment --port 8080
  COUNTERS='posts/{post}' counters serve Rollup --port 8082 --host 127.0.0.1`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && !slices.Contains(functions.Names(), args[0]) {
				return fmt.Errorf("no function %q: want %s", args[0], strings.Join(functions.Names(), ", "))
			}
			return arguments(1)(cmd, args)
		},
		ValidArgs: functions.Names(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
				return badUsage("--port %s: want a port, 1 to 65535", port)
			}
			if _, err := settings.Parse(os.Environ()); err != nil {
				return usageError{err}
			}
			// what the framework goes by
			if err := os.Setenv("FUNCTION_TARGET", args[0]); err != nil {
				return err
			}
			functions.Register()
			// The function answers SIGTERM from its first request on, and until then there is
			// nothing to wait for.
			signal.Reset(endingSignals()...)
			fmt.Fprintf(cmd.ErrOrStderr(), "%s listens on %s\n", args[0], net.JoinHostPort(host, port))
			return funcframework.StartHostPort(host, port)
		},
	}
	cmd.Flags().StringVar(&port, "port", cmp.Or(os.Getenv("PORT"), "8080"), "port to listen on")
	cmd.Flags().StringVar(&host, "host", "", "address to listen on; empty means all of this machine's, as in a container")
	return cmd
}
