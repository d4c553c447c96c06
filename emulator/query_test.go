package emulator_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"cloud.google.com/go/firestore"
	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/iterator"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func TestQueries(t *testing.T) {
	t.Parallel()
	in := start(t)
	c := in.Client(t, "queries")
	ctx := context.Background()
	for id, data := range map[string]fields{
		"a": {"n": 1, "s": "x", "tags": []any{"red", 1}, "m": fields{"k": 1}},
		"b": {"n": 2, "s": "y", "tags": []any{"red", "blue"}, "m": fields{"k": 2}},
		"c": {"n": 2.5, "s": "x", "m": fields{"k": nil}},
		"d": {"n": "2", "s": "y", "tags": "red"},
		"e": {"n": nil, "s": "x"},
		"f": {"n": math.NaN()},
		"g": {"s": "z", "tags": []any{}},
		"h": {"n": 3, "s": "x", "tags": []any{nil, fields{"a": 1}}},
	} {
		if _, err := c.Doc("things/"+id).Set(ctx, data); err != nil {
			t.Fatal(err)
		}
	}
	things := c.Collection("things").Query
	ref := c.Doc
	tests := []struct {
		name string
		q    firestore.Query
		want string
	}{
		{"all, by name", things, "abcdefgh"},
		{"equal", things.Where("s", "==", "x"), "aceh"},
		{"equal across number types", things.Where("n", "==", 2.0), "b"},
		{"equal null", things.Where("n", "==", nil), "e"},
		{"equal NaN", things.Where("n", "==", math.NaN()), "f"},
		{"not equal skips null and the missing", things.Where("n", "!=", 2), "fachd"}, // ordered by n
		{"not null", things.Where("n", "!=", nil), "fabchd"},
		{"greater, of the same type only", things.Where("n", ">", 1), "bch"},
		{"greater or equal", things.Where("n", ">=", 2), "bch"},
		{"less", things.Where("n", "<", 2.5), "ab"},
		{"less or equal", things.Where("n", "<=", 2.5), "abc"},
		{"less, strings", things.Where("n", "<", "3"), "d"},
		{"range", things.Where("n", ">", 1).Where("n", "<", 3), "bc"},
		{"two fields", things.Where("n", ">", 1).Where("s", "<", "y"), "ch"},
		{"in", things.Where("n", "in", []any{2, "2", 7}), "bd"},
		{"not in", things.Where("n", "not-in", []any{2, "2"}), "fach"},
		{"array contains", things.Where("tags", "array-contains", "red"), "ab"},
		{"array contains a map", things.Where("tags", "array-contains", fields{"a": 1}), "h"},
		{"array contains any", things.Where("tags", "array-contains-any", []any{"blue", 1}), "ab"},
		{"nested field", things.Where("m.k", ">=", 1), "ab"},
		{"nested null", things.Where("m.k", "==", nil), "c"},
		{"or", things.WhereEntity(firestore.OrFilter{Filters: []firestore.EntityFilter{
			firestore.PropertyFilter{Path: "s", Operator: "==", Value: "z"},
			firestore.PropertyFilter{Path: "n", Operator: "==", Value: 1}}}), "ag"},
		{"by id", things.Where(firestore.DocumentID, "==", ref("things/c")), "c"},
		{"by ids", things.Where(firestore.DocumentID, "in", []*firestore.DocumentRef{ref("things/c"), ref("things/a"), ref("things/zz")}), "ac"},
		{"after id", things.Where(firestore.DocumentID, ">", ref("things/f")), "gh"},

		{"order", things.OrderBy("n", firestore.Asc), "efabchd"},
		{"order down, ties too", things.OrderBy("s", firestore.Desc), "gdbheca"},
		{"order by two", things.OrderBy("s", firestore.Asc).OrderBy("n", firestore.Desc), "hcaedb"},
		{"order by name down", things.OrderBy(firestore.DocumentID, firestore.Desc), "hgfedcba"},
		{"order by name down, limited", things.OrderBy(firestore.DocumentID, firestore.Desc).Limit(2), "hg"},
		{"limit", things.Limit(3), "abc"},
		{"offset and limit", things.Offset(2).Limit(3), "cde"},
		{"offset beyond the end", things.Offset(20), ""},
		{"limit to last", things.OrderBy("n", firestore.Asc).LimitToLast(2), "hd"},
		{"limit, ordered", things.OrderBy("n", firestore.Asc).Offset(1).Limit(2), "fa"},

		{"start at", things.OrderBy("n", firestore.Asc).StartAt(2), "bchd"},
		{"start after", things.OrderBy("n", firestore.Asc).StartAfter(2), "chd"},
		{"end at", things.OrderBy("n", firestore.Asc).EndAt(2), "efab"},
		{"end before", things.OrderBy("n", firestore.Asc).EndBefore(2), "efa"},
		{"start at, down", things.OrderBy("n", firestore.Desc).StartAt(2), "bafe"},
		{"page by id", things.OrderBy(firestore.DocumentID, firestore.Asc).StartAfter("c").Limit(2), "de"},
		{"page by id, from", things.OrderBy(firestore.DocumentID, firestore.Asc).StartAt("c").Limit(2), "cd"},
		{"page by id, to", things.OrderBy(firestore.DocumentID, firestore.Asc).StartAt("c").EndBefore("f"), "cde"},
		{"page by id, down", things.OrderBy(firestore.DocumentID, firestore.Desc).StartAfter("c"), "ba"},
		{"cursor of two", things.OrderBy("s", firestore.Asc).OrderBy("n", firestore.Asc).StartAfter("x", 1), "chbd"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := strings.Join(ids(t, tt.q), ""); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}

	docs, err := things.Select("m.k", "n").Where("s", "==", "x").Limit(1).Documents(ctx).GetAll()
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(docs[0].Data()); got != "map[m:map[k:1] n:1]" {
		t.Errorf("select gives %v", got)
	}
	docs, err = things.Select().Limit(1).Documents(ctx).GetAll()
	if err != nil || len(docs[0].Data()) != 0 {
		t.Errorf("select of nothing gives %v, %v", docs[0].Data(), err)
	}
}

