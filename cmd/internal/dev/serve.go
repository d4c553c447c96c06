package dev

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/firestore-counters/counters/functions"

	"github.com/GoogleCloudPlatform/functions-framework-go/funcframework"
)

// serveVariable in the environment makes a process serve the function that FUNCTION_TARGET names. It is
// the origin of the gateway that the process stands behind, or "none".
const serveVariable = "COUNTERS_DEV_SERVE"

// ServeIfChild serves a function, and doesn't return, in a process that [StartProcess] has started
// for it; each register is called there, to make functions known to the framework. In any other
// process it does nothing. It must come before anything that reads flags or standard input.
func ServeIfChild(register ...func()) {
	gateway := os.Getenv(serveVariable)
	if gateway == "" {
		return
	}
	for _, f := range register {
		f()
	}
	// Ctrl-C and a closed terminal reach every process of the terminal. The parent answers them,
	// and lets its functions finish what they have begun.
	signal.Ignore(os.Interrupt, syscall.SIGHUP)

	// The parent holds the other end of standard input and never writes to it. However the parent
	// ends, this ends too.
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	pages := []string{gateway}
	if gateway == "none" { // nobody asks for pages but the function's own setting
		pages = strings.FieldsFunc(os.Getenv("ALLOWED_ORIGINS"), func(r rune) bool { return r == ',' })
	}
	functions.Guard(behind(pages...))
	functions.Register()
	err := funcframework.StartHostPort("127.0.0.1", os.Getenv("PORT"))
	fmt.Fprintf(os.Stderr, "serve %s: %v\n", os.Getenv("FUNCTION_TARGET"), err)
	os.Exit(1)
}
