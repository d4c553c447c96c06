package snippets

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"

	"cloud.google.com/go/firestore"
	"go.uber.org/goleak"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/firestore-counters/counters/cmd/internal/dev"
)

func TestMain(m *testing.M) {
	dev.ServeIfChild()
	goleak.VerifyTestMain(m)
}

// startSystem starts the whole local system, and a client of its Firestore.
func startSystem(t *testing.T, environ ...string) (*dev.System, *firestore.Client) {
	t.Helper()
	system, err := dev.Start(t.Context(), dev.Config{
		Instances: 1,
		Environ:   append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "LOG_LEVEL=WARN"}, environ...),
		Output:    t.Output(),
		Logger:    slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(system.Close)
	conn, err := grpc.NewClient(system.Firestore, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	client, err := firestore.NewClient(t.Context(), system.Project, option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return system, client
}

// waitForTotal watches a counter's document, as a page does, until its total is what it should be.
func waitForTotal(ctx context.Context, counter *firestore.DocumentRef, want int64) error {
	snapshots := counter.Snapshots(ctx)
	defer snapshots.Stop()
	var last any
	for {
		doc, err := snapshots.Next()
		if err != nil {
			return fmt.Errorf("%s: total is %v, want %d: %w", counter.ID, last, want, err)
		}
		if last = doc.Data()["total"]; last == want {
			return nil
		}
	}
}
