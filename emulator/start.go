package emulator

import (
	"context"
	"net"

	"cloud.google.com/go/firestore"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// TB is what Start needs of a *testing.T, *testing.B or *testing.F. This package doesn't import
// testing, which would add its flags to every program.
type TB interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Instance is a server that runs until a test has ended.
type Instance struct {
	*Server
	Addr string // host:port, for FIRESTORE_EMULATOR_HOST
}

// Start serves an empty Firestore on a free port of the loopback interface until the test has
// ended. It doesn't touch the environment: tests that use it can run in parallel, each with a
// Firestore or a project of its own.
func Start(t TB) *Instance {
	t.Helper()
	return StartWith(t, Options{})
}

// StartWith is Start with options.
func StartWith(t TB, opts Options) *Instance {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	s := New(opts)
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

// Conn connects to the server as an administrator; the connection is closed when the test has
// ended.
func (i *Instance) Conn(t TB) *grpc.ClientConn {
	t.Helper()
	return i.connect(t, grpc.WithPerRPCCredentials(owner{}))
}

// AnonymousConn connects to the server without credentials, as a browser does.
func (i *Instance) AnonymousConn(t TB) *grpc.ClientConn {
	t.Helper()
	return i.connect(t)
}

func (i *Instance) connect(t TB, opts ...grpc.DialOption) *grpc.ClientConn {
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

// Client is the official client of a project's default database, on a connection of its own; it is
// closed when the test has ended.
func (i *Instance) Client(t TB, projectID string) *firestore.Client {
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
	return map[string]string{"authorization": ownerToken}, nil
}

func (owner) RequireTransportSecurity() bool { return false }

const ownerToken = "Bearer owner"
