package functions

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/settings"
	"github.com/firestore-counters/counters/rollup"
)

// rollupFunction is the function's handler over an embedded Firestore, with its log.
type rollupFunction struct {
	*httptest.Server
	firestore *emulator.Instance
	fs        *firestore.Client
	log       syncBuffer
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}
func (b *syncBuffer) String() string { b.mu.Lock(); defer b.mu.Unlock(); return b.b.String() }

func startRollup(t *testing.T, opts rollup.RollerOptions, timeout time.Duration) *rollupFunction {
	t.Helper()
	return startRollupOf(t, rollup.Config{}, opts, timeout)
}

func startRollupOf(t *testing.T, cfg rollup.Config, opts rollup.RollerOptions, timeout time.Duration) *rollupFunction {
	t.Helper()
	f := &rollupFunction{firestore: emulator.Start(t)}
	f.fs = f.firestore.Client(t, "p")
	log := slog.New(newLogHandler(&f.log, slog.LevelInfo))
	cfg.Project, cfg.Logger = "p", log
	client, err := rollup.Open(t.Context(), cfg, option.WithGRPCConn(f.firestore.Conn(t)))
	if err != nil {
		t.Fatal(err)
	}
	roller := rollup.NewRoller(client, opts)
	f.Server = httptest.NewServer(RollupHandler(client, roller, settings.Settings{RequestTimeout: timeout}, log))
	t.Cleanup(func() {
		f.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = roller.Close(ctx)
	})
	return f
}

// event is what one request of Eventarc carries.
type event struct {
	id, kind, contentType string
	data                  []byte
}

// post delivers an event and returns the status of the answer.
func (f *rollupFunction) post(t *testing.T, e event) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.URL, bytes.NewReader(e.data))
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]string{
		"Ce-Specversion": "1.0", "Ce-Id": e.id, "Ce-Type": e.kind, "Ce-Source": "//firestore.googleapis.com/projects/p/databases/(default)",
		"Ce-Subject": "documents/counters/c/shards/0", "Content-Type": e.contentType,
		"Ce-Datacontenttype": e.contentType, // as the official emulator has it
	} {
		if value != "" {
			req.Header.Set(key, value)
		}
	}
	resp, err := f.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// postPlain delivers a body with nothing about it in headers, and returns the status of the answer.
