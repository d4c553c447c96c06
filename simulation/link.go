package simulation

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"path"
	"reflect"
	"sync"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// MessageFaults are what may become of a call to Firestore, each with its probability.
type MessageFaults struct {
	Slow        float64 // it takes up to five minutes, on its way or back
	Late        float64 // its caller is told UNAVAILABLE at once, or nothing; it arrives up to five minutes later
	NeverSent   float64 // UNAVAILABLE, and it never arrives
	LostAnswer  float64 // it arrives, and its answer doesn't: one of the codes that say nothing, at once or late
	LostSilence float64 // it arrives or not, and nothing is ever heard of it until the keepalive ends the connection
	Contention  float64 // of commits: ABORTED, not applied
	Quota       float64 // RESOURCE_EXHAUSTED, not applied
	TornStream  float64 // of reads: the stream breaks in the middle
}

// doubtful are the codes of an answer that says nothing about what became of the call.
var doubtful = []codes.Code{
	codes.Unavailable, codes.Unavailable, codes.Unavailable, codes.DeadlineExceeded, codes.Internal, codes.Unknown,
	codes.Canceled, codes.ResourceExhausted,
}

const (
	longestLate = 5 * time.Minute
	keepalive   = 35 * time.Second // when a silent connection is given up
)

// fate is what becomes of one call.
type fate struct {
	fault       string        // what goes wrong, "" is nothing
	there, back time.Duration // how long request and answer take
	arrives     bool
	refused     error // by the server, before it does anything
	answer      error // instead of the answer; nil is the answer
	tellAt      time.Duration
	early       bool // the caller is told answer after tellAt, whatever is under way
	tornAfter   int  // messages of a stream; -1 is all
}

func (f MessageFaults) draw(r *rand.Rand, method string) fate {
	// The same numbers are drawn whatever the probabilities are.
	there, back := between(r, time.Millisecond, 30*time.Millisecond), between(r, time.Millisecond, 30*time.Millisecond)
	slow, late, never, lost, silent, contention, quota, torn :=
		r.Float64(), r.Float64(), r.Float64(), r.Float64(), r.Float64(), r.Float64(), r.Float64(), r.Float64()
	long, later, code, side := between(r, 100*time.Millisecond, longestLate), between(r, time.Second, longestLate), doubtful[r.IntN(len(doubtful))], r.IntN(2)
	after := r.IntN(3)

	x := fate{there: there, back: back, arrives: true, tornAfter: -1}
	if slow < f.Slow {
		x.fault = "slow message"
		if side == 0 {
			x.there = long
		} else {
			x.back = long
		}
	}
	unavailable := status.Error(codes.Unavailable, "simulated: the connection was lost")
	switch {
	case never < f.NeverSent:
		x.fault = "message not sent"
		x.arrives, x.answer = false, unavailable
	case late < f.Late:
		x.fault = "late message"
		x.there, x.early, x.tellAt, x.answer = later, true, there+back, unavailable
		if side == 1 {
			x.tellAt = keepalive
		}
	case lost < f.LostAnswer:
		x.fault = "lost answer"
		x.answer = status.Error(code, "simulated: the answer was lost")
	case silent < f.LostSilence:
		x.fault = "silence"
		x.arrives, x.early, x.tellAt, x.answer = side == 0, true, keepalive, unavailable
	case quota < f.Quota:
		x.fault = "no quota"
		x.refused = status.Error(codes.ResourceExhausted, "simulated: quota exceeded")
	case contention < f.Contention && method == "Commit":
		x.fault = "contention"
		x.refused = status.Error(codes.Aborted, "Too much contention on these documents. Please try again. (simulated)")
	case torn < f.TornStream:
		x.fault = "torn stream"
		x.tornAfter, x.answer = after, unavailable
	}
	return x
}

// link is one process's connection to Firestore. Its methods are safe for concurrent use.
type link struct {
	seed uint64
	name string
	log  slog.Handler // of the process
	told func(fault string)
	// how far the clock of the process is ahead; see shift
	ahead time.Duration

	mu      sync.Mutex
	faults  MessageFaults
	numbers map[string]uint64 // :: method → how many calls there were
	silent  chan struct{}     // not nil while the connection is silent; closed when it is given up
	cut     bool              // no connection
	torn    chan struct{}     // closed by tear
	dead    chan struct{}     // closed by kill
}

// newLink is a link without faults: see setFaults.
func newLink(seed uint64, name string) *link {
	return &link{
		seed: seed, name: name, log: slog.DiscardHandler, told: func(string) {},
		numbers: map[string]uint64{}, torn: make(chan struct{}), dead: make(chan struct{}),
	}
}

func (l *link) connect(dial dialer) (*grpc.ClientConn, error) {
	return dial(grpc.WithChainUnaryInterceptor(l.unary), grpc.WithChainStreamInterceptor(l.stream))
}

// kill ends the process: its calls end, and what is under way still arrives.
func (l *link) kill() { close(l.dead) }

func (l *link) setFaults(f MessageFaults) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = f
}

// setCut takes the network away, or gives it back. Calls under way go on: their packets are.
func (l *link) setCut(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
}

// tear ends the connection, and all calls under way on it. Their requests still arrive; the next
// call has another connection.
func (l *link) tear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.torn)
	l.torn = make(chan struct{})
}

