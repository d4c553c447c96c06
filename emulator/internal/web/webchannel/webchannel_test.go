package webchannel

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMessagesBothWays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended int
		server := New(echo(&ended))
		c := open(t, server, `{"n":1}`)
		b := c.back(0, "CI=0")
		b.expect(t, `1 [{"n":1}]`)
		if got := c.send(1, 1, `{"n":2}`, `"ü😀"`); got != [3]int{1, 1, 0} {
			t.Errorf("answer %v: want an open back channel and everything acknowledged", got)
		}
		b.expect(t, `2 [{"n":2}]`, `3 ["ü😀"]`)
		if got := c.send(2, 3); got != [3]int{1, 3, len(`["ü😀"]`)} {
			t.Errorf("answer %v: want message 3 outstanding", got)
		}
		if w := c.do(post("SID="+c.sid+"&RID=9&TYPE=terminate", nil)); w.Code != http.StatusOK || w.Body.Len() > 0 {
			t.Errorf("terminate: %d %q", w.Code, w.Body)
		}
		if b.open() || ended != 1 || server.Sessions() != 0 {
			t.Errorf("after terminate: back channel open %v, ended %d, sessions %d", b.open(), ended, server.Sessions())
		}
		if w := c.do(post("SID="+c.sid+"&RID=10", messages(3, `1`))); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "Unknown SID") {
			t.Errorf("a request after the end: %d %q", w.Code, w.Body)
		}
		server.Close()
	})
}

func TestHeadersOfTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := make(chan string, 1)
		server := New(func(s *Session) { got <- s.Header.Get("authorization"); <-s.Context().Done() })
		open(t, server)
		if h := <-got; h != "Bearer owner" {
			t.Errorf("Authorization is %q", h)
		}
		server.Close()
	})
}

func TestLostMessagesAreSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended int
		server := New(echo(&ended))
		defer server.Close()
		c := open(t, server, `1`, `2`)
		lost := c.back(0, "CI=0")
		lost.expect(t, `1 [1]`, `2 [2]`)
		lost.cancel()
		if lost.open() {
			t.Fatal("the back channel outlives its connection")
		}
		if got := c.send(0, 2, `3`); got[0] != 0 {
			t.Errorf("answer %v claims a back channel", got)
		}
		again := c.back(1, "CI=0") // 2 was swallowed
		again.expect(t, `2 [2]`, `3 [3]`)
		// The forward channel: 2 again, as its answer was lost, and one more.
		c.send(3, 2, `3`, `4`)
		again.expect(t, `4 [4]`)
		if w := c.do(post("SID="+c.sid+"&RID=7", messages(9, `9`))); w.Code != http.StatusBadRequest {
			t.Errorf("messages with a gap before them: %d", w.Code)
		}
		newer := c.back(4, "CI=0")
		if again.open() || !newer.open() {
			t.Error("a new back channel must end the one before")
		}
		if ended != 0 {
			t.Error("the session has ended")
		}
	})
}

func TestLongPolling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended int
		server := New(echo(&ended))
		defer server.Close()
		c := open(t, server)
		b := c.back(0, "CI=1")
		if !b.open() {
			t.Fatal("a poll ends before there is anything")
		}
		c.send(0, 0, `1`)
		b.expect(t, `1 [1]`)
		if b.open() {
			t.Error("a poll must end with the first messages")
		}
		silent := c.back(1, "CI=1")
		time.Sleep(keepAlive)
		silent.expect(t, `2 ["noop"]`)
		if silent.open() {
			t.Error("a poll must end with a sign of life")
		}
	})
}

func TestSignsOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended int
		server := New(echo(&ended))
		defer server.Close()
		c := open(t, server)
		b := c.back(0, "CI=0")
		b.expect(t, `1 ["noop"]`) // at once: the client waits for a first byte
		time.Sleep(keepAlive - time.Second)
		b.expect(t)
		time.Sleep(time.Second)
		b.expect(t, `2 ["noop"]`)
		time.Sleep(backLifetime - keepAlive)
		if b.open() {
			t.Error("a back channel must end after a minute, for the client to acknowledge")
		}
	})
}

func TestIdleSessionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended int
		server := New(echo(&ended))
		defer server.Close()
		open(t, server) // and is never heard of again
		c := open(t, server)
		for ack := range 5 {
			b := c.back(ack*2, "CI=0")
			time.Sleep(backLifetime + time.Second)
			if b.open() {
				t.Fatal("the back channel is still open")
			}
		}
		synctest.Wait()
		if ended != 1 || server.Sessions() != 1 {
			t.Fatalf("%d ended, %d left: want the one without a back channel gone", ended, server.Sessions())
		}
		time.Sleep(idleTimeout)
		synctest.Wait()
		if ended != 2 || server.Sessions() != 0 {
			t.Errorf("%d ended, %d left: want both gone", ended, server.Sessions())
		}
	})
}

func TestClientThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := 0
		big := json.RawMessage(`"` + strings.Repeat("x", 10_000) + `"`)
		server := New(func(s *Session) {
			for s.Send(big) == nil {
				sent++
			}
		})
		defer server.Close()
		c := open(t, server)
		synctest.Wait()
		limit := maxUnacked / 10_000
		if sent == 0 || sent > limit {
			t.Fatalf("%d messages are kept for a client that doesn't read: want 1 to %d", sent, limit)
		}
		// It reads: each back channel ends early, for the next to acknowledge.
		ack := 0
		for range 10 {
			b := c.back(ack, "CI=0")
			if b.open() {
				t.Fatal("the back channel stays open, so nothing is acknowledged")
			}
			var frame [][2]json.RawMessage
			if err := json.Unmarshal([]byte(<-b.frames), &frame); err != nil {
				t.Fatal(err)
			}
			for _, m := range frame {
				if ack++; string(m[0]) != fmt.Sprint(ack) {
					t.Fatalf("message %s, want %d", m[0], ack)
				}
			}
		}
		if sent < 10*limit/2 {
			t.Errorf("%d messages sent in all: want more once they are acknowledged", sent)
		}
		// It opens a back channel and doesn't read that: nothing more is sent, and in the end the
		// session is gone.
		before := sent
		stuck := &stream{ResponseWriter: httptest.NewRecorder(), stuck: make(chan struct{}), frames: make(chan string, 1), done: make(chan struct{})}
		go c.serve(t.Context(), stuck, ack, "CI=0")
		time.Sleep(writeTimeout)
		synctest.Wait()
		if sent > before+limit {
			t.Errorf("%d more messages were taken for a client that is stuck", sent-before)
		}
		close(stuck.stuck) // as the write deadline does
		time.Sleep(idleTimeout + time.Second)
		if stuck.open() || server.Sessions() != 0 {
			t.Error("the session of a stuck client has not ended")
		}
	})
}

func TestServerEndsTheChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := New(func(s *Session) { s.Send(json.RawMessage(`"bye"`)) })
		defer server.Close()
		c := open(t, server)
		b := c.back(0, "CI=0")
		b.expect(t, `1 ["bye"]`, `2 ["close"]`)
		if b.open() {
			t.Error("the back channel must end with the last message")
		}
		if again := c.back(1, "CI=0"); again.open() {
			t.Error("a back channel for what was lost must end too")
		}
		if got := c.send(2, 0, `1`); got != [3]int{0, 2, 0} { // nobody listens, and nobody is held up
			t.Errorf("answer %v", got)
		}
	})
}

func TestCloseEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended int
		server := New(echo(&ended))
		c := open(t, server)
		b := c.back(0, "CI=0")
		b.expect(t, `1 ["noop"]`)
		server.Close()
		if b.open() || ended != 1 {
			t.Errorf("back channel open %v, %d ended", b.open(), ended)
		}
		if w := c.do(post("VER=8&RID=1", messages(0))); w.Code != http.StatusServiceUnavailable {
			t.Errorf("a new session: %d", w.Code)
		}
	})
}

func TestRequestsThatMakeNoSense(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended int
		server := New(echo(&ended))
		defer server.Close()
		c := open(t, server)
		for _, r := range []*http.Request{
			post("VER=7&RID=1", messages(0)),
			post("VER=8&RID=1", url.Values{"count": {"2"}, "req0___data__": {"1"}}),
			post("VER=8&RID=1", url.Values{"count": {"1001"}}),
			post("VER=8&RID=1", url.Values{"count": {"x"}}),
			post("VER=8&RID=1&SID=nobody", messages(0)),
			post("SID="+c.sid, url.Values{"count": {"1"}}),
			httptest.NewRequest(http.MethodGet, "/channel?VER=8&SID="+c.sid, nil),
			httptest.NewRequest(http.MethodGet, "/channel", nil),
		} {
			if w := c.do(r); w.Code != http.StatusBadRequest {
				t.Errorf("%s %s: %d, want 400", r.Method, r.URL, w.Code)
			}
		}
		large := httptest.NewRequest(http.MethodPost, "/channel?VER=8&RID=1", strings.NewReader(strings.Repeat("x", maxRequestBytes+1)))
		if w := c.do(large); w.Code != http.StatusRequestEntityTooLarge {
			t.Errorf("a request of over 16 MiB: %d, want 413", w.Code)
		}
		if server.Sessions() != 1 {
			t.Errorf("%d sessions, want 1", server.Sessions())
		}
	})
}

func TestFrameLength(t *testing.T) {
	for text, want := range map[string]string{"": "0\n", "abc": "3\nabc", "ü€": "2\nü€", "😀x": "3\n😀x"} {
		var b bytes.Buffer
		if err := writeFrame(&b, []byte(text)); err != nil || b.String() != want {
			t.Errorf("frame of %q is %q, %v", text, b.String(), err)
		}
	}
}
