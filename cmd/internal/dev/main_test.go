package dev

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/GoogleCloudPlatform/functions-framework-go/functions"
	"go.uber.org/goleak"

	"github.com/firestore-counters/counters/internal/testbed/slots"
)

// The functions of these tests, served by the framework in processes of their own.
func init() {
	functions.HTTP("Echo", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Pid", fmt.Sprint(os.Getpid()))
		w.Header().Set("X-Forwarded-For-Seen", r.Header.Get("X-Forwarded-For"))
		fmt.Fprintf(w, "%s %s %s", r.Method, r.RequestURI, body)
	})
	functions.HTTP("Hang", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Pid", fmt.Sprint(os.Getpid()))
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	functions.HTTP("Exit", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(os.Stderr, "about to end")
		os.Exit(3)
	})
}

// slowStart names how long a process waits before it serves.
const slowStart = "SLOW_START"

func TestMain(m *testing.M) {
	if wait, err := time.ParseDuration(os.Getenv(slowStart)); err == nil {
		time.Sleep(wait)
	}
	ServeIfChild()
	slots.Widen()
	goleak.VerifyTestMain(m)
}

// testLogger logs to the test's own output.
func testLogger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), nil))
}

// eventually waits until a condition holds: for longer than Firestore keeps a dead process's locks,
// a minute, and what waits for them takes to come again.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long until %s", what)
		}
	}
}
