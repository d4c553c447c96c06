package store_test

import (
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/api/option"
	"google.golang.org/grpc"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// What is counted is told apart by the path of a document, and nothing else is taken for it.
func TestParseCounted(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"posts/{post}", "teams/{team}/posts/{post}"} {
		path, err := layout.ParsePath(pattern)
		if err != nil {
			t.Fatal(err)
		}
		fields, err := layout.ParseFields("likes,comments=count(comments),stars=sum(ratings.stars),public=count(comments where public==true)")
		if err != nil {
			t.Fatal(err)
		}
		l := layout.Layout{Database: "projects/p/databases/(default)", Path: path, Shards: "shards"}
		l.Sharded, l.Counted = fields.Split()
		id := "p1"
		if path.Nested() {
			id = "red/p1"
		}
		below := func(collection string) string { return l.Counter(id) + "/" + collection }
		if diff := cmp.Diff([]layout.CountedDocument{{Documents: "comments", Counter: id, Document: "c1"}}, l.ParseCounted(below("comments/c1"))); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", pattern, diff)
		}
		for _, name := range []string{"", l.Shard(id, "0"), l.Counter(id), below("likes/c1"), below("comments"),
			below("comments/c1/comments/c2"), below("comments/"), "/" + below("comments/c1"),
			l.Document("comments/c1"), l.Document("posts/comments/c1"), l.BaseOf(id)} {
			if counted := l.ParseCounted(name); counted != nil {
				t.Errorf("%s: ParseCounted(%q) = %+v", pattern, name, counted)
			}
		}
		want := []string{pattern + "/shards/{shard}", pattern + "/comments/{document}", pattern + "/ratings/{document}"}
		if diff := cmp.Diff(want, l.Patterns()); diff != "" {
			t.Errorf("%s: patterns (-want +got)\n%s", pattern, diff)
		}
		if got := l.FieldsThatCount("comments"); len(got) != 2 {
			t.Errorf("%s: fields that count comments: %v", pattern, got)
		}
	}
}

// The embedded server evaluates what fields may count: filters, nested fields, doubles and documents that lack a field.
func TestAggregate(t *testing.T) {
	t.Parallel()
	aggregate(t, emulator.Start(t).Conn(t))
}

func aggregate(t *testing.T, conn *grpc.ClientConn) {
	client, err := firestore.NewClient(t.Context(), "aggregate", option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), layout.Place{Project: "aggregate"}, option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for id, data := range map[string]map[string]any{
		"a": {"n": 5, "lang": "de", "by": map[string]any{"n": 1}},
		"b": {"n": 7, "lang": "en", "by": map[string]any{"n": 2}, "ok": true},
		"c": {"lang": "de", "ok": true, "level": 3},
		"d": {"n": "seven", "lang": "de", "half": 0.5},
		"e": {"n": 1, "half": 1.5, "whole": 2.0},
	} {
		if _, err := client.Collection("counters/c/docs").Doc(id).Set(t.Context(), data); err != nil {
			t.Fatal(err)
		}
	}
	c := client.Doc("counters/c")
	for path, data := range map[string]map[string]any{
		"notes/id":        {"about": "c", "n": 1, "lang": "de"},
		"notes/path":      {"about": "counters/c", "n": 3, "lang": "en"},
		"notes/reference": {"about": c, "n": 4, "lang": "de"},
		"notes/other":     {"about": "d", "n": 100, "lang": "de"},
		"notes/elsewhere": {"about": client.Doc("pages/c"), "n": 100},
		"notes/none":      {"n": 100},
		"notes/null":      {"about": nil, "n": 100},
		"a/b/notes/deep":  {"about": "c", "n": 1, "lang": "de"},
		"c/c/notes/other": {"about": c.Collection("x").Doc("y"), "n": 100},
	} {
		if _, err := client.Doc(path).Set(t.Context(), data); err != nil {
			t.Fatal(err)
		}
	}
	for list, want := range map[string]struct {
		value     any // an int64, or a float64
		documents int64
	}{
		"count(docs)":                                           {int64(5), 5},
		"count(none)":                                           {int64(0), 0},
		"sum(none.n)":                                           {int64(0), 0},
		"sum(docs.n)":                                           {int64(13), 4},
		"sum(docs.by.n)":                                        {int64(3), 2},
		"sum(docs.half)":                                        {2.0, 2},
		"sum(docs.whole)":                                       {2.0, 1},
		"count(docs where ok==true)":                            {int64(2), 2},
		"count(docs where ok==false)":                           {int64(0), 0},
		"count(docs where level==3)":                            {int64(1), 1},
		"count(docs where by.n==2)":                             {int64(1), 1},
		"count(docs where lang==\"de\")":                        {int64(3), 3},
		"sum(docs.n where lang=='de')":                          {int64(5), 2},
		"sum(docs.n where lang=='nowhere')":                     {int64(0), 0},
		"count(docs where lang=='nowhere')":                     {int64(0), 0},
		"count(docs where lang in ['de','en'])":                 {int64(4), 4},
		"count(docs where lang in ['de','en'] and ok==true)":    {int64(2), 2},
		"count(docs where lang=='de' and ok==true)":             {int64(1), 1},
		"count(docs where n>=5)":                                {int64(2), 2},
		"count(docs where n>1 and n<=5)":                        {int64(1), 1},
		"count(docs where lang>='e')":                           {int64(1), 1},
		"sum(docs.n where n<7)":                                 {int64(6), 2},
		"sum(docs.n where lang in ['de','fr'])":                 {int64(5), 2},
		"avg(docs.n)":                                           {13.0 / 3, 4},
		"avg(docs.n where lang=='de')":                          {5.0, 2},
		"avg(none.n)":                                           {nil, 0},
		"count(/notes where about=={counter})":                  {int64(3), 3},
		"count(**/notes where about=={counter})":                {int64(4), 4},
		"sum(**/notes.n where about=={counter})":                {int64(9), 4},
		"avg(/notes.n where about=={counter} and lang=='de')":   {2.5, 2},
		"count(/notes where about=={counter} and n in [1,2,7])": {int64(1), 1},
		"count(**/notes where about=={counter} and n>1)":        {int64(2), 2},
		"count(docs where lang == \"d'e,()\")":                  {int64(0), 0},
	} {
		fields, err := layout.ParseFields("likes,x=" + list)
		if err != nil {
			t.Fatal(err)
		}
		got, err := db.Aggregate(t.Context(), "c", fields[1].Counted, time.Time{})
		var value any = got.Value.GetIntegerValue()
		switch want.value.(type) {
		case float64:
			value = got.Value.GetDoubleValue()
		case nil:
			if _, null := got.Value.GetValueType().(*firestorepb.Value_NullValue); null {
				value = nil
			}
		}
		if err != nil || value != want.value || got.Documents != want.documents || got.At.IsZero() || got.Reads() != 1 {
			t.Errorf("%s = %+v, %v, want %+v", list, got, err, want)
		}
		then, err := db.Aggregate(t.Context(), "c", fields[1].Counted, got.At)
		if err != nil || !then.At.Equal(got.At) {
			t.Errorf("%s at %v was read at %v, %v", list, got.At, then.At, err)
		}
	}
	if reads := (store.Aggregated{Documents: 1001}).Reads(); reads != 2 {
		t.Errorf("1,001 documents take %d reads", reads)
	}
}
