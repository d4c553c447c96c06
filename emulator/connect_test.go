package emulator_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/firestore"
	"google.golang.org/api/iterator"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
)

// connected is the official client without a socket, in a bubble.
func connected(t *testing.T, opts emulator.Options, dial ...grpc.DialOption) (*emulator.Server, *firestore.Client) {
	t.Helper()
	s := emulator.New(opts)
	conn, err := s.Connect(dial...)
	if err != nil {
		t.Fatal(err)
	}
	c, err := firestore.NewClient(t.Context(), "p", option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		conn.Close()
		s.Close()
	})
	return s, c
}

// TestConnectInVirtualTime uses every kind of call over a connection without a network: an hour of
// it takes no time.
func TestConnectInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := connected(t, emulator.Options{TTL: map[string]string{"a": "expire_at"}})
		ctx := t.Context()
		began := time.Now()
		doc := c.Doc("a/1")
		if _, err := doc.Create(ctx, fields{"n": 1, "expire_at": began.Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
		if _, err := doc.Create(ctx, fields{}); status.Code(err) != codes.AlreadyExists {
			t.Errorf("create again: %v", err)
		}
		err := c.RunTransaction(ctx, func(_ context.Context, tx *firestore.Transaction) error {
			if _, err := tx.Get(doc); err != nil {
				return err
			}
			return tx.Update(doc, []firestore.Update{{Path: "n", Value: 2}})
		})
		if err != nil {
			t.Fatal(err)
		}
		if docs, err := c.Collection("a").Where("n", "==", 2).Documents(ctx).GetAll(); err != nil || len(docs) != 1 {
			t.Errorf("query: %v, %v", docs, err)
		}
		if colls, err := c.Collections(ctx).GetAll(); err != nil || len(colls) != 1 { // for administrators only
			t.Errorf("collections are %v, %v", colls, err)
		}
		snapshots := doc.Snapshots(ctx)
		defer snapshots.Stop()
		if snap, err := snapshots.Next(); err != nil || !snap.Exists() {
			t.Fatalf("listen: %v, %v", snap, err)
		}
		snap, err := snapshots.Next() // when the document has expired
		if err != nil || snap.Exists() {
			t.Fatalf("listen on: %v, %v", snap, err)
		}
		if took := time.Since(began); took < time.Hour || took > time.Hour+2*time.Minute || s.Stats().Expired != 1 {
			t.Errorf("it was gone after %v; %+v", took, s.Stats())
		}
		s.Close()
		soon, cancel := context.WithTimeout(ctx, time.Minute) // the client tries again until then
		defer cancel()
		if _, err := c.Collection("a").Documents(soon).Next(); err == nil || errors.Is(err, iterator.Done) {
			t.Errorf("a query of a closed server: %v", err)
		}
	})
}

// TestConnectInterceptor passes a commit on after its caller has given up: it is applied all the
// same.
func TestConnectInterceptor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			arrived := make(chan error, 1)
			go func() {
				time.Sleep(time.Minute)
				arrived <- invoker(context.WithoutCancel(ctx), method, req, reply, cc, opts...)
			}()
			select {
			case err := <-arrived:
				return err
			case <-ctx.Done():
				return status.FromContextError(ctx.Err()).Err()
			}
		}
		s, c := connected(t, emulator.Options{}, grpc.WithChainUnaryInterceptor(late))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Doc("a/1").Set(ctx, fields{"n": 1}); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("set: %v", err)
		}
		if n := s.Stats().Commits; n != 0 {
			t.Errorf("%d commits before it arrived", n)
		}
		time.Sleep(2 * time.Minute)
		if n := s.Stats().Commits; n != 1 {
			t.Errorf("%d commits, want 1", n)
		}
	})
}

// A test may be over before its server has begun.
func TestServeAfterClose(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := emulator.New(emulator.Options{})
	s.Close()
	if err := s.Serve(l); err != nil {
		t.Error(err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener is open: %v", err)
	}
}