func TestCollectionGroups(t *testing.T) {
	t.Parallel()
	in := start(t)
	c := in.Client(t, "groups")
	w := newWire(t, in, "groups")
	for _, path := range []string{"shards/z", "a/1/shards/x", "a/1/shards/y", "a/2/shards/x", "a/1/shards/x/shards/deep", "a/1/other/x", "a/10/shards/x"} {
		w.mustCommit(nil, w.set(path, "n", 1, "path", path))
	}
	paths := func(parent string, from *pb.StructuredQuery_CollectionSelector) (out []string) {
		t.Helper()
		s, err := w.RunQuery(context.Background(), &pb.RunQueryRequest{Parent: parent, QueryType: &pb.RunQueryRequest_StructuredQuery{
			StructuredQuery: &pb.StructuredQuery{From: []*pb.StructuredQuery_CollectionSelector{from}}}})
		for err == nil {
			var r *pb.RunQueryResponse
			if r, err = s.Recv(); err == nil && r.Document != nil {
				out = append(out, strings.TrimPrefix(r.Document.Name, w.db+"/documents/"))
			}
		}
		if !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		return out
	}
	root := w.db + "/documents"
	if got := ids(t, c.CollectionGroup("shards").Query); len(got) != 6 {
		t.Errorf("the group has %v", got)
	}
	if got := ids(t, c.Collection("a/1/shards").Query); !slices.Equal(got, []string{"x", "y"}) {
		t.Errorf("the collection has %v", got)
	}
	group := &pb.StructuredQuery_CollectionSelector{CollectionId: "shards", AllDescendants: true}
	if got := fmt.Sprint(paths(root+"/a/1", group)); got != "[a/1/shards/x a/1/shards/x/shards/deep a/1/shards/y]" {
		t.Errorf("the group below a/1 has %v", got)
	}
	all := &pb.StructuredQuery_CollectionSelector{AllDescendants: true} // what Node's recursiveDelete asks for
	if got := paths(root+"/a/1", all); len(got) != 4 {
		t.Errorf("all below a/1: %v", got)
	}
	if got := paths(root, all); len(got) != 7 {
		t.Errorf("all: %v", got)
	}
	if got := paths(root, &pb.StructuredQuery_CollectionSelector{}); fmt.Sprint(got) != "[shards/z]" {
		t.Errorf("all collections at the root: %v", got)
	}
}

