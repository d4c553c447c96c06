package functions

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/emulator"
)

// Requests that begin while the end waits for the last one are refused, and nothing panics.
func TestRequestsBeginWhileTheProcessEnds(t *testing.T) {
	t.Parallel()
	for range 200 {
		l := newLife()
		var callers sync.WaitGroup
		for range 8 {
			callers.Go(func() {
				for l.begin() {
					l.done()
				}
			})
		}
		<-l.end()
		if l.begin() {
			t.Fatal("a request began after the end")
		}
		callers.Wait()
		<-l.end() // once more
	}
}

// After SIGTERM, what is under way is answered; what comes then is refused, and so is a body that
// is still on its way.
func TestRequestsAfterSIGTERM(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "Increment")
	p.create(t, "a")
	if got := p.do(t, "POST", "/a", ""); got.status != 200 {
		t.Fatalf("before: %d", got.status)
	}
	held, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	p.firestore.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
		once.Do(func() { close(held) })
		<-release
		return emulator.Verdict{}
	})
	underWay := make(chan int, 1)
	go func() {
		defer close(underWay) // also where there is no answer
		underWay <- p.send(t, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
	}()
	<-held
	slow := p.dial(t)
	fmt.Fprint(slow, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n{")
	const reads = "HTTP/1.1 100 Continue\r\n\r\n"
	if _, err := io.ReadFull(slow, make([]byte, len(reads))); err != nil { // it is being read
		t.Fatal(err)
	}

	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	refused := func(conn net.Conn) {
		t.Helper()
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body := make([]byte, 1000)
		n, _ := resp.Body.Read(body)
		if resp.StatusCode != 503 || !resp.Close || !strings.Contains(string(body[:n]), "nothing was counted") {
			t.Errorf("answered %d, connection closed: %v, %s; want 503, closed, nothing counted", resp.StatusCode, resp.Close, body[:n])
		}
	}
	refused(slow) // and with it the signal has arrived
	late := p.dial(t)
	fmt.Fprint(late, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
	refused(late)
	time.Sleep(500 * time.Millisecond) // it has no reason to stay but the request under way
	close(release)
	if status := <-underWay; status != 200 {
		t.Errorf("the request under way: %d, want 200", status)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("the process ended with %v", err)
	}
	p.firestore.Server.SetInterceptor(nil)
	if sum := p.sum(t, "a"); sum != 2 {
		t.Errorf("%d counted, want 2", sum)
	}
}

// A body that comes too slowly is given up after REQUEST_TIMEOUT, and the connection with it.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"Increment", "Rollup", "Reconcile"} {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			p := startProcess(t, target, "REQUEST_TIMEOUT=1s")
			conn := p.dial(t)
			_ = conn.SetDeadline(time.Now().Add(time.Minute)) // or else the test would hang, as the request did
			fmt.Fprint(conn, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			want := http.StatusRequestTimeout
			if target == "Rollup" {
				want = http.StatusServiceUnavailable // the event is to come again
			}
			if resp.StatusCode != want || !resp.Close {
				t.Errorf("answered %d, connection closed: %v; want %d, closed", resp.StatusCode, resp.Close, want)
			}
			wantClosed(t, conn)
		})
	}
}

// Whatever a slow request is answered, its connection doesn't stay: not while the rest of the body
// is waited for, nor where the answer came before it was asked for.
func TestSlowBodiesKeepNoConnection(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "Increment", "REQUEST_TIMEOUT=1s", "ALLOWED_ORIGINS=https://ours.example")
	for name, request := range map[string]string{
		"408":               "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{",
		"408, in chunks":    "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
		"408, many":         "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{",
		"408, expected":     "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n\r\n{",
		"403":               "POST /a HTTP/1.1\r\nHost: x\r\nOrigin: https://theirs.example\r\nContent-Length: 1000\r\n\r\n{",
		"405":               "PATCH /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{",
		"413 from a length": "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{",
		"a read":            "GET /?counter=a HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := p.dial(t)
			fmt.Fprint(conn, request)
			wantClosed(t, conn)
		})
	}
}

// wantClosed fails unless the other side closes a connection by itself, after what it answers.
func wantClosed(t *testing.T, conn net.Conn) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second)) // or else the test would hang, as the connection did
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection stays open")
	}
}

// Once its body has been read, a request may take its time: the body's deadline is no other's.
func TestRequestOutlivesItsBodysDeadline(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "Increment", "REQUEST_TIMEOUT=2s", "ROLLUP_INTERVAL=1s")
	p.create(t, "a")
	conn := p.dial(t)
	answers := bufio.NewReader(conn)
	for n := range 3 { // of a connection that is used again, and idle for longer than the deadline
		if n > 0 {
			time.Sleep(1200 * time.Millisecond)
		}
		fmt.Fprint(conn, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 200 || resp.Close {
			t.Fatalf("answered %d, connection closed: %v", resp.StatusCode, resp.Close)
		}
		_, _ = answers.Discard(answers.Buffered())
	}
}

// A body that says that it is too large is not waited for.
func TestLargeBodyIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "Increment")
	for path, size := range map[string]int{"/a": maxBody + 1, "/": maxBodyMany + 1, "/b": 100 << 20} {
		conn := p.dial(t)
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n{", path, size)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusRequestEntityTooLarge || !resp.Close {
			t.Errorf("%s: answered %d, connection closed: %v; want 413, closed", path, resp.StatusCode, resp.Close)
		}
	}
}

// While Firestore doesn't answer, a read may be tried again, and an increment that never got to its
// commit too.
func TestFirestoreHangs(t *testing.T) {
	t.Parallel()
	hole, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, and never says a word
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hole.Close() })
	p := startProcess(t, "Increment", "FIRESTORE_EMULATOR_HOST="+hole.Addr().String(), "REQUEST_TIMEOUT=1s", "ROLLUP_INTERVAL=1s")
	for _, c := range []struct{ method, path, body, key string }{
		{"GET", "/a", "", ""},
		{"GET", "/a?exact=true", "", ""},
		{"POST", "/a", "", ""},
		{"POST", "/b", "", "k"},
		{"POST", "/", `{"increments":[{"counter":"a"},{"counter":"b"}]}`, ""},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			t.Parallel()
			var header []string
			if c.key != "" {
				header = []string{"Idempotency-Key", c.key}
			}
			got := p.do(t, c.method, c.path, c.body, header...)
			if got.status != 503 || got.header.Get("Retry-After") == "" {
				t.Errorf("answered %d %v, Retry-After %q; want 503 with Retry-After", got.status, got.body, got.header.Get("Retry-After"))
			}
		})
	}
}
