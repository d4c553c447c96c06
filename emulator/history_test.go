package emulator_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/firestore-counters/counters/emulator"
)

func TestReadTime(t *testing.T) {
	t.Parallel()
	in := start(t)
	w, c := newWire(t, in, "past"), in.Client(t, "past")
	ctx := context.Background()
	var times []time.Time
	for i := range 4 {
		resp := w.mustCommit(nil, w.set("a/1", "n", i), w.set(fmt.Sprintf("a/x%d", i), "n", 1))
		times = append(times, resp.CommitTime.AsTime())
	}
	w.mustCommit(nil, w.delete("a/1"))
	for i, at := range times {
		snap, err := c.Doc("a/1").WithReadOptions(firestore.ReadTime(at)).Get(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if n, _ := snap.DataAt("n"); n != int64(i) || !snap.ReadTime.Equal(at) {
			t.Errorf("at %v n = %v, read at %v", at, n, snap.ReadTime)
		}
		q := c.Collection("a").Where("n", "==", 1)
		docs, err := q.WithReadOptions(firestore.ReadTime(at)).Documents(ctx).GetAll()
		if want := map[bool]int{false: i + 1, true: i + 2}[i == 1]; err != nil || len(docs) != want {
			t.Errorf("at %v the query gives %d documents (%v), want %d", at, len(docs), err, want)
		}
	}
	for at, want := range map[time.Time]codes.Code{
		time.Now().Add(time.Hour):      codes.InvalidArgument,
		time.Now().Add(-2 * time.Hour): codes.FailedPrecondition,
	} {
		_, _, err := w.get(&pb.BatchGetDocumentsRequest{ConsistencySelector: &pb.BatchGetDocumentsRequest_ReadTime{ReadTime: timestamppb.New(at.Truncate(time.Microsecond))}}, "a/1")
		wantCode(t, err, want)
	}
}

// What a reader is told is the time of its read is never a time that a later commit gets.
func TestReadTimesDontMeetCommitTimes(t *testing.T) {
	t.Parallel()
	opts := emulator.Options{}
	var clock atomic.Int64 // stands still, unless told to go on
	clock.Store(time.Now().UnixMicro())
	opts.Now = func() time.Time { return time.UnixMicro(clock.Load()) }
	w := newWire(t, emulator.StartWith(t, opts), "meet")
	for range 3 {
		clock.Add(1000)
		_, at, err := w.get(&pb.BatchGetDocumentsRequest{}, "a/1")
		if err != nil {
			t.Fatal(err)
		}
		if resp := w.mustCommit(nil, w.set("a/1", "n", 1)); !resp.CommitTime.AsTime().After(at.AsTime()) {
			t.Errorf("a commit at %v follows a read at %v", resp.CommitTime.AsTime(), at.AsTime())
		}
	}
}

// The past is kept within bounds, and is refused beyond them rather than told wrong.
func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	opts := emulator.Options{}
	opts.HistoryVersions = 10
	w := newWire(t, emulator.StartWith(t, opts), "bounded")
	var times []*timestamppb.Timestamp
	for i := range 20 {
		times = append(times, w.mustCommit(nil, w.set("a/1", "n", i)).CommitTime)
	}
	for i, at := range times {
		doc, _, err := w.get(&pb.BatchGetDocumentsRequest{ConsistencySelector: &pb.BatchGetDocumentsRequest_ReadTime{ReadTime: at}}, "a/1")
		if i < 9 {
			wantCode(t, err, codes.FailedPrecondition)
		} else if err != nil || doc.Fields["n"].GetIntegerValue() != int64(i) {
			t.Errorf("version %d is %v, %v", i, doc, err)
		}
	}
}