func TestAggregations(t *testing.T) {
	t.Parallel()
	in := start(t)
	c := in.Client(t, "sums")
	ctx := context.Background()
	for coll, values := range map[string][]any{
		"ints":    {1, 2, 3},
		"mixed":   {1, 2.5, "3", nil},
		"large":   {math.MaxInt64, 1},
		"balance": {math.MaxInt64, 10, -20},
		"strings": {"1"},
		"nans":    {1, math.NaN()},
	} {
		for i, v := range values {
			if _, err := c.Doc(fmt.Sprintf("%s/%d", coll, i)).Set(ctx, fields{"n": v}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := c.Doc("ints/without").Set(ctx, fields{"other": 1}); err != nil {
		t.Fatal(err)
	}
	for coll, want := range map[string]struct{ sum, avg, count any }{
		"ints":    {6, 2.0, 3}, // a document without the field is in no index of it, so it isn't counted either
		"mixed":   {3.5, 1.75, 4},
		"large":   {float64(math.MaxInt64) + 1, float64(math.MaxInt64) / 2, 2},
		"balance": {math.MaxInt64 - 10, float64(math.MaxInt64-10) / 3, 3},
		"strings": {0, nil, 1},
		"nans":    {math.NaN(), math.NaN(), 2},
		"nothing": {0, nil, 0},
	} {
		r, err := c.Collection(coll).NewAggregationQuery().WithSum("n", "sum").WithAvg("n", "avg").WithCount("count").Get(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for alias, want := range map[string]any{"sum": want.sum, "avg": want.avg, "count": want.count} {
			if got := r[alias].(*pb.Value); !proto.Equal(got, value(want)) {
				t.Errorf("%s of %s is %v, want %v", alias, coll, got, want)
			}
		}
	}
	r, err := c.Collection("ints").NewAggregationQuery().WithCount("n").Get(ctx)
	if err != nil || r["n"].(*pb.Value).GetIntegerValue() != 4 {
		t.Errorf("count gives %v, %v", r, err)
	}
	limited := c.Collection("ints").Where("n", ">", 1).Limit(1)
	r, err = limited.NewAggregationQuery().WithSum("n", "s").Get(ctx)
	if err != nil || r["s"].(*pb.Value).GetIntegerValue() != 2 {
		t.Errorf("the sum of a limited query gives %v, %v", r, err)
	}
}

// Queries that make no sense, and those that aren't covered, say so.
func TestRefusedQueries(t *testing.T) {
	t.Parallel()
	in := start(t)
	w, c := newWire(t, in, "refused"), in.Client(t, "refused")
	q := c.Collection("a").Query
	many := make([]any, 31)
	for i := range many {
		many[i] = i
	}
	for name, q := range map[string]firestore.Query{
		"31 in":                  q.Where("n", "in", many),
		"11 not in":              q.Where("n", "not-in", many[:11]),
		"none in":                q.Where("n", "in", []any{}),
		"two !=":                 q.Where("n", "!=", 1).Where("m", "!=", 1),
		"two array-contains":     q.Where("n", "array-contains", 1).Where("m", "array-contains", 1),
		"too many disjunctions":  q.Where("n", "in", many[:6]).Where("m", "in", many[:6]),
		"not-in with in":         q.Where("n", "not-in", many[:2]).Where("m", "in", many[:2]),
		"reserved collection id": c.Collection("__a__").Query,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := q.Documents(context.Background()).GetAll()
			wantCode(t, err, codes.InvalidArgument)
		})
	}
	from := []*pb.StructuredQuery_CollectionSelector{{CollectionId: "a"}}
	for name, tt := range map[string]struct {
		q    *pb.StructuredQuery
		want codes.Code
	}{
		"two collections":  {&pb.StructuredQuery{From: append(from, from...)}, codes.InvalidArgument},
		"negative limit":   {&pb.StructuredQuery{From: from, Limit: wrapperspb.Int32(-1)}, codes.InvalidArgument},
		"negative offset":  {&pb.StructuredQuery{From: from, Offset: -1}, codes.InvalidArgument},
		"cursor too long":  {&pb.StructuredQuery{From: from, StartAt: &pb.Cursor{Values: []*pb.Value{value(ref(w.name("a/1"))), value(1)}}}, codes.InvalidArgument},
		"cursor of no ref": {&pb.StructuredQuery{From: from, StartAt: &pb.Cursor{Values: []*pb.Value{value(1)}}}, codes.InvalidArgument},
		"vector search":    {&pb.StructuredQuery{From: from, FindNearest: &pb.StructuredQuery_FindNearest{}}, codes.Unimplemented},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := w.RunQuery(context.Background(), &pb.RunQueryRequest{Parent: w.db + "/documents",
				QueryType: &pb.RunQueryRequest_StructuredQuery{StructuredQuery: tt.q}})
			if err == nil {
				_, err = s.Recv()
			}
			wantCode(t, err, tt.want)
		})
	}
}

