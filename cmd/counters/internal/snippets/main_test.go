package snippets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"cloud.google.com/go/firestore"
	"go.uber.org/goleak"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/firestore-counters/counters/cmd/counters/internal/dev"
)

func TestMain(m *testing.M) {
	dev.ServeIfChild()
	goleak.VerifyTestMain(m)
}

// packages installs the SDKs, where they aren't there.
var packages = sync.OnceValue(func() error {
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("needs Node.js with npm: %w", err)
		}
	}
	if _, err := os.Stat("node_modules"); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if out, err := exec.Command("npm", "ci", "--no-audit", "--no-fund").CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci: %w\n%s", err, out)
	}
	return nil
})

// needNode skips a test where its packages aren't to be had, but not in CI.
func needNode(t *testing.T) {
	t.Helper()
	if err := packages(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

// node runs Node.js against a Firestore, and returns what it prints.
func node(ctx context.Context, address, project string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "node", args...)
	cmd.Env = append(os.Environ(), "FIRESTORE_EMULATOR_HOST="+address, "GOOGLE_CLOUD_PROJECT="+project,
		"METADATA_SERVER_DETECTION=none", // or the library looks whether it runs in the cloud
	)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("node %s: %w\n%s%s", strings.Join(args, " "), err, out, &stderr)
	}
	return strings.TrimSpace(string(out)), nil
}

// startSystem starts the whole local system, and a client of its Firestore.
func startSystem(t *testing.T) (*dev.System, *firestore.Client) {
	t.Helper()
	system, err := dev.Start(t.Context(), dev.Config{
		Instances: 1,
		Environ:   []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "LOG_LEVEL=WARN"},
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
