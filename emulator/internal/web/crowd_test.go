package web_test

import (
	"context"
	"encoding/json"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/encoding/protojson"
)

// TestCrowd has 1,000 pages watch one counter while it is incremented. All see the final total;
// when they leave, their memory comes back.
func TestCrowd(t *testing.T) {
	const (
		listeners  = 1000
		increments = 50 // under way while they watch, each a message to every page
	)
	b, i := startServer(t)
	client := i.Client(t, "p")
	load := func(increments int) {
		t.Helper()
		var working errgroup.Group
		working.SetLimit(10)
		for range increments {
			working.Go(func() error {
				_, err := client.Doc("counters/crowd").Set(t.Context(), map[string]any{"total": firestore.Increment(1)}, firestore.MergeAll)
				return err
			})
		}
		if err := working.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	load(100) // so that what the server and the client keep for their own work is there
	before := usage()

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	channels := make([]*channel, listeners)
	var seen atomic.Int64
	var watching errgroup.Group
	for i := range channels {
		c := b.open(listenPath, addTarget(documents(2, "counters/crowd")))
		channels[i] = c
		watching.Go(func() error {
			return c.receive(ctx, func(data json.RawMessage) bool {
				if totalIn(data) != 100+increments {
					return true
				}
				seen.Add(1)
				return false
			})
		})
	}
	load(increments)
	if err := watching.Wait(); err != nil {
		t.Errorf("a listener: %v", err)
	}
	if n := seen.Load(); n != listeners {
		t.Errorf("%d listeners saw the final total, want %d", n, listeners)
	}

	during := usage()
	for _, c := range channels {
		c.terminate()
	}
	clear(channels)
	b.http.CloseIdleConnections()
	after := usage()
	for i := 0; i < 1200 && after.goroutines > during.goroutines/4; i++ {
		time.Sleep(50 * time.Millisecond) // until the connections are closed
		after = usage()
	}
	t.Logf("before %+v, during %+v, after %+v", before, during, after)
	if after.goroutines > during.goroutines/4 { // the client's own connection is kept open
		t.Errorf("%d goroutines are left of %d", after.goroutines, during.goroutines)
	}
	if grown, left := int64(during.heap)-int64(before.heap), int64(after.heap)-int64(before.heap); left > grown/2 {
		t.Errorf("%d of %d bytes are left when all listeners have left", left, grown)
	}
}

// totalIn is the total that a message tells of; 0: none.
func totalIn(data json.RawMessage) int64 {
	var m pb.ListenResponse
	if protojson.Unmarshal(data, &m) != nil {
		return 0
	}
	return m.GetDocumentChange().GetDocument().GetFields()["total"].GetIntegerValue()
}

type used struct {
	heap       uint64
	goroutines int
}

func usage() used {
	runtime.GC()
	runtime.GC() // what the first one's finalizers have let go
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return used{m.HeapAlloc, runtime.NumGoroutine()}
}

// TestListenerThatDoesNotRead changes a document far more often than the server keeps changes for
// one client.
func TestListenerThatDoesNotRead(t *testing.T) {
	t.Parallel()
	b, i := startServer(t)
	client := i.Client(t, "p")
	c := b.open(listenPath, addTarget(documents(2, "a/1")))
	const changes = 3000
	text := strings.Repeat("x", 1000)
	for n := range changes {
		if _, err := client.Doc("a/1").Set(t.Context(), map[string]any{"total": n + 1, "text": text}); err != nil {
			t.Fatal(err)
		}
	}
	kept := 0
	err := c.receive(t.Context(), func(data json.RawMessage) bool {
		total := totalIn(data)
		if total > 0 {
			kept++
		}
		return total != changes
	})
	if err != nil {
		t.Fatal(err)
	}
	if kept > changes/4 {
		t.Errorf("%d of %d changes were kept for a client that didn't read", kept, changes)
	}
	c.terminate()
	for i.Server.Stats().Targets > 0 { // and nobody looks at the document any more
		time.Sleep(time.Millisecond)
	}
}
