//go:build all

package store_test

import (
	"errors"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/firestore-counters/counters/internal/testbed/official"
)

// Google's emulator evaluates all of it as the embedded server does.
func TestOfficial(t *testing.T) {
	t.Parallel()
	google, err := official.Start(t.Context())
	if errors.Is(err, official.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(google.Stop)
	conn, err := grpc.NewClient("passthrough:///"+google.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	aggregate(t, conn)
	sumsOfOneTime(t, conn)
}
