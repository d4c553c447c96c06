// Package emulatortest starts embedded Firestores for tests, and connects the official client to them as
// FIRESTORE_EMULATOR_HOST would, without touching the environment: tests that use it can run in parallel.
package emulatortest

import (
	"context"
	"net"
	"testing"

	"cloud.google.com/go/firestore"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/firestore-counters/counters/emulator"
)

// Instance is a running server.
type Instance struct {
	Addr   string // host:port
	Server *emulator.Server
}

// Start serves an empty Firestore on a free port of the loopback interface until the test has ended.
func Start(t testing.TB, opts emulator.Options) *Instance {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	s := emulator.New(opts)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return &Instance{Addr: l.Addr().String(), Server: s}
}

// Conn connects to the server as an administrator; the connection is closed when the test has ended.
func (i *Instance) Conn(t testing.TB) *grpc.ClientConn {
	t.Helper()
	return i.connect(t, grpc.WithPerRPCCredentials(owner{}))
}

// AnonymousConn connects to the server as anybody, as a browser does.
func (i *Instance) AnonymousConn(t testing.TB) *grpc.ClientConn {
	t.Helper()
	return i.connect(t)
}

func (i *Instance) connect(t testing.TB, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(i.Addr, append(opts,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<30)))...)
	if err != nil {
		t.Fatalf("connect to %s: %v", i.Addr, err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// Client is the official client of a project's default database, on a connection of its own; it is closed when the test
// has ended.
func (i *Instance) Client(t testing.TB, projectID string) *firestore.Client {
	t.Helper()
	c, err := firestore.NewClient(context.Background(), projectID, option.WithGRPCConn(i.Conn(t)))
	if err != nil {
		t.Fatalf("client of project %s: %v", projectID, err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// owner is what clients of an emulator send for credentials.
type owner struct{}

func (owner) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer owner"}, nil
}

func (owner) RequireTransportSecurity() bool { return false }
