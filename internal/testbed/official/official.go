// Package official runs Google's own Firestore emulator, for tests and for "counters dev --rules":
// it evaluates security rules, which the embedded Firestore doesn't, and the embedded one is held
// against it.
package official

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"

	"github.com/firestore-counters/counters/internal/testbed/freeport"
)

// ErrMissing means that the emulator is not installed, or that java isn't.
var ErrMissing = errors.New("the official Firestore emulator is not installed (apt-get install google-cloud-cli-firestore-emulator, " +
	"gcloud components install cloud-firestore-emulator, or firebase setup:emulators:firestore; FIRESTORE_EMULATOR_JAR names another jar)")

// Emulator is a running official emulator.
type Emulator struct {
	Addr string // host:port, of gRPC and REST
	PID  int    // of its process

	dir   string
	stdin io.Closer
	ended chan struct{} // closed when the process is gone
}

// untilEOF becomes the command that follows it, and has it killed when the standard input ends:
// also when this process is killed itself, nothing is left behind. Ctrl-C, which a terminal sends
// to all of its processes, is left to this one.
const untilEOF = `trap '' INT HUP; exec 3<&0; (cat <&3 >/dev/null; kill -9 $$) & exec "$@" </dev/null 3<&-`

// Options say how the emulator is started. The zero value is for tests.
type Options struct {
	Addr      string // host:port to listen on; any free port of 127.0.0.1 when empty
	Functions string // host:port that the events of triggers are posted to; none are when empty
	// Project is the one that is meant, and Elsewhere is called with each other project that a request names. May be
	// left out.
	Project   string
	Elsewhere func(project string)
}

// elsewhere is what the emulator prints of a request for another project.
var elsewhere = regexp.MustCompile(`Requested project ID (\S+), but the emulator is configured for `)

// output is what the emulator prints: a file, and a look at its lines.
type output struct {
	file *os.File
	opts Options
	line []byte // what has come of it
}

func (o *output) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		part, after, ended := bytes.Cut(rest, []byte("\n"))
		o.line, rest = append(o.line, part...), after
		if !ended {
			break
		}
		if m := elsewhere.FindSubmatch(o.line); m != nil && o.opts.Elsewhere != nil {
			o.opts.Elsewhere(string(m[1]))
		}
		o.line = o.line[:0]
	}
	return o.file.Write(p)
}

// Start starts the emulator on a free port of 127.0.0.1, and returns when it listens, after a
// second or two. It stops with Stop, or when this process ends. Without java or the emulator the
// error is ErrMissing. The context bounds the start.
func Start(ctx context.Context) (*Emulator, error) { return StartWith(ctx, Options{}) }

// Find says where java and the emulator are, or as ErrMissing that they aren't there.
func Find() (java, jar string, err error) {
	if java, err = exec.LookPath("java"); err != nil {
		return "", "", fmt.Errorf("%w: %w", ErrMissing, err)
	}
	jar, err = findJar()
	return java, jar, err
}

// StartWith is Start with options.
func StartWith(ctx context.Context, opts Options) (*Emulator, error) {
	java, jar, err := Find()
	if err != nil {
		return nil, err
	}
	if opts.Addr == "" {
		// It can't be told to take any free port and say which.
		port, err := freeport.Find()
		if err != nil {
			return nil, err
		}
		opts.Addr = net.JoinHostPort("127.0.0.1", port)
	}
	host, port, err := net.SplitHostPort(opts.Addr)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "firestore-emulator-") // it leaves a log file where it is started
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "output"))
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	e := &Emulator{Addr: opts.Addr, dir: dir, ended: make(chan struct{})}
	// Without the first two settings, starting takes twice the processor time, and tests last a few
	// seconds.
	args := []string{"-c", untilEOF, "sh", java, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Duser.language=en", "-cp", jar,
		"com.google.cloud.datastore.emulator.firestore.CloudFirestore", "--host", host, "--port", port}
	if opts.Functions != "" {
		args = append(args, "--functions_emulator", opts.Functions)
	}
	if opts.Project != "" {
		args = append(args, "--single_project_mode", "--project_id", opts.Project)
	}
	cmd := exec.Command("sh", args...)
	cmd.Dir = dir
	printed := &output{file: log, opts: opts}
	cmd.Stdout, cmd.Stderr = printed, printed
	cmd.WaitDelay = time.Second // for what waits beside it, and has its output, too
	if e.stdin, err = cmd.StdinPipe(); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		log.Close()
		os.RemoveAll(dir)
		return nil, err
	}
	e.PID = cmd.Process.Pid
	go func() {
		defer close(e.ended)
		_ = cmd.Wait() // it is killed
		log.Close()
	}()
	if !e.await(ctx, 5*time.Minute) { // a second or two, unless others need the machine
		output, _ := os.ReadFile(log.Name())
		e.Stop()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("%s does not listen: %s", jar, output)
	}
	return e, nil
}

// Ended is closed when the emulator's process is gone.
func (e *Emulator) Ended() <-chan struct{} { return e.ended }

// Stop kills the emulator and waits until it is gone.
func (e *Emulator) Stop() {
	e.stdin.Close()
	<-e.ended
	os.RemoveAll(e.dir)
}

// findJar looks where Google's packages, gcloud's components and the Firebase CLI put the emulator.
func findJar() (string, error) {
	if jar := os.Getenv("FIRESTORE_EMULATOR_JAR"); jar != "" {
		if _, err := os.Stat(jar); err != nil { //nolint:gosec // who runs the tests names it
			return "", fmt.Errorf("FIRESTORE_EMULATOR_JAR: %w", err)
		}
		return jar, nil
	}
	const inSDK = "platform/cloud-firestore-emulator/cloud-firestore-emulator.jar"
	patterns := []string{filepath.Join("/usr/lib/google-cloud-sdk", inSDK)}
	if gcloud, err := exec.LookPath("gcloud"); err == nil {
		if gcloud, err = filepath.EvalSymlinks(gcloud); err == nil {
			patterns = append(patterns, filepath.Join(filepath.Dir(gcloud), "..", inSDK))
		}
	}
	if cache, err := os.UserHomeDir(); err == nil {
		patterns = append(patterns, filepath.Join(cache, ".cache/firebase/emulators/cloud-firestore-emulator-*.jar"))
	}
	for _, pattern := range patterns {
		if jars, _ := filepath.Glob(pattern); len(jars) > 0 {
			return jars[len(jars)-1], nil
		}
	}
	return "", ErrMissing
}

// await reports whether the emulator listens before the limit is over.
func (e *Emulator) await(ctx context.Context, limit time.Duration) bool {
	var dialer net.Dialer
	for end := time.Now().Add(limit); time.Now().Before(end); {
		if conn, err := dialer.DialContext(ctx, "tcp", e.Addr); err == nil {
			conn.Close()
			return true
		}
		select {
		case <-e.ended:
			return false
		case <-ctx.Done():
			return false
		case <-time.After(50 * time.Millisecond):
		}
	}
	return false
}
