package shards_test

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/shards"
)

// quiet stands between a client and Firestore, and from a moment on keeps to itself what comes over
// the connections that there are then. New ones work.
type quiet struct {
	net.Listener
	mu     sync.Mutex
	conns  []net.Conn
	silent []*atomic.Bool
}

func (q *quiet) serve(to string) {
	for {
		client, err := q.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", to)
		if err != nil {
			client.Close()
			return
		}
		silent := new(atomic.Bool)
		q.mu.Lock()
		q.conns = append(q.conns, client, server)
		q.silent = append(q.silent, silent)
		q.mu.Unlock()
		go func() { _, _ = io.Copy(server, client); server.Close() }()
		go func() { _, _ = io.Copy(muted{client, silent}, server); client.Close() }()
	}
}

// muted drops what is written to it while it is silent: answers are lost, after what was
// asked has been done.
type muted struct {
	io.Writer
	silent *atomic.Bool
}

func (m muted) Write(b []byte) (int, error) {
	if m.silent.Load() {
		return len(b), nil
	}
	return m.Writer.Write(b)
}

// An instance whose connection goes silent, with commits under way that were applied: each
// increment is counted once, and within the time that it has.
func TestSilentConnection(t *testing.T) {
	t.Parallel()
	i := emulator.Start(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	q := &quiet{Listener: l}
	go q.serve(i.Addr)
	t.Cleanup(func() {
		l.Close()
		q.mu.Lock()
		defer q.mu.Unlock()
		for _, conn := range q.conns {
			conn.Close()
		}
	})
	w := &world{Firestore: &virtual.Firestore{Server: i.Server}, fs: i.Client(t, "p")}
	client, err := shards.Open(context.Background(), shards.Config{Place: shards.Place{Project: "p"}, Timeout: 5 * time.Second}, option.WithEndpoint(l.Addr().String()),
		option.WithoutAuthentication(), option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	c := w.counter(t, client, "a", 4)
	if err := c.Add(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	q.mu.Lock()
	for _, silent := range q.silent {
		silent.Store(true)
	}
	q.mu.Unlock()
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if err := c.Add(t.Context(), 1); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	w.wantSum(t, "a", 9)
}
