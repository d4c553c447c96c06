package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	"github.com/firestore-counters/counters/emulator/internal/document"
	"github.com/firestore-counters/counters/emulator/internal/query"
)

// testPaths are names of documents with few ids, so that collections of one id lie below each other's documents, some
// ids begin as others do, and numeric ones come first.
var testPaths = rapid.Custom(func(t *rapid.T) string {
	name := testRoot
	for range rapid.IntRange(1, 3).Draw(t, "depth") {
		name += "/" + rapid.SampledFrom([]string{"a", "b", "a!"}).Draw(t, "collection")
		name += "/" + rapid.SampledFrom([]string{"1", "1!", "2", "a", "é", "__id7__", "__id10__"}).Draw(t, "document")
	}
	return name
})

// filled is an engine with documents, some deleted, some of these forgotten, and times at which it was looked at.
func filled(t *rapid.T) (*Engine, *database, []int64) {
	now := time.Now()
	e := New(Options{Now: func() time.Time { return now }, History: time.Minute})
	db, err := e.database(testDatabase)
	if err != nil {
		t.Fatal(err)
	}
	var times []int64
	for range rapid.IntRange(1, 5).Draw(t, "rounds") {
		for range rapid.IntRange(1, 15).Draw(t, "writes") {
			w := incrementWrite(testPaths.Draw(t, "name"), "n", 1)
			if rapid.IntRange(0, 2).Draw(t, "deletes") == 0 {
				w = &pb.Write{Operation: &pb.Write_Delete{Delete: w.GetUpdate().Name}}
			}
			if _, err := e.Commit(context.Background(), &pb.CommitRequest{Database: testDatabase, Writes: []*pb.Write{w}}); err != nil {
				t.Fatal(err)
			}
		}
		db.resultsAt(&query.Query{Parent: testRoot, AllDescendants: true, Limit: -1, Orders: []query.Order{{Path: document.Path{document.NameField}}}}, db.present())
		times = append(times, db.present())
		now = now.Add(rapid.SampledFrom([]time.Duration{time.Second, 40 * time.Second}).Draw(t, "passes"))
	}
	return e, db, slices.DeleteFunc(times, func(at int64) bool { return db.checkKept(at) != nil })
}

func atName(name string) *pb.Cursor {
	return &pb.Cursor{Values: []*pb.Value{{ValueType: &pb.Value_ReferenceValue{ReferenceValue: name}}}}
}

// Whatever lies where, and whichever part a query in the order of names is of, it finds what going through all
// documents finds, at any time.
func TestWalkAgainstScan(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e, db, times := filled(t)
		defer e.Close()
		for range rapid.IntRange(1, 8).Draw(t, "queries") {
			in := &pb.StructuredQuery{From: []*pb.StructuredQuery_CollectionSelector{{
				CollectionId:   rapid.SampledFrom([]string{"a", "b", "a!", ""}).Draw(t, "group"),
				AllDescendants: rapid.Bool().Draw(t, "descendants")}}}
			parent := testRoot
			if rapid.IntRange(0, 2).Draw(t, "below") == 0 {
				parent = testPaths.Draw(t, "parent")
			}
			key := &pb.StructuredQuery_FieldReference{FieldPath: document.NameField}
			in.OrderBy = []*pb.StructuredQuery_Order{{Field: key, Direction: pb.StructuredQuery_ASCENDING}}
			if rapid.Bool().Draw(t, "down") {
				in.OrderBy[0].Direction = pb.StructuredQuery_DESCENDING
			}
			if rapid.Bool().Draw(t, "starts") {
				in.StartAt = atName(testPaths.Draw(t, "start"))
				in.StartAt.Before = rapid.Bool().Draw(t, "at the start")
			}
			if rapid.IntRange(0, 3).Draw(t, "ends") == 0 {
				in.EndAt = atName(testPaths.Draw(t, "end"))
				in.EndAt.Before = rapid.Bool().Draw(t, "before the end")
			}
			if rapid.IntRange(0, 3).Draw(t, "filters") == 0 {
				var parts []*pb.StructuredQuery_Filter
				for range rapid.IntRange(1, 3).Draw(t, "parts") {
					op := rapid.SampledFrom([]pb.StructuredQuery_FieldFilter_Operator{
						pb.StructuredQuery_FieldFilter_LESS_THAN, pb.StructuredQuery_FieldFilter_LESS_THAN_OR_EQUAL, pb.StructuredQuery_FieldFilter_EQUAL,
						pb.StructuredQuery_FieldFilter_GREATER_THAN, pb.StructuredQuery_FieldFilter_GREATER_THAN_OR_EQUAL, pb.StructuredQuery_FieldFilter_NOT_EQUAL}).Draw(t, "op")
					parts = append(parts, &pb.StructuredQuery_Filter{FilterType: &pb.StructuredQuery_Filter_FieldFilter{FieldFilter: &pb.StructuredQuery_FieldFilter{
						Field: key, Op: op, Value: atName(testPaths.Draw(t, "operand")).Values[0]}}})
				}
				in.Where = &pb.StructuredQuery_Filter{FilterType: &pb.StructuredQuery_Filter_CompositeFilter{CompositeFilter: &pb.StructuredQuery_CompositeFilter{
					Op:      rapid.SampledFrom([]pb.StructuredQuery_CompositeFilter_Operator{pb.StructuredQuery_CompositeFilter_AND, pb.StructuredQuery_CompositeFilter_OR}).Draw(t, "and, or"),
					Filters: parts}}}
			}
			in.Offset = int32(rapid.IntRange(0, 2).Draw(t, "offset"))
			if rapid.Bool().Draw(t, "limited") {
				in.Limit = wrapperspb.Int32(int32(rapid.IntRange(0, 6).Draw(t, "limit")))
			}
			q, err := query.Parse(testDatabase, parent, in)
			if err != nil {
				continue // Firestore has no such query
			}
			at := rapid.SampledFrom(times).Draw(t, "at")
			var want []*pb.Document
			for _, n := range db.Nodes {
				if doc := n.At(at); doc != nil && q.Covers(n.Collection.Parent, n.Collection.ID) && q.Matches(doc) {
					want = append(want, doc)
				}
			}
			slices.SortFunc(want, q.Compare)
			want = want[min(q.Offset, len(want)):]
			if q.Limit >= 0 {
				want = want[:min(q.Limit, len(want))]
			}
			if got, _, _ := db.resultsAt(q, at); !slices.Equal(got, want) {
				t.Fatalf("%v of %s\nfinds %v,\nwant  %v", in, parent, namesIn(got), namesIn(want))
			}
		}
	})
}

