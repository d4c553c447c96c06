// Package emulator is an embedded Firestore: an in-process server of google.firestore.v1.Firestore that Firestore's
// clients use, through FIRESTORE_EMULATOR_HOST, without knowing the difference. It keeps everything in memory.
//
// It is made for two things. One is running a whole system on a laptop without a download. The other is testing what a
// hosted Firestore does only on a bad day: commits that fail, commits whose answer is lost, documents that are too hot
// (Faults), and two clients that meet at exactly the wrong moment (Interceptor). Where Firestore and its official
// emulator are strict, this server is; what it does not cover it answers with UNIMPLEMENTED and a sentence that says so.
//
// Package engine holds the behaviour, this package gRPC and the faults, package web what browsers speak. Any client is
// let in, and any client that says "Bearer owner" is an administrator: serve on a loopback address only.
package emulator

import (
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc"

	"github.com/firestore-counters/counters/emulator/internal/engine"
	"github.com/firestore-counters/counters/emulator/internal/web"
)

// Options configures a Server; the zero value is a quiet, faultless server.
type Options struct {
	Faults Faults
	// Logger gets what goes wrong in the server itself. Default: nothing is logged.
	Logger *slog.Logger
	// Engine sets clocks and limits; its zero value is what production does.
	Engine EngineOptions
}

// EngineOptions sets the clocks and limits of a Server.
type EngineOptions = engine.Options

// Change is one document's change by one commit.
type Change = engine.Change

// Server is an embedded Firestore.
type Server struct {
	engine      *engine.Engine
	log         *slog.Logger
	grpc        *grpc.Server
	web         *web.Handler
	faults      faults
	interceptor atomic.Pointer[Interceptor]

	done      chan struct{} // closed by Close
	http      *http.Server
	grpcConns *connQueue
	httpConns *connQueue
	serving   sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	listeners []net.Listener
	unknown   map[net.Conn]struct{} // connections that have not said what they speak
}

// New makes a Server. It serves nothing before Serve; Close it in any case.
func New(opts Options) *Server {
	log := opts.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		engine:    engine.New(opts.Engine),
		log:       log,
		done:      make(chan struct{}),
		grpcConns: newConnQueue(),
		httpConns: newConnQueue(),
		unknown:   make(map[net.Conn]struct{}),
	}
	service := &service{server: s, engine: s.engine}
	s.web = web.New(web.Config{Service: service, Clear: s.engine.Clear, Reset: s.engine.Reset, Logger: log})
	s.http = &http.Server{
		Handler:           s.web,
		ReadHeaderTimeout: sniffTimeout,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	s.grpc = grpc.NewServer(
		grpc.MaxRecvMsgSize(maxMessageBytes),
		grpc.MaxSendMsgSize(maxMessageBytes),
		grpc.MaxConcurrentStreams(maxStreams),
	)
	firestorepb.RegisterFirestoreServer(s.grpc, service)
	s.SetFaults(opts.Faults)
	return s
}

const (
	// maxMessageBytes bounds what the transport takes, as the official emulator does. A request that is beyond
	// Firestore's own 10 MiB gets Firestore's error.
	maxMessageBytes = 100 << 20
	// maxStreams bounds the requests under way on one connection; each may be a transaction that waits for its turn.
	maxStreams = 10_000
)

// OnChange has f called for every change, one after the other, strictly in the order of commits and soon after each,
// outside of any lock. Writes that change nothing call nothing. f must be quick, and must not commit or close the
// server: commits wait when it falls 10,000 changes behind. After cancel no further call begins.
func (s *Server) OnChange(f func(Change)) (cancel func()) { return s.engine.OnChange(f) }

// Stats counts what the server did since it was made, or since ResetStats.
type Stats struct {
	engine.Stats
	CommitRequests int64 // Commit requests received
	Aborts         int64 // of those, answered with ABORTED, for whatever reason
	Faults         int64 // of those, that Faults or the Interceptor failed
}

// Stats reads the counters.
func (s *Server) Stats() Stats {
	return Stats{
		Stats:          s.engine.Stats(),
		CommitRequests: s.faults.requests.Load(),
		Aborts:         s.faults.aborts.Load(),
		Faults:         s.faults.injected.Load(),
	}
}

// ResetStats sets all counters to zero.
func (s *Server) ResetStats() {
	s.engine.ResetStats()
	s.faults.requests.Store(0)
	s.faults.aborts.Store(0)
	s.faults.injected.Store(0)
}

// Close ends all listeners, connections and requests, and returns when nothing of the server runs any more. It must not
// be called by a function of OnChange.
func (s *Server) Close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.done)
	}
	for _, l := range s.listeners {
		l.Close()
	}
	for conn := range s.unknown {
		conn.Close()
	}
	s.mu.Unlock()
	s.engine.Close()
	s.grpc.Stop()
	s.http.Close()
	s.web.Close()
	s.grpcConns.Close() // the servers close them only if they ever served
	s.httpConns.Close()
	s.serving.Wait()
}
