package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/emulator/internal/document"
)

const benchDatabase = "projects/bench/databases/(default)"

// incrementRequest is what the official client sends for Update(count: Increment(1)) on a document.
func incrementRequest(name string) *pb.CommitRequest {
	return &pb.CommitRequest{Database: benchDatabase, Writes: []*pb.Write{{
		Operation:       &pb.Write_Update{Update: &pb.Document{Name: benchDatabase + "/documents/" + name}},
		UpdateMask:      &pb.DocumentMask{},
		CurrentDocument: &pb.Precondition{ConditionType: &pb.Precondition_Exists{Exists: true}},
		UpdateTransforms: []*pb.DocumentTransform_FieldTransform{{
			FieldPath:     "count",
			TransformType: &pb.DocumentTransform_FieldTransform_Increment{Increment: document.Int(1)},
		}},
	}}}
}

func setRequest(name string, fields map[string]*pb.Value) *pb.CommitRequest {
	return &pb.CommitRequest{Database: benchDatabase, Writes: []*pb.Write{{
		Operation: &pb.Write_Update{Update: &pb.Document{Name: benchDatabase + "/documents/" + name, Fields: fields}},
	}}}
}

func benchEngine(b *testing.B) *Engine {
	e := New(Options{})
	b.Cleanup(e.Close)
	for i := range 100 {
		if _, err := e.Commit(context.Background(), setRequest(fmt.Sprintf("counters/c/shards/%d", i), map[string]*pb.Value{"count": document.Int(0)})); err != nil {
			b.Fatal(err)
		}
	}
	return e
}

// BenchmarkCommitIncrement is one increment of one of a hundred shards a commit, from as many
// goroutines as there are processors.
func BenchmarkCommitIncrement(b *testing.B) {
	e := benchEngine(b)
	var n atomic.Int64
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if _, err := e.Commit(context.Background(), incrementRequest(fmt.Sprintf("counters/c/shards/%d", n.Add(1)%100))); err != nil {
				b.Error(err)
			}
		}
	})
}

// BenchmarkCommitCreate is one new document a commit, as markers of requests are.
func BenchmarkCommitCreate(b *testing.B) {
	e := benchEngine(b)
	var n atomic.Int64
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if _, err := e.Commit(context.Background(), setRequest(fmt.Sprintf("counter_requests/%d", n.Add(1)), map[string]*pb.Value{"by": document.Int(1)})); err != nil {
				b.Error(err)
			}
		}
	})
}

// BenchmarkCommitMap updates one entry in a map of 600.
func BenchmarkCommitMap(b *testing.B) {
	e := benchEngine(b)
	shards := make(map[string]*pb.Value)
	for i := range 600 {
		shards[fmt.Sprint(i)] = &pb.Value{ValueType: &pb.Value_MapValue{MapValue: &pb.MapValue{
			Fields: map[string]*pb.Value{"count": document.Int(int64(i)), "as_of": document.Int(int64(i))},
		}}}
	}
	base := map[string]*pb.Value{"shards": {ValueType: &pb.Value_MapValue{MapValue: &pb.MapValue{Fields: shards}}}}
	if _, err := e.Commit(context.Background(), setRequest("counters/c/counter_rollup/base", base)); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		entry := &pb.Value{ValueType: &pb.Value_MapValue{MapValue: &pb.MapValue{
			Fields: map[string]*pb.Value{"count": document.Int(int64(i)), "as_of": document.Int(int64(1000 + i))},
		}}}
		id := fmt.Sprint(i % 600)
		req := setRequest("counters/c/counter_rollup/base", map[string]*pb.Value{"shards": {ValueType: &pb.Value_MapValue{
			MapValue: &pb.MapValue{Fields: map[string]*pb.Value{id: entry}}}}})
		req.Writes[0].UpdateMask = &pb.DocumentMask{FieldPaths: []string{"shards.`" + id + "`"}}
		if _, err := e.Commit(context.Background(), req); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSum is a sum over the hundred shards of a counter.
func BenchmarkSum(b *testing.B) {
	e := benchEngine(b)
	req := &pb.RunAggregationQueryRequest{Parent: benchDatabase + "/documents/counters/c",
		QueryType: &pb.RunAggregationQueryRequest_StructuredAggregationQuery{StructuredAggregationQuery: &pb.StructuredAggregationQuery{
			QueryType: &pb.StructuredAggregationQuery_StructuredQuery{StructuredQuery: &pb.StructuredQuery{
				From: []*pb.StructuredQuery_CollectionSelector{{CollectionId: "shards"}}}},
			Aggregations: []*pb.StructuredAggregationQuery_Aggregation{{Operator: &pb.StructuredAggregationQuery_Aggregation_Sum_{
				Sum: &pb.StructuredAggregationQuery_Aggregation_Sum{Field: &pb.StructuredQuery_FieldReference{FieldPath: "count"}}}}},
		}}}
	b.ReportAllocs()
	for b.Loop() {
		if err := e.RunAggregation(context.Background(), req, func(*pb.RunAggregationQueryResponse) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}
