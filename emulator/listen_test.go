package emulator_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/firestore-counters/counters/emulator"
)

// stream reads a listener's raw messages.
type stream struct {
	t testing.TB
	pb.Firestore_ListenClient
	w wire
}

func newStream(t testing.TB, w wire) stream {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	s, err := w.Listen(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return stream{t, s, w}
}

func (s stream) add(target *pb.Target) {
	s.t.Helper()
	err := s.Send(&pb.ListenRequest{Database: s.w.db, TargetChange: &pb.ListenRequest_AddTarget{AddTarget: target}})
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s stream) documents(id int32, token []byte, paths ...string) *pb.Target {
	d := &pb.Target_DocumentsTarget{}
	for _, p := range paths {
		d.Documents = append(d.Documents, s.w.name(p))
	}
	t := &pb.Target{TargetId: id, TargetType: &pb.Target_Documents{Documents: d}}
	if token != nil {
		t.ResumeType = &pb.Target_ResumeToken{ResumeToken: token}
	}
	return t
}

func (s stream) query(id int32, token []byte, q *pb.StructuredQuery) *pb.Target {
	t := &pb.Target{TargetId: id, TargetType: &pb.Target_Query{Query: &pb.Target_QueryTarget{
		Parent: s.w.db + "/documents", QueryType: &pb.Target_QueryTarget_StructuredQuery{StructuredQuery: q}}}}
	if token != nil {
		t.ResumeType = &pb.Target_ResumeToken{ResumeToken: token}
	}
	return t
}

// until reads messages up to one that begins with what is given, in a short notation.
func (s stream) until(last string) (messages []string, token []byte) {
	s.t.Helper()
	for {
		r, err := s.Recv()
		if err != nil {
			s.t.Fatalf("after %v: %v", messages, err)
		}
		var m string
		switch r := r.ResponseType.(type) {
		case *pb.ListenResponse_TargetChange:
			m = fmt.Sprintf("%v%v", r.TargetChange.TargetChangeType, r.TargetChange.TargetIds)
			if c := r.TargetChange.Cause; c != nil {
				m += " " + codes.Code(c.Code).String()
			}
			token = r.TargetChange.ResumeToken
		case *pb.ListenResponse_DocumentChange:
			name := strings.TrimPrefix(r.DocumentChange.Document.Name, s.w.db+"/documents/")
			m = fmt.Sprintf("%s+%v-%v", name, r.DocumentChange.TargetIds, r.DocumentChange.RemovedTargetIds)
		case *pb.ListenResponse_DocumentDelete:
			name := strings.TrimPrefix(r.DocumentDelete.Document, s.w.db+"/documents/")
			m = fmt.Sprintf("%s deleted-%v", name, r.DocumentDelete.RemovedTargetIds)
		case *pb.ListenResponse_Filter:
			m = fmt.Sprintf("FILTER[%d] %d", r.Filter.TargetId, r.Filter.Count)
		}
		messages = append(messages, m)
		if strings.HasPrefix(m, last) {
			return messages, token
		}
	}
}

func (s stream) want(want string) (token []byte) {
	s.t.Helper()
	last := want[strings.LastIndex(want, ", ")+1:]
	messages, token := s.until(strings.TrimSpace(last))
	if got := strings.Join(messages, ", "); got != want {
		s.t.Errorf("got  %s\nwant %s", got, want)
	}
	return token
}

func TestListenProtocol(t *testing.T) {
	t.Parallel()
	in := start(t)
	w := newWire(t, in, "protocol")
	w.mustCommit(nil, w.set("a/1", "n", 1), w.set("a/2", "n", 2))
	a := &pb.StructuredQuery{From: []*pb.StructuredQuery_CollectionSelector{{CollectionId: "a"}},
		Where: &pb.StructuredQuery_Filter{FilterType: &pb.StructuredQuery_Filter_FieldFilter{FieldFilter: &pb.StructuredQuery_FieldFilter{
			Field: &pb.StructuredQuery_FieldReference{FieldPath: "n"}, Op: pb.StructuredQuery_FieldFilter_GREATER_THAN, Value: value(1)}}}}

	s := newStream(t, w)
	s.add(s.documents(2, nil, "a/1", "a/none"))
	s.want("ADD[2], a/none deleted-[2], a/1+[2]-[], CURRENT[2], NO_CHANGE[]")
	s.add(s.query(4, nil, a))
	s.want("ADD[4], a/2+[4]-[], CURRENT[4], NO_CHANGE[]")

	w.mustCommit(nil, w.set("a/1", "n", 3)) // in both
	messages, _ := s.until("NO_CHANGE")
	slices.Sort(messages)
	if got := strings.Join(messages, ", "); got != "NO_CHANGE[], a/1+[2]-[], a/1+[4]-[]" {
		t.Errorf("a change of both targets: %s", got)
	}
	w.mustCommit(nil, w.set("a/2", "n", 0), w.set("a/9", "n", 9), w.set("b/1")) // one leaves, one enters
	s.want("a/2+[]-[4], a/9+[4]-[], NO_CHANGE[]")
	w.mustCommit(nil, w.delete("a/9"), w.delete("a/2"))
	token := s.want("a/9 deleted-[4], NO_CHANGE[]")

	// A target that makes no sense, one that isn't there, one that goes.
	s.add(s.query(6, nil, &pb.StructuredQuery{Offset: -1}))
	s.want("REMOVE[6] InvalidArgument")
	for _, id := range []int32{99, 2} {
		if err := s.Send(&pb.ListenRequest{Database: w.db, TargetChange: &pb.ListenRequest_RemoveTarget{RemoveTarget: id}}); err != nil {
			t.Fatal(err)
		}
	}
	s.want("REMOVE[2]")
	w.mustCommit(nil, w.set("a/1", "n", 4))
	s.want("a/1+[4]-[], NO_CHANGE[]")
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); err == nil || err.Error() != "EOF" {
		t.Errorf("after the client's end: %v", err)
	}

	// Resumed, a target tells what has changed since; with a token that nobody made, all.
	w.mustCommit(nil, w.set("a/5", "n", 5), w.delete("a/1"))
	s = newStream(t, w)
	s.add(s.query(4, token, a))
	s.want("ADD[4], a/1 deleted-[4], a/5+[4]-[], CURRENT[4], NO_CHANGE[]")
	s.add(s.query(6, []byte("nonsense"), a))
	s.want("ADD[6], RESET[6], a/5+[6]-[], CURRENT[6], NO_CHANGE[]")
	once := s.query(8, nil, a)
	once.Once = true
	s.add(once)
	s.want("ADD[8], a/5+[8]-[], CURRENT[8], NO_CHANGE[], REMOVE[8]")
	s.add(s.query(4, nil, a))
	_, err := s.Recv()
	wantCode(t, err, codes.InvalidArgument) // the id is in use
}