// silence makes the connection silent until the keepalive notices: of calls that begin meanwhile
// nothing is heard.
func (l *link) silence() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.silent != nil {
		return
	}
	noticed := make(chan struct{})
	l.silent = noticed
	time.AfterFunc(keepalive, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.silent = nil
		close(noticed)
	})
}

// begin draws the fate of a call.
func (l *link) begin(method string) (f fate, silent, torn chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.numbers[method]
	l.numbers[method]++
	f = l.faults.draw(dice(l.seed, l.name+"/"+method, n), method)
	select {
	case <-l.dead:
		f = fate{there: time.Millisecond, back: time.Millisecond, answer: errGone} // what a dead process tries is no fault
	default:
		if l.cut {
			f = fate{there: f.there, back: f.back, answer: status.Error(codes.Unavailable, "simulated: no connection"), fault: "no connection"}
		}
	}
	if f.fault != "" {
		l.told(f.fault)
	}
	return f, l.silent, l.torn
}

var errGone = status.Error(codes.Unavailable, "simulated: the process is gone")

// call carries one call: serve is the server's side of it, and runs whatever becomes of the caller.
func (l *link) call(ctx context.Context, method string, serve func(ctx context.Context, f fate) error) error {
	f, silent, torn := l.begin(method)
	answered := make(chan error, 1)
	detached := context.WithoutCancel(ctx)
	go func() {
		time.Sleep(f.there)
		err := f.answer
		if f.arrives {
			if served := f.refused; served == nil {
				served = serve(detached, f)
				if err == nil {
					err = served
				}
			} else if err == nil {
				err = served
			}
		}
		time.Sleep(f.back)
		if !f.early && silent == nil {
			answered <- err
		}
	}()
	var told <-chan time.Time
	if f.early {
		timer := time.NewTimer(f.tellAt)
		defer timer.Stop()
		told = timer.C
	}
	select {
	case err := <-answered:
		return err
	case <-told:
		return f.answer
	case <-silent:
		return status.Error(codes.Unavailable, "simulated: the keepalive was not answered")
	case <-torn:
		return status.Error(codes.Unavailable, "simulated: the connection was torn")
	case <-l.dead:
		return errGone
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

func (l *link) unary(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if list, ok := req.(*firestorepb.ListDocumentsRequest); ok {
		req = proto.Clone(list) // which its iterator changes from page to page, and it may arrive later
	}
	// Whoever has given up looks at the reply no more: the generated client makes another for each
	// call.
	sent := shifted(req.(proto.Message), l.ahead) // now: who has given up may use it again
	return l.call(ctx, path.Base(method), func(ctx context.Context, _ fate) error {
		err := invoke(ctx, method, sent, reply, conn, opts...)
		if l.ahead != 0 {
			shift(reply.(proto.Message).ProtoReflect(), -l.ahead)
		}
		return err
	})
}

// stream carries a call that is answered by a stream, all of which is gathered before any of it is
// handed on.
func (l *link) stream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if desc.ClientStreams {
		return nil, status.Error(codes.Unimplemented, "simulated: no streams both ways")
	}
	return &stream{ctx: ctx, link: l, desc: desc, conn: conn, method: method, open: open, opts: opts}, nil
}

type stream struct {
	ctx    context.Context
	link   *link
	desc   *grpc.StreamDesc
	conn   *grpc.ClientConn
	method string
	open   grpc.Streamer
	opts   []grpc.CallOption

	req      proto.Message
	called   bool
	messages []proto.Message
	end      error
}

func (s *stream) Header() (metadata.MD, error) { return nil, nil }
func (s *stream) Trailer() metadata.MD         { return nil }
func (s *stream) Context() context.Context     { return s.ctx }
func (s *stream) CloseSend() error             { return nil }
func (s *stream) SendMsg(m any) error {
	s.req = shifted(m.(proto.Message), s.link.ahead)
	return nil
}

func (s *stream) RecvMsg(m any) error {
	if !s.called {
		s.called = true
		s.messages, s.end = s.exchange(m.(proto.Message))
	}
	if len(s.messages) == 0 {
		return s.end
	}
	reflect.ValueOf(m).Elem().Set(reflect.ValueOf(s.messages[0]).Elem()) // not copied: the message has no other owner
	s.messages = s.messages[1:]
	return nil
}

// exchange is the whole call. like is a message of the type of the answers.
func (s *stream) exchange(like proto.Message) ([]proto.Message, error) {
	got := make(chan []proto.Message, 1)
	err := s.link.call(s.ctx, path.Base(s.method), func(ctx context.Context, f fate) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		server, err := s.open(ctx, s.desc, s.conn, s.method, s.opts...)
		if err == nil {
			err = server.SendMsg(s.req)
		}
		if err == nil {
			err = server.CloseSend()
		}
		var messages []proto.Message
		for err == nil {
			m := like.ProtoReflect().New().Interface()
			if err = server.RecvMsg(m); err == nil {
				if s.link.ahead != 0 {
					shift(m.ProtoReflect(), -s.link.ahead)
				}
				messages = append(messages, m)
			}
		}
		if f.tornAfter >= 0 {
			messages = messages[:min(f.tornAfter, len(messages))]
		}
		got <- messages
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return err
	})
	select {
	case messages := <-got:
		if err == nil {
			return messages, io.EOF
		}
		return messages, err
	default:
		return nil, err
	}
}
