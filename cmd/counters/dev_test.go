package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/firestore-counters/counters/emulator"
)

// program is "counters dev" as a process.
type program struct {
	*exec.Cmd
	banner  string    // What it printed, up to "ready".
	alive   *os.File  // Is at its end when the process and all that it has started are gone.
	rest    io.Reader // What else it prints.
	logs    *lockedBuffer
	gateway string
}

// lockedBuffer is a buffer that several goroutines use.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// startProgram starts "counters dev" on free ports and returns once it is ready.
func startProgram(t *testing.T, args ...string) *program {
	t.Helper()
	return startProgramIn(t, nil, args...)
}

// startProgramIn does so with variables in the environment.
func startProgramIn(t *testing.T, environ []string, args ...string) *program {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, append([]string{"dev", "--port", "0", "--firestore-port", "0"}, args...)...)
	cmd.Env = append(os.Environ(), programVariable+"=1", "FIRESTORE_EMULATOR_HOST=", "GOOGLE_CLOUD_PROJECT=")
	cmd.Env = append(cmd.Env, environ...)
	return startUntilReady(t, cmd)
}

// startUntilReady starts a command that becomes "counters dev", and returns once it is ready.
func startUntilReady(t *testing.T, cmd *exec.Cmd) *program {
	t.Helper()
	// Every process that comes of the program inherits the writing end of this pipe, and nobody
	// writes to it.
	alive, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &program{Cmd: cmd, alive: alive, logs: &lockedBuffer{}}
	p.ExtraFiles = []*os.File{theirs}
	p.Stderr = p.logs
	stdout, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
		_ = alive.Close()
	})
	_ = theirs.Close()

	lines := bufio.NewScanner(stdout)
	for lines.Scan() && lines.Text() != "ready" {
		p.banner += lines.Text() + "\n"
	}
	if lines.Text() != "ready" {
		_ = p.Wait()
		t.Fatalf("it ended before it was ready:\n%s\n%s", p.banner, p.logs)
	}
	p.rest = stdout
	p.gateway = regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(p.banner)
	return p
}

// waitGone waits until the program and everything that it has started are gone.
func (p *program) waitGone(t *testing.T) {
	t.Helper()
	if err := p.alive.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.alive.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("a process is left: %v", err)
	}
}

// waitForTotal waits until a counter shows a total.
func (p *program) waitForTotal(t *testing.T, counter string, want int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		answer, err := http.Get(p.gateway + "/increment/" + counter)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if strings.Contains(string(body), fmt.Sprintf(`"total":%d,`, want)) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the total doesn't come to %d: %s\n%s", want, body, p.logs)
		}
	}
}

// waitFor waits until something holds, and fails with what there is after two minutes.
func waitFor(t *testing.T, holds func() (bool, string)) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		ok, what := holds()
		if ok {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("it never came to that:\n%s", what)
		}
	}
}

func TestDevCounts(t *testing.T) {
	t.Parallel()
	p := startProgram(t)
	for _, want := range []string{"embedded", "project demo-counters", "Security rules are not evaluated", "\nexport FIRESTORE_EMULATOR_HOST=127.0.0.1:", "\nexport GOOGLE_CLOUD_PROJECT=demo-counters\n", "\nOpen http://127.0.0.1:"} {
		if !strings.Contains(p.banner, want) {
			t.Errorf("%q is not in\n%s", want, p.banner)
		}
	}
	for n := range 5 {
		answer, err := http.Post(p.gateway+"/increment/post-123", "application/json", strings.NewReader(fmt.Sprintf(`{"by": %d}`, n+1)))
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Fatalf("an increment is answered %s", answer.Status)
		}
	}
	p.waitForTotal(t, "post-123", 15)
	if !strings.Contains(p.logs.String(), "\nRollup    | ") && !strings.HasPrefix(p.logs.String(), "Rollup    | ") {
		t.Errorf("no line of Rollup's log is among\n%s", p.logs)
	}
}

