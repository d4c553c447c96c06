package dev

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/GoogleCloudPlatform/functions-framework-go/funcframework"
)

// serveVariable in the environment makes a process serve the function that FUNCTION_TARGET names.
const serveVariable = "COUNTERS_DEV_SERVE"

// Command is the command that makes a program, one that calls [ServeIfChild], serve a function of its own at a port of
// 127.0.0.1. The process ends when its standard input is closed.
func Command(ctx context.Context, program, function string, port int, environ []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(append([]string{}, environ...), serveVariable+"=1", "FUNCTION_TARGET="+function, "PORT="+strconv.Itoa(port))
	return cmd
}

// ServeIfChild serves a function, and doesn't return, in a process that a [System] has started for it. In any other
// it does nothing. It must come before anything that reads flags or standard input.
func ServeIfChild() {
	if os.Getenv(serveVariable) == "" {
		return
	}
	// Ctrl-C and a closed terminal reach every process of the terminal. The parent answers them, and lets its
	// functions finish what they have begun.
	signal.Ignore(os.Interrupt, syscall.SIGHUP)

	// The parent holds the other end of standard input and never writes to it. However the parent ends, this ends too.
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	err := funcframework.StartHostPort("127.0.0.1", os.Getenv("PORT"))
	fmt.Fprintf(os.Stderr, "serve %s: %v\n", os.Getenv("FUNCTION_TARGET"), err)
	os.Exit(1)
}
