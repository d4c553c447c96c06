//go:build all

package repotest

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/testbed/buildpack"
	"github.com/firestore-counters/counters/internal/testbed/freeport"
)

// What is uploaded builds as the Go buildpack builds it, and serves all three functions.
func TestBuildpack(t *testing.T) {
	atRoot(t)
	dir := upload(t)

	program := filepath.Join(t.TempDir(), "main")
	if err := buildpack.Build(t.Context(), dir, program); err != nil {
		t.Fatal(err)
	}

	firestore := emulator.Start(t)
	for _, tt := range []struct {
		target string
		body   []byte
		header map[string]string
		want   int
		answer string // a part of it
	}{
		{"Increment", nil, nil, http.StatusOK, `"by":1`},
		{"Rollup", shardEvent(t), map[string]string{
			"Ce-Specversion": "1.0", "Ce-Id": "1", "Ce-Type": "google.cloud.firestore.document.v1.written",
			"Ce-Source": "//firestore.googleapis.com/projects/p/databases/(default)", "Content-Type": "application/protobuf",
		}, http.StatusNoContent, ""},
		{"Reconcile", nil, nil, http.StatusOK, `"done":true`},
	} {
		t.Run(tt.target, func(t *testing.T) {
			url := startFunction(t, program, tt.target, firestore.Addr)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/c", bytes.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			for key, value := range tt.header {
				req.Header.Set(key, value)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			answer, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != tt.want || !strings.Contains(string(answer), tt.answer) {
				t.Errorf("answered %d %s, want %d %s", resp.StatusCode, answer, tt.want, tt.answer)
			}
		})
	}

	t.Run("a bad setting stops the start", func(t *testing.T) {
		cmd := exec.CommandContext(t.Context(), program)
		cmd.Env = append(os.Environ(), "FUNCTION_TARGET=Rollup", "PORT=0", "ROLLUP_INTERVAL=1h")
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "ROLLUP_INTERVAL=1h0m0s: want 10ms to 5s") {
			t.Errorf("it says %q, %v", out, err)
		}
	})
}

// startFunction starts a process that serves a function, and returns its URL once it answers.
func startFunction(t *testing.T, program, target, firestore string) string {
	t.Helper()
	port, err := freeport.Find()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(os.Environ(), "FUNCTION_TARGET="+target, "PORT="+port, "FIRESTORE_EMULATOR_HOST="+firestore,
		"GOOGLE_CLOUD_PROJECT=p", "AUTO_CREATE=true")
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	url := "http://127.0.0.1:" + port
	for range 3000 { // a minute
		resp, err := http.Head(url + "/robots.txt")
		if err == nil {
			_ = resp.Body.Close()
			return url
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("%s does not answer", target)
	return ""
}

func shardEvent(t *testing.T) []byte {
	t.Helper()
	data, err := proto.Marshal(&firestoredata.DocumentEventData{Value: &firestoredata.Document{
		Name:       "projects/p/databases/(default)/documents/counters/c/shards/0",
		Fields:     map[string]*firestoredata.Value{"count": {ValueType: &firestoredata.Value_IntegerValue{IntegerValue: 1}}},
		UpdateTime: timestamppb.Now(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return data
}
