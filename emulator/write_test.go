package emulator_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/firestore-counters/counters/emulator"
)

type fields = map[string]any

// Each case writes to one document, from a state that is given, and looks at what has become of it.
func TestWrites(t *testing.T) {
	t.Parallel()
	w := newWire(t, start(t), "writes")
	nan := math.NaN()
	tests := []struct {
		name    string
		before  fields // nil: no document
		write   func(w wire, path string) *pb.Write
		want    codes.Code
		after   fields // nil: no document
		results []any  // transform results
	}{
		{"set creates", nil,
			func(w wire, p string) *pb.Write { return w.set(p, "a", 1) }, codes.OK, fields{"a": 1}, nil},
		{"set replaces all", fields{"a": 1, "b": 2},
			func(w wire, p string) *pb.Write { return w.set(p, "a", 3) }, codes.OK, fields{"a": 3}, nil},
		{"set with an empty map", nil,
			func(w wire, p string) *pb.Write { return w.set(p, "a", map[string]any{}) }, codes.OK, fields{"a": map[string]any{}}, nil},
		{"set without fields", fields{"a": 1},
			func(w wire, p string) *pb.Write { return w.set(p) }, codes.OK, fields{}, nil},
		{"mask touches only its fields", fields{"a": 1, "b": 2},
			func(w wire, p string) *pb.Write { return masked(w.set(p, "a", 3, "c", 4), "a") }, codes.OK, fields{"a": 3, "b": 2}, nil},
		{"mask deletes what is absent", fields{"a": 1, "b": 2},
			func(w wire, p string) *pb.Write { return masked(w.set(p, "a", 3), "a", "b") }, codes.OK, fields{"a": 3}, nil},
		{"mask creates", nil,
			func(w wire, p string) *pb.Write { return masked(w.set(p, "a", 3), "a") }, codes.OK, fields{"a": 3}, nil},
		{"mask reaches into maps", fields{"m": fields{"a": 1, "b": 2}},
			func(w wire, p string) *pb.Write { return masked(w.set(p, "m", fields{"a": 3}), "m.a", "m.b") }, codes.OK, fields{"m": fields{"a": 3}}, nil},
		{"mask makes maps of what is none", fields{"m": 7},
			func(w wire, p string) *pb.Write { return masked(w.set(p, "m", fields{"x": fields{"y": 3}}), "m.x.y") }, codes.OK, fields{"m": fields{"x": fields{"y": 3}}}, nil},
		{"mask with quoted names", fields{"a.b": 1, "ü": 1},
			func(w wire, p string) *pb.Write {
				return masked(w.set(p, "a.b", 2, "`\\", 3), "`a.b`", "`\\`\\\\`", "`ü`")
			}, codes.OK, fields{"a.b": 2, "`\\": 3}, nil},
		{"empty mask touches nothing", fields{"a": 1},
			func(w wire, p string) *pb.Write { return masked(w.set(p, "a", 2)) }, codes.OK, fields{"a": 1}, nil},
		{"empty mask creates an empty document", nil,
			func(w wire, p string) *pb.Write { return masked(w.set(p, "a", 2)) }, codes.OK, fields{}, nil},
		{"delete", fields{"a": 1},
			func(w wire, p string) *pb.Write { return w.delete(p) }, codes.OK, nil, nil},
		{"delete what is missing", nil,
			func(w wire, p string) *pb.Write { return w.delete(p) }, codes.OK, nil, nil},

		{"exists, and it does not", nil,
			func(w wire, p string) *pb.Write { return when(w.set(p, "a", 1), true) }, codes.NotFound, nil, nil},
		{"delete if it exists, and it does not", nil,
			func(w wire, p string) *pb.Write { return when(w.delete(p), true) }, codes.NotFound, nil, nil},
		{"does not exist, and it does", fields{"a": 1},
			func(w wire, p string) *pb.Write { return when(w.set(p, "a", 2), false) }, codes.AlreadyExists, fields{"a": 1}, nil},
		{"update time of another version", fields{"a": 1},
			func(w wire, p string) *pb.Write {
				return whenUpdated(w.set(p, "a", 2), timestamppb.New(time.Unix(1, 0)))
			}, codes.FailedPrecondition, fields{"a": 1}, nil},
		{"update time of a missing document", nil,
			func(w wire, p string) *pb.Write {
				return whenUpdated(w.delete(p), timestamppb.New(time.Unix(1, 0)))
			}, codes.FailedPrecondition, nil, nil},

		{"increment", fields{"n": 1, "x": "y"},
			func(w wire, p string) *pb.Write { return transformed(masked(w.set(p)), increment("n", 41)) }, codes.OK, fields{"n": 42, "x": "y"}, []any{42}},
		{"increment of nothing", nil,
			func(w wire, p string) *pb.Write { return transformed(masked(w.set(p)), increment("a.n", 5)) }, codes.OK, fields{"a": fields{"n": 5}}, []any{5}},
		{"increment of a string", fields{"n": "1"},
			func(w wire, p string) *pb.Write { return transformed(masked(w.set(p)), increment("n", 5)) }, codes.OK, fields{"n": 5}, []any{5}},
		{"increment saturates up", fields{"n": math.MaxInt64 - 1},
			func(w wire, p string) *pb.Write { return transformed(masked(w.set(p)), increment("n", 5)) }, codes.OK, fields{"n": math.MaxInt64}, []any{math.MaxInt64}},
		{"increment saturates down", fields{"n": math.MinInt64 + 1},
			func(w wire, p string) *pb.Write { return transformed(masked(w.set(p)), increment("n", -5)) }, codes.OK, fields{"n": math.MinInt64}, []any{math.MinInt64}},
		{"int and double make a double", fields{"n": 1},
			func(w wire, p string) *pb.Write { return transformed(masked(w.set(p)), increment("n", 1.5)) }, codes.OK, fields{"n": 2.5}, []any{2.5}},
		{"double and int make a double", fields{"n": 1.0},
			func(w wire, p string) *pb.Write { return transformed(masked(w.set(p)), increment("n", 1)) }, codes.OK, fields{"n": 2.0}, []any{2.0}},
		{"transforms run in order, after the update", fields{"n": 100},
			func(w wire, p string) *pb.Write {
				return transformed(w.set(p, "n", 1), increment("n", 1), maximum("n", 10), increment("n", 5))
			}, codes.OK, fields{"n": 15}, []any{2, 10, 15}},
		{"maximum keeps the stored of equals", fields{"n": 3},
			func(w wire, p string) *pb.Write { return transformed(masked(w.set(p)), maximum("n", 3.0)) }, codes.OK, fields{"n": 3}, []any{3}},
		{"minimum", fields{"n": 3},
			func(w wire, p string) *pb.Write { return transformed(masked(w.set(p)), minimum("n", 2.5)) }, codes.OK, fields{"n": 2.5}, []any{2.5}},
		{"maximum with NaN", fields{"n": 3},
			func(w wire, p string) *pb.Write { return transformed(masked(w.set(p)), maximum("n", nan)) }, codes.OK, fields{"n": nan}, []any{nan}},
		{"array union", fields{"a": []any{1, "x"}},
			func(w wire, p string) *pb.Write {
				return transformed(masked(w.set(p)), union("a", 1.0, "y", "y", nan, nan))
			}, codes.OK, fields{"a": []any{1, "x", "y", nan}}, []any{nil}},
		{"array union with what is not an array", fields{"a": 1},
			func(w wire, p string) *pb.Write { return transformed(masked(w.set(p)), union("a", 1)) }, codes.OK, fields{"a": []any{1}}, []any{nil}},
		{"array removal", fields{"a": []any{1, 2, 1.0, "x", 2}},
			func(w wire, p string) *pb.Write { return transformed(masked(w.set(p)), removeAll("a", 1, "x")) }, codes.OK, fields{"a": []any{2, 2}}, []any{nil}},

		{"reserved field name", nil,
			func(w wire, p string) *pb.Write { return w.set(p, "__x__", 1) }, codes.InvalidArgument, nil, nil},
		{"empty field name", nil,
			func(w wire, p string) *pb.Write { return w.set(p, "", 1) }, codes.InvalidArgument, nil, nil},
		{"array in an array", nil,
			func(w wire, p string) *pb.Write { return w.set(p, "a", []any{[]any{1}}) }, codes.InvalidArgument, nil, nil},
		{"array in a map in an array", nil,
			func(w wire, p string) *pb.Write { return w.set(p, "a", []any{fields{"b": []any{1}}}) }, codes.OK, fields{"a": []any{fields{"b": []any{1}}}}, nil},
		{"no type", nil,
			func(w wire, p string) *pb.Write {
				x := w.set(p)
				x.GetUpdate().Fields = map[string]*pb.Value{"a": {}}
				return x
			}, codes.InvalidArgument, nil, nil},
		{"too large a string", nil,
			func(w wire, p string) *pb.Write { return w.set(p, "a", strings.Repeat("x", 1<<20)) }, codes.InvalidArgument, nil, nil},
		{"too large a document", nil,
			func(w wire, p string) *pb.Write {
				return w.set(p, "a", strings.Repeat("x", 600_000), "b", strings.Repeat("x", 600_000))
			}, codes.InvalidArgument, nil, nil},
		{"20 levels", nil,
			func(w wire, p string) *pb.Write { return w.set(p, "a", nested(20)) }, codes.OK, fields{"a": nested(20)}, nil},
		{"21 levels", nil,
			func(w wire, p string) *pb.Write { return w.set(p, "a", nested(21)) }, codes.InvalidArgument, nil, nil},
		{"increment by a string", nil,
			func(w wire, p string) *pb.Write { return transformed(w.set(p), increment("a", "1")) }, codes.InvalidArgument, nil, nil},
		{"bad field path", nil,
			func(w wire, p string) *pb.Write { return masked(w.set(p), "a..b") }, codes.InvalidArgument, nil, nil},
		{"transforms on a delete", fields{"a": 1},
			func(w wire, p string) *pb.Write { return transformed(w.delete(p), increment("a", 1)) }, codes.InvalidArgument, fields{"a": 1}, nil},
		{"501 transforms", nil,
			func(w wire, p string) *pb.Write {
				x := w.set(p)
				for i := range 501 {
					transformed(x, increment(fmt.Sprintf("f%d", i), 1))
				}
				return x
			}, codes.InvalidArgument, nil, nil},
		{"no operation", nil,
			func(w wire, p string) *pb.Write { return &pb.Write{} }, codes.InvalidArgument, nil, nil},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := w
			w.t = t
			path := fmt.Sprintf("things/%d", i)
			if tt.before != nil {
				w.mustCommit(nil, &pb.Write{Operation: &pb.Write_Update{Update: &pb.Document{
					Name: w.name(path), Fields: value(tt.before).GetMapValue().Fields}}})
			}
			resp, err := w.commit(nil, tt.write(w, path))
			wantCode(t, err, tt.want)
			doc := w.mustGet(path)
			switch {
			case tt.after == nil && doc != nil:
				t.Errorf("the document is %v, want none", doc)
			case tt.after != nil && doc == nil:
				t.Errorf("there is no document, want %v", tt.after)
			case tt.after != nil:
				got := &pb.MapValue{Fields: doc.Fields}
				if want := value(tt.after).GetMapValue(); !proto.Equal(got, want) {
					t.Errorf("fields are %v, want %v", got, want)
				}
			}
			if err != nil {
				return
			}
			var want []*pb.Value
			for _, r := range tt.results {
				want = append(want, value(r))
			}
			if got := resp.WriteResults[0].TransformResults; !slices.EqualFunc(got, want, func(a, b *pb.Value) bool { return proto.Equal(a, b) }) {
				t.Errorf("transform results are %v, want %v", got, want)
			}
			if doc != nil && !proto.Equal(resp.WriteResults[0].UpdateTime, doc.UpdateTime) {
				t.Errorf("the result's update_time is %v, the document's %v", resp.WriteResults[0].UpdateTime, doc.UpdateTime)
			}
		})
	}
}

