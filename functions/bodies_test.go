package functions

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// What is refused reads no body: it is answered at once, though the rest of the body never comes, and REQUEST_TIMEOUT
// is long. A caller without a token could otherwise occupy all of an instance with a few requests a second.
func TestRefusalsWaitForNoBody(t *testing.T) {
	t.Parallel()
	ours, guarded := startProcess(t, "Increment", "REQUEST_TIMEOUT=60s", "ALLOWED_ORIGINS=https://ours.example"), startProcess(t, "Increment", "REQUEST_TIMEOUT=60s", "AUTH=firebase")
	for name, c := range map[string]struct {
		p       *process
		request string
		status  int
	}{
		"no token":           {guarded, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{", 401},
		"no token, in parts": {guarded, "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", 401},
		"no token, expected": {guarded, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n\r\n", 401},
		"a page":             {ours, "POST /a HTTP/1.1\r\nHost: x\r\nOrigin: https://theirs.example\r\nContent-Length: 1000\r\n\r\n{", 403},
		"a method":           {ours, "PATCH /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{", 405},
		"a query":            {ours, "POST /a?b=c HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{", 400},
		"a read":             {ours, "GET /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{", 404},
		"a preflight": {ours, "OPTIONS /a HTTP/1.1\r\nHost: x\r\nOrigin: https://ours.example\r\nAccess-Control-Request-Method: POST\r\nContent-Length: 1000\r\n\r\n{",
			204},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := c.p.dial(t)
			_ = conn.SetDeadline(time.Now().Add(30 * time.Second)) // half of REQUEST_TIMEOUT
			fmt.Fprint(conn, c.request)
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != c.status || !resp.Close {
				t.Errorf("answered %d, connection closed: %v; want %d, closed", resp.StatusCode, resp.Close, c.status)
			}
			wantClosed(t, conn)
		})
	}
	t.Run("a body that is there", func(t *testing.T) { // its connection stays: a new one would cost more
		t.Parallel()
		conn := guarded.dial(t)
		answers := bufio.NewReader(conn)
		for range 2 {
			fmt.Fprint(conn, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
			resp, err := http.ReadResponse(answers, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			if resp.StatusCode != 401 || resp.Close {
				t.Fatalf("answered %d, connection closed: %v; want 401, open", resp.StatusCode, resp.Close)
			}
		}
	})
}

// Bodies of all requests under way have so many bytes together, and no more: those that come then are refused until
// there is room.
func TestBodiesHaveABudget(t *testing.T) {
	t.Parallel()
	held, goOn := make(chan struct{}, 100), make(chan struct{})
	server := httptest.NewServer(boundBodies(time.Minute, context.Background(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := readBody(w, r, maxBodyMany); err != nil {
			fail(w, r, slog.New(slog.DiscardHandler), err)
			return
		}
		held <- struct{}{}
		<-goOn
	})))
	t.Cleanup(server.Close)
	post := func() int {
		resp, err := server.Client().Post(server.URL, "application/json", strings.NewReader(strings.Repeat("x", maxBodyMany)))
		if _, is := errors.AsType[*net.OpError](err); is { // it was answered before it was sent
			return http.StatusServiceUnavailable
		}
		if err != nil {
			t.Error(err)
			return 0
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	var all sync.WaitGroup
	for range maxBodies / maxBodyMany {
		all.Go(func() {
			if status := post(); status != 200 {
				t.Errorf("a body for which there is room: %d", status)
			}
		})
	}
	for range maxBodies / maxBodyMany {
		<-held
	}
	if status := post(); status != 503 {
		t.Errorf("one body more: %d, want 503", status)
	}
	close(goOn)
	all.Wait()
	if status := post(); status != 200 {
		t.Errorf("once there is room again: %d", status)
	}
}

// A user whose bodies never come fills no instance: while many are waited for, others are for a moment alone.
func TestSlowBodiesLeaveSlots(t *testing.T) {
	t.Parallel()
	const slots = 2 * maxAwaited
	p := startProcess(t, "Increment", "REQUEST_TIMEOUT=60s", "AUTO_CREATE=true")
	began, ended := time.Now(), make(chan int, slots)
	for range slots {
		conn := p.dial(t)
		fmt.Fprint(conn, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\n{")
		go func() {
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil { // the test is over
				return
			}
			resp.Body.Close()
			ended <- resp.StatusCode
		}()
	}
	for n := range slots - maxAwaited {
		select {
		case status := <-ended:
			if status != http.StatusRequestTimeout {
				t.Fatalf("a body that doesn't come is answered %d, want 408", status)
			}
		case <-time.After(30 * time.Second): // half of REQUEST_TIMEOUT
			t.Fatalf("%d of %d slow bodies have ended after %v", n, slots, time.Since(began))
		}
	}
	conn := p.dial(t)
	fmt.Fprint(conn, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\n{")
	time.Sleep(50 * time.Millisecond)
	fmt.Fprint(conn, `"by":2}`)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 || len(ended) > 0 {
		t.Errorf("a body that comes a little late is answered %d, and %d more have ended", resp.StatusCode, len(ended))
	}
}

// Behind the functions framework, too, what has no token isn't answered while bytes are short.
func TestShortBytesCloseConnections(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "Increment", "AUTH=firebase", "CEILING=bytes=100")
	answered, closed := 0, 0
	for range 10 {
		conn := p.dial(t)
		_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
		fmt.Fprint(conn, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		switch {
		case err == nil && resp.StatusCode == 401:
			answered++
		case errors.Is(err, io.ErrUnexpectedEOF):
			closed++
		default:
			t.Errorf("%v, %v", resp, err)
		}
		conn.Close()
	}
	if answered == 0 || closed < 5 {
		t.Errorf("%d were answered, and %d not; want a few, and then none", answered, closed)
	}
}
