package webchannel

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"sync"
	"time"
)

const (
	// maxUnacked is how many bytes of messages a session keeps for its client: Send waits when they
	// are more. A single message may be larger.
	maxUnacked = 256 << 10
	// maxReceived is how many messages wait for Receive; requests that bring more wait too.
	maxReceived = 16
)

// errEnded is why the context of a session is done.
var errEnded = errors.New("the channel has ended")

// Session is one client's channel. Send and Receive are for one goroutine each.
type Session struct {
	// Header has the headers of the request that opened the session, and those that came in its
	// body.
	Header http.Header

	server *Server
	id     string
	ctx    context.Context
	cancel context.CancelCauseFunc
	served chan struct{} // closed when neither side sends or receives any more
	acked  chan struct{} // gets a value when there may be room for another message

	receiving sync.Mutex // one request's messages after the other's
	received  int64      // messages received so far
	inbox     chan json.RawMessage

	mu      sync.Mutex
	queue   []message // what the client has not acknowledged, oldest first
	unacked int       // bytes of it
	lastID  int64     // of the youngest message; 0 is the answer that opened the session
	closing bool      // the youngest message is the last one
	channel *backChannel
	heard   time.Time // when the client was heard of last; while its back channel is open, it is
	idle    *time.Timer
}

// message is a numbered message to the client: a control message, or one of those that Send was
// given.
type message struct {
	id   int64
	data []byte // an array in JSON
}

func newSession(server *Server, request, body http.Header) *Session {
	s := &Session{
		Header: request.Clone(),
		server: server,
		id:     rand.Text(),
		served: make(chan struct{}),
		acked:  make(chan struct{}, 1),
		inbox:  make(chan json.RawMessage, maxReceived),
		heard:  time.Now(),
	}
	maps.Copy(s.Header, body)
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = time.AfterFunc(idleTimeout, s.expire)
	return s
}

// run serves the session, and then has the client close its channel.
func (s *Session) run() {
	s.server.serve(s)
	close(s.served)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.push([]byte(`["close"]`))
	s.closing = true
}

// end forgets the session.
func (s *Session) end() {
	s.server.mu.Lock()
	delete(s.server.sessions, s.id)
	s.server.mu.Unlock()
	s.cancel(errEnded)
	s.mu.Lock()
	s.idle.Stop()
	s.mu.Unlock()
}

// expire ends the session if the client is gone.
func (s *Session) expire() {
	s.mu.Lock()
	left := idleTimeout - time.Since(s.heard)
	if s.channel != nil || left > 0 { // it came back just now
		s.idle.Reset(max(left, time.Second))
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	s.end()
}

// touch notes that the client is alive. The caller holds the lock.
func (s *Session) touch() {
	s.heard = time.Now()
	if s.ctx.Err() == nil {
		s.idle.Reset(idleTimeout)
	}
}

// Context is done when the session has ended.
func (s *Session) Context() context.Context { return s.ctx }

// Receive waits for the client's next message. The error is io.EOF when the session has ended, or
// what serves it has returned.
func (s *Session) Receive() (json.RawMessage, error) {
	select {
	case m := <-s.inbox:
		return m, nil
	case <-s.served:
		return nil, io.EOF
	case <-s.ctx.Done():
		return nil, io.EOF
	}
}

// Send sends a message, which must be JSON, or waits as long as the client has too much to
// acknowledge. It fails only when the session has ended. That it returns nil does not mean that the
// client got the message.
func (s *Session) Send(m json.RawMessage) error {
	data := make([]byte, 0, len(m)+2)
	data = append(append(append(data, '['), m...), ']')
	for {
		s.mu.Lock()
		if len(s.queue) == 0 || s.unacked+len(data) <= maxUnacked {
			s.push(data)
			s.mu.Unlock()
			return nil
		}
		s.mu.Unlock()
		select {
		case <-s.acked:
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		}
	}
}

// push queues a message and has the back channel look. The caller holds the lock.
func (s *Session) push(data []byte) {
	s.lastID++
	s.queue = append(s.queue, message{s.lastID, data})
	s.unacked += len(data)
	if s.channel != nil {
		s.channel.signal()
	}
}

// ack drops what the client says it has. The caller holds the lock.
func (s *Session) ack(q url.Values) {
	id, ok := ackOf(q)
	if !ok {
		return
	}
	n := 0
	for n < len(s.queue) && s.queue[n].id <= id {
		s.unacked -= len(s.queue[n].data)
		n++
	}
	if n == 0 {
		return
	}
	s.queue = append([]message(nil), s.queue[n:]...) // a new one, so that the old messages can go
	select {
	case s.acked <- struct{}{}:
	default:
	}
}
