package emulator_test

import (
	"errors"
	"io"
	"testing"
	"time"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
)

// verify is a write that only has a condition. The generated code doesn't know it: clients that
// have it put it where this does.
func (w wire) verify(path string) *pb.Write {
	var write pb.Write
	write.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 5, protowire.BytesType), w.name(path)))
	return &write
}

func TestVerify(t *testing.T) {
	t.Parallel()
	in := start(t)
	w := newWire(t, in, "verify")
	old := w.mustCommit(nil, w.set("a/1", "n", 1)).CommitTime
	now := w.mustCommit(nil, w.set("a/1", "n", 2)).CommitTime
	for _, tt := range []struct {
		what   string
		writes []*pb.Write
		want   codes.Code
	}{
		{"the present version", []*pb.Write{whenUpdated(w.verify("a/1"), now), w.set("a/written", "n", 1)}, codes.OK},
		{"an absent document", []*pb.Write{when(w.verify("a/none"), false)}, codes.OK},
		{"one document twice", []*pb.Write{when(w.verify("a/1"), true), whenUpdated(w.verify("a/1"), now)}, codes.OK},
		{"an old version", []*pb.Write{w.set("a/refused", "n", 1), whenUpdated(w.verify("a/1"), old)}, codes.FailedPrecondition},
		{"a version of what is absent", []*pb.Write{whenUpdated(w.verify("a/none"), old)}, codes.FailedPrecondition},
		{"presence of what is absent", []*pb.Write{when(w.verify("a/none"), true)}, codes.NotFound},
		{"absence of what is present", []*pb.Write{when(w.verify("a/1"), false)}, codes.AlreadyExists},
		{"no condition", []*pb.Write{w.verify("a/1")}, codes.InvalidArgument},
		{"with a mask", []*pb.Write{masked(when(w.verify("a/1"), true))}, codes.InvalidArgument},
		{"with a write of the document", []*pb.Write{when(w.verify("a/1"), true), w.delete("a/1")}, codes.InvalidArgument},
		{"a name that is none", []*pb.Write{when(w.verify("a"), true)}, codes.InvalidArgument},
	} {
		resp, err := w.commit(nil, tt.writes...)
		if status.Code(err) != tt.want {
			t.Errorf("%s: %v, want %v", tt.what, err, tt.want)
		}
		if err == nil && len(resp.WriteResults) != len(tt.writes) {
			t.Errorf("%s: %d results", tt.what, len(resp.WriteResults))
		}
	}
	if doc := w.mustGet("a/1"); doc.UpdateTime.AsTime() != now.AsTime() {
		t.Errorf("a verification wrote: %v", doc)
	}
	if w.mustGet("a/written") == nil || w.mustGet("a/refused") != nil {
		t.Error("what is written with a verification must be written if it holds, and only then")
	}
	// It waits for a transaction that has read the document, as a write of it would.
	tx := w.begin()
	if _, err := w.getIn(tx, "a/1"); err != nil {
		t.Fatal(err)
	}
	verified := make(chan error)
	go func() {
		_, err := w.commit(nil, whenUpdated(w.verify("a/1"), now))
		verified <- err
	}()
	for in.Server.Stats().LockWaits == 0 {
		time.Sleep(time.Millisecond)
	}
	w.mustCommit(tx, w.set("a/1", "n", 3))
	if err := <-verified; status.Code(err) != codes.FailedPrecondition { // it must not have got in between
		t.Errorf("a verification next to a transaction: %v", err)
	}
}

func TestWriteStream(t *testing.T) {
	t.Parallel()
	w := newWire(t, start(t), "writestream")
	open := func(first *pb.WriteRequest) pb.Firestore_WriteClient {
		stream, err := w.Write(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(first); err != nil {
			t.Fatal(err)
		}
		return stream
	}
	hello := &pb.WriteRequest{Database: w.db}
	stream := open(hello)
	resp, err := stream.Recv()
	if err != nil || resp.GetStreamId() == "" || string(resp.GetStreamToken()) != "0" {
		t.Fatalf("handshake: %v, %v", resp, err)
	}
	for n := range 3 { // all with the one token that there is
		if err := stream.Send(&pb.WriteRequest{StreamToken: resp.StreamToken, Writes: []*pb.Write{w.set("a/1", "n", n)}}); err != nil {
			t.Fatal(err)
		}
	}
	last := resp
	for range 3 {
		resp, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if len(resp.GetWriteResults()) != 1 || string(resp.GetStreamToken()) <= string(last.GetStreamToken()) ||
			!resp.GetCommitTime().AsTime().After(last.GetCommitTime().AsTime()) {
			t.Errorf("answer %v after %v", resp, last)
		}
		last = resp
	}
	if n := w.mustGet("a/1").GetFields()["n"].GetIntegerValue(); n != 2 {
		t.Errorf("n is %d: want the last write's", n)
	}
	if err := stream.Send(&pb.WriteRequest{StreamToken: last.StreamToken, Writes: []*pb.Write{when(w.set("a/none", "n", 1), true)}}); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.NotFound {
		t.Errorf("a write that fails: %v, want the stream's end with NotFound", err)
	}

	stream = open(hello)
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Errorf("handshake: %v", err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("a stream that the client has ended: %v", err)
	}
	stream = open(&pb.WriteRequest{Database: w.db, Writes: []*pb.Write{w.set("a/1", "n", 9)}})
	if _, err := stream.Recv(); status.Code(err) != codes.InvalidArgument {
		t.Errorf("writes before the handshake: %v", err)
	}
}