func (f *rollupFunction) postPlain(t *testing.T, e event) int {
	t.Helper()
	resp, err := http.Post(f.URL, e.contentType, bytes.NewReader(e.data))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

const written = "google.cloud.firestore.document.v1.written"

// shardEvent is an event that tells what a shard holds now.
func shardEvent(t *testing.T, id, name string, count *firestoredata.Value, updated time.Time) event {
	t.Helper()
	doc := &firestoredata.Document{Name: name, UpdateTime: timestamppb.New(updated), Fields: map[string]*firestoredata.Value{}}
	if count != nil {
		doc.Fields["count"] = count
	}
	data, err := proto.Marshal(&firestoredata.DocumentEventData{Value: doc})
	if err != nil {
		t.Fatal(err)
	}
	return event{id, written, "application/protobuf", data}
}

func number(n int64) *firestoredata.Value {
	return &firestoredata.Value{ValueType: &firestoredata.Value_IntegerValue{IntegerValue: n}}
}

const shard0 = "projects/p/databases/(default)/documents/counters/c/shards/0"

// now is Firestore's time, at which nothing else was written.
func (f *rollupFunction) now(t *testing.T) time.Time {
	t.Helper()
	written, err := f.fs.Doc("tests/clock").Set(t.Context(), map[string]any{"at": firestore.ServerTimestamp})
	if err != nil {
		t.Fatal(err)
	}
	return written.UpdateTime
}

// wrote has shard 0 hold a count, and returns the event of that.
func (f *rollupFunction) wrote(t *testing.T, id string, count int64) event {
	t.Helper()
	written, err := f.fs.Doc("counters/c/shards/0").Set(t.Context(), map[string]any{"count": count})
	if err != nil {
		t.Fatal(err)
	}
	return shardEvent(t, id, shard0, number(count), written.UpdateTime)
}

// snippet makes a counter as Google's snippets do, and has it rolled up.
func (f *rollupFunction) snippet(t *testing.T) {
	t.Helper()
	for path, data := range map[string]map[string]any{"counters/c": {"num_shards": 1}, "counters/c/shards/0": {"count": 0}} {
		if _, err := f.fs.Doc(path).Set(t.Context(), data); err != nil {
			t.Fatal(err)
		}
	}
	if code := f.post(t, shardEvent(t, "first", shard0, number(0), f.now(t))); code != http.StatusNoContent {
		t.Fatalf("the first event was answered %d", code)
	}
}

func (f *rollupFunction) total(t *testing.T) any {
	t.Helper()
	snap, err := f.fs.Doc("counters/c").Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return snap.Data()["total"]
}

func TestRollupCounts(t *testing.T) {
	t.Parallel()
	f := startRollup(t, rollup.RollerOptions{Interval: 10 * time.Millisecond}, time.Minute)
	f.snippet(t)
	e := f.wrote(t, "1", 5)
	for range 3 {
		if code := f.post(t, e); code != http.StatusNoContent {
			t.Errorf("answered %d", code)
		}
	}
	if got := f.total(t); got != int64(5) {
		t.Errorf("total = %v, want 5", got)
	}
	if log := f.log.String(); !strings.Contains(log, `"message":"roll-up","counter":"c","events":1,"delta":5,`) || !strings.Contains(log, `"lag_ms":`) {
		t.Errorf("log says %s", log)
	}
}

// An event above the size that is delivered comes without its document: what its path names is
// looked at.
func TestRollupWithoutADocument(t *testing.T) {
	t.Parallel()
	f := startRollup(t, rollup.RollerOptions{Interval: 10 * time.Millisecond}, time.Minute)
	f.snippet(t)
	if _, err := f.fs.Doc("counters/c/shards/0").Set(t.Context(), map[string]any{"count": 7}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if code := f.post(t, event{id: "empty", kind: written, contentType: "application/protobuf"}); code != http.StatusNoContent || f.total(t) != int64(7) {
			t.Errorf("answered %d, total %v; want 7", code, f.total(t))
		}
	}
}

// Of an event that can't be read, the path is enough: what it names is looked at. What has no path is poison.
func TestRollupOfUnreadableEvents(t *testing.T) {
	t.Parallel()
	f := startRollup(t, rollup.RollerOptions{Interval: 10 * time.Millisecond}, time.Minute)
	f.snippet(t)
	written := func(data []byte, contentType string) event { return event{"", written, contentType, data} }
	whole := shardEvent(t, "", shard0, number(99), f.now(t)).data // of which nothing is believed that isn't read
	cloudEvent := func(attributes string) []byte {
		return fmt.Appendf(nil, `{"specversion":"1.0","id":"1","source":"s",%s"datacontenttype":"application/protobuf","data_base64":"/w=="}`, attributes)
	}
	const kind, path = `"type":"google.cloud.firestore.document.v1.written",`, `"document":"counters/c/shards/0",`
	var count int64
	for _, c := range []struct {
		name string
		event
		plain bool // without attributes in headers
	}{
		{"no content type", written(whole, ""), false},
		{"octet-stream", written(whole, "application/octet-stream"), false},
		{"a content type that is none", written(whole, ";;"), false},
		{"JSON said to be a protocol buffer", written([]byte(`{"value":{}}`), "application/protobuf"), false},
		{"a protocol buffer said to be JSON", written(whole, "application/json"), false},
		{"no protocol buffer", written([]byte{0xff}, "application/protobuf"), false},
		{"no document in it", written([]byte("{}"), "application/json"), false},
		{"a document without a time", written(noTime(t), "application/protobuf"), false},
		{"no type of event", event{"", "", "", whole}, false},
		{"too large", written(make([]byte, maxEvent+1), "application/protobuf"), false},
		{"structured, whose data can't be read", event{"", "", "application/cloudevents+json", cloudEvent(kind + path)}, true},
		{"structured, without its content type", event{"", "", "", cloudEvent(kind + path)}, true},
		{"structured, said to be plain JSON", event{"", "", "application/json", cloudEvent(kind + path)}, true},
		{"structured, without its event's type", event{"", "", "application/json", cloudEvent(path)}, true},
		{"structured, with the path as its subject", event{"", "", "application/json", cloudEvent(kind + `"subject":"documents/counters/c/shards/0",`)}, true},
	} {
		count++
		if _, err := f.fs.Doc("counters/c/shards/0").Set(t.Context(), map[string]any{"count": count}); err != nil {
			t.Fatal(err)
		}
		send := f.post
		if c.plain {
			send = f.postPlain
		}
		if code := send(t, c.event); code != http.StatusNoContent || f.total(t) != count {
			t.Errorf("%s: answered %d, total %v; want 204 and %d", c.name, code, f.total(t), count)
		}
	}
	if log := f.log.String(); strings.Contains(log, LogPoison) {
		t.Errorf("one is said to be poison:\n%s", log)
	}
	for _, e := range []event{
		{"", "", "application/json", cloudEvent(kind)},
		{"", "", "application/json", cloudEvent(kind + `"document":"posts/p",`)},
		{"", "", "application/cloudevents+json", make([]byte, maxEvent+1)},
		{"", "", "text/plain", []byte("hello")},
	} {
		before := strings.Count(f.log.String(), LogPoison)
		if code := f.postPlain(t, e); code != http.StatusNoContent || strings.Count(f.log.String(), LogPoison) != before+1 {
			t.Errorf("%.80q: answered %d, want 204 and a word of poison:\n%s", e.data, code, &f.log)
		}
	}
}

func TestRollupPoison(t *testing.T) {
	t.Parallel()
	f := startRollup(t, rollup.RollerOptions{Interval: 10 * time.Millisecond}, time.Minute)
	f.snippet(t)
	good := f.wrote(t, "good", 5)
	valid := func(change func(*event)) event {
		e := good
		change(&e)
		return e
	}
	doc := func(name string) event { return shardEvent(t, "", name, number(5), f.now(t)) }
	tests := map[string]event{
		"another type of event": valid(func(e *event) { e.kind = "google.cloud.storage.object.v1.finalized" }),
		"not a shard":           doc("projects/p/databases/(default)/documents/counters/c"),
		"another collection":    doc("projects/p/databases/(default)/documents/likes/c/shards/0"),
		"another database":      doc("projects/p/databases/other/documents/counters/c/shards/0"),
		"another project":       doc("projects/q/databases/(default)/documents/counters/c/shards/0"),
		"another type, unreadable": valid(func(e *event) {
			e.kind, e.contentType, e.data = "google.cloud.storage.object.v1.finalized", "", []byte{0xff}
		})}
	f.firestore.Server.ResetStats()
	n := 0
	for name, e := range tests {
		n++
		e.id = fmt.Sprintf("poison-%d", n)
		if code := f.post(t, e); code != http.StatusNoContent {
			t.Errorf("%s: answered %d, want an acknowledgement", name, code)
		}
		line := struct{ Severity, Message, EventID, Subject, Error string }{}
		for l := range strings.Lines(f.log.String()) {
			if strings.Contains(l, `"`+e.id+`"`) {
				var fields map[string]any
				if err := json.Unmarshal([]byte(l), &fields); err != nil {
					t.Fatal(err)
				}
				line.Severity, line.Message = fmt.Sprint(fields["severity"]), fmt.Sprint(fields["message"])
				line.Subject, line.Error = fmt.Sprint(fields["subject"]), fmt.Sprint(fields["error"])
			}
		}
		if line.Severity != "ERROR" || line.Message != "poison event" || line.Subject != "documents/counters/c/shards/0" || line.Error == "" {
			t.Errorf("%s: logged %+v", name, line)
		}
	}
	if s := f.firestore.Server.Stats(); s.Commits != 0 {
		t.Errorf("%d commits for poison events", s.Commits)
	}
	if got := f.total(t); got != int64(0) {
		t.Errorf("total = %v, want 0", got)
	}
	if code := f.post(t, good); code != http.StatusNoContent || f.total(t) != int64(5) {
		t.Errorf("a good event after them: %d, total %v", code, f.total(t))
	}
}

func noTime(t *testing.T) []byte {
	t.Helper()
	data, err := proto.Marshal(&firestoredata.DocumentEventData{Value: &firestoredata.Document{Name: shard0}})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// An event whose body is cut off half-way is not one that can never be counted: it has to come
// again.
func TestRollupCutOff(t *testing.T) {
	t.Parallel()
	f := startRollup(t, rollup.RollerOptions{Interval: 10 * time.Millisecond}, time.Minute)
	f.snippet(t)
	e := f.wrote(t, "1", 5)
	conn, err := net.Dial("tcp", f.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nContent-Type: %s\r\nCe-Specversion: 1.0\r\nCe-Id: 1\r\nCe-Type: %s\r\nCe-Source: x\r\n\r\n%s",
		len(e.data), e.contentType, e.kind, e.data[:len(e.data)/2])
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable || strings.Contains(f.log.String(), "poison") {
		t.Errorf("half an event: %d, want 503 and no word of poison", resp.StatusCode)
	}
	if code := f.post(t, e); code != http.StatusNoContent || f.total(t) != int64(5) {
		t.Errorf("again: %d, total %v, want 204 and 5", code, f.total(t))
	}
}

// A fault that passes is answered with an error, so that the event comes again, and counts once
// when it does.
func TestRollupTransient(t *testing.T) {
	t.Parallel()
	for _, code := range []codes.Code{codes.Aborted, codes.Unavailable, codes.ResourceExhausted, codes.Internal, codes.PermissionDenied} {
		t.Run(code.String(), func(t *testing.T) {
			t.Parallel()
			f := startRollup(t, rollup.RollerOptions{Interval: 10 * time.Millisecond, Patience: 50 * time.Millisecond}, time.Minute)
			f.snippet(t)
			e := f.wrote(t, "1", 5)
			f.firestore.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
				return emulator.Verdict{Before: status.Error(code, "injected")}
			})
			if code := f.post(t, e); code != http.StatusServiceUnavailable {
				t.Errorf("answered %d, want 503", code)
			}
			if got := f.total(t); got != int64(0) {
				t.Errorf("total = %v, want 0", got)
			}
			f.firestore.Server.SetInterceptor(nil)
			// A refresh that began before may fail only now: then the event is noted, which is 204 with nothing counted
			// yet.
			again := f.post(t, e)
			for range 100 {
				if again != http.StatusNoContent || f.total(t) == int64(5) {
					break
				}
				again = f.post(t, e)
			}
			if again != http.StatusNoContent || f.total(t) != int64(5) {
				t.Errorf("again: %d, total %v, want 204 and 5", again, f.total(t))
			}
		})
	}
}