func namesIn(docs []*pb.Document) (names []string) {
	for _, doc := range docs {
		names = append(names, strings.TrimPrefix(doc.Name, testRoot))
	}
	return names
}

// Lists of collections' ids, and of documents with those that are missing, have in pages of any size what going through
// all documents finds.
func TestListsAgainstScan(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e, db, _ := filled(t)
		defer e.Close()
		parent := testRoot
		if rapid.Bool().Draw(t, "below") {
			parent = testPaths.Draw(t, "parent")
		}
		collection := rapid.SampledFrom([]string{"a", "b", "a!", ""}).Draw(t, "collection")
		size := int32(rapid.IntRange(1, 4).Draw(t, "size"))
		ids, docs := map[string]bool{}, map[string]bool{}
		for name, n := range db.Nodes {
			rest, ok := strings.CutPrefix(name, parent+"/")
			if !ok || n.Current() == nil {
				continue
			}
			parts := strings.Split(rest, "/")
			ids[parts[0]] = true
			if collection == "" || parts[0] == collection {
				docs[parent+"/"+parts[0]+"/"+parts[1]] = true
			}
		}
		var wantIDs, gotIDs, wantDocs, gotDocs []string
		for id := range ids {
			wantIDs = append(wantIDs, id)
		}
		for name := range docs {
			wantDocs = append(wantDocs, name)
		}
		slices.SortFunc(wantIDs, document.CompareIDs)
		slices.SortFunc(wantDocs, document.CompareNames)
		for i, name := range wantDocs {
			wantDocs[i] = fmt.Sprint(name, " ", db.Nodes[name].Current() != nil)
		}
		for token := ""; ; {
			resp, err := e.ListCollectionIDs(context.Background(), &pb.ListCollectionIdsRequest{Parent: parent, PageSize: size, PageToken: token})
			if err != nil {
				t.Fatal(err)
			}
			gotIDs = append(gotIDs, resp.CollectionIds...)
			if token = resp.NextPageToken; token == "" {
				break
			}
		}
		for token := ""; ; {
			resp, err := e.ListDocuments(context.Background(), &pb.ListDocumentsRequest{Parent: parent, CollectionId: collection, PageSize: size, PageToken: token, ShowMissing: true})
			if err != nil {
				t.Fatal(err)
			}
			for _, doc := range resp.Documents {
				gotDocs = append(gotDocs, fmt.Sprint(doc.Name, " ", doc.CreateTime != nil))
			}
			if token = resp.NextPageToken; token == "" {
				break
			}
		}
		if !slices.Equal(gotIDs, wantIDs) || !slices.Equal(gotDocs, wantDocs) {
			t.Fatalf("below %s, of %q: %v and %v,\nwant %v and %v", parent, collection, gotIDs, gotDocs, wantIDs, wantDocs)
		}
	})
}
