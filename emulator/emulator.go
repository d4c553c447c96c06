// Package emulator is an embedded Firestore: an in-process server of google.firestore.v1.Firestore
// that Firestore's clients use, through FIRESTORE_EMULATOR_HOST, without knowing the difference. It
// keeps everything in memory, and starts in a millisecond. In a test:
//
//	func TestLikes(t *testing.T) {
//		db := emulator.Start(t)              // closed when the test has ended
//		client := db.Client(t, "my-project") // the official client, connected
//		// For code that makes its own client, where the test isn't parallel:
//		t.Setenv("FIRESTORE_EMULATOR_HOST", db.Addr)
//		...
//
// It serves two purposes. One is to run a whole system on a laptop without a download. The other is
// to test what a hosted Firestore does only on a bad day: commits fail, commits lose their answers,
// documents are too hot ([Faults]), and two clients meet at exactly the wrong moment
// ([Interceptor]). It hands commits to functions in the program ([Server.OnChange]), or sends them
// as Eventarc's events to a function's URL (package eventarc).
//
// It is as strict as Firestore and its official emulator. docs/emulator.md says what it has, what it
// lacks, and where it differs and why. It answers what it lacks with UNIMPLEMENTED, and says what to
// do instead. There are no security rules: it lets in all clients, and one that says "Bearer owner"
// is an administrator. So serve on a loopback address only.
package emulator

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc"

	"github.com/firestore-counters/counters/emulator/internal/engine"
	"github.com/firestore-counters/counters/emulator/internal/web"
)

// Options configures a Server; the zero value is a quiet, faultless server with production's
// limits.
type Options struct {
	Faults Faults
	// Logger gets what goes wrong in the server itself. Default: nothing is logged.
	Logger *slog.Logger

	// TTL is a TTL policy: for each collection id, the field that holds the time at which a document
	// expires, such as {"counter_requests": "expire_at"}. An expired document is deleted within
	// SweepEvery, and OnChange is called. A field without a timestamp expires nothing.
	TTL map[string]string
	// Enterprise has it be of Firestore's Enterprise edition: a transaction locks nothing that it reads, and fails with
	// ABORTED at its commit if any of that has changed; a sum of nothing is null. In that edition no query needs an
	// index, and what a query scans is billed: see Stats.
	Enterprise bool
	// SweepEvery is how often expired documents are looked for. Default: 1 min. Production takes up
	// to a day.
	SweepEvery time.Duration

	// Hosts are further names, such as a container's, by which HTTP requests may call the server;
	// localhost and IP addresses always may. Other names are refused, because a web page could have
	// pointed its own name here.
	Hosts []string

	// Origins are origins of web pages, such as https://app.example, that may call the server, as
	// pages of this machine may; "*" is any, as with the official emulator. Pages of other sites are
	// refused, because they could read and write everything.
	Origins []string

	// OnDatabase is called with the name of each database that is used, such as projects/p/databases/(default), once:
	// at its first use, which waits for it.
	OnDatabase func(name string)

	// Now is the clock. Commit times strictly increase even if it doesn't. Default: time.Now.
	Now func() time.Time
	// LockWait is how long a read or commit waits for a transaction's locks before it fails with
	// ABORTED. Default: 15 s, as production's; the official emulator waits 2 s.
	LockWait time.Duration
	// TransactionIdle is how long a transaction may be without a request before it ends, and gives
	// its locks back. Default: 60 s.
	TransactionIdle time.Duration
	// History is how long superseded versions can be read. Default: 1 h.
	History time.Duration
	// HistoryVersions is how many superseded versions a database keeps at most. Default: 250,000.
	HistoryVersions int
	// HistoryBytes is how large the superseded versions of a database may be together, counted as
	// Firestore counts document sizes (the heap holds several times as much). Default: 64 MiB.
	HistoryBytes int
}

func (o Options) engine() engine.Options {
	return engine.Options{
		TTL: o.TTL, Enterprise: o.Enterprise, SweepEvery: o.SweepEvery, OnDatabase: o.OnDatabase,
		Now: o.Now, LockWait: o.LockWait, TransactionIdle: o.TransactionIdle,
		History: o.History, HistoryVersions: o.HistoryVersions, HistoryBytes: o.HistoryBytes,
	}
}

