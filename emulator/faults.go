package emulator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Faults are what goes wrong with Commit requests, those of transactions included, and how long requests take. The same
// Seed and the same sequence of commits give the same faults.
type Faults struct {
	Abort       float64 // probability, 0 to 1, that a commit fails with ABORTED before it is applied
	Unavailable float64 // probability that a commit fails with UNAVAILABLE before it is applied
	LoseAnswers float64 // probability that a commit is applied and then answered UNAVAILABLE

	// DocWriteRate is how many commits a second one document takes, sustained; 0 is no limit.
	// Beyond a burst of five, commits on a document queue for its slots, and one that would wait
	// for more than a second fails with ABORTED before it is applied. This is a model of a hot
	// document; Google states no figures today. It rests on the old figure of one sustained write a
	// second, and on what contention looks like in production: short bursts succeed, then latency
	// rises, then commits fail with ABORTED.
	DocWriteRate float64
	// CommitLatency is how long a commit takes at least. For this time it blocks the documents that
	// it writes, so commits on one document queue, as they do behind Firestore's locks. One that
	// would queue for more than a second fails with ABORTED. Commits on different documents don't
	// slow each other down.
	CommitLatency time.Duration
	// QueryLatency is how long a query takes at least.
	QueryLatency time.Duration
	// IndexTombstones is how long a query takes, beyond that, for each 10,000 entries of its index that were replaced
	// within the last hour. Google says that queries scan over them, and not how long that takes.
	IndexTombstones time.Duration

	Seed uint64
}

// Check names every field that is out of range.
func (f Faults) Check() error {
	var errs []error
	for _, p := range []struct {
		name  string
		value float64
	}{{"abort", f.Abort}, {"unavailable", f.Unavailable}, {"lose-answers", f.LoseAnswers}} {
		if !(p.value >= 0 && p.value <= 1) { // so that NaN is refused, too
			errs = append(errs, fmt.Errorf("%s %v: want a probability, 0 to 1", p.name, p.value))
		}
	}
	if !(f.DocWriteRate >= 0 && f.DocWriteRate <= 1e6) {
		errs = append(errs, fmt.Errorf("doc-write-rate %v: want commits a second, 0 (any number) to 1000000", f.DocWriteRate))
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"commit-latency", f.CommitLatency}, {"query-latency", f.QueryLatency}, {"index-tombstones", f.IndexTombstones}} {
		if d.value < 0 || d.value > time.Minute {
			errs = append(errs, fmt.Errorf("%s %v: want 0s to 1m", d.name, d.value))
		}
	}
	return errors.Join(errs...)
}

// Interceptor sees every commit before it is applied, and says what should go wrong. It runs on the
// goroutine of the request, outside of any lock, so it may block, to interleave two commits.
type Interceptor func(ctx context.Context, req *firestorepb.CommitRequest) Verdict

// Verdict is what should go wrong with a commit; the zero value is nothing.
type Verdict struct {
	// Before is answered, and the commit is not applied. That ends its transaction, as any failed
	// commit does, except with UNAVAILABLE and INVALID_ARGUMENT, which leave it open.
	Before error
	// After is answered once the commit has been applied.
	After error
}

// faults draws what goes wrong.
type faults struct {
	requests, aborts, injected, lost atomic.Int64

	mu   sync.Mutex
	now  Faults
	rand *rand.Rand
}

// SetFaults replaces the faults, and starts their sequence anew.
func (s *Server) SetFaults(f Faults) {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.now = f
	s.faults.rand = rand.New(rand.NewPCG(f.Seed, 0))
	s.engine.SetDocWriteRate(f.DocWriteRate)
	s.engine.SetCommitLatency(f.CommitLatency)
	s.engine.SetQueryLatency(f.QueryLatency)
	s.engine.SetIndexTombstones(f.IndexTombstones)
}

// SetInterceptor replaces the interceptor; nil takes it away.
func (s *Server) SetInterceptor(i Interceptor) {
	if i == nil {
		s.interceptor.Store(nil)
		return
	}
	s.interceptor.Store(&i)
}

// draw decides about one commit. It draws the same numbers whatever the probabilities are.
func (f *faults) draw() Verdict {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now.Abort == 0 && f.now.Unavailable == 0 && f.now.LoseAnswers == 0 {
		return Verdict{}
	}
	abort, unavailable, lose := f.rand.Float64(), f.rand.Float64(), f.rand.Float64()
	var v Verdict
	switch {
	case abort < f.now.Abort:
		v.Before = status.Error(codes.Aborted, "Too much contention on these documents. Please try again. (injected fault)")
	case unavailable < f.now.Unavailable:
		v.Before = status.Error(codes.Unavailable, "The service is currently unavailable. (injected fault)")
	case lose < f.now.LoseAnswers:
		v.After = status.Error(codes.Unavailable, "The connection was lost after the commit. (injected fault)")
	}
	return v
}

// commit is a Commit request with everything that is to go wrong with it.
func (s *Server) commit(ctx context.Context, req *firestorepb.CommitRequest) (*firestorepb.CommitResponse, error) {
	s.faults.requests.Add(1)
	verdict := s.faults.draw()
	if i := s.interceptor.Load(); i != nil {
		if v := (*i)(ctx, req); v.Before != nil || v.After != nil {
			verdict = v
		}
	}
	resp, err := s.commitUnder(ctx, verdict, req)
	if status.Code(err) == codes.Aborted {
		s.faults.aborts.Add(1)
	}
	return resp, err
}

func (s *Server) commitUnder(ctx context.Context, v Verdict, req *firestorepb.CommitRequest) (*firestorepb.CommitResponse, error) {
	if v.Before != nil {
		s.faults.injected.Add(1)
		switch status.Code(v.Before) {
		case codes.Unavailable, codes.InvalidArgument:
			// UNAVAILABLE before a commit is applied is a request that never arrived.
		default:
			if len(req.GetTransaction()) > 0 {
				s.engine.EndTransaction(req.GetDatabase(), req.GetTransaction())
			}
		}
		return nil, v.Before
	}
	resp, err := s.engine.Commit(ctx, req)
	if err == nil && v.After != nil {
		s.faults.injected.Add(1)
		s.faults.lost.Add(1)
		return nil, v.After
	}
	return resp, err
}
