package functions

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/GoogleCloudPlatform/functions-framework-go/funcframework"
	"google.golang.org/api/option"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/settings"
	"github.com/firestore-counters/counters/internal/testbed/freeport"
	"github.com/firestore-counters/counters/internal/testbed/slots"
	"github.com/firestore-counters/counters/shards"
)

// serveAt is the variable that makes this test binary a function: it then serves FUNCTION_TARGET on
// that port, by the functions framework, as in production.
const serveAt = "COUNTERS_TEST_SERVE_AT"

func TestMain(m *testing.M) {
	if port := os.Getenv(serveAt); port != "" {
		Register()
		if err := funcframework.StartHostPort("127.0.0.1", port); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	slots.Widen()
	os.Exit(m.Run())
}

// process is a function in a process of its own, over an embedded Firestore.
type process struct {
	target    string
	url       string
	cmd       *exec.Cmd
	firestore *emulator.Instance
	fs        *firestore.Client
	partsOfID int // of a counter's
	asks      http.Client
}

// startProcess serves a function with these settings, such as "AUTO_CREATE=true".
func startProcess(t *testing.T, target string, environ ...string) *process {
	t.Helper()
	return startProcessWith(t, os.Stderr, target, environ...)
}

// startProcessWith is startProcess whose function writes its output and its log there.
func startProcessWith(t *testing.T, output io.Writer, target string, environ ...string) *process {
	t.Helper()
	p := &process{target: target, firestore: emulator.Start(t), partsOfID: 1, asks: http.Client{Transport: &http.Transport{}}}
	for _, s := range environ {
		if pattern, is := strings.CutPrefix(s, "COUNTERS="); is {
			p.partsOfID = strings.Count(pattern, "{")
		}
	}
	p.fs = p.firestore.Client(t, "p")
	port, err := freeport.Find()
	if err != nil {
		t.Fatal(err)
	}
	p.url = "http://127.0.0.1:" + port
	cmd := exec.Command(os.Args[0])
	cmd.Env = append([]string{
		serveAt + "=" + port, "FUNCTION_TARGET=" + target,
		"GOOGLE_CLOUD_PROJECT=p", "FIRESTORE_EMULATOR_HOST=" + p.firestore.Addr,
	}, environ...)
	cmd.Stdout = output
	cmd.Stderr = output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.cmd = cmd
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for until := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			conn.Close()
			return p
		}
		if time.Now().After(until) {
			t.Fatalf("the function does not listen: %v", err)
		}
	}
}

// On Cloud Run a request leaves nothing in the log, not even the empty lines that the framework ends it with.
func TestRequestsLogNothing(t *testing.T) {
	t.Parallel()
	var written bytes.Buffer
	p := startProcessWith(t, &written, "Increment", "K_SERVICE=increment", "AUTO_CREATE=true")
	for range 3 {
		if status := p.send(t, "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"); status != 200 {
			t.Errorf("POST: %d", status)
		}
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // once what was begun is done
	_ = p.cmd.Wait()
	if written.Len() > 0 {
		t.Errorf("three requests write %q", written.String())
	}
}

// startInBubble is startProcess for Increment in a bubble of testing/synctest: it has no process and no connection, and
// only what waits takes time. So a deadline ends a pause between two commits, never a commit that a busy machine drags
// out.
func startInBubble(t *testing.T, change func(*settings.Settings)) *process {
	t.Helper()
	g := startVirtually(t, nil, func(s *settings.Settings) {
		s.AutoCreate = settings.AutoCreate{}
		change(s)
	})
	return &process{target: "Increment", url: g.URL, asks: g.asks, firestore: g.firestore, fs: g.fs, partsOfID: 1}
}

// dump is every document there is, for telling whether anything was written.
func (p *process) dump(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, group := range []string{"counters", "shards", "counter_rollup", "counter_requests"} {
		docs, err := p.fs.CollectionGroup(group).Documents(context.Background()).GetAll()
		if err != nil {
			t.Fatal(err)
		}
		for _, doc := range docs {
			fmt.Fprintln(&b, doc.Ref.Path, doc.UpdateTime.UnixNano(), doc.Data())
		}
	}
	return b.String()
}

// dial opens a connection of its own to the function.
func (p *process) dial(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// send writes a request as it is, for what net/http's client would not send, and returns the
// answer's status.
func (p *process) send(t *testing.T, request string) int {
	t.Helper()
	conn := p.dial(t)
	if _, err := conn.Write([]byte(request)); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// openShards opens what Increment uses, over a connection of its own.
func openShards(s settings.Settings, log *slog.Logger, opts ...option.ClientOption) (*shards.Client, error) {
	return shards.Open(context.Background(), ShardsConfig(s, log), opts...)
}
