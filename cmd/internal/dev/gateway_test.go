package dev

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/firestore-counters/counters/internal/testbed/freeport"
)

// newTestGateway serves a gateway in front of functions at the given addresses.
func newTestGateway(t testing.TB, increment []string, page http.Handler) *httptest.Server {
	t.Helper()
	b := newBackends()
	b.set(increment)
	g := httptest.NewServer(newGateway(gatewayConfig{
		access:    access{hosts: []string{"counters.test", ".forwarded.test"}, origins: []string{"https://shop.test"}},
		increment: b, reconcile: newBackends(), firestore: b, page: page,
		ready: func() bool { return len(increment) > 0 }, origin: "http://127.0.0.1:8081", logger: testLogger(t), closing: context.Background(),
	}))
	t.Cleanup(func() {
		g.Close()
		b.transport.CloseIdleConnections()
	})
	return g
}

// send writes a request line as it is, which a client library would tidy up, and returns the answer
// and its body.
func send(t *testing.T, to *httptest.Server, method, target, body string) (*http.Response, string) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(to.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r, err := http.NewRequest(method, to.URL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.URL = &url.URL{Opaque: target}
	r.Header.Set("X-Forwarded-For", "192.0.2.1")
	r.Close = true
	if err := r.Write(conn); err != nil {
		t.Fatal(err)
	}
	return receive(t, conn)
}

func receive(t *testing.T, conn net.Conn) (*http.Response, string) {
	t.Helper()
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(text)
}

func TestPathsReachTheFunctionAsWritten(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 1, "Echo")
	g := newTestGateway(t, f.of("Echo"), nil)
	for _, test := range []struct{ method, target, want string }{
		{"POST", "/increment/post-123", "POST /post-123 body"},
		{"GET", "/increment/post-123?exact=true", "GET /post-123?exact=true body"},
		{"POST", "/increment", "POST / body"},
		{"POST", "/increment/", "POST / body"},
		{"GET", "/increment?counter=a%2Fb&x=;&y=%zz", "GET /?counter=a%2Fb&x=;&y=%zz body"},
		{"POST", "/increment/a%20b", "POST /a%20b body"},
		{"POST", "/increment/a%2Fb%2f..", "POST /a%2Fb%2f.. body"},
		{"POST", "/increment/%E2%82%AC%25", "POST /%E2%82%AC%25 body"},
		{"POST", "/increment/a!'()*,;:@&=+$", "POST /a!'()*,;:@&=+$ body"},
		{"DELETE", "/increment/x", "DELETE /x body"},
	} {
		answer, got := send(t, g, test.method, test.target, "body")
		if answer.StatusCode != http.StatusOK || got != test.want {
			t.Errorf("%s %s: got %s %q, want %q", test.method, test.target, answer.Status, got, test.want)
		}
		if seen := answer.Header.Get("X-Forwarded-For-Seen"); seen != "192.0.2.1, 127.0.0.1" {
			t.Errorf("the function sees the client as %q", seen)
		}
	}
}

// The framework redirects such paths before a function runs. The gateway must not do so by itself,
// and has to put the function's place in front of where the framework sends the client.
func TestRedirectStaysBelowItsPrefix(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 1, "Echo")
	g := newTestGateway(t, f.of("Echo"), nil)
	for target, want := range map[string]string{
		"/increment//x":      "/increment/x",
		"/increment/a/../b":  "/increment/b",
		"/increment/./x?y=z": "/increment/x?y=z",
	} {
		answer, _ := send(t, g, "POST", target, "")
		if got := answer.Header.Get("Location"); answer.StatusCode != http.StatusTemporaryRedirect || got != want {
			t.Errorf("%s: got %s to %q, want 307 to %q", target, answer.Status, got, want)
		}
	}
}

