package functions

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/GoogleCloudPlatform/functions-framework-go/functions"

	"github.com/firestore-counters/counters/internal/settings"
)

// Register makes the functions of this package known to the functions framework: Increment, Rollup and Reconcile.
// Call it before you serve, once FUNCTION_TARGET is set; if it wasn't set the first time, call it again. If the
// environment is wrong for the function that FUNCTION_TARGET names, it ends the process with a message for whoever
// deployed it. Each wrapper in around wraps every function: on Cloud Run, IAM decides who may call; elsewhere, a
// wrapper can.
func Register(around ...func(http.Handler) http.Handler) {
	if target := os.Getenv("FUNCTION_TARGET"); functionsByName[target] != nil {
		prepare(target)
	}
	known.Do(func() {
		for name, build := range functionsByName {
			var handler http.Handler = newFunction(build)
			for _, wrap := range around {
				handler = wrap(handler)
			}
			functions.HTTP(name, handler.ServeHTTP)
		}
	})
}

// known registers the functions once: the framework ends a process that registers one twice.
var known sync.Once

var functionsByName = map[string]builder{"Increment": buildIncrement, "Rollup": buildRollup, "Reconcile": buildReconcile}

// Names are the names of the functions, in alphabetical order.
func Names() []string { return slices.Sorted(maps.Keys(functionsByName)) }

// builder returns a function's handler, with clients of its own.
type builder func(context.Context, settings.Settings, *slog.Logger) (http.Handler, drain, error)

// grace is how long a process may go on after SIGTERM. Cloud Run sends SIGKILL after ten seconds.
const grace = 9 * time.Second

// prepare prepares the process that serves a function. If settings are wrong, it ends the process with
// a message for whoever deployed it. It also sets up the garbage collector for functions.
func prepare(name string) {
	if _, err := settings.Parse(os.Environ()); err != nil {
		fmt.Fprintf(os.Stderr, "%s does not start: %v\n", name, err)
		os.Exit(1)
	}
	collectSeldom(os.LookupEnv, limitFiles)
}

// function is one entry point of this process. The first request makes its clients. If that fails, the
// request is answered with the error, and the next one tries again.
type function struct {
	build builder

	mu      sync.Mutex
	handler http.Handler
	life    *life
}

func newFunction(build builder) *function { return &function{build: build, life: newLife()} }

func (f *function) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	handler, err := f.ready()
	if err == nil && !f.life.begin() {
		err = errEnding
	}
	if err != nil {
		fail(w, r, slog.New(newLogHandler(os.Stdout, slog.LevelInfo)), err)
		return
	}
	defer f.life.done()
	handler.ServeHTTP(w, r)
}

func (f *function) ready() (http.Handler, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.handler != nil {
		return f.handler, nil
	}
	set, err := settings.Parse(os.Environ())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errStart, err)
	}
	handler, drain, err := f.build(context.Background(), set, slog.New(newLogHandler(os.Stdout, set.LogLevel)))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errStart, err)
	}
	f.handler = boundBodies(set.RequestTimeout, f.life.ending, handler)
	go f.endOnSignal(drain)
	return f.handler, nil
}

// endOnSignal ends the process on SIGTERM, once its requests are answered.
func (f *function) endOnSignal(drain drain) {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	<-term
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	go func() { // however long anything below takes
		<-ctx.Done()
		os.Exit(1)
	}()
	answered := f.life.end() // first: from here on requests are refused, so that there is an end
	if drain != nil {
		if err := drain(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "shutdown:", err)
		}
	}
	<-answered
	// A handler may have returned before its answer is on the connection.
	time.Sleep(100 * time.Millisecond)
	os.Exit(0)
}
