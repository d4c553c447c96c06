package engine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"
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
	w := &pb.Write{Operation: &pb.Write_Update{Update: &pb.Document{Name: name, Fields: map[string]*pb.Value{field: intValue(n)}}}}
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
			TransformType: &pb.DocumentTransform_FieldTransform_Increment{Increment: intValue(n)}}},
	}
}

// Any sequence of commits leaves what it leaves of a plain map, at every moment of the past, too; and a listener that
// looks now and then ends up with the same.
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
	return maps.EqualFunc(a, b, func(x, y map[string]int64) bool { return maps.Equal(x, y) })
}

// mirror is a client that keeps what it is told of some targets, as clients do.
type mirror struct {
	watch *Watch
	docs  map[int32]world
}

// The targets of a mirror, and what of a world each should have.
var mirrored = map[int32]struct {
	target *pb.Target
	want   func(world) world
}{
	1: {&pb.Target{TargetType: &pb.Target_Documents{Documents: &pb.Target_DocumentsTarget{Documents: []string{testRoot + "/a/1", testRoot + "/b/1/a/1"}}}},
		func(w world) world {
			return where(w, func(name string, _ map[string]int64) bool {
				return name == testRoot+"/a/1" || name == testRoot+"/b/1/a/1"
			})
		}},
	2: {queryTarget(&pb.StructuredQuery{From: []*pb.StructuredQuery_CollectionSelector{{CollectionId: "a", AllDescendants: true}},
		Where: fieldFilter("x", pb.StructuredQuery_FieldFilter_GREATER_THAN, 0)}),
		func(w world) world {
			return where(w, func(name string, f map[string]int64) bool { return name != testRoot+"/b/1" && f["x"] > 0 })
		}},
	3: {queryTarget(&pb.StructuredQuery{From: []*pb.StructuredQuery_CollectionSelector{{CollectionId: "a"}}, Limit: wrapperspb.Int32(1),
		OrderBy: []*pb.StructuredQuery_Order{{Field: &pb.StructuredQuery_FieldReference{FieldPath: "y"}, Direction: pb.StructuredQuery_DESCENDING}}}),
		func(w world) world {
			in := where(w, func(name string, f map[string]int64) bool {
				_, ok := f["y"]
				return ok && len(name) == len(testRoot)+len("/a/1") && name != testRoot+"/b/1"
			})
			best := slices.MaxFunc(append(slices.Collect(maps.Keys(in)), ""), func(a, b string) int {
				if a == "" || b == "" {
					return cmp.Compare(a, b)
				}
				return cmp.Or(cmp.Compare(in[a]["y"], in[b]["y"]), cmp.Compare(a, b))
			})
			return where(in, func(name string, _ map[string]int64) bool { return name == best })
		}},
}

func where(w world, keep func(string, map[string]int64) bool) world {
	out := world{}
	for name, fields := range w {
		if keep(name, fields) {
			out[name] = fields
		}
	}
	return out
}

func queryTarget(q *pb.StructuredQuery) *pb.Target {
	return &pb.Target{TargetType: &pb.Target_Query{Query: &pb.Target_QueryTarget{Parent: testRoot,
		QueryType: &pb.Target_QueryTarget_StructuredQuery{StructuredQuery: q}}}}
}

func fieldFilter(field string, op pb.StructuredQuery_FieldFilter_Operator, n int64) *pb.StructuredQuery_Filter {
	return &pb.StructuredQuery_Filter{FilterType: &pb.StructuredQuery_Filter_FieldFilter{FieldFilter: &pb.StructuredQuery_FieldFilter{
		Field: &pb.StructuredQuery_FieldReference{FieldPath: field}, Op: op, Value: intValue(n)}}}
}

