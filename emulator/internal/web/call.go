package web

import (
	"bytes"
	"context"
	"net/http"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// message is a pointer to a generated message.
type message[T any] interface {
	*T
	proto.Message
}

// incoming gives a call the metadata that a gRPC server would have given it.
func incoming(ctx context.Context, h http.Header) context.Context {
	md := make(metadata.MD, len(h))
	for name, values := range h {
		md[strings.ToLower(name)] = values
	}
	return metadata.NewIncomingContext(ctx, md)
}

// unary is a method that answers once.
func unary[T any, M message[T], R proto.Message](method func(context.Context, M) (R, error), read func(*request, M) error) func(*request) ([]byte, error) {
	return func(r *request) ([]byte, error) {
		m := M(new(T))
		if err := read(r, m); err != nil {
			return nil, err
		}
		resp, err := method(r.ctx, m)
		if err != nil {
			return nil, err
		}
		return encode(resp)
	}
}

// streamed is a method that answers with a stream, which becomes an array. When it fails half way,
// that is all that the client gets.
func streamed[T any, M message[T], A any](method func(M, *collector[A]) error, read func(*request, M) error) func(*request) ([]byte, error) {
	return func(r *request) ([]byte, error) {
		m := M(new(T))
		if err := read(r, m); err != nil {
			return nil, err
		}
		c := &collector[A]{serverStream: serverStream{ctx: r.ctx}}
		if err := method(m, c); err != nil {
			return nil, err
		}
		return append(append([]byte("["), bytes.Join(c.out, []byte(",\n"))...), ']'), nil
	}
}

// collector is the stream of a method that answers with several messages.
type collector[A any] struct {
	serverStream
	out [][]byte
}

// Send encodes at once: messages share documents with the engine, and are its own after that.
func (c *collector[A]) Send(m *A) error {
	data, err := encode(any(m).(proto.Message))
	if err == nil {
		c.out = append(c.out, data)
	}
	return err
}

// serverStream is what all streams of the service have besides Send and Recv, and of which its
// methods use but these.
type serverStream struct {
	grpc.ServerStream
	ctx context.Context
}

// SendHeader has nothing to do: HTTP's headers are sent with the answer.
func (s serverStream) SendHeader(metadata.MD) error { return nil }

// Context has the request's metadata.
func (s serverStream) Context() context.Context { return s.ctx }
