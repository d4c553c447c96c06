package dev

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/layout"
)

// embedded serves an embedded Firestore and returns its address and a client.
func embedded(t *testing.T) (*emulator.Server, string, *firestore.Client) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := emulator.New(emulator.Options{})
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(l); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		server.Close()
		serving.Wait()
	})
	conn, err := dialEmulator(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	client, err := firestore.NewClient(t.Context(), layout.DefaultProject, option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return server, l.Addr().String(), client
}

func set(t *testing.T, client *firestore.Client, path string, count int) {
	t.Helper()
	if _, err := client.Doc(path).Set(t.Context(), map[string]any{"count": count}); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, client *firestore.Client, path string) {
	t.Helper()
	if _, err := client.Doc(path).Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestListenTellsChanges(t *testing.T) {
	t.Parallel()
	first, addr1, client1 := embedded(t)
	_, addr2, client2 := embedded(t)
	set(t, client1, "counters/c/shards/0", 1)

	var addr atomic.Value
	addr.Store(addr1)
	conn, err := grpc.NewClient("passthrough:///emulator", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", addr.Load().(string))
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var delivered changes
	ctx, cancel := context.WithCancel(t.Context())
	l := &listener{
		client: firestorepb.NewFirestoreClient(conn), database: "projects/" + layout.DefaultProject + "/databases/(default)",
		group: "shards", deliver: delivered.add, logger: testLogger(t),
	}
	ready := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() { l.run(ctx, sync.OnceFunc(func() { close(ready) })) })
	defer running.Wait()
	defer cancel()
	<-ready

	// Each is delivered before the next is written, because several may be delivered as one.
	var want []string
	expect := func(text string) {
		t.Helper()
		want = append(want, text)
		eventually(t, text, func() bool { return len(delivered.texts()) >= len(want) })
		if got := delivered.texts(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("got  %q\nwant %q", got, want)
		}
	}
	set(t, client1, "counters/c", 7) // Of another collection.
	set(t, client1, "counters/c/shards/1", 2)
	expect("counters/c/shards/1 none → 2")
	set(t, client1, "counters/c/shards/0", 3)
	expect("counters/c/shards/0 1 → 3")
	remove(t, client1, "counters/c/shards/0")
	expect("counters/c/shards/0 3 → none")
	set(t, client1, "counters/d/shards/0", 4)
	expect("counters/d/shards/0 none → 4")

	// The server is gone, and another in its place, where one of the shards is different and one is
	// missing: that is what is delivered, each shard as deleted and made again because its
	// create_time is another.
	set(t, client2, "counters/c/shards/1", 5)
	addr.Store(addr2)
	first.Close()
	want = append(want, "counters/c/shards/1 2 → none", "counters/c/shards/1 none → 5")
	expect("counters/d/shards/0 4 → none")
	set(t, client2, "counters/c/shards/1", 6)
	expect("counters/c/shards/1 5 → 6")
}

// The server that FIRESTORE_EMULATOR_HOST names may be of this kind: no triggers, but a Listen.
func TestSystemOnAServerWithoutTriggers(t *testing.T) {
	t.Parallel()
	_, addr, client := embedded(t)
	s := startSystem(t, Config{Environ: []string{"FIRESTORE_EMULATOR_HOST=" + addr}})
	if s.Embedded || s.Firestore != addr || len(s.Notes) != 2 {
		t.Errorf("the system is at %s, with the notes %q", s.Firestore, s.Notes)
	}
	for n := range 20 {
		set(t, client, fmt.Sprintf("counters/c/shards/%d", n%5), n)
	}
	waitForTotal(t, client, "c", 15+16+17+18+19)
	remove(t, client, "counters/c/shards/0")
	waitForTotal(t, client, "c", 16+17+18+19)
	if err := s.SetFaults(Faults{Commits: emulator.Faults{Abort: 0.5}}); err == nil {
		t.Error("faults are set in a server that isn't ours")
	}
}
