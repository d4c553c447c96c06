package functions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/GoogleCloudPlatform/functions-framework-go/functions"
	"golang.org/x/sync/semaphore"

	"github.com/firestore-counters/counters/internal/settings"
)

// Register makes the functions of this package known to the functions framework: Increment, Rollup and Reconcile.
// Call it before you serve, once FUNCTION_TARGET is set; if it wasn't set the first time, call it again. If the
// environment is wrong for the function that FUNCTION_TARGET names, it ends the process with a message for whoever
// deployed it.
func Register() {
	if target := os.Getenv("FUNCTION_TARGET"); functionsByName[target] != nil {
		prepare(target)
	}
	known.Do(func() {
		for name, build := range functionsByName {
			f := newFunction(build)
			functions.HTTP(name, func(w http.ResponseWriter, r *http.Request) { guard(f).ServeHTTP(w, r) })
		}
	})
}

// known registers the functions once: the framework ends a process that registers one twice.
var known sync.Once

// Guard wraps every function of this process, also one that was registered before: importing the package beside
// go.mod registers all of them. Call it before you serve. On Cloud Run, IAM decides who may call; elsewhere, a guard
// can.
func Guard(wrap func(http.Handler) http.Handler) { guard = wrap }

var guard = func(next http.Handler) http.Handler { return next }

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
	// By it the framework knows that it is on Cloud Run, and ends each request with two empty lines: each may be an
	// entry of the log, which is billed.
	_ = os.Unsetenv("K_SERVICE")
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
	log := slog.New(newBoundLog(os.Stdout, set.LogLevel, set.Ceiling.Logs))
	handler, drain, err := f.build(context.Background(), set, log)
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

// life counts the requests of a process until it ends. A [sync.WaitGroup] would panic if a request began
// during the wait for the last one.
type life struct {
	ending   context.Context // done once no further request may begin
	stop     context.CancelFunc
	answered chan struct{} // closed once, after that, every request is done

	mu   sync.Mutex
	open int // requests that have begun and are not done
}

func newLife() *life {
	l := &life{answered: make(chan struct{})}
	l.ending, l.stop = context.WithCancel(context.Background())
	return l
}

// begin begins a request. It reports false if none may begin any more.
func (l *life) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ending.Err() != nil {
		return false
	}
	l.open++
	return true
}

// done ends a request.
func (l *life) done() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	l.tell()
}

// end lets no further request begin. The returned channel is closed once those under way are answered.
func (l *life) end() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ending.Err() == nil {
		l.stop()
		l.tell()
	}
	return l.answered
}

// tell closes answered. It is called once: at the end, or with the last request after it.
func (l *life) tell() {
	if l.ending.Err() != nil && l.open == 0 {
		close(l.answered)
	}
}

// drain answers the requests that a function holds back, at once, before the process ends. It is nil if
// the function holds none back: the process waits for requests under way in any case. It closes no
// connections, because a request might still need one.
type drain func(context.Context) error

// maxBodies is what all requests under way may have sent together, in bytes. A body takes about four times its size
// while it is decoded: that is 192 of an instance's 512 MiB.
const maxBodies = 48 << 20

// While so many bodies are waited for, which is half of the fewest slots that an instance may have, another must come
// within a moment. Otherwise a user who sends 25 slow ones a second would fill 500 slots.
const (
	maxAwaited = 50
	awaitedFor = time.Second
)

// What is read of a body that nobody wants: so many bytes, and for so long.
const (
	maxSkipped = 256 << 10
	skipsFor   = 50 * time.Millisecond
)

// boundBodies stops reading a request's body after timeout, and at once when ending is done. Otherwise a caller who
// sends one byte a minute could occupy an instance, and keep it from ending. It reads no body of a request that has
// none to say, and holds at most maxBodies of all of them.
func boundBodies(timeout time.Duration, ending context.Context, next http.Handler) http.Handler {
	room := semaphore.NewWeighted(maxBodies)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 {
			next.ServeHTTP(w, r)
			return
		}
		b := &boundedBody{ReadCloser: r.Body, connection: http.NewResponseController(w), ending: ending, room: room, expects: r.Header.Get("Expect") != ""}
		defer b.release()
		// Only a test's writer has no deadlines, and no slow connection.
		_ = b.connection.SetReadDeadline(time.Now().Add(timeout))
		stop := context.AfterFunc(ending, b.cut)
		defer stop()
		r.Body = b
		next.ServeHTTP(w, r)
	})
}

// boundedBody is a body whose connection has a deadline until the body has been read.
type boundedBody struct {
	io.ReadCloser
	connection *http.ResponseController
	ending     context.Context
	expects    bool                // the client sends it once it is asked for
	room       *semaphore.Weighted // for all bodies, in bytes
	holds      int64               // of the room, until the request is answered
	awaited    *atomic.Int64       // how many bodies are waited for; nil once it has come, and for an event's
	awaits     bool                // it is one of these

	mu   sync.Mutex
	read bool // to its end
}

// Read reads. Its errors include errSlowBody, errEnding and errBodies.
func (b *boundedBody) Read(p []byte) (int, error) {
	b.await()
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.came()
	}
	if !b.room.TryAcquire(int64(n)) {
		return 0, errBodies
	}
	b.holds += int64(n)
	if err == nil {
		return n, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == io.EOF && !b.read {
		b.read = true
		// From here on, the server reads the connection only to see whether the client is still there.
		// After other errors the deadline stays: the server reads the rest of the body before it closes
		// the connection, and could wait forever.
		_ = b.connection.SetReadDeadline(time.Time{})
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		if err = errSlowBody; b.ending.Err() != nil {
			err = errEnding
		}
	}
	return n, err
}

