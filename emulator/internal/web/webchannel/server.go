package webchannel

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

const (
	// version is the version of the protocol that every client of the last ten years speaks.
	version = "8"
	// keepAlive is how long an open back channel stays silent at most. The client is told, and
	// takes one that is silent for half as long again for dead.
	keepAlive = 30 * time.Second
	// idleTimeout is how long a session lives without being heard of. Clients try a lost back
	// channel again for up to 45 s before they begin a new session.
	idleTimeout = 2 * time.Minute
	// maxRequestBytes bounds the body of a request.
	maxRequestBytes = 16 << 20
)

// Server serves the sessions of one path. It is an http.Handler.
type Server struct {
	serve func(*Session)

	mu       sync.Mutex
	sessions map[string]*Session
	closed   bool
	running  sync.WaitGroup
}

// New makes a Server that calls serve for every session, on a goroutine of its own. When serve
// returns, the client is told to close the channel, after everything that was sent before. Close
// the Server to end its sessions.
func New(serve func(*Session)) *Server {
	return &Server{serve: serve, sessions: make(map[string]*Session)}
}

// Sessions returns how many sessions there are.
func (s *Server) Sessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}

// Close ends all sessions, and returns when what serves them has returned.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	open := make([]*Session, 0, len(s.sessions))
	for _, x := range s.sessions {
		open = append(open, x)
	}
	s.mu.Unlock()
	for _, x := range open {
		x.end()
	}
	s.running.Wait()
}

// ServeHTTP takes the requests of all sessions.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff") // or browsers hold the first bytes back, to guess what they are
	h.Set("Cache-Control", "private, max-age=0")
	q := r.URL.Query()
	if !q.Has("SID") {
		s.open(w, r, q)
		return
	}
	session := s.session(q.Get("SID"))
	if session == nil {
		// The client looks for these words, and opens a new session.
		http.Error(w, "Error: Unknown SID", http.StatusBadRequest)
		return
	}
	switch {
	case q.Get("TYPE") == "terminate": // a POST, or a GET where the page is being closed
		session.end()
	case r.Method == http.MethodPost:
		session.forward(w, r, q)
	case r.Method == http.MethodGet && q.Get("RID") == "rpc":
		session.back(w, r, q)
	default:
		http.Error(w, "Error: not a request of a channel", http.StatusBadRequest)
	}
}

func (s *Server) session(id string) *Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[id]
}

// open begins a session.
func (s *Server) open(w http.ResponseWriter, r *http.Request, q url.Values) {
	if r.Method != http.MethodPost || q.Get("VER") != version {
		http.Error(w, "Error: a channel begins with a POST that has VER="+version+" and no SID", http.StatusBadRequest)
		return
	}
	body, err := readForward(w, r)
	if err != nil {
		fail(w, err)
		return
	}
	session := newSession(s, r.Header, body.headers)
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		session.end()
		http.Error(w, "Error: the server is shutting down", http.StatusServiceUnavailable)
		return
	}
	s.sessions[session.id] = session
	s.running.Go(session.run)
	s.mu.Unlock()
	if err := session.accept(r.Context(), body); err != nil {
		session.end()
		fail(w, err)
		return
	}
	_ = writeFrame(w, fmt.Appendf(nil, `[[0,["c",%q,"",%s,12,%d]]]`, session.id, version, keepAlive.Milliseconds()))
}

// fail answers what a client has got wrong.
func fail(w http.ResponseWriter, err error) {
	code := http.StatusBadRequest
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		code = http.StatusRequestEntityTooLarge
	}
	http.Error(w, "Error: "+err.Error(), code)
}

// ackOf is the id of the last message that the client says it has; false when it doesn't say.
func ackOf(q url.Values) (int64, bool) {
	id, err := strconv.ParseInt(q.Get("AID"), 10, 64)
	return id, err == nil
}

// writeFrame writes one piece of a response: its length in UTF-16 code units, as JavaScript counts,
// and the piece.
func writeFrame(w io.Writer, data []byte) error {
	_, err := w.Write(append(fmt.Appendf(make([]byte, 0, len(data)+12), "%d\n", utf16Length(data)), data...))
	return err
}

// utf16Length is how many UTF-16 code units a UTF-8 text takes: one for each character, two for
// those of four bytes.
func utf16Length(b []byte) int {
	n := 0
	for _, c := range b {
		switch {
		case c >= 0xf0:
			n += 2
		case c < 0x80 || c >= 0xc0:
			n++
		}
	}
	return n
}
