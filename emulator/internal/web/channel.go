package web

import (
	"context"
	"encoding/json"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/proto"

	"github.com/firestore-counters/counters/emulator/internal/web/webchannel"
)

// channelStream is a stream of the service that leads to a WebChannel session.
type channelStream[T any, M message[T], A any] struct {
	serverStream
	session *webchannel.Session
}

// Recv gives the client's next message, or io.EOF when the session has ended.
func (s *channelStream[T, M, A]) Recv() (*T, error) {
	data, err := s.session.Receive()
	if err != nil {
		return nil, err
	}
	m := new(T)
	return m, decode(data, M(m))
}

// Send waits while the client has too much that it hasn't read.
func (s *channelStream[T, M, A]) Send(m *A) error {
	data, err := encode(any(m).(proto.Message))
	if err != nil {
		return err
	}
	return s.session.Send(data)
}

func (h *Handler) serveListen(session *webchannel.Session) {
	serve(session, func(s *channelStream[pb.ListenRequest, *pb.ListenRequest, pb.ListenResponse]) error {
		return h.Service.Listen(s)
	})
}

func (h *Handler) serveWrite(session *webchannel.Session) {
	serve(session, func(s *channelStream[pb.WriteRequest, *pb.WriteRequest, pb.WriteResponse]) error {
		return h.Service.Write(s)
	})
}

// serve runs a method of the service for a session. Its error is the last message that the client
// gets.
func serve[T any, M message[T], A any](session *webchannel.Session, method func(*channelStream[T, M, A]) error) {
	ctx, cancel := context.WithCancel(incoming(session.Context(), session.Header))
	defer cancel()
	if err := method(&channelStream[T, M, A]{serverStream{ctx: ctx}, session}); err != nil {
		_ = session.Send(json.RawMessage(newError(err).encode())) // the session may have ended, which does not matter
	}
}