// What is one counter's own trouble is answered with success, once it is noted: Pub/Sub would send
// less of all counters otherwise.
func TestRollupOfADamagedBase(t *testing.T) {
	t.Parallel()
	f := startRollup(t, rollup.RollerOptions{Interval: 10 * time.Millisecond}, time.Minute)
	f.snippet(t)
	for path, field := range map[string]string{"counters/c/counter_rollup/base": "base", "counters/c": "title"} { // so that it is read again
		if _, err := f.fs.Doc(path).Update(t.Context(), []firestore.Update{{Path: field, Value: "none"}}); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 3 {
		if code := f.post(t, shardEvent(t, fmt.Sprint(n), shard0, number(5), f.now(t))); code != http.StatusNoContent {
			t.Errorf("answered %d, want 204", code)
		}
	}
	if notes, err := f.fs.CollectionGroup("counter_notes").Documents(t.Context()).GetAll(); err != nil || len(notes) != 1 {
		t.Errorf("%d notes, %v", len(notes), err)
	}
	if n := strings.Count(f.log.String(), `"counter must be reconciled"`); n != 1 || strings.Contains(f.log.String(), "roll-up failed") {
		t.Errorf("it is said %d times:\n%s", n, f.log.String())
	}
}

func TestRollupTakesNoMoreThanItsBound(t *testing.T) {
	t.Parallel()
	f := startRollup(t, rollup.RollerOptions{Interval: 10 * time.Millisecond, MaxPending: 1}, time.Minute)
	f.snippet(t)
	one := shardEvent(t, "1", shard0, number(5), f.now(t))
	other := shardEvent(t, "2", strings.Replace(shard0, "counters/c", "counters/d", 1), number(6), f.now(t))
	held, release := make(chan struct{}), make(chan struct{})
	f.firestore.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
		close(held)
		<-release
		return emulator.Verdict{}
	})
	first := make(chan int)
	go func() { first <- f.post(t, one) }()
	<-held
	if code := f.post(t, other); code != http.StatusServiceUnavailable {
		t.Errorf("one beyond the bound: %d, want 503", code)
	}
	f.firestore.Server.SetInterceptor(nil)
	close(release)
	if code := <-first; code != http.StatusNoContent {
		t.Errorf("the first: %d", code)
	}
}

func TestRollupMethod(t *testing.T) {
	t.Parallel()
	f := startRollup(t, rollup.RollerOptions{}, time.Second)
	resp, err := http.Get(f.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusMethodNotAllowed || resp.Header.Get("Allow") != "POST" {
		t.Errorf("GET: %d, Allow %q", resp.StatusCode, resp.Header.Get("Allow"))
	}
}