func nested(levels int) any {
	var v any = 1
	for range levels {
		v = map[string]any{"x": v}
	}
	return v
}

func TestNames(t *testing.T) {
	t.Parallel()
	w := newWire(t, start(t), "names")
	for path, want := range map[string]codes.Code{
		"a/b":                              codes.OK,
		"a/b/c/d":                          codes.OK,
		"a/\tx":                            codes.OK, // firestore-counter's shards
		"a/ü ~!*'()`":                      codes.OK,
		"a/__id7__":                        codes.OK,
		"a/" + strings.Repeat("x", 1500):   codes.OK,
		"a/" + strings.Repeat("x", 1501):   codes.InvalidArgument,
		"a":                                codes.InvalidArgument,
		"a/b/c":                            codes.InvalidArgument,
		"a//b/c":                           codes.InvalidArgument,
		"a/b/":                             codes.InvalidArgument,
		"a/.":                              codes.InvalidArgument,
		"../b":                             codes.InvalidArgument,
		"a/__x__":                          codes.InvalidArgument,
		"__x__/b":                          codes.InvalidArgument,
		"a/____":                           codes.OK,
		"a/_____":                          codes.InvalidArgument,
		"a/___":                            codes.OK,
		strings.Repeat("a/b/", 1600) + "a": codes.InvalidArgument,
	} {
		_, err := w.commit(nil, w.set(path, "x", 1))
		if t.Run(path[:min(20, len(path))], func(t *testing.T) { wantCode(t, err, want) }); want == codes.OK && err == nil {
			if doc := w.mustGet(path); doc == nil {
				t.Errorf("%q is gone", path)
			}
		}
	}
	_, err := w.commit(nil, &pb.Write{Operation: &pb.Write_Delete{Delete: "projects/other/databases/(default)/documents/a/b"}})
	wantCode(t, err, codes.InvalidArgument)
}

