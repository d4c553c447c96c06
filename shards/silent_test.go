package shards_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/shards"
)

// wire connects a client and Firestore without a network, in virtual time.
type wire struct {
	accepted chan net.Conn
	closed   context.Context
	close    context.CancelFunc
	mu       sync.Mutex
	silent   []*atomic.Bool // of each connection
}

func newWire() *wire {
	w := &wire{accepted: make(chan net.Conn)}
	w.closed, w.close = context.WithCancel(context.Background())
	return w
}

func (w *wire) Accept() (net.Conn, error) {
	select {
	case conn := <-w.accepted:
		return conn, nil
	case <-w.closed.Done():
		return nil, net.ErrClosed
	}
}

func (w *wire) Close() error   { w.close(); return nil }
func (w *wire) Addr() net.Addr { return &net.IPAddr{} }

func (w *wire) dial(ctx context.Context, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	silent := new(atomic.Bool)
	w.mu.Lock()
	w.silent = append(w.silent, silent)
	w.mu.Unlock()
	select {
	case w.accepted <- server:
		return deaf{client, silent}, nil
	case <-w.closed.Done():
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// silence has the connections that there are keep to themselves what comes over them. New ones work.
func (w *wire) silence() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, silent := range w.silent {
		silent.Store(true)
	}
}

// deaf hears nothing while it is silent: answers are lost, after what was asked has been done.
type deaf struct {
	net.Conn
	silent *atomic.Bool
}

func (d deaf) Read(b []byte) (int, error) {
	for {
		n, err := d.Conn.Read(b)
		if err != nil || !d.silent.Load() {
			return n, err
		}
	}
}

// An instance whose connection goes silent, with commits under way that were applied: each
// increment is counted once, and within the time that it has.
func TestSilentConnection(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w, q := newWorld(t), newWire()
		go func() { _ = w.Serve(q) }()
		t.Cleanup(q.close)
		client, err := shards.Open(context.Background(), shards.Config{Place: shards.Place{Project: "p"}, Timeout: 5 * time.Second},
			option.WithEndpoint("127.0.0.1:1"), option.WithoutAuthentication(),
			option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())), option.WithGRPCDialOption(grpc.WithContextDialer(q.dial)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		c := w.counter(t, client, "a", 4)
		if err := c.Add(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		q.silence()
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
		if len(q.silent) < 2 {
			t.Error("nobody needed another connection")
		}
	})
}
