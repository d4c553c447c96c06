//go:build all && !race

package rollup

import (
	"errors"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/firestore-counters/counters/internal/testbed/official"
)

// Google's emulator rolls up as the embedded Firestore does.
func TestOfficialRollsUp(t *testing.T) {
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
	rollsUp(t, conn, func(name string, walk func(*testing.T, bool)) {
		t.Run(name, func(t *testing.T) { walk(t, false) })
	})
}
