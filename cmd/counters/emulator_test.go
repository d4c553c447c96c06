package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"cloud.google.com/go/firestore"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// TestEmulatorCommand runs "counters emulator" as another language would use it: from the line that
// it prints to a client that commits, and a function that gets the event.
func TestEmulatorCommand(t *testing.T) {
	t.Parallel()
	events := make(chan string, 10)
	function := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		events <- r.Header.Get("ce-subject")
	}))
	defer function.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, stdout := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"emulator", "--port", "0", "--events", "counters/{counter}=" + function.URL}, stdout, t.Output())
	}()
	var addr string
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "ready"; {
		if a, ok := strings.CutPrefix(lines.Text(), "export FIRESTORE_EMULATOR_HOST="); ok {
			addr = a
		}
	}
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c, err := firestore.NewClient(ctx, "p", option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"other/1", "counters/1"} {
		if _, err := c.Doc(path).Set(ctx, map[string]any{"n": 1}); err != nil {
			t.Fatal(err)
		}
	}
	if got := <-events; got != "documents/counters/1" {
		t.Errorf("an event of %s", got)
	}
	cancel()
	if code := <-ended; code != 0 {
		t.Errorf("it ended with %d", code)
	}
}

func TestEmulatorCommandRefuses(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--abort 2":                      "abort 2: want a probability",
		"--commit-latency -1s":           "commit-latency -1s: want",
		"--events a/{b}=nowhere":         "--events a/{b}=nowhere: want a URL",
		"--events a/{b}/c=http://x.test": "--events: pattern",
		"--port 99999":                   "--port",
		"--edition gold":                 "--edition gold: want standard or enterprise",
		"extra":                          "1 argument, want: counters emulator",
	} {
		var stderr strings.Builder
		if code := run(t.Context(), append([]string{"emulator"}, strings.Fields(args)...), io.Discard, &stderr); code == 0 || !strings.Contains(stderr.String(), want) {
			t.Errorf("%s: %d %s", args, code, stderr.String())
		}
	}
}

// An origin that can't be one would let nobody in, and say nothing.
func TestAllowOrigin(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"emulator", "dev"} {
		for _, origin := range []string{"app.example", "https://app.example/", "https://", "null", "https://app.example?x", "https://user@app.example"} {
			_, errOut, code := counters(t, command, "--allow-origin", origin)
			if code != exitUsage || !strings.Contains(errOut, "--allow-origin "+origin+": want an origin") {
				t.Errorf("%s --allow-origin %s: exit code %d, %q", command, origin, code, errOut)
			}
		}
	}
}
