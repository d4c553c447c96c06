package emulator

import (
	"crypto/rand"
	"errors"
	"io"
	"strconv"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Write runs one stream of writes, by which web and mobile clients send theirs. After a first
// request that names the database, each one is a commit, and is answered before the next one is
// looked at. Clients may send several ahead, with the token of one and the same answer, so tokens
// aren't checked. A commit that fails ends the stream.
func (s *service) Write(stream firestorepb.Firestore_WriteServer) error {
	first, err := stream.Recv()
	if err != nil {
		return endOfStream(err)
	}
	if len(first.GetWrites()) > 0 || len(first.GetStreamToken()) > 0 {
		return status.Error(codes.InvalidArgument, "The first request of a write stream has neither writes nor a token.")
	}
	database := first.GetDatabase()
	resp := &firestorepb.WriteResponse{StreamId: rand.Text()}
	for answered := 0; ; answered++ {
		resp.StreamToken = strconv.AppendInt(nil, int64(answered), 10)
		if err := stream.Send(resp); err != nil {
			return err
		}
		req, err := stream.Recv()
		if err != nil {
			return endOfStream(err)
		}
		if len(req.GetWrites()) == 0 { // the client is about to leave
			return stream.Send(&firestorepb.WriteResponse{StreamToken: strconv.AppendInt(nil, int64(answered)+1, 10)})
		}
		committed, err := s.Commit(stream.Context(), &firestorepb.CommitRequest{Database: database, Writes: req.GetWrites()})
		if err != nil {
			return err
		}
		resp = &firestorepb.WriteResponse{WriteResults: committed.GetWriteResults(), CommitTime: committed.GetCommitTime()}
	}
}

// endOfStream is how a stream ends when its client has ended it, or has failed.
func endOfStream(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
