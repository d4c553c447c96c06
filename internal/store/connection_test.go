package store_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// proxy is what stands between a client and Firestore. Connections that it silences stay open, and
// take what is sent, and nothing comes of it: neither the kernel nor gRPC sees anything wrong.
type proxy struct {
	net.Listener
	accepted atomic.Int64
	mu       sync.Mutex
	silent   []*atomic.Bool // of each connection
	conns    []net.Conn
}

func startProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			p.accepted.Add(1)
			silent := new(atomic.Bool)
			p.mu.Lock()
			p.silent = append(p.silent, silent)
			p.mu.Unlock()
			server, err := net.Dial("tcp", to)
			if err != nil {
				client.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, client, server)
			p.mu.Unlock()
			pipe := func(to, from net.Conn) {
				defer to.Close()
				buffer := make([]byte, 64<<10)
				for {
					n, err := from.Read(buffer)
					if err != nil {
						return
					}
					if !silent.Load() {
						if _, err := to.Write(buffer[:n]); err != nil {
							return
						}
					}
				}
			}
			group.Go(func() { pipe(server, client) })
			group.Go(func() { pipe(client, server) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		for _, conn := range p.conns {
			// the client library opens one of its own to an emulator, and forgets it
			conn.Close()
		}
		p.mu.Unlock()
		group.Wait()
	})
	return p
}

// silence silences all connections that there are.
func (p *proxy) silence() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, silent := range p.silent {
		silent.Store(true)
	}
}

// A connection that went silent fails the call that met it, at its deadline, and no further one:
// they go over a new one.
func TestSilentConnectionIsReplaced(t *testing.T) {
	instance := emulator.Start(t)
	p := startProxy(t, instance.Addr)
	t.Setenv("FIRESTORE_EMULATOR_HOST", p.Addr().String())
	db, err := store.Open(t.Context(), layout.Place{Project: "p"})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	name := db.Layout.Shard("c", "0")
	write := func(timeout time.Duration, w *firestorepb.Write) error {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		_, err := db.Commit(ctx, w)
		return err
	}
	if err := write(time.Minute, store.Create(name, map[string]*firestorepb.Value{"count": store.Int(1)})); err != nil {
		t.Fatal(err)
	}
	before := p.accepted.Load()
	p.silence()
	if err := write(time.Second, store.Delete(name)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("over the silent connection: %v, want that time is over", err)
	}
	if err := write(time.Minute, store.Update(name, store.Exists(true), nil, nil, store.Increment("count", 1))); err != nil {
		t.Errorf("the next one: %v", err)
	}
	p.silence()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if docs, _, err := db.Get(ctx, name); err != nil || docs[0].GetFields()["count"].GetIntegerValue() != 2 {
		// within one call
		t.Errorf("read %v, %v; want 2", docs, err)
	}
	if n := p.accepted.Load() - before; n != 2 {
		t.Errorf("%d new connections, want 2", n)
	}
}

// At the other end is something that is not Firestore: it is an error, and before long.
func TestNoFirestore(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // what is connected to it waits for ever, as it is never accepted
	t.Setenv("FIRESTORE_EMULATOR_HOST", l.Addr().String())
	db, err := store.Open(t.Context(), layout.Place{Project: "p"})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, _, err := db.Get(ctx, db.Layout.Counter("a")); err == nil {
		t.Error("read something from nothing")
	}
}

// A call without a deadline ends all the same where no answer comes.
func TestACallEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		silence := func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption) error {
			<-ctx.Done()
			return status.FromContextError(ctx.Err()).Err()
		}
		conn, err := grpc.NewClient("passthrough:///nowhere", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithChainUnaryInterceptor(silence))
		if err != nil {
			t.Fatal(err)
		}
		db, err := store.Open(t.Context(), layout.Place{Project: "p"}, option.WithGRPCConn(conn))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		began := time.Now()
		if _, err := db.Commit(t.Context()); err == nil || time.Since(began) > 40*time.Second {
			t.Errorf("it ended with %v after %v, want an error within 40 s", err, time.Since(began))
		}
	})
}

// A read whose time ends while it tries once more says what came of the tries before: what kept it
// from a connection, or what Firestore has said.
func TestAReadSaysWhatCameOfIt(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		code          codes.Code
		message, want string
		unreachable   bool
	}{
		{codes.Unavailable, `connection error: desc = "transport: Error while dialing: dial tcp 10.0.0.1:443: i/o timeout"`, "no connection to Firestore at 10.0.0.1:443: i/o timeout", true},
		{codes.Unavailable, `connection error: desc = "transport: Error while dialing: dial tcp: lookup firestore.googleapis.com on 10.0.0.1:53: no such host"`, "no connection to Firestore at firestore.googleapis.com: no such host", true},
		{codes.Unavailable, `connection error: desc = "transport: Error while dialing: dial tcp: lookup firestore.googleapis.com: i/o timeout"`, "no connection to Firestore at firestore.googleapis.com: i/o timeout", true},
		{codes.Internal, "an index is broken", "context deadline exceeded: rpc error: code = Internal desc = an index is broken", false},
	} {
		t.Run(tt.code.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				attempts := 0
				away := func(ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, _ string, _ grpc.Streamer, _ ...grpc.CallOption) (grpc.ClientStream, error) {
					if attempts++; attempts < 3 {
						return nil, status.Error(tt.code, tt.message)
					}
					<-ctx.Done()
					return nil, status.FromContextError(ctx.Err()).Err()
				}
				conn, err := grpc.NewClient("passthrough:///nowhere", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithChainStreamInterceptor(away))
				if err != nil {
					t.Fatal(err)
				}
				db, err := store.Open(t.Context(), layout.Place{Project: "p"}, option.WithGRPCConn(conn))
				if err != nil {
					t.Fatal(err)
				}
				defer db.Close()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				_, _, err = db.Get(ctx, db.Layout.Counter("a"))
				if errors.Is(err, store.ErrUnreachable) != tt.unreachable || !errors.Is(err, context.DeadlineExceeded) || !strings.HasSuffix(err.Error(), tt.want) || attempts < 4 {
					t.Errorf("%v after %d attempts, want %q", err, attempts, tt.want)
				}
			})
		})
	}
}
