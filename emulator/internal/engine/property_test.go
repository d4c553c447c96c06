package engine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	"github.com/firestore-counters/counters/emulator/internal/document"
)

const (
	testDatabase = "projects/test/databases/(default)"
	testRoot     = testDatabase + "/documents"
)

// world is a plain picture of a database: name → field → number.
type world map[string]map[string]int64

func (w world) clone() world {
	out := make(world, len(w))
	for name, fields := range w {
		out[name] = maps.Clone(fields)
	}
	return out
}

var (
	testNames  = rapid.SampledFrom([]string{testRoot + "/a/1", testRoot + "/a/2", testRoot + "/a/3", testRoot + "/b/1", testRoot + "/b/1/a/1", testRoot + "/b/2/a/1"})
	testFields = rapid.SampledFrom([]string{"x", "y", "z"})
	testInts   = rapid.Int64Range(-3, 3)
)

// drawWrite draws a write, and what it does to the picture; false: its precondition fails.
func drawWrite(t *rapid.T) (*pb.Write, func(world) bool) {
	name, field, n := testNames.Draw(t, "name"), testFields.Draw(t, "field"), testInts.Draw(t, "n")
	w := &pb.Write{Operation: &pb.Write_Update{Update: &pb.Document{Name: name, Fields: map[string]*pb.Value{field: document.Int(n)}}}}
	var do func(world)
	switch rapid.SampledFrom([]string{"set", "merge", "increment", "remove", "delete"}).Draw(t, "kind") {
	case "set":
		do = func(m world) { m[name] = map[string]int64{field: n} }
	case "merge":
		w.UpdateMask = &pb.DocumentMask{FieldPaths: []string{field}}
		do = func(m world) { touch(m, name)[field] = n }
	case "increment":
		w = incrementWrite(name, field, n)
		do = func(m world) { touch(m, name)[field] += n }
	case "remove":
		w.GetUpdate().Fields = nil
		w.UpdateMask = &pb.DocumentMask{FieldPaths: []string{field}}
		do = func(m world) { delete(touch(m, name), field) }
	case "delete":
		w = &pb.Write{Operation: &pb.Write_Delete{Delete: name}}
		do = func(m world) { delete(m, name) }
	}
	need := rapid.SampledFrom([]string{"", "", "", "exists", "missing"}).Draw(t, "need")
	if need != "" {
		w.CurrentDocument = &pb.Precondition{ConditionType: &pb.Precondition_Exists{Exists: need == "exists"}}
	}
	return w, func(m world) bool {
		if _, exists := m[name]; need != "" && exists != (need == "exists") {
			return false
		}
		do(m)
		return true
	}
}

func touch(m world, name string) map[string]int64 {
	if m[name] == nil {
		m[name] = map[string]int64{}
	}
	return m[name]
}

func incrementWrite(name, field string, n int64) *pb.Write {
	return &pb.Write{
		Operation:  &pb.Write_Update{Update: &pb.Document{Name: name}},
		UpdateMask: &pb.DocumentMask{},
		UpdateTransforms: []*pb.DocumentTransform_FieldTransform{{FieldPath: field,
			TransformType: &pb.DocumentTransform_FieldTransform_Increment{Increment: document.Int(n)}}},
	}
}

// Any sequence of commits leaves what it leaves of a plain map, at every moment of the past, too;
// and a listener that looks now and then ends up with the same.
func TestCommitsAgainstPlainMap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := New(Options{})
		defer e.Close()
		listener := newMirror(t, e)
		defer listener.watch.Close()
		now := world{}
		moments := map[*timestamppb.Timestamp]world{}
		for range rapid.IntRange(1, 30).Draw(t, "commits") {
			req := &pb.CommitRequest{Database: testDatabase}
			next, ok := now.clone(), true
			for range rapid.IntRange(1, 3).Draw(t, "writes") {
				w, do := drawWrite(t)
				req.Writes = append(req.Writes, w)
				ok = ok && do(next)
			}
			resp, err := e.Commit(context.Background(), req)
			if (err == nil) != ok {
				t.Fatalf("commit gives %v, want success: %v", err, ok)
			}
			if ok {
				now = next
				moments[resp.CommitTime] = now
			}
			if rapid.Bool().Draw(t, "look") {
				listener.look(t)
				listener.check(t, now)
			}
		}
		listener.look(t)
		listener.check(t, now)
		for at, want := range moments {
			if got := read(t, e, at); !equalWorlds(got, want) {
				t.Fatalf("at %v there is %v, want %v", at.AsTime(), got, want)
			}
		}
	})
}

