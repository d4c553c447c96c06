package webchannel

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
)

// The tests call the handler itself, in a synctest bubble: its minutes pass at once.

// client is a client of the protocol, without a network.
type client struct {
	t      *testing.T
	server *Server
	sid    string
}

func post(target string, form url.Values) *http.Request {
	return httptest.NewRequest(http.MethodPost, "/channel?"+target, strings.NewReader(form.Encode()))
}

func messages(offset int, data ...string) url.Values {
	form := url.Values{"count": {fmt.Sprint(len(data))}, "ofs": {fmt.Sprint(offset)}}
	for i, d := range data {
		form.Set(fmt.Sprintf("req%d___data__", i), d)
	}
	return form
}

func (c *client) do(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	c.server.ServeHTTP(w, r)
	return w
}

// open begins a session with some first messages.
func open(t *testing.T, s *Server, data ...string) *client {
	t.Helper()
	c := &client{t: t, server: s}
	form := messages(0, data...)
	form.Set("headers", "X-Goog-Api-Client: js\r\nAuthorization:Bearer owner\r\n")
	w := c.do(post("VER=8&RID=1&CVER=22", form))
	if w.Code != http.StatusOK {
		t.Fatalf("open: %d %s", w.Code, w.Body)
	}
	var answer [1][2]json.RawMessage
	var hello [6]any
	unframe(t, w.Body.String(), &answer)
	if err := json.Unmarshal(answer[0][1], &hello); err != nil {
		t.Fatalf("open: %v in %s", err, answer[0][1])
	}
	if string(answer[0][0]) != "0" || hello[0] != "c" || hello[2] != "" || hello[3] != 8.0 || hello[5] != 30000.0 {
		t.Fatalf("open: answer %s", answer[0])
	}
	c.sid = hello[1].(string)
	return c
}

// unframe reads a response of one frame.
func unframe(t *testing.T, body string, into any) {
	t.Helper()
	length, data, ok := strings.Cut(body, "\n")
	if !ok || length != strconv.Itoa(utf16Length([]byte(data))) {
		t.Fatalf("no frame: %q", body)
	}
	if err := json.Unmarshal([]byte(data), into); err != nil {
		t.Fatalf("frame %q: %v", data, err)
	}
}

// send posts messages and returns what the server says of the back channel.
func (c *client) send(ack, offset int, data ...string) (answer [3]int) {
	c.t.Helper()
	w := c.do(post(fmt.Sprintf("VER=8&SID=%s&RID=2&AID=%d", c.sid, ack), messages(offset, data...)))
	if w.Code != http.StatusOK {
		c.t.Fatalf("send: %d %s", w.Code, w.Body)
	}
	unframe(c.t, w.Body.String(), &answer)
	return answer
}

// stream is an open back channel; its frames are read as they are flushed.
type stream struct {
	http.ResponseWriter
	frames chan string
	stuck  chan struct{} // when not nil, writing fails after it is closed
	buf    bytes.Buffer
	cancel context.CancelFunc
	done   chan struct{}
}

func (s *stream) Write(b []byte) (int, error) {
	if s.stuck != nil {
		<-s.stuck
		return 0, io.ErrClosedPipe
	}
	return s.buf.Write(b)
}

func (s *stream) Flush() {
	_, data, _ := strings.Cut(s.buf.String(), "\n")
	s.buf.Reset()
	s.frames <- data
}

func (c *client) back(ack int, params string) *stream {
	synctest.Wait() // for what is to come of earlier requests
	ctx, cancel := context.WithCancel(c.t.Context())
	s := &stream{ResponseWriter: httptest.NewRecorder(), frames: make(chan string, 100), cancel: cancel, done: make(chan struct{})}
	go c.serve(ctx, s, ack, params)
	return s
}

func (c *client) serve(ctx context.Context, s *stream, ack int, params string) {
	defer close(s.done)
	r := httptest.NewRequest(http.MethodGet, fmt.Sprintf("/channel?VER=8&RID=rpc&SID=%s&AID=%d&TYPE=xmlhttp&%s", c.sid, ack, params), nil)
	c.server.ServeHTTP(s, r.WithContext(ctx))
}

// open reports whether the response goes on; all else has come to rest.
func (s *stream) open() bool {
	synctest.Wait()
	select {
	case <-s.done:
		return false
	default:
		return true
	}
}

// expect reads messages, each a number and an array, in however many frames they come.
func (s *stream) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	var got []string
	for len(s.frames) > 0 {
		var frame [][2]json.RawMessage
		if err := json.Unmarshal([]byte(<-s.frames), &frame); err != nil {
			t.Fatal(err)
		}
		for _, m := range frame {
			got = append(got, fmt.Sprintf("%s %s", m[0], m[1]))
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
}

// echo sends back what it receives, and counts the sessions that have ended.
func echo(ended *int) func(*Session) {
	return func(s *Session) {
		for {
			m, err := s.Receive()
			if err != nil {
				*ended++
				return
			}
			if s.Send(m) != nil {
				*ended++
				return
			}
		}
	}
}
