package functions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/internal/book"
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

// Each error is answered by what it is, and by what was under way: what is certain of it, and whether the same request
// may come again. What nobody can do anything about is in the log alone.
func TestAnswers(t *testing.T) {
	t.Parallel()
	with := func(err error) error { return fmt.Errorf("add to counter \"a\": %w", err) }
	full := &shards.LimitError{Counter: "a", Field: "seats", By: 2, Limit: 3, Left: 1, Taken: 2}
	lowered := &shards.LimitError{Counter: "a", Field: "seats", Limit: 1, Left: 1, Taken: 2}
	for _, c := range []struct {
		err    error
		doing  *doing
		status int
		detail string
		retry  time.Duration
		reason string
	}{
		{with(shards.ErrUnknown), counting, 504, "whether this was counted is unknown; with an Idempotency-Key it is safe to try again", 0, ""},
		{with(shards.ErrUnknown), joining, 504, "whether this was counted is unknown; asking again is safe", 0, ""},
		{with(shards.ErrUnknown), resetting, 504, "whether this was set back is unknown; asked again, it is set back again", 0, ""},
		{with(shards.ErrUnknown), limiting, 504, "whether the limit was set is unknown; asking again is safe", 0, ""},
		{fmt.Errorf("%w: %w", shards.ErrUnknown, shards.ErrBusy), counting, 504, "whether this was counted is unknown; with an Idempotency-Key it is safe to try again", 0, ""},
		{fmt.Errorf("%w: %w", shards.ErrNotFound, shards.ErrUnknown), joining, 504, "whether this was counted is unknown; asking again is safe", 0, ""},
		{with(shards.ErrBusy), counting, 503, "too busy; nothing was counted", time.Second, ""},
		{with(shards.ErrBusy), resetting, 503, "too busy; nothing was set back", time.Second, ""},
		{with(shards.ErrBusy), limiting, 503, "too busy; nothing was changed", time.Second, ""},
		{with(shards.ErrBusy), reading, 503, "too busy; try again", time.Second, ""},
		{fmt.Errorf("%w: %w", shards.ErrBusy, shards.ErrUnreachable), counting, 503, "Firestore does not answer; nothing was counted", time.Second, ""},
		{with(shards.ErrClosed), counting, 503, "too busy; nothing was counted", time.Second, ""},
		{status.Error(codes.Unavailable, "down"), reading, 503, "Firestore does not answer; try again", time.Second, ""},
		{context.DeadlineExceeded, reading, 503, "Firestore does not answer; try again", time.Second, ""},
		{status.Error(codes.PermissionDenied, "a secret"), reading, 500, "", 0, ""},
		{status.Error(codes.Unavailable, "down"), counting, 500, "", 0, ""}, // nobody has said that nothing was counted
		{errSlowBody, counting, 408, "the body took too long to arrive; nothing was counted", 0, ""},
		{errEnding, counting, 503, "this instance is ending; nothing was counted", time.Second, ""},
		{fmt.Errorf("%w: %w", errNotCounted, errEnding), counting, 503, "not counted yet: deliver it again", time.Second, ""},
		{fmt.Errorf("%w: no such host", errNoKeys), counting, 503, "the token can't be checked now; nothing was counted", time.Second, ""},
		{fmt.Errorf("%w: no project", errStart), counting, 503, "the function could not start; its log says why", 0, ""},
		{with(&book.SettingError{}), counting, 409, (&book.SettingError{}).Error() + "; nothing was changed", 0, ""},
		{with(full), counting, 409, "limit reached: 1 of 3 seats are left; asked for 2; nothing was counted", 0, "limit-reached"},
		{with(lowered), limiting, 409, "limit reached: 2 of seats are taken, so the limit can't be 1; nothing was changed", 0, "taken"},
		{with(shards.ErrInvalidLimit), limiting, 409, "add to counter \"a\": invalid limit; nothing was changed", 0, ""},
		{with(shards.ErrNotInteger), limiting, 409, with(shards.ErrNotInteger).Error() + "; nothing was changed", 0, ""},
		{with(shards.ErrNotInteger), counting, 409, with(shards.ErrNotInteger).Error() + "; nothing was counted", 0, ""},
		{with(shards.ErrNotInteger), reading, 409, with(shards.ErrNotInteger).Error(), 0, ""},
		{with(book.ErrBeyond), resetting, 409, with(book.ErrBeyond).Error() + "; nothing was set back", 0, ""},
		{with(shards.ErrDamagedBase), reading, 500, "base is damaged, and nothing was changed: counters reconcile says why", 0, ""},
		{with(shards.ErrHasMembers), resetting, 409, "the counter has members; nothing was set back", 0, ""},
		{with(shards.ErrHoldEnded), joining, 409, "the hold is over, or there was none", 0, "hold-ended"},
		{with(settledFor{3}), holding, 409, "the hold is settled for 3; nothing was changed", 0, "settled"},
		{with(shards.ErrNoHold), reading, 404, "there is no such hold", 0, ""},
		{with(shards.ErrUnknown), holding, 504, "whether this was done is unknown; asking again for the same hold is safe", 0, ""},
		{with(shards.ErrFull), counting, 409, shards.ErrFull.Error() + "; nothing was counted", 0, ""},
		{with(shards.ErrFull), limiting, 409, shards.ErrFull.Error() + "; nothing was changed", 0, ""},
		{with(shards.ErrNotFound), counting, 404, "add to counter \"a\": counter not found", 0, ""},
		{with(shards.ErrNotCounted), reading, 409, "add to counter \"a\": not counted here", 0, ""},
		{with(shards.ErrInvalidID), counting, 400, "add to counter \"a\": invalid counter id", 0, ""},
		{with(shards.ErrKeyReused), counting, 422, "this Idempotency-Key came with another request before", 0, ""},
	} {
		got := problemOf(during{c.err, c.doing})
		if got.Status != c.status || got.Detail != c.detail || got.retryAfter != c.retry || got.Reason != c.reason {
			t.Errorf("%v, %s: %d %q, again after %v, %q; want %d %q, %v, %q", c.err, c.doing.nothing, got.Status, got.Detail, got.retryAfter, got.Reason, c.status, c.detail, c.retry, c.reason)
		}
	}
}