// A commit is all or nothing, its writes see each other, and its times are the same.
func TestCommit(t *testing.T) {
	t.Parallel()
	w := newWire(t, start(t), "commit")
	first := w.mustCommit(nil, w.set("a/1", "n", 1))
	if _, err := w.commit(nil, w.set("a/1", "n", 2), when(w.set("a/2", "n", 2), true)); err == nil {
		t.Error("a commit with a failing write succeeded")
	}
	if n := w.mustGet("a/1").Fields["n"].GetIntegerValue(); n != 1 {
		t.Errorf("n = %d after a commit that failed", n)
	}
	resp := w.mustCommit(nil, transformed(masked(w.set("a/1")), increment("n", 1), serverTime("t")),
		transformed(masked(w.set("a/1")), increment("n", 1)), w.set("a/3"), w.delete("a/3"), when(w.set("a/3", "n", 3), false))
	doc := w.mustGet("a/1")
	if n := doc.Fields["n"].GetIntegerValue(); n != 3 {
		t.Errorf("n = %d after two increments in one commit", n)
	}
	if !proto.Equal(doc.UpdateTime, resp.CommitTime) || !proto.Equal(doc.CreateTime, first.CommitTime) {
		t.Errorf("times are %v, %v; commits were at %v and %v", doc.CreateTime, doc.UpdateTime, first.CommitTime, resp.CommitTime)
	}
	server, commit := doc.Fields["t"].GetTimestampValue().AsTime(), resp.CommitTime.AsTime()
	if server.Nanosecond()%1e6 != 0 || commit.Sub(server) < 0 || commit.Sub(server) >= time.Millisecond {
		t.Errorf("the server's time is %v in a commit at %v", server, commit)
	}
	if r := w.mustCommit(nil); len(r.WriteResults) != 0 || r.CommitTime == nil {
		t.Errorf("an empty commit gives %v", r)
	}
}

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

