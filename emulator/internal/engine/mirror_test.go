package engine

import (
	"cmp"
	"maps"
	"slices"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	"github.com/firestore-counters/counters/emulator/internal/document"
)

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
		Field: &pb.StructuredQuery_FieldReference{FieldPath: field}, Op: op, Value: document.Int(n)}}}
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