func newMirror(t *rapid.T, e *Engine) *mirror {
	w, err := e.Watch(testDatabase)
	if err != nil {
		t.Fatal(err)
	}
	m := &mirror{watch: w, docs: map[int32]world{}}
	for id, target := range mirrored {
		target.target.TargetId = id
		m.docs[id] = world{}
		if err := w.AddTarget(target.target); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// look takes in what there is to hear.
func (m *mirror) look(t *rapid.T) {
	out, err := m.watch.respond(m.watch.take())
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range out {
		switch r := r.ResponseType.(type) {
		case *pb.ListenResponse_DocumentChange:
			for _, id := range r.DocumentChange.TargetIds {
				m.docs[id][r.DocumentChange.Document.Name] = numbers(r.DocumentChange.Document)
			}
			for _, id := range r.DocumentChange.RemovedTargetIds {
				delete(m.docs[id], r.DocumentChange.Document.Name)
			}
		case *pb.ListenResponse_DocumentDelete:
			for _, id := range r.DocumentDelete.RemovedTargetIds {
				delete(m.docs[id], r.DocumentDelete.Document)
			}
		case *pb.ListenResponse_TargetChange:
			snapshot := r.TargetChange.TargetChangeType == pb.TargetChange_NO_CHANGE
			if snapshot != (i == len(out)-1) {
				t.Fatalf("message %d of %d is %v", i+1, len(out), r)
			}
		}
	}
}

func (m *mirror) check(t *rapid.T, now world) {
	for id, target := range mirrored {
		if got, want := m.docs[id], target.want(now); !equalWorlds(got, want) {
			t.Fatalf("target %d has %v, want %v", id, got, want)
		}
	}
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
					doc.Fields[name] = intValue(r.f[name])
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
			q.StartAt = &pb.Cursor{Values: []*pb.Value{intValue(from)}, Before: !after}
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

// Locks and history leave nothing behind: after any interleaving of transactions and commits that all end, no lock is
// held and no transaction open.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := New(Options{HistoryVersions: 5})
		defer e.Close()
		var open [][]byte
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // nothing here may wait: what would, fails at once
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			name := testNames.Draw(t, "name")
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				r, err := e.Begin(&pb.BeginTransactionRequest{Database: testDatabase})
				if err != nil {
					t.Fatal(err)
				}
				open = append(open, r.Transaction)
			case 1, 2:
				if len(open) == 0 {
					continue
				}
				tx := rapid.SampledFrom(open).Draw(t, "tx")
				err := e.BatchGet(ctx, &pb.BatchGetDocumentsRequest{Database: testDatabase, Documents: []string{name},
					ConsistencySelector: &pb.BatchGetDocumentsRequest_Transaction{Transaction: tx}},
					func(*pb.BatchGetDocumentsResponse) error { return nil })
				wantOneOf(t, err, codes.OK, codes.Canceled, codes.Aborted)
			case 3:
				_, err := e.Commit(ctx, &pb.CommitRequest{Database: testDatabase, Writes: []*pb.Write{incrementWrite(name, "x", 1)}})
				wantOneOf(t, err, codes.OK, codes.Canceled)
			case 4:
				if len(open) == 0 {
					continue
				}
				tx := open[0]
				open = open[1:]
				_, err := e.Commit(ctx, &pb.CommitRequest{Database: testDatabase, Transaction: tx,
					Writes: []*pb.Write{incrementWrite(name, "x", 1), {Operation: &pb.Write_Delete{Delete: testNames.Draw(t, "deleted")}}}})
				wantOneOf(t, err, codes.OK, codes.Canceled, codes.Aborted)
			}
		}
		for _, tx := range open {
			if err := e.Rollback(&pb.RollbackRequest{Database: testDatabase, Transaction: tx}); err != nil {
				t.Fatal(err)
			}
		}
		db, err := e.database(testDatabase)
		if err != nil {
			t.Fatal(err)
		}
		if len(db.locks.locks) != 0 || len(db.transactions.open) != 0 {
			t.Fatalf("%d locks and %d transactions are left", len(db.locks.locks), len(db.transactions.open))
		}
		for name, n := range db.nodes {
			if n.name != name || n.gone || n.coll != db.collections[n.coll.name] || db.groups[n.coll.id][n.coll.name] != n.coll {
				t.Fatalf("%s is not where it should be", name)
			}
		}
	})
}

func wantOneOf(t *rapid.T, err error, want ...codes.Code) {
	if !slices.Contains(want, status.Code(err)) {
		t.Fatalf("got %v, want one of %v", err, want)
	}
}