// Server is an embedded Firestore.
type Server struct {
	engine      *engine.Engine
	log         *slog.Logger
	grpc        *grpc.Server
	web         *web.Handler
	faults      faults
	interceptor atomic.Pointer[Interceptor]

	service   *service
	ctx       context.Context // ended by Close
	end       context.CancelFunc
	http      *http.Server
	grpcConns *connQueue
	httpConns *connQueue
	serving   sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	listeners []net.Listener
	unknown   map[net.Conn]struct{} // connections that have not said what they speak
}

// New makes a Server. It serves nothing before Serve. Always Close it.
func New(opts Options) *Server {
	log := cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	s := &Server{
		engine:    engine.New(opts.engine()),
		log:       log,
		grpcConns: newConnQueue(),
		httpConns: newConnQueue(),
		unknown:   make(map[net.Conn]struct{}),
	}
	s.ctx, s.end = context.WithCancel(context.Background())
	s.service = &service{server: s, engine: s.engine}
	s.web = web.New(web.Config{Service: s.service, Hosts: opts.Hosts, Origins: opts.Origins, Clear: s.engine.Clear, Reset: s.engine.Reset, Logger: log})
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
	firestorepb.RegisterFirestoreServer(s.grpc, s.service)
	s.SetFaults(opts.Faults)
	return s
}

const (
	// maxMessageBytes bounds what the transport takes, as the official emulator does. A request
	// that is beyond Firestore's own 10 MiB gets Firestore's error.
	maxMessageBytes = 100 << 20
	// maxStreams bounds the requests under way on one connection; each may be a transaction that
	// waits for its turn.
	maxStreams = 10_000
)

// Stats counts what the server did since it was made, or since ResetStats.
type Stats struct {
	CommitRequests int64 // Commit requests received
	Aborts         int64 // of those, answered with ABORTED, for whatever reason
	Faults         int64 // of those, that Faults or the Interceptor failed
	LostAnswers    int64 // of these, the ones that were applied all the same

	Commits int64 // commits applied, those that changed nothing included; each write of a BatchWrite is one
	Expired int64 // documents deleted because of TTL

	// What Firestore bills. Reads: one for each document that a read or a listener gets, at least
	// one a query, one for each missing document that is asked for by name, one for every 1,000
	// index entries that an aggregation counts.
	Reads   int64
	Writes  int64
	Deletes int64
	// What its Enterprise edition bills instead of reads and writes: 4 KiB of a document that is read by name, or of
	// all that a query scans; 1 KiB of a document that is written.
	ReadUnits  int64
	WriteUnits int64

	LockWaits   int64 // requests that waited for a transaction's locks
	LockRefused int64 // of those, the ones that failed with ABORTED: the wait was too long, or closed a wait-for cycle
	HotWaits    int64 // commits that waited for a slot of a hot document
	HotRefused  int64 // commits refused, as their wait would have been too long
	OpenLocks   int   // resources locked or waited for, now
	Targets     int   // what is being listened to, now: the targets of all listeners
}

// Stats reads the counters.
func (s *Server) Stats() Stats {
	e := s.engine.Stats()
	return Stats{
		CommitRequests: s.faults.requests.Load(), Aborts: s.faults.aborts.Load(), Faults: s.faults.injected.Load(), LostAnswers: s.faults.lost.Load(),
		Commits: e.Commits, Expired: e.Expired, Reads: e.Reads, Writes: e.Writes, Deletes: e.Deletes,
		ReadUnits: e.ReadUnits, WriteUnits: e.WriteUnits,
		LockWaits: e.LockWaits, LockRefused: e.LockRefused, HotWaits: e.HotWaits, HotRefused: e.HotRefused,
		OpenLocks: e.OpenLocks, Targets: e.Targets,
	}
}

// Sweep deletes the documents that have expired, rather than wait for SweepEvery, and returns how
// many.
func (s *Server) Sweep() (deleted int) { return s.engine.Sweep() }

// ResetStats sets all counters to zero.
func (s *Server) ResetStats() {
	s.engine.ResetStats()
	s.faults.requests.Store(0)
	s.faults.aborts.Store(0)
	s.faults.injected.Store(0)
	s.faults.lost.Store(0)
}

// Close ends all listeners, connections and requests, and returns when nothing of the server runs
// any more. It must not be called by a function of OnChange.
func (s *Server) Close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		s.end()
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
