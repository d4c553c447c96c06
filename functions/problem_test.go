package functions

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/firestore-counters/counters/shards"
)

// Retry-After is in whole seconds: whoever comes that much later has waited long enough.
func TestRetryAfterIsRoundedUp(t *testing.T) {
	t.Parallel()
	for after, want := range map[time.Duration]string{
		0: "", time.Nanosecond: "1", time.Second: "1", time.Second + time.Nanosecond: "2", 90 * time.Second: "90",
	} {
		w := httptest.NewRecorder()
		problem{Status: http.StatusTooManyRequests, retryAfter: after}.write(w)
		if got := w.Header().Get("Retry-After"); got != want {
			t.Errorf("after %v: Retry-After %q, want %q", after, got, want)
		}
	}
}

// What is not the caller's fault is logged, as an error where nothing but a change of the
// deployment helps. What the caller does not hear of is left out.
func TestWhatIsLoggedOfAnAnswer(t *testing.T) {
	t.Parallel()
	gone, leave := context.WithCancel(t.Context())
	leave()
	for _, c := range []struct {
		name string
		ctx  context.Context
		err  error
		want string // severity; "" is no line
	}{
		{"500", t.Context(), errors.New("permission denied"), "ERROR"},
		{"503", t.Context(), shards.ErrBusy, "WARNING"},
		{"504", t.Context(), shards.ErrUnknown, "WARNING"},
		{"400", t.Context(), bad("by is 0"), ""},
		{"404", t.Context(), shards.ErrNotFound, ""},
		{"the process ends", t.Context(), errEnding, ""},
		{"the client is gone", gone, shards.ErrBusy, ""},
	} {
		var lines bytes.Buffer
		r := httptest.NewRequestWithContext(c.ctx, http.MethodPost, "/a", nil)
		fail(httptest.NewRecorder(), r, slog.New(newLogHandler(&lines, slog.LevelDebug)), c.err)
		if got := lines.String(); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: logged %q, want %q", c.name, got, c.want)
		}
	}
}