func TestOtherPaths(t *testing.T) {
	t.Parallel()
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "page ", r.URL.Path) })
	plain, paged, ready := newTestGateway(t, nil, nil), newTestGateway(t, nil, page), newTestGateway(t, []string{"127.0.0.1:1"}, nil)
	for _, test := range []struct {
		gateway *httptest.Server
		target  string
		status  int
		want    string
	}{
		{plain, "/", 200, "/increment/{counter}"},
		{plain, "/incremental", 404, "See /"},
		{plain, "/-/ready", 503, "not ready"},
		{ready, "/-/ready", 200, "ready\n"},
		{paged, "/", 200, "page /"},
		{paged, "/some/script.js", 200, "page /some/script.js"},
		{plain, "/v1/projects/p/databases/d/documents/c/x", 503, "was not sent to any"},
		{plain, "/google.firestore.v1.Firestore/Listen/channel", 503, "was not sent to any"},
		{plain, "/increment/x", 503, "was not sent to any"},
		{plain, "/reconcile", 503, "was not sent to any"},
	} {
		answer, got := send(t, test.gateway, "GET", test.target, "")
		if answer.StatusCode != test.status || !strings.Contains(strings.ToLower(got), strings.ToLower(test.want)) {
			t.Errorf("%s: got %s %q, want %d %q", test.target, answer.Status, got, test.status, test.want)
		}
	}
}

func TestInstancesTakeTurns(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, "Echo")
	g := newTestGateway(t, f.of("Echo"), nil)
	answered := make(map[string]int)
	for range 30 {
		answer, _ := send(t, g, "GET", "/increment/x", "")
		answered[answer.Header.Get("X-Pid")]++
	}
	if len(answered) != 3 {
		t.Fatalf("%d of 3 instances have answered", len(answered))
	}
	for pid, n := range answered {
		if n != 10 {
			t.Errorf("process %s has answered %d of 30 requests, want 10", pid, n)
		}
	}
}

// A request that wasn't sent goes to another instance, with its body; one that may have arrived
// goes nowhere else.
func TestKilledInstance(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 1, "Echo")
	alive := f.of("Echo")[0]
	port, err := freeport.Find()
	if err != nil {
		t.Fatal(err)
	}
	gone := "127.0.0.1:" + port
	g := newTestGateway(t, []string{gone, alive}, nil)
	for range 4 {
		if answer, got := send(t, g, "POST", "/increment/x", "body"); got != "POST /x body" {
			t.Errorf("got %s %q", answer.Status, got)
		}
	}

	allGone := newTestGateway(t, []string{gone}, nil)
	answer, got := send(t, allGone, "POST", "/increment/x", "body")
	wantProblem(t, answer, got, http.StatusServiceUnavailable)
	if answer.Header.Get("Retry-After") == "" {
		t.Error("the client isn't told to try again")
	}

	hungUp := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }))
	defer hungUp.Close()
	doubtful := newTestGateway(t, []string{strings.TrimPrefix(hungUp.URL, "http://"), alive}, nil)
	statuses := make(map[int]bool)
	for range 2 {
		answer, got := send(t, doubtful, "POST", "/increment/x", "body")
		if statuses[answer.StatusCode] = true; answer.StatusCode != http.StatusOK {
			wantProblem(t, answer, got, http.StatusBadGateway)
		}
	}
	if len(statuses) != 2 {
		t.Errorf("answers were %v, want one 200 and one 502", statuses)
	}
}

func wantProblem(t *testing.T, answer *http.Response, body string, status int) {
	t.Helper()
	var problem struct {
		Title, Detail string
		Status        int
	}
	if err := json.Unmarshal([]byte(body), &problem); err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != status || problem.Status != status || problem.Title == "" || problem.Detail == "" ||
		answer.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("got %s %v %+v, want a problem with status %d", answer.Status, answer.Header, problem, status)
	}
}