// A client that comes back with another number of documents than its token stands for has missed
// something: it is told how many there are, and asks for all of them. An id below zero is nobody's.
func TestExpectedCount(t *testing.T) {
	t.Parallel()
	w := newWire(t, start(t), "expected")
	w.mustCommit(nil, w.set("a/1", "n", 1), w.set("a/2", "n", 2))
	a := &pb.StructuredQuery{From: []*pb.StructuredQuery_CollectionSelector{{CollectionId: "a"}}}
	s := newStream(t, w)
	s.add(s.query(2, nil, a))
	token := s.want("ADD[2], a/1+[2]-[], a/2+[2]-[], CURRENT[2], NO_CHANGE[]")
	w.mustCommit(nil, w.delete("a/1"), w.set("a/3", "n", 3), w.set("a/4", "n", 4))
	const changes = "ADD[2], a/1 deleted-[2], a/3+[2]-[], a/4+[2]-[], "
	for _, c := range []struct {
		token    []byte
		expected int32
		want     string
	}{
		{token, 2, changes + "CURRENT[2], NO_CHANGE[]"},
		{token, 1, changes + "FILTER[2] 3, CURRENT[2], NO_CHANGE[]"},
		{token, 3, changes + "FILTER[2] 3, CURRENT[2], NO_CHANGE[]"}, // as many as there are now
		{token, 0, changes + "FILTER[2] 3, CURRENT[2], NO_CHANGE[]"},
		{nil, 7, "ADD[2], a/2+[2]-[], a/3+[2]-[], a/4+[2]-[], CURRENT[2], NO_CHANGE[]"}, // it gets all anyway
	} {
		s := newStream(t, w)
		target := s.query(2, c.token, a)
		target.ExpectedCount = wrapperspb.Int32(c.expected)
		s.add(target)
		s.want(c.want)
	}
	s = newStream(t, w)
	s.add(s.query(-2, nil, a))
	_, err := s.Recv()
	wantCode(t, err, codes.InvalidArgument)
}