// In a shell that was told to export the address of a Firestore, dev starts again when that one has
// ended.
func TestDevStartsAgainWhereItsExportIsLeft(t *testing.T) {
	t.Parallel()
	first := startProgram(t)
	export := regexp.MustCompile(`FIRESTORE_EMULATOR_HOST=127\.0\.0\.1:\d+`).FindString(first.banner)
	if err := first.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, first.rest)
	first.waitGone(t)
	again := startProgramIn(t, []string{export})
	for _, want := range []string{"embedded", "Nothing answers at " + export + ", so this is the embedded Firestore."} {
		if !strings.Contains(again.banner, want) {
			t.Errorf("%q is not in\n%s", want, again.banner)
		}
	}
}

// A database with a name is exported like the rest, so that other commands work on it.
func TestDevExportsItsDatabase(t *testing.T) {
	t.Parallel()
	shell, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash to paste what is printed into")
	}
	p := startProgramIn(t, []string{"DATABASE=eu-data"})
	answer, err := http.Post(p.gateway+"/increment/post-123", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	p.waitForTotal(t, "post-123", 1)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	exports := strings.Join(regexp.MustCompile(`(?m)^export .*$`).FindAllString(p.banner, -1), "\n")
	get := exec.Command(shell, "-ec", exports+"\nexec \"$0\" get post-123", self)
	get.Env = append(os.Environ(), programVariable+"=1", "DATABASE=")
	if text, err := get.CombinedOutput(); err != nil || !strings.HasPrefix(string(text), "1\n") {
		t.Errorf("with\n%s\nthe counter is\n%s%v", exports, text, err)
	}
}

// So is what has a reconcile take over what the extension's clients count.
func TestDevExportsTheExtension(t *testing.T) {
	t.Parallel()
	p := startProgram(t, "--counter-path", "pages/{page}", "--hosted", "--extension", "--fields", "visits")
	if want := "\nexport EXTENSION='true'\n"; !strings.Contains(p.banner, want) {
		t.Errorf("%q is not in\n%s", want, p.banner)
	}
}

// A client of another project, or of another database, would wait for a total that never comes. That is said once for
// each, also of one that only reads.
func TestDevNamesClientsElsewhere(t *testing.T) {
	t.Parallel()
	p := startProgramIn(t, []string{"DATABASE=eu-data"})
	firestore := regexp.MustCompile(`FIRESTORE_EMULATOR_HOST=(\S+)`).FindStringSubmatch(p.banner)[1]
	databases := []string{"projects/my-project/databases/(default)", "projects/demo-counters/databases/(default)", "projects/demo-counters/databases/eu-data"}
	for range 3 {
		for _, database := range databases {
			answer, err := http.Get("http://" + firestore + "/v1/" + database + "/documents/counters/post-123")
			if err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close()
		}
	}
	said := func(database string) int {
		return strings.Count(p.logs.String(), "WARN a client uses another project or database, where nothing is rolled up used="+database+" ")
	}
	waitFor(t, func() (bool, string) { return said(databases[0]) > 0 && said(databases[1]) > 0, p.logs.String() })
	if said(databases[0]) != 1 || said(databases[1]) != 1 || said(databases[2]) != 0 {
		t.Errorf("each is named once, and its own is not:\n%s", p.logs)
	}
}

// Which Firestore it is attached to is said: a shell that has the address of another run's would
// use that without a word.
func TestDevSaysWhichFirestoreItIs(t *testing.T) {
	t.Parallel()
	firestore := emulator.Start(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "dev", "--port", "0", "--functions-port", "0")
	cmd.Env = append(os.Environ(), programVariable+"=1", "FIRESTORE_EMULATOR_HOST="+firestore.Addr, "GOOGLE_CLOUD_PROJECT=")
	p := startUntilReady(t, cmd)
	want := "Firestore  " + firestore.Addr + "  (FIRESTORE_EMULATOR_HOST names it: the embedded one of another counters), project demo-counters\n"
	if !strings.Contains(p.banner, want) {
		t.Errorf("%q is not in\n%s", want, p.banner)
	}
}

