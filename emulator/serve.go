package emulator

import (
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// One port takes gRPC and HTTP/1.1. Which one a connection speaks shows in its first bytes: gRPC is
// HTTP/2 and begins with "PRI * HTTP/2.0", which no HTTP/1.1 request does. Connections are told
// apart here rather than in net/http's own HTTP/2 server, which takes gRPC too but several times as
// long for each request.

// sniffTimeout is how long a new connection may take to say anything.
const sniffTimeout = 30 * time.Second

// Serve takes connections, gRPC and HTTP/1.1 on the same port, until the listener fails or Close is
// called. After Close it returns nil, even if Close came first.
func (s *Server) Serve(l net.Listener) error {
	if !s.begin(l) {
		return l.Close()
	}
	defer s.serving.Done()
	for {
		conn, err := l.Accept()
		if err != nil {
			if s.isClosed() {
				return nil
			}
			return err
		}
		if s.track(conn) {
			go s.sniff(conn)
		}
	}
}

// begin notes a listener, and starts the two servers behind it with the first; false when the
// server is closed.
func (s *Server) begin(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if len(s.listeners) == 0 {
		s.serving.Go(func() { s.ended("gRPC", s.grpc.Serve(s.grpcConns)) })
		s.serving.Go(func() { s.ended("HTTP", s.http.Serve(s.httpConns)) })
	}
	s.listeners = append(s.listeners, l)
	s.serving.Add(1)
	return true
}

func (s *Server) ended(what string, err error) {
	if err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		s.log.Error("server ended", "protocol", what, "error", err)
	}
}

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// track notes a connection that has not said what it speaks, so that Close reaches it.
func (s *Server) track(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		conn.Close()
		return false
	}
	s.unknown[conn] = struct{}{}
	s.serving.Add(1)
	return true
}

func (s *Server) untrack(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.unknown, conn)
}

// sniff reads the first bytes of a connection, and hands it to the server that they are for.
func (s *Server) sniff(conn net.Conn) {
	defer s.serving.Done()
	defer s.untrack(conn)
	first := make([]byte, 3)
	conn.SetReadDeadline(time.Now().Add(sniffTimeout))
	_, err := io.ReadFull(conn, first)
	if err != nil {
		conn.Close() // it said nothing, or not enough for any request
		return
	}
	conn.SetReadDeadline(time.Time{})
	to := s.httpConns
	if string(first) == "PRI" {
		to = s.grpcConns
	}
	to.hand(&replayConn{Conn: conn, first: first})
}

// replayConn gives what was read off a connection once more.
type replayConn struct {
	net.Conn
	first []byte
}

func (c *replayConn) Read(b []byte) (int, error) {
	if len(c.first) > 0 {
		n := copy(b, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	return c.Conn.Read(b)
}

// connQueue is a listener for connections that have been accepted elsewhere.
type connQueue struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newConnQueue() *connQueue {
	return &connQueue{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (q *connQueue) hand(conn net.Conn) {
	select {
	case q.conns <- conn:
	case <-q.done:
		conn.Close()
	}
}

func (q *connQueue) Accept() (net.Conn, error) {
	select {
	case conn := <-q.conns:
		return conn, nil
	case <-q.done:
		return nil, net.ErrClosed
	}
}

func (q *connQueue) Close() error {
	q.once.Do(func() { close(q.done) })
	return nil
}

func (q *connQueue) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
