package emulator_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/firestore-counters/counters/emulator"
)

type fields = map[string]any

// A write that changes nothing leaves the update time alone, and fires no change.
func TestNoOpWrite(t *testing.T) {
	t.Parallel()
	in := start(t)
	changes := make(chan emulator.Change, 100)
	in.Server.OnChange(func(c emulator.Change) { changes <- c })
	w := newWire(t, in, "noop")
	first := w.mustCommit(nil, w.set("a/1", "n", 1, "m", fields{"x": math.NaN()}))
	for name, write := range map[string]*pb.Write{
		"same":             w.set("a/1", "n", 1, "m", fields{"x": math.NaN()}),
		"increment by 0":   transformed(masked(w.set("a/1")), increment("n", 0)),
		"maximum below":    transformed(masked(w.set("a/1")), maximum("n", 0)),
		"delete of no one": masked(w.set("a/1"), "nothing", "m.nothing.deeper"),
	} {
		resp := w.mustCommit(nil, write)
		if !proto.Equal(resp.WriteResults[0].UpdateTime, first.CommitTime) || !proto.Equal(w.mustGet("a/1").UpdateTime, first.CommitTime) {
			t.Errorf("%s: update_time has moved", name)
		}
		if !resp.CommitTime.AsTime().After(first.CommitTime.AsTime()) {
			t.Errorf("%s: commit time has not moved", name)
		}
	}
	w.mustCommit(nil, w.set("a/1", "n", 2), w.set("a/1", "n", 1, "m", fields{"x": math.NaN()})) // there and back
	w.mustCommit(nil, w.set("a/2"), w.delete("a/2"))
	w.mustCommit(nil, w.set("a/1", "n", 1.0, "m", fields{"x": 1, "y z": 2})) // another type is a change
	w.mustCommit(nil, w.delete("a/1"))
	want := []string{"create []", "update [m.`y z` m.x n]", "delete []"}
	for _, want := range want {
		c := <-changes
		kind := "update"
		if c.Old == nil {
			kind = "create"
		} else if c.New == nil {
			kind = "delete"
		}
		if got := fmt.Sprint(kind, " ", c.UpdateMask); got != want || c.Name != w.name("a/1") {
			t.Errorf("change of %s: %s, want %s", c.Name, got, want)
		}
	}
}

// Commit times are strictly increasing whatever the clock does, and survive recreation.
func TestCommitTimes(t *testing.T) {
	t.Parallel()
	opts := emulator.Options{}
	clock := time.Date(2030, 1, 1, 0, 0, 0, 123456789, time.UTC)
	opts.Now = func() time.Time { return clock }
	w := newWire(t, emulator.StartWith(t, opts), "times")
	var last time.Time
	for i := range 10 {
		at := w.mustCommit(nil, w.set("a/1", "n", i)).CommitTime.AsTime()
		if !at.After(last) || at.Nanosecond()%1000 != 0 {
			t.Errorf("commit at %v after %v", at, last)
		}
		last = at
	}
	w.mustCommit(nil, w.delete("a/1"))
	again := w.mustCommit(nil, w.set("a/1", "n", 1))
	if doc := w.mustGet("a/1"); !proto.Equal(doc.CreateTime, again.CommitTime) {
		t.Errorf("a document made again was created at %v, not %v", doc.CreateTime, again.CommitTime)
	}
}

// Databases and projects are apart from each other.
func TestDatabases(t *testing.T) {
	t.Parallel()
	in := start(t)
	ctx := context.Background()
	one, two := in.Client(t, "one"), in.Client(t, "two")
	if _, err := one.Doc("a/1").Set(ctx, fields{"n": 1}); err != nil {
		t.Fatal(err)
	}
	_, err := two.Doc("a/1").Get(ctx)
	wantCode(t, err, codes.NotFound)
	w := newWire(t, in, "one")
	w.db = "projects/one/databases/second"
	if doc := w.mustGet("a/1"); doc != nil {
		t.Errorf("another database of the project has %v", doc)
	}
}