// A token from before what is kept makes the listener start over, and says so.
func TestResumeBeyondHistory(t *testing.T) {
	t.Parallel()
	opts := emulator.Options{}
	opts.HistoryVersions = 1
	w := newWire(t, emulator.StartWith(t, opts), "beyond")
	w.mustCommit(nil, w.set("a/1", "n", 1))
	s := newStream(t, w)
	s.add(s.documents(2, nil, "a/1"))
	token := s.want("ADD[2], a/1+[2]-[], CURRENT[2], NO_CHANGE[]")
	for i := range 5 {
		w.mustCommit(nil, w.set("a/1", "n", 2+i))
	}
	s = newStream(t, w)
	s.add(s.documents(2, token, "a/1"))
	s.want("ADD[2], RESET[2], a/1+[2]-[], CURRENT[2], NO_CHANGE[]")
}

// Commits are never split: two documents that always change together are never seen apart, however
// fast they change, and in the end the listener has the latest.
func TestListenersSeeWholeCommits(t *testing.T) {
	t.Parallel()
	in := start(t)
	w := newWire(t, in, "whole")
	s := newStream(t, w)
	s.add(s.documents(2, nil, "a/1", "b/1"))
	const last = 300
	go func() {
		for i := range last + 1 {
			if _, err := w.commit(nil, w.set("a/1", "n", i), w.set("b/1", "n", i)); err != nil {
				t.Errorf("commit: %v", err)
			}
		}
	}()
	seen := map[string]int64{}
	for seen["a/1"] != last {
		r, err := s.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if c := r.GetDocumentChange(); c != nil {
			seen[strings.TrimPrefix(c.Document.Name, w.db+"/documents/")] = c.Document.Fields["n"].GetIntegerValue()
		}
		if c := r.GetTargetChange(); c != nil && c.TargetChangeType == pb.TargetChange_NO_CHANGE && seen["a/1"] != seen["b/1"] {
			t.Fatalf("a snapshot has %v", seen)
		}
	}
}

// A listener that does not read holds up no commit, and is told the latest state when it reads
// again.
func TestSlowListener(t *testing.T) {
	t.Parallel()
	w := newWire(t, start(t), "slow")
	s := newStream(t, w)
	s.add(s.documents(2, nil, "a/1"))
	s.want("ADD[2], a/1 deleted-[2], CURRENT[2], NO_CHANGE[]")
	text := strings.Repeat("x", 100_000)
	const last = 200
	for i := range last + 1 {
		w.mustCommit(nil, w.set("a/1", "n", i, "text", text)) // 20 MB, more than any buffer on the way
	}
	messages := 0
	for {
		r, err := s.Recv()
		if err != nil {
			t.Fatal(err)
		}
		messages++
		if r.GetDocumentChange().GetDocument().GetFields()["n"].GetIntegerValue() == last {
			break
		}
	}
	if messages >= 2*last {
		t.Errorf("the listener was told all %d states", last)
	}
}
