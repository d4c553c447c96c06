package engine

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"go.uber.org/goleak"

	"github.com/firestore-counters/counters/emulator/internal/document"
	"github.com/firestore-counters/counters/emulator/internal/query"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func stringValue(s string) *pb.Value {
	return &pb.Value{ValueType: &pb.Value_StringValue{StringValue: s}}
}

// Whatever bytes come for a resume token, a transaction or a page token are read without harm, and
// those that are accepted are what the server would have made.
func FuzzTokens(f *testing.F) {
	f.Add(encodeToken(1_700_000_000_000_000))
	f.Add(encodeTransaction(transactionTag, 12345, 6))
	f.Add([]byte(encodePage(testRoot + "/a/1")))
	f.Add([]byte{})
	f.Add([]byte{10, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1})
	f.Add([]byte{10, 2, 8, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		if at, ok := decodeToken(b); ok {
			if again, ok := decodeToken(encodeToken(at)); !ok || again != at {
				t.Errorf("%x is time %d, which reads back as %d", b, at, again)
			}
		}
		if id, age, err := decodeTransaction(b); err == nil && !slices.Equal(encodeTransaction(b[0], id, age), b) {
			t.Errorf("%x reads as transaction %d, %d", b, id, age)
		}
		e := New(Options{})
		defer e.Close()
		_, _ = e.ListDocuments(context.Background(), &pb.ListDocumentsRequest{Parent: testRoot, CollectionId: "a", PageToken: string(b)})
		if _, err := e.Commit(context.Background(), &pb.CommitRequest{Database: testDatabase, Transaction: b}); err == nil && len(b) > 0 {
			t.Errorf("%x is taken for an open transaction", b)
		}
		w, err := e.Watch(testDatabase)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		if err := w.AddTarget(&pb.Target{TargetId: 2, ResumeType: &pb.Target_ResumeToken{ResumeToken: b},
			TargetType: &pb.Target_Documents{Documents: &pb.Target_DocumentsTarget{Documents: []string{testRoot + "/a/1"}}}}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Next(context.Background()); err != nil {
			t.Fatal(err)
		}
	})
}

// The leaky bucket, with a clock of its own: five at once, then one an interval, a second of queue
// at most.
func TestHotDocumentSlots(t *testing.T) {
	t.Parallel()
	var h hotDocuments
	now := time.Unix(1000, 0)
	one, both := []operation{{name: "a"}}, []operation{{name: "a"}, {name: "b"}, {name: "b"}}
	reserve := func(ops []operation, want time.Duration, wantOK bool) {
		t.Helper()
		if delay, ok := h.reserve(now, 2, 0, ops); delay != want || ok != wantOK {
			t.Errorf("delay is %v, %v; want %v, %v", delay, ok, want, wantOK)
		}
	}
	for range hotBurst {
		reserve(one, 0, true)
	}
	reserve(one, 500*time.Millisecond, true)
	reserve(both, time.Second, true) // as long as the slowest of its documents
	reserve(one, 0, false)
	reserve(one, 0, false)                                        // and what is refused takes no slot:
	now = now.Add(500 * time.Millisecond)                         //
	reserve(one, time.Second, true)                               // the next one is where the refused would have been
	reserve([]operation{{name: "b"}}, 500*time.Millisecond, true) // b is quiet, but behind the one that waits for both
	now = now.Add(10 * time.Second)
	for range hotBurst {
		reserve(one, 0, true)
	}
	reserve(one, 500*time.Millisecond, true)

	for i := range 5000 {
		h.reserve(now, 2, 0, []operation{{name: fmt.Sprint(i)}})
		now = now.Add(time.Second)
	}
	if len(h.docs) > 1500 {
		t.Errorf("%d buckets are kept though nearly all have drained", len(h.docs))
	}
}

// Deleted documents leave nothing behind once their past is too old to read.
func TestHistoryForgetsDeletedDocuments(t *testing.T) {
	t.Parallel()
	now := time.Now()
	e := New(Options{Now: func() time.Time { return now }, History: time.Minute})
	defer e.Close()
	write := func(w *pb.Write) {
		t.Helper()
		if _, err := e.Commit(context.Background(), &pb.CommitRequest{Database: testDatabase, Writes: []*pb.Write{w}}); err != nil {
			t.Fatal(err)
		}
	}
	const documents = 200
	for i := range documents {
		name := fmt.Sprintf("%s/a/%d/b/%d", testRoot, i%7, i)
		write(incrementWrite(name, "n", 1))
		if i%2 == 0 {
			write(&pb.Write{Operation: &pb.Write_Delete{Delete: name}})
		}
		now = now.Add(time.Second)
	}
	db, err := e.database(testDatabase)
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Hour)
	write(incrementWrite(testRoot+"/a/last", "n", 1))
	if got, want := len(db.Nodes), documents/2+1; got != want {
		t.Errorf("%d names are kept, want %d", got, want)
	}
	db.resultsAt(&query.Query{Parent: testRoot, Collection: "b", AllDescendants: true, Orders: []query.Order{{Path: document.Path{document.NameField}}}}, db.present())
	if n := listed(db, "b"); n != documents/2 {
		t.Errorf("%d names are listed, want %d", n, documents/2)
	}
	for i := range documents {
		write(&pb.Write{Operation: &pb.Write_Delete{Delete: fmt.Sprintf("%s/a/%d/b/%d", testRoot, i%7, i)}})
	}
	now = now.Add(time.Hour)
	write(incrementWrite(testRoot+"/a/last", "n", 1))
	if past, _ := db.Past(); len(db.Nodes) != 1 || len(db.Collections) != 1 || listed(db, "") != 1 || past != 1 {
		t.Errorf("%d names, %d collections, %d listed, %d old versions are left", len(db.Nodes), len(db.Collections), listed(db, ""), past)
	}
}

