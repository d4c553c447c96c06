package engine

import (
	"testing"
	"testing/synctest"
	"time"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/emulator/internal/document"
)

// A query scans over the entries of its index that were replaced within an hour, from its lower bound on.
func TestQueriesScanOverDeadEntries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := New(Options{})
		defer e.Close()
		e.SetQueryLatency(20 * time.Millisecond)
		e.SetIndexTombstones(10 * time.Second) // a millisecond each
		for n := range 101 {                   // 100 of them are dead: 0 to 99
			fields := map[string]*pb.Value{"count": document.Int(int64(n)), "other": document.Int(7), "text": stringValue("a")}
			if _, err := e.Commit(t.Context(), setRequest("counters/c/shards/0", fields)); err != nil {
				t.Fatal(err)
			}
		}
		aggregation := func(q *pb.StructuredQuery, sums string) *pb.RunAggregationQueryRequest {
			q.From = []*pb.StructuredQuery_CollectionSelector{{CollectionId: "shards"}}
			a := &pb.StructuredAggregationQuery_Aggregation{Operator: &pb.StructuredAggregationQuery_Aggregation_Count_{Count: &pb.StructuredAggregationQuery_Aggregation_Count{}}}
			if sums != "" {
				a.Operator = &pb.StructuredAggregationQuery_Aggregation_Sum_{Sum: &pb.StructuredAggregationQuery_Aggregation_Sum{Field: &pb.StructuredQuery_FieldReference{FieldPath: sums}}}
			}
			return &pb.RunAggregationQueryRequest{Parent: benchDatabase + "/documents/counters/c", QueryType: &pb.RunAggregationQueryRequest_StructuredAggregationQuery{
				StructuredAggregationQuery: &pb.StructuredAggregationQuery{QueryType: &pb.StructuredAggregationQuery_StructuredQuery{StructuredQuery: q}, Aggregations: []*pb.StructuredAggregationQuery_Aggregation{a}}}}
		}
		atLeast := func(n int64) *pb.StructuredQuery {
			return &pb.StructuredQuery{Where: &pb.StructuredQuery_Filter{FilterType: &pb.StructuredQuery_Filter_FieldFilter{FieldFilter: &pb.StructuredQuery_FieldFilter{
				Field: &pb.StructuredQuery_FieldReference{FieldPath: "count"}, Op: pb.StructuredQuery_FieldFilter_GREATER_THAN_OR_EQUAL, Value: document.Int(n)}}}}
		}
		takes := func(what string, req *pb.RunAggregationQueryRequest, want time.Duration) {
			t.Helper()
			began := time.Now()
			if err := e.RunAggregation(t.Context(), req, func(*pb.RunAggregationQueryResponse) error { return nil }); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took != want {
				t.Errorf("%s takes %v, want %v", what, took, want)
			}
		}
		takes("a sum", aggregation(&pb.StructuredQuery{}, "count"), 120*time.Millisecond)
		takes("a bounded sum", aggregation(atLeast(90), "count"), 30*time.Millisecond)
		takes("a bounded count", aggregation(atLeast(60), ""), 60*time.Millisecond)
		takes("a sum of what stays", aggregation(&pb.StructuredQuery{}, "other"), 20*time.Millisecond)
		takes("a count", aggregation(&pb.StructuredQuery{}, ""), 20*time.Millisecond)
		time.Sleep(entryKept)
		takes("a sum an hour later", aggregation(&pb.StructuredQuery{}, "count"), 20*time.Millisecond)
	})
}
