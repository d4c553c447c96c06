package emulator_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/firestore-counters/counters/emulator"
)

// What the suites of Firestore's clients look at.

// resultsOf are the ids of a query's results, or its error.
func resultsOf(t *testing.T, q firestore.Query) string {
	t.Helper()
	docs, err := q.Documents(t.Context()).GetAll()
	if err != nil {
		return status.Code(err).String() + ": " + status.Convert(err).Message()
	}
	var out []string
	for _, d := range docs {
		out = append(out, d.Ref.ID)
	}
	return strings.Join(out, " ")
}

// Inequalities order results: by their fields in alphabetical order, and by the name last.
func TestOrderOfInequalities(t *testing.T) {
	t.Parallel()
	c := start(t).Client(t, "inequalities")
	coll := c.Collection("q")
	for id, f := range map[string]fields{"a": {"x": 9, "y": 1}, "b": {"x": 5, "y": 2}, "c": {"x": 1, "y": 3}, "d": {"y": 1}} {
		if _, err := coll.Doc(id).Create(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	name := firestore.DocumentID
	const afterKey = "InvalidArgument: order by clause cannot contain more fields after the key"
	const equality = "InvalidArgument: Equality on key is not allowed if there are other inequality fields and key does not appear in inequalities."
	for what, tt := range map[string]struct {
		q    firestore.Query
		want string
	}{
		"name and y":                {coll.Where(name, ">", coll.Doc("a")).Where("y", ">", 0), "d b c"},
		"name, y and x":             {coll.Where(name, ">", coll.Doc("0")).Where("y", ">", 0).Where("x", ">", 0), "c b a"},
		"in a given order":          {coll.Where(name, ">", coll.Doc("0")).Where("y", ">", 0).OrderBy("y", firestore.Desc), "c b d a"},
		"by name only":              {coll.Where("y", ">", 0).OrderBy(name, firestore.Asc), afterKey},
		"anything after the name":   {coll.OrderBy(name, firestore.Asc).OrderBy("x", firestore.Asc), afterKey},
		"one key and an inequality": {coll.Where(name, "==", coll.Doc("a")).Where("y", ">", 0), equality},
		"keys and an inequality":    {coll.Where(name, "in", []any{coll.Doc("a")}).Where("y", "!=", 7), equality},
		"one key and an equality":   {coll.Where(name, "==", coll.Doc("a")).Where("y", "==", 1), "a"},
		"two arrays": {coll.Where("l", "array-contains", 1).Where("l", "array-contains", 2),
			"InvalidArgument: A maximum of 1 'ARRAY_CONTAINS' filter is allowed per disjunction."},
		"a reserved collection": {c.Collection("__x__").Query, `InvalidArgument: Collection id "__x__" is invalid because it is reserved.`},
	} {
		if got := resultsOf(t, tt.q); got != tt.want {
			t.Errorf("%s: %s, want %s", what, got, tt.want)
		}
	}
}

// Doubles are summed exactly, and rounded once.
func TestSumsOfDoubles(t *testing.T) {
	t.Parallel()
	c := start(t).Client(t, "doubles")
	for name, tt := range map[string]struct {
		values   []any
		sum, avg float64
	}{
		"ratings":        {[]any{4.8, 5.9, 6.0, 7.1, 8.2}, 32, 6.4},
		"tenths":         {[]any{0.1, 0.2, 0.3}, 0.6, 0.19999999999999998},
		"far apart":      {[]any{1e300, 1.0, -1e300}, 1, 1.0 / 3},
		"large integers": {[]any{int64(1)<<62 + 1, int64(1) << 62, 0.5, -0.5}, 1 << 63, 1 << 61},
	} {
		coll := c.Collection(strings.ReplaceAll(name, " ", "-"))
		for i, v := range tt.values {
			if _, err := coll.Doc(fmt.Sprint(i)).Create(t.Context(), fields{"v": v}); err != nil {
				t.Fatal(err)
			}
		}
		r, err := coll.NewAggregationQuery().WithSum("v", "s").WithAvg("v", "a").Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if sum, avg := r["s"].(*pb.Value).GetDoubleValue(), r["a"].(*pb.Value).GetDoubleValue(); sum != tt.sum || avg != tt.avg {
			t.Errorf("%s: sum %v, average %v; want %v, %v", name, sum, avg, tt.sum, tt.avg)
		}
	}
}

// The words that suites assert.
func TestWordsOfAggregations(t *testing.T) {
	t.Parallel()
	w := newWire(t, start(t), "words")
	count := func(alias string) *pb.StructuredAggregationQuery_Aggregation {
		return &pb.StructuredAggregationQuery_Aggregation{Alias: alias,
			Operator: &pb.StructuredAggregationQuery_Aggregation_Count_{Count: &pb.StructuredAggregationQuery_Aggregation_Count{}}}
	}
	for want, aggregations := range map[string][]*pb.StructuredAggregationQuery_Aggregation{
		"Aggregations can not be empty.":                  nil,
		"Aggregation aliases contain duplicate alias: c.": {count("c"), count("c")},
	} {
		s, err := w.RunAggregationQuery(t.Context(), &pb.RunAggregationQueryRequest{Parent: w.db + "/documents",
			QueryType: &pb.RunAggregationQueryRequest_StructuredAggregationQuery{StructuredAggregationQuery: &pb.StructuredAggregationQuery{
				QueryType:    &pb.StructuredAggregationQuery_StructuredQuery{StructuredQuery: &pb.StructuredQuery{From: []*pb.StructuredQuery_CollectionSelector{{CollectionId: "a"}}}},
				Aggregations: aggregations,
			}}})
		if err == nil {
			_, err = s.Recv()
		}
		if status.Code(err) != codes.InvalidArgument || status.Convert(err).Message() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// The past can be read for an hour, also where there was nothing yet.
func TestReadTimesBeforeTheStart(t *testing.T) {
	t.Parallel()
	c := start(t).Client(t, "past")
	at := time.Now().Add(-59 * time.Minute).Truncate(time.Microsecond)
	coll := c.Collection("a")
	for range 2 { // before the first write, and after
		docs, err := coll.WithReadOptions(firestore.ReadTime(at)).Documents(t.Context()).GetAll()
		if err != nil || len(docs) != 0 {
			t.Errorf("%d documents, %v", len(docs), err)
		}
		if _, err := coll.Doc("1").Set(t.Context(), fields{"n": 1}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := coll.WithReadOptions(firestore.ReadTime(at.Add(-2 * time.Minute))).Documents(t.Context()).GetAll()
	wantCode(t, err, codes.FailedPrecondition)
}

// Stamps of one document tell its commits apart, however fast they come.
func TestServerTimestampsOfADocumentDiffer(t *testing.T) {
	t.Parallel()
	in := start(t)
	c := in.Client(t, "stamps")
	var stamps []time.Time
	for range 20 {
		doc := c.Doc("a/1")
		wr, err := doc.Set(t.Context(), fields{"at": firestore.ServerTimestamp})
		if err != nil {
			t.Fatal(err)
		}
		snap, err := doc.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		at := snap.Data()["at"].(time.Time)
		if off := wr.UpdateTime.Sub(at); off < 0 || off >= time.Millisecond {
			t.Errorf("a stamp is %v before its commit", off)
		}
		stamps = append(stamps, at)
	}
	if !slices.IsSortedFunc(stamps, func(a, b time.Time) int { return a.Compare(b) }) || len(slices.Compact(stamps)) != 20 {
		t.Errorf("the stamps are %v", stamps)
	}
	// A clock that stands still holds nobody up.
	now := time.Now()
	c = emulator.StartWith(t, emulator.Options{Now: func() time.Time { return now }}).Client(t, "stamps")
	for range 2 {
		if _, err := c.Doc("a/1").Set(t.Context(), fields{"at": firestore.ServerTimestamp}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLaterVersionThanStored(t *testing.T) {
	t.Parallel()
	w := newWire(t, start(t), "versions")
	resp := w.mustCommit(nil, w.set("a/1", "n", 1))
	at := func(off time.Duration) *pb.Write {
		write := w.set("a/1", "n", 2)
		write.CurrentDocument = &pb.Precondition{ConditionType: &pb.Precondition_UpdateTime{UpdateTime: timestamppb.New(resp.CommitTime.AsTime().Add(off))}}
		return write
	}
	_, err := w.commit(nil, at(time.Second))
	wantCode(t, err, codes.InvalidArgument)
	if got, want := status.Convert(err).Message(), "Invalid base version, it is greater than the stored version"; got != want {
		t.Errorf("the error says %q, want %q", got, want)
	}
	_, err = w.commit(nil, at(-time.Second))
	wantCode(t, err, codes.FailedPrecondition)
	w.mustCommit(nil, at(0))
}

// Partitions of a collection group cover it, each document once.
func TestPartitions(t *testing.T) {
	t.Parallel()
	c := start(t).Client(t, "partitions")
	ctx := t.Context()
	bulk := c.BulkWriter(ctx)
	for i := range 100 {
		if _, err := bulk.Create(c.Doc(fmt.Sprintf("p/%d/g/%d", i%7, i)), fields{"n": i}); err != nil {
			t.Fatal(err)
		}
	}
	bulk.End()
	for _, want := range []int{1, 2, 7, 100} {
		parts, err := c.CollectionGroup("g").GetPartitionedQueries(ctx, want)
		if err != nil || len(parts) < want || len(parts) > want+1 { // it asks for as many places to cut at
			t.Errorf("%d partitions, %v; want %d", len(parts), err, want)
		}
		seen := map[string]bool{}
		for _, q := range parts {
			docs, err := q.Documents(ctx).GetAll()
			if err != nil {
				t.Fatal(err)
			}
			if len(docs) > 100/want+1 {
				t.Errorf("one of %d partitions has %d documents", want, len(docs))
			}
			for _, d := range docs {
				seen[d.Ref.Path] = true
			}
		}
		if len(seen) != 100 {
			t.Errorf("%d partitions have %d documents together", want, len(seen))
		}
	}
	w := newWire(t, start(t), "partitions")
	for name, q := range map[string]*pb.StructuredQuery{
		"one collection": {From: []*pb.StructuredQuery_CollectionSelector{{CollectionId: "g"}}},
		"an offset":      {From: []*pb.StructuredQuery_CollectionSelector{{CollectionId: "g", AllDescendants: true}}, Offset: 1},
	} {
		_, err := w.PartitionQuery(ctx, &pb.PartitionQueryRequest{Parent: w.db + "/documents", PartitionCount: 2,
			QueryType: &pb.PartitionQueryRequest_StructuredQuery{StructuredQuery: q}})
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Lists in an order, a page at a time.
func TestListInOrder(t *testing.T) {
	t.Parallel()
	w := newWire(t, start(t), "lists")
	for i, n := range []int{3, 1, 2, 2, 2} {
		w.mustCommit(nil, w.set(fmt.Sprintf("a/%d", i), "n", n))
	}
	var got []string
	req := &pb.ListDocumentsRequest{Parent: w.db + "/documents", CollectionId: "a", OrderBy: "n desc, __name__", PageSize: 2}
	for {
		resp, err := w.ListDocuments(context.Background(), req)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range resp.Documents {
			got = append(got, d.Name[len(w.name("a/")):])
		}
		if req.PageToken = resp.NextPageToken; req.PageToken == "" {
			break
		}
	}
	if want := "0 2 3 4 1"; strings.Join(got, " ") != want {
		t.Errorf("listed %v, want %s", got, want)
	}
	for _, token := range []string{"bm9uc2Vuc2U", "AAAA"} { // of nobody's
		_, err := w.ListDocuments(t.Context(), &pb.ListDocumentsRequest{Parent: req.Parent, CollectionId: "a", PageToken: token})
		wantCode(t, err, codes.InvalidArgument)
	}
}

// A stream that is refused has headers: without, Node's client begins it again for seven seconds.
func TestRefusedStreamsHaveHeaders(t *testing.T) {
	t.Parallel()
	w := newWire(t, start(t), "headers")
	from := []*pb.StructuredQuery_CollectionSelector{{CollectionId: "a"}}
	for name, tt := range map[string]struct {
		req  *pb.RunQueryRequest
		want codes.Code
	}{
		"explain": {&pb.RunQueryRequest{ExplainOptions: &pb.ExplainOptions{}, QueryType: &pb.RunQueryRequest_StructuredQuery{
			StructuredQuery: &pb.StructuredQuery{From: from}}}, codes.Unimplemented},
		"vector search": {&pb.RunQueryRequest{QueryType: &pb.RunQueryRequest_StructuredQuery{
			StructuredQuery: &pb.StructuredQuery{From: from, FindNearest: &pb.StructuredQuery_FindNearest{}}}}, codes.Unimplemented},
		"a bad query": {&pb.RunQueryRequest{QueryType: &pb.RunQueryRequest_StructuredQuery{
			StructuredQuery: &pb.StructuredQuery{From: from, Offset: -1}}}, codes.InvalidArgument},
	} {
		tt.req.Parent = w.db + "/documents"
		s, err := w.RunQuery(t.Context(), tt.req)
		if err != nil {
			t.Fatal(err)
		}
		if header, err := s.Header(); err != nil || len(header) == 0 {
			t.Errorf("%s: headers %v, %v", name, header, err)
		}
		_, err = s.Recv()
		wantCode(t, err, tt.want)
	}
}
