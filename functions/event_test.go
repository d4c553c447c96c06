package functions

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/firestore-counters/counters/emulator/eventarc"
	"github.com/firestore-counters/counters/rollup"
)

// arrived is a request as a server reads it off the wire.
func arrived(t *testing.T, header http.Header, body []byte) *http.Request {
	t.Helper()
	sent, err := http.NewRequest(http.MethodPost, "http://rollup/", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	sent.Header = header
	var wire bytes.Buffer
	if err := sent.Write(&wire); err != nil {
		t.Fatal(err)
	}
	got, err := http.ReadRequest(bufio.NewReader(&wire))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// encoded is the event of a document that was written, as Eventarc sends it.
func encoded(t *testing.T, path string, size int) (http.Header, []byte) {
	t.Helper()
	doc := &firestorepb.Document{
		Name: "projects/p/databases/(default)/documents/" + path, UpdateTime: timestamppb.New(time.Unix(1, 0)),
		Fields: map[string]*firestorepb.Value{
			"count": {ValueType: &firestorepb.Value_IntegerValue{IntegerValue: 1}},
			"text":  {ValueType: &firestorepb.Value_StringValue{StringValue: strings.Repeat("x", size)}},
		},
	}
	header, body, err := eventarc.Encode("event-1", eventarc.Change{Name: doc.GetName(), New: doc, CommitTime: time.Unix(1, 0)})
	if err != nil {
		t.Fatal(err)
	}
	return header, body
}

// Whatever a document is called, its event names it, with its data and without.
func FuzzReadEvent(f *testing.F) {
	for _, id := range []string{"0", "ends in a space ", "\ttab", "größer 日本", "%41%", `"`, "new\nline", "a,b; c", " ", "\x00"} {
		f.Add(id, 10)
		f.Add(id, 600<<10)
	}
	f.Fuzz(func(t *testing.T, id string, size int) {
		if id == "" || strings.Contains(id, "/") || !utf8.ValidString(id) || len(id) > 1500 || size < 0 || size > 1<<20 {
			return
		}
		path := "posts/p/comments/" + id
		header, body := encoded(t, path, size)
		e, err := readEvent(httptest.NewRecorder(), arrived(t, header, body))
		if err != nil {
			t.Fatalf("%q: %v", id, err)
		}
		if e.path != path || e.id != "event-1" || e.contentType != "application/protobuf" {
			t.Errorf("%q is read as %+v", path, e)
		}
		if change, err := eventarc.Decode(e.data); (err != nil) != (size > 512<<10) || err == nil && !strings.HasSuffix(change.Name, path) {
			t.Errorf("%d bytes of %q are read as %q, %v", size, path, change.Name, err)
		}
	})
}

// delivered delivers a Firestore's events to the function, and returns what waits until all are.
func (f *rollupFunction) delivered(t *testing.T, pattern string, further ...string) (settle func()) {
	t.Helper()
	d, err := eventarc.New(eventarc.Options{Pattern: pattern, Further: further, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	if err := d.SetTargets(f.URL); err != nil {
		t.Fatal(err)
	}
	f.firestore.Server.OnChange(d.Deliver)
	return func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := errors.Join(f.firestore.Server.WaitForChanges(ctx), d.Wait(ctx)); err != nil {
			t.Fatal(err)
		}
	}
}

// Shards whose events come within a Pub/Sub message, because no header can have their ids, count
// like others.
func TestRollupCountsWhatNoHeaderCanHave(t *testing.T) {
	t.Parallel()
	f := startRollup(t, rollup.RollerOptions{Interval: 10 * time.Millisecond}, 10*time.Second)
	settle := f.delivered(t, "counters/{counter}/shards/{shard}")
	f.snippet(t)
	for _, id := range []string{"ends in a space ", " begins with one", "new\nline", "größer", "%41"} {
		if _, err := f.fs.Collection("counters/c/shards").Doc(id).Set(t.Context(), map[string]any{"count": 3}); err != nil {
			t.Fatal(err)
		}
	}
	settle()
	if got := f.total(t); got != int64(15) {
		t.Errorf("the total is %v, want 15\n%s", got, &f.log)
	}
}

// A document that is too large comes without: what is counted of its collection is asked for, and a
// shard is read.
func TestRollupCountsEventsWithoutDocument(t *testing.T) {
	t.Parallel()
	f := startRollupOf(t, rollup.Config{Place: rollup.Place{Counters: "posts/{post}", Fields: "likes,comments=count(comments)", Hosted: true}}, rollup.RollerOptions{Interval: 10 * time.Millisecond}, 10*time.Second)
	settle := f.delivered(t, "posts/{post}/shards/{shard}", "posts/{post}/comments/{document}")
	large := strings.Repeat("x", 600<<10)
	post := f.fs.Doc("posts/p")
	shard, comment := post.Collection("shards").Doc("0 "), post.Collection("comments").Doc("long ")
	if _, err := post.Set(t.Context(), map[string]any{"title": "hi"}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name            string
		do              func() error
		likes, comments int64
	}{
		{"a large comment", func() error { _, err := comment.Set(t.Context(), map[string]any{"text": large}); return err }, 0, 1},
		{"a large shard", func() error { _, err := shard.Set(t.Context(), map[string]any{"likes": 3, "junk": large}); return err }, 3, 1},
		{"it grows", func() error { _, err := shard.Set(t.Context(), map[string]any{"likes": 8, "junk": large}); return err }, 8, 1},
		{"a small comment", func() error {
			_, err := post.Collection("comments").Doc("b").Set(t.Context(), map[string]any{"text": "b"})
			return err
		}, 8, 2},
		{"the large comment is gone", func() error { _, err := comment.Delete(t.Context()); return err }, 8, 1},
		{"the shard is gone", func() error { _, err := shard.Delete(t.Context()); return err }, 0, 1},
		{"and back", func() error { _, err := shard.Set(t.Context(), map[string]any{"likes": 2, "junk": large}); return err }, 2, 1},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		settle()
		snap, err := post.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if likes, comments := snap.Data()["likes"], snap.Data()["comments"]; likes != step.likes || comments != step.comments {
			t.Errorf("%s: %v likes and %v comments, want %d and %d\n%s", step.name, likes, comments, step.likes, step.comments, &f.log)
		}
	}
}

// Bodies and attributes of whatever kind are events, or poison.
func FuzzReadEventOfAnyKind(f *testing.F) {
	f.Add("", "application/json", []byte(`{"message":{"attributes":{"ce-type":"`+eventTypes+`written","ce-id":"1","ce-source":"s","ce-specversion":"1.0"},"data":"eA=="}}`))
	f.Add("", "application/json", []byte(`{"message":{"attributes":{"ce-type":"x","content-type":"\n"},"data":"eA"}}`))
	f.Add("", "application/json", []byte(`{"message":{"attributes":[]}}`))
	f.Add("", "application/cloudevents+json", []byte(`{"specversion":"1.0","id":"1","source":"s","type":"`+eventTypes+`written","document":5,"data_base64":"eA=="}`))
	f.Add("", "application/json", []byte(`{"message":{"attributes":{"ce-type":"x","ce-specversion":"1.0","ce-":"0"}}}`)) // on which the library panics
	f.Add(eventTypes+"written", "", []byte{})
	f.Fuzz(func(t *testing.T, kind, contentType string, body []byte) {
		r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
		for name, value := range map[string]string{"Ce-Type": kind, "Content-Type": contentType} {
			if value != "" {
				r.Header[name] = []string{value}
			}
		}
		if kind != "" {
			r.Header["Ce-Id"], r.Header["Ce-Source"], r.Header["Ce-Specversion"] = []string{"1"}, []string{"s"}, []string{"1.0"}
		}
		if _, err := readEvent(httptest.NewRecorder(), r); err != nil && !errors.Is(err, rollup.ErrPoison) {
			t.Errorf("%q, %q, %q: %v is no poison", kind, contentType, body, err)
		}
	})
}
