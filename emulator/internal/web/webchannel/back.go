package webchannel

import (
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	// backLifetime is how long a back channel is kept open. The client opens the next one at once,
	// and acknowledges by it what this one has brought.
	backLifetime = time.Minute
	// refreshAt is how many bytes may be unacknowledged before a back channel is ended early, for
	// the same reason.
	refreshAt = maxUnacked / 2
	// writeTimeout is how long a client may take to read what is written. One that doesn't read
	// loses its connection, and its session if it does not come back.
	writeTimeout = keepAlive
)

// backChannel is one GET that waits for messages.
type backChannel struct {
	wake       chan struct{} // gets a value when there is something to write
	superseded chan struct{} // closed when the client has opened another one
}

func (b *backChannel) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// attach makes a new back channel the session's own, and ends the one before.
func (s *Session) attach(q url.Values) *backChannel {
	b := &backChannel{wake: make(chan struct{}, 1), superseded: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.touch()
	s.ack(q)
	if s.channel != nil {
		close(s.channel.superseded)
	}
	s.channel = b
	return b
}

func (s *Session) detach(b *backChannel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.channel == b {
		s.channel = nil
		s.touch()
	}
}

// back writes messages as they come, each as soon as it is there; to a client that can't read a
// response before its end (CI=1), what there is first.
func (s *Session) back(w http.ResponseWriter, r *http.Request, q url.Values) {
	b := s.attach(q)
	defer s.detach(b)
	streaming := q.Get("CI") != "1"
	control := http.NewResponseController(w)
	defer control.SetWriteDeadline(time.Time{}) // the connection's next request is none of ours
	silence := time.NewTimer(keepAlive)
	defer silence.Stop()
	lifetime := time.NewTimer(backLifetime)
	defer lifetime.Stop()

	written := int64(0) // the last message written; on a new channel all that isn't acknowledged is written again
	if streaming {
		s.greet(b)
	}
	for {
		data, last, refresh, done := s.unwritten(written)
		if len(data) > 0 {
			control.SetWriteDeadline(time.Now().Add(writeTimeout))
			if writeFrame(w, data) != nil || control.Flush() != nil {
				return
			}
			written = last
			silence.Reset(keepAlive)
			if !streaming || refresh {
				return
			}
		}
		if done {
			return
		}
		select {
		case <-b.wake:
		case <-silence.C:
			s.noop(b)
		case <-lifetime.C:
			return
		case <-b.superseded:
			return
		case <-s.ctx.Done():
			return
		case <-r.Context().Done():
			return
		}
	}
}

// greet has something written at once. Until it gets a first byte, the client suspects a proxy of
// keeping responses back until their end.
func (s *Session) greet(b *backChannel) {
	s.mu.Lock()
	empty := len(s.queue) == 0
	s.mu.Unlock()
	if empty {
		s.noop(b)
	}
}

// noop queues a message that says nothing, for the channel that is still the session's.
func (s *Session) noop(b *backChannel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.channel == b {
		s.push([]byte(`["noop"]`))
	}
}

// unwritten is an array of the messages after one, with their numbers. refresh says whether the
// client has so much to acknowledge that it should ask anew; done, whether nothing will come after
// these.
func (s *Session) unwritten(after int64) (data []byte, last int64, refresh, done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.queue {
		if m.id <= after {
			continue
		}
		sep := byte(',')
		if data == nil {
			sep = '['
		}
		data = append(data, sep, '[')
		data = strconv.AppendInt(data, m.id, 10)
		data = append(data, ',')
		data = append(data, m.data...)
		data = append(data, ']')
	}
	if data != nil {
		data = append(data, ']')
	}
	return data, s.lastID, s.unacked >= refreshAt, s.closing
}
