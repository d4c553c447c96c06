package emulator

import (
	"context"
	"errors"
	"io"
	"net"
	"reflect"
	"strings"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Connect makes a connection that calls the server directly, as an administrator, without a socket
// or a listener: for examples, and for tests in virtual time (testing/synctest), where nothing may
// wait for a network. Any client takes it (option.WithGRPCConn). The caller closes it.
//
// Interceptors among the options see every call before the server does. They may hold it, repeat
// it, lose its answer, or pass it on with another context. What they pass on reaches the server even
// if the caller has given up.
func (s *Server) Connect(opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	never := func(context.Context, string) (net.Conn, error) {
		return nil, errors.New("emulator: this connection has no network")
	}
	return grpc.NewClient("passthrough:///emulator", append(opts,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(never),
		grpc.WithChainUnaryInterceptor(s.callUnary), // the last of the chain: nothing goes beyond it
		grpc.WithChainStreamInterceptor(s.callStream))...)
}

// methodOf finds what serves a method: /google.firestore.v1.Firestore/Commit.
func methodOf(full string) string {
	return strings.TrimPrefix(full, "/"+firestorepb.Firestore_ServiceDesc.ServiceName+"/")
}

func errUnknownMethod(method string) error {
	return status.Errorf(codes.Unimplemented, "There is no method %s.", method)
}

// received is the context of a call as a server has it.
func received(ctx context.Context) context.Context {
	md, ok := metadata.FromOutgoingContext(ctx) // a copy
	if !ok {
		md = metadata.MD{}
	}
	md.Set("authorization", ownerToken)
	return metadata.NewIncomingContext(ctx, md)
}

// callUnary serves a call on its caller's goroutine. Messages are copied both ways, as by a
// network: the server keeps what it is given.
func (s *Server) callUnary(ctx context.Context, method string, req, reply any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption) error {
	if !s.enter() {
		return errServerClosed()
	}
	defer s.serving.Done()
	for _, m := range firestorepb.Firestore_ServiceDesc.Methods {
		if m.MethodName != methodOf(method) {
			continue
		}
		resp, err := m.Handler(s.service, received(ctx), func(into any) error { return moveInto(into, proto.Clone(req.(proto.Message))) }, nil)
		switch {
		case err != nil:
			return status.Convert(err).Err()
		case ctx.Err() != nil: // the caller is gone, as it is from a network that has its answer
			return status.FromContextError(ctx.Err()).Err()
		}
		return moveInto(reply, proto.Clone(resp.(proto.Message)))
	}
	return errUnknownMethod(method)
}

// moveInto hands on a message that has no other owner: its fields are not copied.
func moveInto(to any, from proto.Message) error {
	if into := reflect.ValueOf(to); from.ProtoReflect().IsValid() && into.Type() == reflect.TypeOf(from) {
		into.Elem().Set(reflect.ValueOf(from).Elem())
		return nil
	}
	proto.Merge(to.(proto.Message), from) // of the same message, which the client has another type for
	return nil
}

// enter counts a call that Close is to wait for; false when the server is closed.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.serving.Add(1)
	return true
}

func errServerClosed() error { return status.Error(codes.Unavailable, "The server is closed.") }

// callStream serves a stream on a goroutine of its own, until the server has answered or the
// caller's context ends.
func (s *Server) callStream(ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, method string, _ grpc.Streamer, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	for _, m := range firestorepb.Firestore_ServiceDesc.Streams {
		if m.StreamName != methodOf(method) {
			continue
		}
		if !s.enter() {
			return nil, errServerClosed()
		}
		served, cancel := context.WithCancel(received(ctx))
		stop := context.AfterFunc(s.ctx, cancel)
		p := &pipe{
			requests: make(chan proto.Message, 1), responses: make(chan proto.Message, 16),
			sent: make(chan struct{}), ended: make(chan struct{}),
		}
		go func() {
			defer s.serving.Done()
			err := m.Handler(s.service, serverEnd{pipe: p, ctx: served})
			stop()
			cancel()
			p.end(err)
		}()
		return &clientEnd{pipe: p, ctx: ctx, server: s}, nil
	}
	return nil, errUnknownMethod(method)
}

// pipe carries the messages of a stream.
type pipe struct {
	requests, responses chan proto.Message
	sent                chan struct{} // closed when the client has sent its last request
	ended               chan struct{} // closed when the server's method has returned
	err                 error         // with which it returned; io.EOF for nil
}

func (p *pipe) end(err error) {
	if p.err = io.EOF; err != nil {
		p.err = status.Convert(err).Err()
	}
	close(p.ended)
}

// clientEnd is the stream as the client has it. It is for one goroutine that sends and one that
// receives.
type clientEnd struct {
	*pipe
	ctx    context.Context
	server *Server
	closed bool
}

func (c *clientEnd) Header() (metadata.MD, error) { return nil, nil }
func (c *clientEnd) Trailer() metadata.MD         { return nil }
func (c *clientEnd) Context() context.Context     { return c.ctx }

func (c *clientEnd) CloseSend() error {
	if !c.closed {
		c.closed = true
		close(c.sent)
	}
	return nil
}

func (c *clientEnd) SendMsg(m any) error {
	select {
	case c.requests <- proto.Clone(m.(proto.Message)):
		return nil
	case <-c.ended:
		return io.EOF // and RecvMsg says why
	case <-c.ctx.Done():
		return status.FromContextError(c.ctx.Err()).Err()
	}
}

func (c *clientEnd) RecvMsg(m any) error {
	if err := c.ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	select {
	case r := <-c.responses:
		return moveInto(m, r)
	case <-c.ended:
	case <-c.ctx.Done():
		return status.FromContextError(c.ctx.Err()).Err()
	}
	select {
	case r := <-c.responses: // what was sent before the end
		return moveInto(m, r)
	default:
	}
	if !errors.Is(c.err, io.EOF) && c.server.ctx.Err() != nil {
		return errServerClosed()
	}
	return c.err
}

// serverEnd is the stream as the server's method has it.
type serverEnd struct {
	*pipe
	ctx context.Context
}

func (s serverEnd) SetHeader(metadata.MD) error  { return nil }
func (s serverEnd) SendHeader(metadata.MD) error { return nil }
func (s serverEnd) SetTrailer(metadata.MD)       {}
func (s serverEnd) Context() context.Context     { return s.ctx }

func (s serverEnd) SendMsg(m any) error {
	select {
	case s.responses <- proto.Clone(m.(proto.Message)):
		return nil
	case <-s.ctx.Done():
		return status.FromContextError(s.ctx.Err()).Err()
	}
}

func (s serverEnd) RecvMsg(m any) error {
	select {
	case r := <-s.requests:
		return moveInto(m, r)
	case <-s.sent:
	case <-s.ctx.Done():
		return status.FromContextError(s.ctx.Err()).Err()
	}
	select {
	case r := <-s.requests: // sent before the last word
		return moveInto(m, r)
	default:
		return io.EOF
	}
}
