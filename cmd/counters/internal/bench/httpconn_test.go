package bench

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// serve starts a server for a handler and returns a connection to it.
func serve(t *testing.T, h http.HandlerFunc) *httpConn {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := dialHTTP(t.Context(), strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return c
}

// One connection carries request after request, whatever the answers look like.
func TestHTTPConnReadsAnswers(t *testing.T) {
	t.Parallel()
	var addrs []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		addrs = append(addrs, r.RemoteAddr)
		switch r.URL.Path {
		case "/none":
			w.WriteHeader(http.StatusNoContent)
		case "/short":
			w.Write([]byte("HTTP/1.1 500 this is no header\r\n\r\n"))
		case "/long":
			w.Write([]byte(strings.Repeat("0123456789", 10_000))) // more than the server buffers: in chunks
		case "/flushed":
			for range 3 {
				w.Write([]byte("a chunk\n"))
				_ = http.NewResponseController(w).Flush()
			}
		default:
			http.Error(w, "no", http.StatusNotFound)
		}
	})
	for _, tt := range []struct {
		path string
		want int
	}{{"/none", 204}, {"/short", 200}, {"/long", 200}, {"/flushed", 200}, {"/other", 404}, {"/none", 204}} {
		for _, request := range [][]byte{post(tt.path), get(tt.path)} {
			if status, err := c.do(t.Context(), request); err != nil || status != tt.want {
				t.Fatalf("%s: %d, %v, want %d", tt.path, status, err, tt.want)
			}
		}
	}
	for _, addr := range addrs {
		if addr != addrs[0] {
			t.Fatalf("requests came over %s and %s", addrs[0], addr)
		}
	}
}

// After an answer that breaks off, or a server that hangs up, the next request goes over a new connection.
func TestHTTPConnConnectsAnew(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/broken":
			panic(http.ErrAbortHandler)
		case "/last":
			w.Header().Set("Connection", "close")
		}
	})
	if status, err := c.do(t.Context(), post("/broken")); err == nil {
		t.Errorf("an answer that never came has status %d", status)
	}
	for _, path := range []string{"/last", "/"} {
		if status, err := c.do(t.Context(), post(path)); err != nil || status != 200 {
			t.Errorf("%s: %d, %v", path, status, err)
		}
	}
}

// Whoever waits for an answer can be called off.
func TestHTTPConnInterrupt(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	c := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	})
	go func() {
		<-arrived
		c.interrupt()
	}()
	ended := make(chan error)
	go func() {
		_, err := c.do(t.Context(), get("/"))
		ended <- err
	}()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("no error")
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it still waits")
	}
}
