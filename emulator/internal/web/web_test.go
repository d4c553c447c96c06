package web_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/firestore-counters/counters/emulator"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// net/http lets a connection linger for half a second when it refuses to read a body to its
		// end.
		goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// browser sends HTTP requests to a server.
type browser struct {
	t    *testing.T
	base string // http://host:port
	http *http.Client
}

func newBrowser(t *testing.T, addr string) browser {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return browser{t: t, base: "http://" + addr, http: &http.Client{Transport: transport}}
}

func startServer(t *testing.T) (browser, *emulator.Instance) {
	i := emulator.Start(t)
	return newBrowser(t, i.Addr), i
}

// start is a browser with a server of its own.
func start(t *testing.T) browser {
	t.Parallel()
	b, _ := startServer(t)
	return b
}

func (b browser) do(method, path, body string, headers ...string) (*http.Response, string) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.base+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := b.http.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp, string(data)
}

func TestReadiness(t *testing.T) {
	b := start(t)
	if resp, body := b.do("GET", "/", ""); resp.StatusCode != http.StatusOK || body != "Ok\n" {
		t.Errorf("GET /: %d %q", resp.StatusCode, body)
	}
	if resp, body := b.do("GET", "/elsewhere", ""); resp.StatusCode != http.StatusNotImplemented || !strings.Contains(body, "/elsewhere isn't covered") {
		t.Errorf("GET /elsewhere: %d %q", resp.StatusCode, body)
	}
}

func TestCORS(t *testing.T) {
	b := start(t)
	const origin = "http://localhost:5000"
	for _, path := range []string{
		"/v1/projects/p/databases/(default)/documents:commit",
		"/google.firestore.v1.Firestore/Listen/channel?VER=8",
		"/emulator/v1/projects/p/databases/(default)/documents",
		"/any/path",
	} {
		resp, body := b.do("OPTIONS", path, "", "Origin", origin,
			"Access-Control-Request-Method", "POST",
			"Access-Control-Request-Headers", "content-type,x-goog-api-client",
			"Access-Control-Request-Private-Network", "true")
		if resp.StatusCode != http.StatusOK || body != "" {
			t.Errorf("OPTIONS %s: %d %q", path, resp.StatusCode, body)
		}
		for name, want := range map[string]string{
			"Access-Control-Allow-Origin":          origin,
			"Access-Control-Allow-Credentials":     "true",
			"Access-Control-Allow-Methods":         "DELETE, GET, HEAD, PATCH, POST, PUT",
			"Access-Control-Allow-Headers":         "content-type,x-goog-api-client",
			"Access-Control-Allow-Private-Network": "true",
		} {
			if got := resp.Header.Get(name); got != want {
				t.Errorf("OPTIONS %s: %s is %q, want %q", path, name, got, want)
			}
		}
	}
	// A page must be able to read errors, too.
	resp, _ := b.do("GET", "/v1/projects/p/databases/(default)/documents/a/none", "", "Origin", origin)
	if resp.StatusCode != http.StatusNotFound || resp.Header.Get("Access-Control-Allow-Origin") != origin || !strings.Contains(resp.Header.Get("Vary"), "Origin") {
		t.Errorf("an error: %d, headers %v", resp.StatusCode, resp.Header)
	}
	resp, _ = b.do("GET", "/", "")
	if resp.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Error("a request without an origin is answered with one")
	}
}