func TestTimestampsAreCut(t *testing.T) {
	t.Parallel()
	w := newWire(t, start(t), "cut")
	w.mustCommit(nil, w.set("a/1", "t", time.Unix(5, 1999).UTC()))
	if n := w.mustGet("a/1").Fields["t"].GetTimestampValue().Nanos; n != 1000 {
		t.Errorf("a timestamp of 1999 ns is stored as %d ns", n)
	}
}

func TestBatchWrite(t *testing.T) {
	t.Parallel()
	in := start(t)
	c := in.Client(t, "bulk")
	ctx := context.Background()
	if _, err := c.Doc("a/old").Set(ctx, fields{"n": 1}); err != nil {
		t.Fatal(err)
	}
	bulk := c.BulkWriter(ctx)
	var jobs []*firestore.BulkWriterJob
	for _, id := range []string{"x", "old", "y"} {
		job, err := bulk.Create(c.Doc("a/"+id), fields{"n": 2})
		if err != nil {
			t.Fatal(err)
		}
		jobs = append(jobs, job)
	}
	bulk.End()
	for i, want := range []codes.Code{codes.OK, codes.AlreadyExists, codes.OK} {
		_, err := jobs[i].Results()
		if (err != nil) != (want != codes.OK) {
			t.Errorf("write %d: %v, want %v", i, err, want)
		}
	}
	w := newWire(t, in, "bulk")
	_, err := w.BatchWrite(ctx, &pb.BatchWriteRequest{Database: w.db, Writes: []*pb.Write{w.set("a/z"), w.delete("a/z")}})
	wantCode(t, err, codes.InvalidArgument)
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
