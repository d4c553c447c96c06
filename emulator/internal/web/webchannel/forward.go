package webchannel

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
)

// maxMessages is how many messages a request carries at most. Clients send up to 1,000.
const maxMessages = 1000

// forwardBody is what a POST of the forward channel carries.
type forwardBody struct {
	offset   int64 // number of the first message
	messages []json.RawMessage
	headers  http.Header // of the session; only the first request has them
}

// readForward reads a body, which is a form: count messages req0___data__, req1___data__ …, of
// which the first one is number ofs of the session.
func readForward(w http.ResponseWriter, r *http.Request) (forwardBody, error) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequestBytes))
	if err != nil {
		return forwardBody{}, fmt.Errorf("read the body: %w", err)
	}
	form, err := url.ParseQuery(string(raw))
	if err != nil {
		return forwardBody{}, fmt.Errorf("the body is not a form: %w", err)
	}
	b := forwardBody{headers: parseHeaders(form.Get("headers"))}
	count, err := number(form, "count", maxMessages)
	if err != nil {
		return forwardBody{}, err
	}
	if b.offset, err = number(form, "ofs", 1<<53); err != nil {
		return forwardBody{}, err
	}
	for i := range count {
		key := fmt.Sprintf("req%d___data__", i)
		if !form.Has(key) {
			return forwardBody{}, fmt.Errorf("the body has no %s", key)
		}
		b.messages = append(b.messages, json.RawMessage(form.Get(key)))
	}
	return b, nil
}

// number is a field of the form, 0 where it is missing.
func number(form url.Values, key string, limit int64) (int64, error) {
	if !form.Has(key) {
		return 0, nil
	}
	n, err := strconv.ParseInt(form.Get(key), 10, 64)
	if err != nil || n < 0 || n > limit {
		return 0, fmt.Errorf("%s is %q: want a number, 0 to %d", key, form.Get(key), limit)
	}
	return n, nil
}

// parseHeaders reads Name:Value lines, by which a browser's client avoids a preflight request.
func parseHeaders(lines string) http.Header {
	h := make(http.Header)
	for line := range strings.Lines(lines) {
		if name, value, ok := strings.Cut(line, ":"); ok {
			h.Add(textproto.TrimString(name), textproto.TrimString(value))
		}
	}
	return h
}

// forward answers a POST of the forward channel: how the back channel is doing, as of before the
// messages were handed on. (What they bring about is on its way then, and the client must not think
// that it was lost.)
func (s *Session) forward(w http.ResponseWriter, r *http.Request, q url.Values) {
	body, err := readForward(w, r)
	if err != nil {
		fail(w, err)
		return
	}
	reply := s.seen(q)
	if err := s.accept(r.Context(), body); err != nil {
		fail(w, err)
		return
	}
	_ = writeFrame(w, reply)
}

// seen notes that the client is alive and what it has got, and says how the back channel is doing:
// whether it is open, the last message's number, and how many bytes the client has not
// acknowledged.
func (s *Session) seen(q url.Values) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.touch()
	s.ack(q)
	open := 0
	if s.channel != nil {
		open = 1
	}
	return fmt.Appendf(nil, "[%d,%d,%d]", open, s.lastID, s.unacked)
}

// accept hands messages on, in order, and those that the client sends again only once.
func (s *Session) accept(ctx context.Context, b forwardBody) error {
	s.receiving.Lock()
	defer s.receiving.Unlock()
	for i, m := range b.messages {
		id := b.offset + int64(i)
		switch {
		case id < s.received:
			continue
		case id > s.received:
			return fmt.Errorf("message %d came before message %d", id, s.received)
		}
		select {
		case s.inbox <- m:
			s.received++
		case <-s.served:
			return nil // it has no reader any more, and the client will hear of it
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