func TestListDocumentsAndCollections(t *testing.T) {
	t.Parallel()
	in := start(t)
	w, c := newWire(t, in, "lists"), in.Client(t, "lists")
	ctx := context.Background()
	w.mustCommit(nil, w.set("a/1", "n", 1), w.set("a/3", "n", 3), w.set("a/2/kids/x"), w.set("a/3/kids/x"), w.set("b/1/c/2/d/3"), w.set("a/gone/kids/x"))
	w.mustCommit(nil, w.delete("a/gone/kids/x"))

	var refs []string
	for it := c.Collection("a").DocumentRefs(ctx); ; {
		d, err := it.Next()
		if errors.Is(err, iterator.Done) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		refs = append(refs, d.ID)
	}
	if !slices.Equal(refs, []string{"1", "2", "3"}) { // 2 is missing, and has a document below it
		t.Errorf("references: %v", refs)
	}
	for parent, want := range map[*firestore.DocumentRef]string{nil: "[a b]", c.Doc("a/2"): "[kids]", c.Doc("b/1"): "[c]", c.Doc("a/gone"): "[]"} {
		it := c.Collections(ctx)
		if parent != nil {
			it = parent.Collections(ctx)
		}
		colls, err := it.GetAll()
		if err != nil {
			t.Fatal(err)
		}
		got := []string{}
		for _, c := range colls {
			got = append(got, c.ID)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("collections of %v: %v, want %v", parent, got, want)
		}
	}

	for i := range 7 {
		w.mustCommit(nil, w.set(fmt.Sprintf("pages/%d", i)))
	}
	token, pages := "", []int{}
	for {
		resp, err := w.ListDocuments(ctx, &pb.ListDocumentsRequest{Parent: w.db + "/documents", CollectionId: "pages", PageSize: 3, PageToken: token})
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, len(resp.Documents))
		if token = resp.NextPageToken; token == "" {
			break
		}
	}
	if !slices.Equal(pages, []int{3, 3, 1}) {
		t.Errorf("pages of %v", pages)
	}
	for _, token := range []string{"!", "bm9uc2Vuc2U", "AAAA"} {
		_, err := w.ListDocuments(ctx, &pb.ListDocumentsRequest{Parent: w.db + "/documents", CollectionId: "pages", PageToken: token})
		wantCode(t, err, codes.InvalidArgument)
	}
}

// What Firestore would bill.
func TestStats(t *testing.T) {
	t.Parallel()
	in := start(t)
	c := in.Client(t, "bills")
	ctx := context.Background()
	batch := c.BulkWriter(ctx)
	for i := range 25 {
		if _, err := batch.Create(c.Doc(fmt.Sprintf("a/%d", i)), fields{"n": i}); err != nil {
			t.Fatal(err)
		}
	}
	batch.End()
	if s := in.Server.Stats(); s.Writes != 25 || s.Reads != 0 {
		t.Errorf("25 documents made: %+v", s)
	}
	bill := func(name string, reads, writes, deletes int64, f func() error) {
		t.Helper()
		in.Server.ResetStats()
		if err := f(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if s := in.Server.Stats(); s.Reads != reads || s.Writes != writes || s.Deletes != deletes {
			t.Errorf("%s: %d reads, %d writes, %d deletes; want %d, %d, %d", name, s.Reads, s.Writes, s.Deletes, reads, writes, deletes)
		}
	}
	query := func(q firestore.Query) func() error {
		return func() error { _, err := q.Documents(ctx).GetAll(); return err }
	}
	bill("get", 1, 0, 0, func() error { _, err := c.Doc("a/1").Get(ctx); return err })
	bill("get of two, one missing", 2, 0, 0, func() error {
		_, err := c.GetAll(ctx, []*firestore.DocumentRef{c.Doc("a/1"), c.Doc("a/x")})
		return err
	})
	bill("query", 10, 0, 0, query(c.Collection("a").Limit(10)))
	bill("query with an offset", 10, 0, 0, query(c.Collection("a").Offset(5).Limit(5)))
	bill("query of nothing", 1, 0, 0, query(c.Collection("b").Query))
	bill("count", 1, 0, 0, func() error { _, err := c.Collection("a").NewAggregationQuery().WithCount("n").Get(ctx); return err })
	bill("no-op write", 0, 1, 0, func() error { _, err := c.Doc("a/1").Set(ctx, fields{"n": 1}); return err })
	bill("delete", 0, 0, 1, func() error { _, err := c.Doc("a/1").Delete(ctx); return err })
	bill("refused write", 0, 0, 0, func() error {
		if _, err := c.Doc("a/1").Update(ctx, []firestore.Update{{Path: "n", Value: 1}}); err == nil {
			return fmt.Errorf("it was applied")
		}
		return nil
	})
}