// A page of another site may not call, by whatever name it reaches this machine.
func TestForeignPagesAreRefused(t *testing.T) {
	t.Parallel()
	var reached atomic.Int64
	function := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reached.Add(1)
		if origin := r.Header.Get("Origin"); origin != "" {
			w.Header().Set("Access-Control-Allow-Origin", origin) // As the functions and Firestore answer those they know.
			w.Header().Set("X-Origin-Seen", origin)
		}
	}))
	defer function.Close()
	g := newTestGateway(t, []string{strings.TrimPrefix(function.URL, "http://")}, function.Config.Handler)
	own := strings.TrimPrefix(g.URL, "http://")
	for _, test := range []struct {
		name, host, origin string
		ok                 bool
	}{
		{"a program", own, "", true},
		{"our page", own, g.URL, true},
		{"our page, by the name localhost", "localhost:8081", "http://localhost:8081", true},
		{"our page, on a phone", "192.168.1.7:8081", "http://192.168.1.7:8081", true},
		{"our page, over IPv6", "[fd00::7]:8081", "http://[fd00::7]:8081", true},
		{"our page, by a name that was allowed", "counters.test:8081", "http://counters.test:8081", true},
		{"our page, forwarded", "x-8081.forwarded.test", "https://x-8081.forwarded.test", true},
		{"our page, forwarded with another host", "localhost:8081", "https://x-8081.forwarded.test", true},
		{"a frontend of this machine", own, "http://localhost:5173", true},
		{"a frontend of this machine, by address", own, "http://[::1]:5173", true},
		{"a frontend of this machine, by subdomain", own, "http://app.localhost:3000", true},
		{"what ALLOWED_ORIGINS has", own, "https://shop.test", true},
		{"another site", own, "https://evil.test", false},
		{"another site with a familiar name", own, "https://localhost.evil.test", false},
		{"another port of what ALLOWED_ORIGINS has", own, "https://shop.test:8443", false},
		{"another machine", own, "http://192.168.1.8", false},
		{"a file", own, "null", false},
		{"a name that leads here", "evil.test:8081", "http://evil.test:8081", false},
		{"a name that leads here, without an Origin", "evil.test", "", false},
		{"a name that looks forwarded", "forwarded.test.evil.test", "", false},
	} {
		for _, target := range []string{"POST /increment/x", "POST /reconcile", "POST /v1/projects/p/databases/d/documents:commit", "GET /", "GET /-/ready"} {
			method, path, _ := strings.Cut(target, " ")
			r := httptest.NewRequest(method, path, nil)
			r.Host = test.host
			if test.origin != "" {
				r.Header.Set("Origin", test.origin)
			}
			before := reached.Load()
			w := httptest.NewRecorder()
			g.Config.Handler.ServeHTTP(w, r)
			if refused := w.Code == http.StatusForbidden; refused == test.ok {
				t.Errorf("%s, %s: %d", test.name, target, w.Code)
			}
			if !test.ok && reached.Load() != before {
				t.Errorf("%s, %s: refused, and yet passed on", test.name, target)
			}
			if seen := w.Header().Get("X-Origin-Seen"); test.ok && test.origin != "" && strings.HasPrefix(path, "/increment") {
				if seen != "http://127.0.0.1:8081" || w.Header().Get("Access-Control-Allow-Origin") != test.origin {
					t.Errorf("%s: the function sees origin %q, and the page is told that %q is allowed", test.name, seen, w.Header().Get("Access-Control-Allow-Origin"))
				}
			}
		}
	}
}

// A body that can't be read is the client's fault: neither an outage of the function nor doubt.
func TestBrokenChunksAreTheClientsFault(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 1, "Echo")
	g := newTestGateway(t, f.of("Echo"), nil)
	for _, body := range []string{"zz\r\nbody\r\n0\r\n\r\n", "4\r\nbody0\r\n\r\n", "4\r\nbody\r\n-1\r\n\r\n"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(g.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "POST /increment/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"+body); err != nil {
			t.Fatal(err)
		}
		answer, text := receive(t, conn)
		wantProblem(t, answer, text, http.StatusBadRequest)
	}
}

func TestClientThatLeaves(t *testing.T) {
	t.Parallel()
	began, left := make(chan struct{}), make(chan struct{})
	function := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(began)
		<-r.Context().Done()
		close(left)
	}))
	defer function.Close()
	g := newTestGateway(t, []string{strings.TrimPrefix(function.URL, "http://")}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "POST", g.URL+"/increment/x", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-began
		cancel()
	}()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	if _, err := transport.RoundTrip(r); err == nil {
		t.Fatal("got an answer")
	}
	select {
	case <-left:
	case <-time.After(time.Minute):
		t.Fatal("the function isn't told that the client has left")
	}
}
