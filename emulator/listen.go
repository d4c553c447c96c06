package emulator

import (
	"context"
	"errors"
	"io"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator/internal/engine"
)

// Listen runs one listener until the client ends its side. Its requests are read on a goroutine of
// their own, as changes must not wait for the next request.
func (s *service) Listen(stream firestorepb.Firestore_ListenServer) error {
	first, err := stream.Recv()
	if err != nil {
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
	watch, err := s.engine.Watch(first.GetDatabase())
	if err != nil {
		return err
	}
	defer watch.Close()
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	if err := handleListen(watch, first); err != nil {
		return err
	}
	go func() { // ends with the stream at the latest
		for {
			req, err := stream.Recv()
			if err == nil {
				err = handleListen(watch, req)
			}
			if err != nil {
				cancel(err)
				return
			}
		}
	}()
	for {
		responses, err := watch.Next(ctx)
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		for _, r := range responses {
			if err := stream.Send(r); err != nil {
				return err
			}
		}
	}
}

func handleListen(watch *engine.Watch, req *firestorepb.ListenRequest) error {
	switch t := req.GetTargetChange().(type) {
	case *firestorepb.ListenRequest_AddTarget:
		return watch.AddTarget(t.AddTarget)
	case *firestorepb.ListenRequest_RemoveTarget:
		watch.RemoveTarget(t.RemoveTarget)
		return nil
	}
	return status.Error(codes.InvalidArgument, "A listen request either adds or removes a target.")
}