// await has the body be waited for, from its first read on.
func (b *boundedBody) await() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.awaits || b.awaited == nil {
		return
	}
	b.awaits = true
	if b.awaited.Add(1) > maxAwaited && b.ending.Err() == nil {
		_ = b.connection.SetReadDeadline(time.Now().Add(awaitedFor))
	}
}

// came says that nobody waits for the body any more.
func (b *boundedBody) came() {
	if b.awaits {
		b.awaited.Add(-1)
		b.awaited, b.awaits = nil, false
	}
}

// release gives the body's room to others.
func (b *boundedBody) release() {
	b.room.Release(b.holds)
	b.came()
}

// skip passes over what is left of a body that nobody wants. It waits for it for a moment alone: a caller could occupy
// an instance with bodies that never come. One that is being sent is read, as far as it isn't long: a client may look
// for an answer only once it has sent all. It reports whether that was all. If not, the connection can't be used again.
func (b *boundedBody) skip() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.read {
		return true
	}
	if b.expects { // a read would ask for it
		_ = b.connection.SetReadDeadline(time.Unix(1, 0))
		return false
	}
	_ = b.connection.SetReadDeadline(time.Now().Add(skipsFor))
	if _, err := io.CopyN(io.Discard, b.ReadCloser, maxSkipped); err != io.EOF {
		_ = b.connection.SetReadDeadline(time.Unix(1, 0))
		return false
	}
	b.read = true
	_ = b.connection.SetReadDeadline(time.Time{})
	return true
}

// passOver is called before a request is answered whose body may not have been read. The server would wait for it.
func passOver(w http.ResponseWriter, r *http.Request) {
	if b, is := r.Body.(*boundedBody); is && !b.skip() {
		w.Header().Set("Connection", "close")
	}
}

// cut ends a waiting read.
func (b *boundedBody) cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.read {
		_ = b.connection.SetReadDeadline(time.Unix(1, 0))
	}
}

// readBody reads a body of at most limit bytes: nothing is parsed before that is known. Errors: problems with 400 or
// 413, errSlowBody and errEnding.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	switch {
	case r.ContentLength == 0:
		return nil, nil
	case r.ContentLength > limit:
		return nil, tooLarge(limit)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	_, beyond := errors.AsType[*http.MaxBytesError](err)
	switch {
	case beyond:
		return nil, tooLarge(limit)
	case errors.Is(err, errSlowBody), errors.Is(err, errEnding), errors.Is(err, errBodies):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%w: %w", bad("the body can't be read"), err)
	}
	return bytes.TrimPrefix(body, []byte("\uFEFF")), nil // a byte order mark, of a file that was sent
}

const (
	// gcPercent lets the heap grow to five times what is in use before it is collected. A function keeps
	// a few MiB between requests, and nearly everything that it allocates is garbage after the request.
	// With Go's default of 100 the collector takes a quarter of an increment's CPU time.
	gcPercent = 400
	// memoryPercent is the part of an instance's memory beyond which Go collects more often, 230 of 512
	// MiB. The limit doesn't cover some 20 MiB, and it is soft: the rest is for bursts.
	memoryPercent = 45
	// noLimit is more bytes than any machine has: a larger number stands for no limit.
	noLimit = 1 << 60
)

// limitFiles say how much memory a container may use: control groups of version 2, and of version 1.
var limitFiles = []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}

// collectSeldom lets the garbage collector use the memory that an instance has anyway. It leaves GOGC
// and GOMEMLIMIT alone if they are set.
func collectSeldom(lookup func(string) (string, bool), files []string) {
	if value, _ := lookup("GOGC"); value == "" { // Go's runtime takes "" for unset, too
		debug.SetGCPercent(gcPercent)
	}
	if value, _ := lookup("GOMEMLIMIT"); value != "" {
		return
	}
	if most, ok := containerMemory(files); ok {
		debug.SetMemoryLimit(MemoryLimit(most))
	}
}

// MemoryLimit is the GOMEMLIMIT, in bytes, that a function sets for itself in a container of this size.
func MemoryLimit(container int64) int64 { return container / 100 * memoryPercent }

// containerMemory is how many bytes this container may use, by the first of the files that has a
// number. It reports false if there is no limit.
func containerMemory(files []string) (int64, bool) {
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		// Without a limit, version 2 says "max", and version 1 the largest number of whole pages.
		limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err == nil && limit > 0 && limit < noLimit {
			return limit, true
		}
	}
	return 0, false
}

// LogPoison is the message of an event that can never be counted. A metric and an alert look for it.
const LogPoison = "poison event"

// newLogHandler writes one JSON object a line, with the field names that Cloud Logging understands.
func newLogHandler(w io.Writer, level slog.Level) slog.Handler {
	return slog.NewJSONHandler(w, &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) > 0 {
				return a
			}
			switch a.Key {
			case slog.MessageKey:
				a.Key = "message"
			case slog.LevelKey:
				a.Key = "severity"
				if a.Value.Any() == slog.LevelWarn {
					a.Value = slog.StringValue("WARNING") // Cloud Logging's name for it
				}
			}
			return a
		},
	})
}
