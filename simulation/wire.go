package simulation

import (
	"context"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/firestore-counters/counters/emulator"
)

// dialer makes a connection to the database.
type dialer func(...grpc.DialOption) (*grpc.ClientConn, error)

// overWire serves a database on a listener in memory, and dials that: messages are encoded and go
// over HTTP/2, as they do to a real one. It ends when the server is closed.
func overWire(s *emulator.Server) dialer {
	l := bufconn.Listen(1 << 16)
	go func() { _ = s.Serve(l) }()
	return func(opts ...grpc.DialOption) (*grpc.ClientConn, error) {
		return grpc.NewClient("passthrough:///simulated", append(opts,
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithPerRPCCredentials(administrator{}),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))...)
	}
}

// administrator is who calls: no rules hold for it.
type administrator struct{}

func (administrator) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer owner"}, nil
}

func (administrator) RequireTransportSecurity() bool { return false }