// listed is how many names the collections with an id list, or all with "", that were not dropped.
func listed(db *database, group string) (n int) {
	for _, part := range db.Group(group).Parts() {
		for _, c := range part {
			for _, nodes := range c.Nodes().Parts() {
				for _, node := range nodes {
					if !node.Gone {
						n++
					}
				}
			}
		}
	}
	return n
}

// The past is bounded in size as well as in number.
func TestHistoryBytes(t *testing.T) {
	t.Parallel()
	e := New(Options{HistoryBytes: 100_000})
	defer e.Close()
	for i := range 50 {
		text := stringValue(fmt.Sprintf("%d%10000d", i, 0))
		if _, err := e.Commit(context.Background(), &pb.CommitRequest{Database: testDatabase, Writes: []*pb.Write{{
			Operation: &pb.Write_Update{Update: &pb.Document{Name: testRoot + "/a/1", Fields: map[string]*pb.Value{"text": text}}}}}}); err != nil {
			t.Fatal(err)
		}
	}
	db, err := e.database(testDatabase)
	if err != nil {
		t.Fatal(err)
	}
	if n, bytes := db.Past(); n != 9 || bytes > 100_000 {
		t.Errorf("%d versions of %d bytes are kept", n, bytes)
	}
}

// A slow function of OnCommit holds commits back rather than let the queue grow, and loses none.
func TestFeedBackPressure(t *testing.T) {
	t.Parallel()
	e := New(Options{})
	seen := 0
	proceed := make(chan struct{})
	e.OnCommit(func([]Change) {
		<-proceed
		seen++
	})
	const commits = maxQueuedChanges + 500
	done := make(chan error)
	go func() {
		for range commits {
			if _, err := e.Commit(context.Background(), &pb.CommitRequest{Database: testDatabase,
				Writes: []*pb.Write{incrementWrite(testRoot+"/a/1", "n", 1)}}); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for e.feed.queued.Load() <= maxQueuedChanges {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(20 * time.Millisecond)
	if n := e.feed.queued.Load(); n != maxQueuedChanges+1 {
		t.Fatalf("commits went on: %d changes wait", n)
	}
	close(proceed)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for e.feed.queued.Load() > 0 {
		time.Sleep(time.Millisecond)
	}
	e.Close()
	if seen != commits {
		t.Errorf("%d changes of %d commits", seen, commits)
	}
}