// One port is all that a browser needs, and pages of this machine may use it.
func TestDevServesBrowsersOnOnePort(t *testing.T) {
	t.Parallel()
	p := startProgramIn(t, []string{"ALLOWED_ORIGINS=https://shop.test"}, "--host", "0.0.0.0", "--allow-host", "counters.test")
	if !strings.Contains(p.banner, "from other machines") {
		t.Logf("no other address of this machine is in\n%s", p.banner) // It may have none.
	}
	host := ""
	call := func(method, path, origin, body string) (int, http.Header, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, p.gateway+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host // Its own where this is empty.
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		if method == http.MethodOptions {
			r.Header.Set("Access-Control-Request-Method", http.MethodPost)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, answer.Header, string(text)
	}
	for origin, allowed := range map[string]bool{
		"http://localhost:5173": true, "http://127.0.0.1:3000": true, "https://shop.test": true, p.gateway: true, "https://evil.test": false,
	} {
		for _, method := range []string{http.MethodOptions, http.MethodPost} {
			status, header, text := call(method, "/increment/one-port", origin, "")
			if ok := status < 300 && header.Get("Access-Control-Allow-Origin") == origin; ok != allowed {
				t.Errorf("%s from %s: %d %v %s", method, origin, status, header, text)
			}
		}
	}
	// Firestore goes by none of the gateway's names, and is reached by all of them.
	for _, host = range []string{"", "counters.test:8081", "192.168.1.7:8081"} {
		status, _, text := call(http.MethodGet, "/v1/projects/demo-counters/databases/(default)/documents/counters/one-port", "http://localhost:5173", "")
		if status != http.StatusOK || !strings.Contains(text, `"num_shards"`) {
			t.Errorf("Firestore's REST API at %q: %d %s", host, status, text)
		}
	}
}

// However it is asked to end, it leaves no process; asked politely, it ends well.
func TestDevEndsWithItsProcesses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		signal os.Signal
		ok     bool
		args   []string
	}{
		{os.Interrupt, true, nil}, {syscall.SIGTERM, true, nil}, {syscall.SIGHUP, true, nil}, {os.Kill, false, nil},
		// Its processes are stopped when it ends: they have no requests.
		{os.Interrupt, true, []string{"--concurrency", "10"}}, {os.Kill, false, []string{"--concurrency", "10"}},
	} {
		t.Run(strings.Join(append([]string{test.signal.String()}, test.args...), " "), func(t *testing.T) {
			t.Parallel()
			if s, is := test.signal.(syscall.Signal); is && signal.Ignored(s) {
				t.Skipf("%v is ignored here, as below nohup, and processes inherit that", s)
			}
			p := startProgram(t, append([]string{"--instances", "2"}, test.args...)...)
			if err := p.Process.Signal(test.signal); err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, p.rest)
			if err := p.Wait(); (err == nil) != test.ok {
				t.Errorf("it ended with %v\n%s", err, p.logs)
			}
			p.waitGone(t)
		})
	}
}

