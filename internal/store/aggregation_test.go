package store_test

import (
	"errors"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/official"
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
		l.Fields, l.Counted = fields.Split()
		id := "p1"
		if path.Nested() {
			id = "red/p1"
		}
		if counter, collection, document, ok := l.ParseCounted(l.CollectionOf(id, "comments") + "/c1"); !ok || counter != id || collection != "comments" || document != "c1" {
			t.Errorf("%s: parsed %q, %q, %q, %v", pattern, counter, collection, document, ok)
		}
		for _, name := range []string{"", l.Shard(id, "0"), l.Counter(id), l.CollectionOf(id, "likes") + "/c1", l.CollectionOf(id, "comments"),
			l.CollectionOf(id, "comments") + "/c1/comments/c2", l.CollectionOf(id, "comments") + "/", "/" + l.CollectionOf(id, "comments") + "/c1",
			l.Document("comments/c1"), l.Document("posts/comments/c1"), l.LedgerOf(id)} {
			if counter, collection, document, ok := l.ParseCounted(name); ok {
				t.Errorf("%s: ParseCounted(%q) = %q, %q, %q", pattern, name, counter, collection, document)
			}
		}
		want := []string{pattern + "/shards/{shard}", pattern + "/comments/{document}", pattern + "/ratings/{document}"}
		if diff := cmp.Diff(want, l.Patterns()); diff != "" {
			t.Errorf("%s: patterns (-want +got)\n%s", pattern, diff)
		}
		if got := l.CountedIn("comments"); len(got) != 2 {
			t.Errorf("%s: fields that count comments: %v", pattern, got)
		}
	}
}

// The embedded server evaluates what fields may count as Google's emulator does: filters, nested
// fields, doubles and documents that lack a field.
func TestAggregate(t *testing.T) {
	t.Parallel()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		aggregate(t, emulator.Start(t).Conn(t))
	})
	t.Run("official", func(t *testing.T) {
		t.Parallel()
		google, err := official.Start(t.Context())
		if errors.Is(err, official.ErrMissing) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(google.Stop)
		conn, err := grpc.NewClient("passthrough:///"+google.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		aggregate(t, conn)
	})
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
	for list, want := range map[string]struct {
		value     any // an int64, or a float64
		documents int64
	}{
		"count(docs)":                          {int64(5), 5},
		"count(none)":                          {int64(0), 0},
		"sum(none.n)":                          {int64(0), 0},
		"sum(docs.n)":                          {int64(13), 4},
		"sum(docs.by.n)":                       {int64(3), 2},
		"sum(docs.half)":                       {2.0, 2},
		"sum(docs.whole)":                      {2.0, 1},
		"count(docs where ok==true)":           {int64(2), 2},
		"count(docs where ok==false)":          {int64(0), 0},
		"count(docs where level==3)":           {int64(1), 1},
		"count(docs where by.n==2)":            {int64(1), 1},
		"count(docs where lang==\"de\")":       {int64(3), 3},
		"sum(docs.n where lang=='de')":         {int64(5), 2},
		"sum(docs.n where lang=='nowhere')":    {int64(0), 0},
		"count(docs where lang=='nowhere')":    {int64(0), 0},
		"count(docs where lang == \"d'e,()\")": {int64(0), 0},
	} {
		fields, err := layout.ParseFields("likes,x=" + list)
		if err != nil {
			t.Fatal(err)
		}
		got, err := db.Aggregate(t.Context(), db.CollectionOf("c", fields[1].Counted.Collection), fields[1].Counted, time.Time{})
		var value any = got.Value.GetIntegerValue()
		if _, ok := want.value.(float64); ok {
			value = got.Value.GetDoubleValue()
		}
		if err != nil || value != want.value || got.Documents != want.documents || got.At.IsZero() || got.Reads() != 1 {
			t.Errorf("%s = %+v, %v, want %+v", list, got, err, want)
		}
		then, err := db.Aggregate(t.Context(), db.CollectionOf("c", fields[1].Counted.Collection), fields[1].Counted, got.At)
		if err != nil || !then.At.Equal(got.At) {
			t.Errorf("%s at %v was read at %v, %v", list, got.At, then.At, err)
		}
	}
	if reads := (store.Aggregated{Documents: 1001}).Reads(); reads != 2 {
		t.Errorf("1,001 documents take %d reads", reads)
	}
}