// read is the picture of a database as of a time.
func read(t *rapid.T, e *Engine, at *timestamppb.Timestamp) world {
	out := world{}
	err := e.RunQuery(context.Background(), &pb.RunQueryRequest{Parent: testRoot,
		ConsistencySelector: &pb.RunQueryRequest_ReadTime{ReadTime: at},
		QueryType: &pb.RunQueryRequest_StructuredQuery{StructuredQuery: &pb.StructuredQuery{
			From: []*pb.StructuredQuery_CollectionSelector{{AllDescendants: true}}}},
	}, func(r *pb.RunQueryResponse) error {
		if r.Document != nil {
			out[r.Document.Name] = numbers(r.Document)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	return out
}

func numbers(doc *pb.Document) map[string]int64 {
	out := map[string]int64{}
	for name, v := range doc.Fields {
		out[name] = v.GetIntegerValue()
	}
	return out
}

func equalWorlds(a, b world) bool {
	return maps.EqualFunc(a, b, maps.Equal)
}

// A query gives what going through all documents one by one gives.
func TestQueriesAgainstNaiveFilter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := New(Options{})
		defer e.Close()
		type row struct {
			id string
			f  map[string]int64
		}
		var rows []row
		for i := range rapid.IntRange(0, 12).Draw(t, "documents") {
			r := row{fmt.Sprint("d", i), map[string]int64{}}
			doc := &pb.Document{Name: testRoot + "/a/" + r.id, Fields: map[string]*pb.Value{}}
			for _, name := range []string{"x", "y"} {
				if rapid.IntRange(0, 5).Draw(t, "has") > 0 {
					r.f[name] = testInts.Draw(t, name)
					doc.Fields[name] = document.Int(r.f[name])
				}
			}
			rows = append(rows, r)
			if _, err := e.Commit(context.Background(), &pb.CommitRequest{Database: testDatabase, Writes: []*pb.Write{{
				Operation: &pb.Write_Update{Update: doc}}}}); err != nil {
				t.Fatal(err)
			}
		}
		q := &pb.StructuredQuery{From: []*pb.StructuredQuery_CollectionSelector{{CollectionId: "a"}}}
		keep := func(row) bool { return true }
		if rapid.Bool().Draw(t, "filtered") {
			n := testInts.Draw(t, "operand")
			ops := map[pb.StructuredQuery_FieldFilter_Operator]func(int64) bool{
				pb.StructuredQuery_FieldFilter_EQUAL:                 func(v int64) bool { return v == n },
				pb.StructuredQuery_FieldFilter_LESS_THAN:             func(v int64) bool { return v < n },
				pb.StructuredQuery_FieldFilter_GREATER_THAN_OR_EQUAL: func(v int64) bool { return v >= n },
			}
			op := rapid.SampledFrom(slices.Sorted(maps.Keys(ops))).Draw(t, "op")
			q.Where = fieldFilter("x", op, n)
			keep = func(r row) bool { v, ok := r.f["x"]; return ok && ops[op](v) }
		}
		desc := rapid.Bool().Draw(t, "down")
		direction := pb.StructuredQuery_ASCENDING
		if desc {
			direction = pb.StructuredQuery_DESCENDING
		}
		q.OrderBy = []*pb.StructuredQuery_Order{{Field: &pb.StructuredQuery_FieldReference{FieldPath: "y"}, Direction: direction}}
		rows = slices.DeleteFunc(rows, func(r row) bool { _, ok := r.f["y"]; return !ok || !keep(r) })
		// With a range on x that the order doesn't name, Firestore orders by x after y, then by id.
		byX := q.Where != nil && q.Where.GetFieldFilter().Op != pb.StructuredQuery_FieldFilter_EQUAL
		slices.SortFunc(rows, func(a, b row) int {
			c := cmp.Compare(a.f["y"], b.f["y"])
			if c == 0 && byX {
				c = cmp.Compare(a.f["x"], b.f["x"])
			}
			if c == 0 {
				c = cmp.Compare(a.id, b.id)
			}
			if desc {
				return -c
			}
			return c
		})
		if rapid.Bool().Draw(t, "cursor") {
			from := testInts.Draw(t, "from")
			after := rapid.Bool().Draw(t, "after")
			q.StartAt = &pb.Cursor{Values: []*pb.Value{document.Int(from)}, Before: !after}
			rows = slices.DeleteFunc(rows, func(r row) bool {
				c := cmp.Compare(r.f["y"], from)
				if desc {
					c = -c
				}
				return c < 0 || c == 0 && after
			})
		}
		offset, limit := rapid.IntRange(0, 3).Draw(t, "offset"), rapid.IntRange(0, 5).Draw(t, "limit")
		q.Offset, q.Limit = int32(offset), wrapperspb.Int32(int32(limit))
		rows = rows[min(offset, len(rows)):]
		rows = rows[:min(limit, len(rows))]
		var want, got []string
		for _, r := range rows {
			want = append(want, testRoot+"/a/"+r.id)
		}
		err := e.RunQuery(context.Background(), &pb.RunQueryRequest{Parent: testRoot,
			QueryType: &pb.RunQueryRequest_StructuredQuery{StructuredQuery: q}}, func(r *pb.RunQueryResponse) error {
			if r.Document != nil {
				got = append(got, r.Document.Name)
			}
			return nil
		})
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%v\ngives %v, %v\nwant  %v", q, got, err, want)
		}
	})
}