// With the delivery of production and the acknowledgement deadline of a deployment, what is counted
// arrives.
func TestDevPushesAsPubSub(t *testing.T) {
	t.Parallel()
	p := startProgram(t, "--ack-deadline", "70s", "--push", "pubsub")
	for range 40 {
		resp, err := http.Post(p.gateway+"/increment/pushed", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	p.waitForTotal(t, "pushed", 40)
}

func TestDevPrintsItsFaults(t *testing.T) {
	t.Parallel()
	p := startProgram(t, "--duplicate", "0.3", "--kill", "1h", "--seed", "42")
	if want := "duplicate 0.3, kill 1h0m0s, seed 42\n"; !strings.Contains(p.banner, want) {
		t.Errorf("%q is not in\n%s", want, p.banner)
	}
}

func TestDevRefuses(t *testing.T) {
	t.Setenv("FIRESTORE_EMULATOR_HOST", "") // So that no test runs beside this one.
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--firestore-port", port}, taken.Addr().String() + " is in use: choose another port with --firestore-port"},
		{[]string{"--port", port, "--firestore-port", "0"}, taken.Addr().String() + " is in use: choose another port with --port"},
		{[]string{"--duplicate", "1.5"}, "duplicate 1.5: want a probability, 0 to 1"},
		{[]string{"--abort", "NaN"}, "abort NaN: want a probability, 0 to 1"},
		{[]string{"--instances", "0"}, "--instances 0: want 1 to 100"},
		{[]string{"--kill", "1ms"}, "kill 1ms: want 0s (never), or 100ms and more"},
		{[]string{"--port", "65536"}, "--port 65536: want a port, 1 to 65535, or 0 for any free one"},
		{[]string{"--commit-latency", "-1s"}, "commit-latency -1s: want 0s to 1m"},
		{[]string{"--push", "carrier-pigeon"}, `--push carrier-pigeon: want quick or pubsub`},
		{[]string{"--ack-deadline", "-1s"}, "ack deadline -1s: want 0s and more"},
		{[]string{"--concurrency", "1001"}, "--concurrency 1001: want 1 to 1000, or 0 to keep all instances running"},
		{[]string{"--functions-port", "5002"}, "--functions-port would do nothing: the embedded Firestore posts no events there"},
		{[]string{"--idle", "1m"}, "--idle would do nothing: all instances are kept running"},
		{[]string{"--no-such-flag"}, "no flag --no-such-flag"},
		{[]string{"and", "more"}, "2 arguments, want: counters dev [flags]"},
		{[]string{"--extension"}, "set Hosted, too (HOSTED=true, --hosted)"},
	} {
		refuses(t, test.args, test.want)
	}
	t.Setenv("NUM_SHARDS", "1001")
	refuses(t, nil, "NUM_SHARDS=1001: want 1 to 1000")
	if code := run(t.Context(), []string{"dev"}, io.Discard, io.Discard); code != exitUsage {
		t.Errorf("a wrong setting ends with %d, as no wrong flag does", code)
	}
	t.Setenv("NUM_SHARDS", "")
	t.Setenv("FIRESTORE_EMULATOR_HOST", "firestore.invalid:8080")
	refuses(t, []string{"--port", "0", "--functions-port", "0"}, "no Firestore answers at FIRESTORE_EMULATOR_HOST=firestore.invalid:8080: start it, or unset the variable")
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	silent.Close()
	t.Setenv("FIRESTORE_EMULATOR_HOST", silent.Addr().String())
	refuses(t, []string{"--functions-port", "0"}, "no Firestore answers at FIRESTORE_EMULATOR_HOST="+silent.Addr().String()+": start Google's emulator first")
	t.Setenv("FIRESTORE_EMULATOR_HOST", taken.Addr().String())
	refuses(t, []string{"--firestore-port", "9090"}, "--firestore-port would do nothing: no Firestore is started, because FIRESTORE_EMULATOR_HOST names one: "+taken.Addr().String())
	refuses(t, []string{"--allow-origin", "https://app.example"}, "--allow-origin would do nothing: it is the embedded Firestore's, and this is another")
	refuses(t, []string{"--abort", "0.1"}, "faults of commits need the embedded Firestore: unset FIRESTORE_EMULATOR_HOST")
	t.Setenv("FIRESTORE_EMULATOR_HOST", "")
	refuses(t, []string{"--host", "192.0.2.1", "--port", "0", "--firestore-port", "0"}, "--host 192.0.2.1: ")
}

// refuses wants "counters dev" to end with exit code 1, one line, and nothing else printed.
func refuses(t *testing.T, args []string, want string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), append([]string{"dev"}, args...), &stdout, &stderr)
	if got := stderr.String(); code == 0 || !strings.Contains(got, want) || strings.Count(got, "\n") != 1 {
		t.Errorf("dev %q: exit code %d, %q, want 1 and a line with %q", args, code, got, want)
	}
	if stdout.Len() > 0 {
		t.Errorf("dev %q: printed %q", args, stdout.String())
	}
}
