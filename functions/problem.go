package functions

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/internal/store"
	"github.com/firestore-counters/counters/shards"
)

// Errors of requests that changed nothing. [problemOf] says how each is answered.
var (
	// errNoKeys: a token could not be checked, which is not the caller's fault.
	errNoKeys = errors.New("the keys that sign tokens can't be fetched")
	// errOrigin: the web page's site may not call.
	errOrigin = forbidden("pages of this origin may not call; see ALLOWED_ORIGINS")
	// errSlowBody: the body did not arrive within REQUEST_TIMEOUT.
	errSlowBody = errors.New("the body took too long to arrive")
	// errEnding: the process got SIGTERM, and takes no further requests.
	errEnding = errors.New("this instance is ending")
	// errStart: the function's clients could not be made.
	errStart = errors.New("the function could not start")
	// errNotCounted: an event must be delivered again.
	errNotCounted = errors.New("not counted yet")
	// errNotOwn: a caller names another member than itself.
	errNotOwn = forbidden("you can only join or leave as yourself: the member is the user of your token, or me")
	// errNoMembers: MEMBERS allows no members here.
	errNoMembers = forbidden("members are off here: set AUTH=firebase, with which users join as themselves, or MEMBERS=any, with which a backend may name anybody")
	// errMember marks an error while a member joined or left. Asking again is always safe.
	errMember = errors.New("member")
	// errNotOwned: a caller resets another user's counter.
	errNotOwned = forbidden("you can only reset your own counter: that of the user of your token")
	// errNoReset: RESET allows no resets here.
	errNoReset = forbidden("resets are off here: set AUTH=firebase and RESET=own, with which users reset their own counters, or RESET=any, with which a backend may reset any")
	// errNotOwnLimit: a caller limits another user's counter.
	errNotOwnLimit = forbidden("you can only limit your own counter: that of the user of your token")
	// errNoLimit: LIMIT allows no limits to be set here.
	errNoLimit = forbidden("limits can't be set here: use counters limit, or set AUTH=firebase and LIMIT=own, with which users limit their own counters, or LIMIT=any, with which a backend may limit any")
	// errSetLimit marks an error while a limit was set. Asking again is always safe.
	errSetLimit = errors.New("limit")
	// errReset marks an error during a reset.
	errReset = errors.New("reset")
	// errRead marks an error while a counter was read. Reading again is always safe.
	errRead = errors.New("read")
)

// badRequest is an invalid request.
type badRequest struct{ detail string }

func (e *badRequest) Error() string { return e.detail }

func bad(format string, args ...any) error { return &badRequest{fmt.Sprintf(format, args...)} }

// forbidden is a request that a setting doesn't allow to this caller.
type forbidden string

func (e forbidden) Error() string { return string(e) }

// tooLarge is a body of more than limit bytes.
type tooLarge struct{ limit int64 }

func (e *tooLarge) Error() string { return fmt.Sprintf("the body has more than %d bytes", e.limit) }

// wrongMethod is a request with another method than those allowed, such as "GET, POST".
type wrongMethod struct{ allow string }

func (e *wrongMethod) Error() string { return "want " + e.allow }

// unauthorized is a request without a valid token. The answer doesn't say what is wrong with a token:
// its owner can find out.
type unauthorized struct{ challenge, detail string }

func (e *unauthorized) Error() string { return e.detail }

// rateLimited is a request beyond the caller's rate, and how long to wait.
type rateLimited struct {
	after  time.Duration
	detail string // of what there was too much; empty for requests
}

func (e *rateLimited) Error() string {
	return cmp.Or(e.detail, "too many requests of one caller, or of new counters in them; nothing was counted")
}

// problem is an error as an answer, by RFC 9457.
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`

	// of an increment beyond a limit: "limit-reached", and of which counter and field how much was left
	Reason  string `json:"reason,omitempty"`
	Counter string `json:"counter,omitempty"`
	Field   string `json:"field,omitempty"`
	Left    *int64 `json:"left,omitempty"`
	Taken   *int64 `json:"taken,omitempty"` // of a limit that would be less: how much is taken

	retryAfter time.Duration // 0 if repeating the same request can't succeed, or isn't safe
	header     [2]string     // one more header: name and value
	close      bool          // close the connection: don't wait for the rest of the body or another request
}

// problemOf is the only place that turns errors into answers. If the caller can do nothing about an
// error, its details are only in the log.
func problemOf(err error) problem {
	var (
		malformed *badRequest
		large     *tooLarge
		method    *wrongMethod
		token     *unauthorized
		limited   *rateLimited
		refused   forbidden
		full      *shards.LimitError
	)
	switch {
	case errors.Is(err, errNotCounted): // first, whatever else it is
		return problem{Status: http.StatusServiceUnavailable, Detail: errNotCounted.Error() + ": deliver it again", retryAfter: time.Second,
			close: errors.Is(err, errSlowBody) || errors.Is(err, errEnding)}
	case errors.As(err, &malformed):
		return problem{Status: http.StatusBadRequest, Detail: malformed.detail}
	case errors.As(err, &large):
		return problem{Status: http.StatusRequestEntityTooLarge, Detail: large.Error(), close: true}
	case errors.As(err, &method):
		return problem{Status: http.StatusMethodNotAllowed, Detail: method.Error(), header: [2]string{"Allow", method.allow}}
	case errors.As(err, &token):
		return problem{Status: http.StatusUnauthorized, Detail: token.detail, header: [2]string{"WWW-Authenticate", token.challenge}}
	case errors.As(err, &limited):
		return problem{Status: http.StatusTooManyRequests, Detail: limited.Error(), retryAfter: limited.after}
	case errors.As(err, &refused):
		return problem{Status: http.StatusForbidden, Detail: refused.Error()}
	case errors.Is(err, shards.ErrUnknown) && errors.Is(err, errSetLimit):
		return problem{Status: http.StatusGatewayTimeout, Detail: "whether the limit was set is unknown; asking again is safe"}
	case errors.Is(err, shards.ErrBusy) && errors.Is(err, errSetLimit):
		return problem{Status: http.StatusServiceUnavailable, Detail: "too busy; nothing was changed", retryAfter: time.Second}
	case errors.As(err, &full) && errors.Is(err, errSetLimit):
		return problem{Status: http.StatusConflict, Detail: full.Error() + "; nothing was changed", Reason: "taken", Counter: full.Counter, Field: full.Field, Taken: &full.Taken}
	case errors.Is(err, errSetLimit) && (errors.Is(err, shards.ErrInvalidLimit) || errors.Is(err, shards.ErrInvalidShards) || errors.Is(err, shards.ErrNotInteger)):
		return problem{Status: http.StatusConflict, Detail: err.Error() + "; nothing was changed"}
	case errors.Is(err, errSetLimit) && errors.Is(err, shards.ErrFull):
		return problem{Status: http.StatusConflict, Detail: shards.ErrFull.Error() + "; nothing was changed"}
	case errors.Is(err, shards.ErrUnknown) && errors.Is(err, errReset):
		return problem{Status: http.StatusGatewayTimeout, Detail: "whether this was set back is unknown; asked again, it is set back again"}
	case errors.Is(err, shards.ErrBusy) && errors.Is(err, errReset):
		return problem{Status: http.StatusServiceUnavailable, Detail: "too busy; nothing was set back", retryAfter: time.Second}
	case errors.Is(err, shards.ErrHasMembers):
		return problem{Status: http.StatusConflict, Detail: shards.ErrHasMembers.Error() + "; nothing was set back"}
	case errors.Is(err, errSlowBody):
		return problem{Status: http.StatusRequestTimeout, Detail: errSlowBody.Error() + "; nothing was counted", close: true}
	case errors.Is(err, errEnding):
		return problem{Status: http.StatusServiceUnavailable, Detail: errEnding.Error() + "; nothing was counted", retryAfter: time.Second, close: true}
	case errors.Is(err, errNoKeys):
		return problem{Status: http.StatusServiceUnavailable, Detail: "the token can't be checked now; nothing was counted", retryAfter: time.Second}
	case errors.Is(err, errStart):
		return problem{Status: http.StatusServiceUnavailable, Detail: errStart.Error() + "; its log says why"}
	case errors.Is(err, shards.ErrInvalidID), errors.Is(err, shards.ErrInvalidIncrement), errors.Is(err, shards.ErrInvalidKey), errors.Is(err, shards.ErrInvalidMember), errors.Is(err, shards.ErrInvalidField):
		return problem{Status: http.StatusBadRequest, Detail: err.Error()}
	case errors.Is(err, shards.ErrKeyReused):
		return problem{Status: http.StatusUnprocessableEntity, Detail: "this Idempotency-Key came with another request before"}
	case errors.Is(err, shards.ErrUnknown) && errors.Is(err, errMember):
		return problem{Status: http.StatusGatewayTimeout, Detail: "whether this was counted is unknown; asking again is safe"}
	case errors.Is(err, shards.ErrUnknown): // before ErrBusy and ErrNotFound, because doubt outweighs them
		return problem{Status: http.StatusGatewayTimeout, Detail: "whether this was counted is unknown; with an Idempotency-Key it is safe to try again"}
	case errors.As(err, &full):
		return problem{Status: http.StatusConflict, Detail: full.Error() + "; nothing was counted", Reason: "limit-reached", Counter: full.Counter, Field: full.Field, Left: &full.Left}
	case errors.Is(err, shards.ErrHoldEnded):
		return problem{Status: http.StatusConflict, Detail: shards.ErrHoldEnded.Error(), Reason: "hold-ended"}
	case errors.Is(err, shards.ErrLimited):
		return problem{Status: http.StatusConflict, Detail: err.Error() + "; nothing was changed"}
	case errors.Is(err, shards.ErrNotFound):
		return problem{Status: http.StatusNotFound, Detail: err.Error()}
	case errors.Is(err, shards.ErrFull):
		return problem{Status: http.StatusConflict, Detail: shards.ErrFull.Error() + "; nothing was counted"}
	case errors.Is(err, shards.ErrNotCounted):
		return problem{Status: http.StatusConflict, Detail: err.Error()}
	case errors.Is(err, shards.ErrUnreachable) && errors.Is(err, shards.ErrBusy):
		return problem{Status: http.StatusServiceUnavailable, Detail: "Firestore does not answer; nothing was counted", retryAfter: time.Second}
	case errors.Is(err, shards.ErrBusy), errors.Is(err, shards.ErrClosed):
		return problem{Status: http.StatusServiceUnavailable, Detail: "too busy; nothing was counted", retryAfter: time.Second}
	case errors.Is(err, errRead) && passes(err):
		return problem{Status: http.StatusServiceUnavailable, Detail: "Firestore does not answer; try again", retryAfter: time.Second}
	}
	return problem{Status: http.StatusInternalServerError}
}

// during adds to an error a mark of what was under way. It doesn't change the text.
type during struct {
	error
	mark error
}

func (d during) Unwrap() []error { return []error{d.error, d.mark} }

// passes reports whether an error of Firestore may be gone at the next attempt.
func passes(err error) bool {
	if _, ok := status.FromError(err); !ok && !errors.Is(err, context.DeadlineExceeded) {
		return false // not from Firestore
	}
	kind := store.KindOf(err)
	return kind == store.Doubtful || kind == store.Contention
}

// write answers with the problem.
func (p problem) write(w http.ResponseWriter) {
	p.Title = http.StatusText(p.Status)
	header := w.Header()
	if p.retryAfter > 0 {
		seconds := int64((p.retryAfter + time.Second - 1) / time.Second)
		header.Set("Retry-After", strconv.FormatInt(seconds, 10))
	}
	if p.header[0] != "" {
		header.Set(p.header[0], p.header[1])
	}
	if p.close {
		header.Set("Connection", "close")
	}
	header.Set("Content-Type", "application/problem+json")
	header.Set("Cache-Control", "no-store") // what is missing now may be made in a moment
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the client may be gone
}

// fail answers with err. If that isn't the caller's fault, it logs it with attrs.
func fail(w http.ResponseWriter, r *http.Request, log *slog.Logger, err error, attrs ...any) {
	p := problemOf(err)
	level := slog.LevelWarn
	if p.Status == http.StatusInternalServerError || errors.Is(err, errStart) {
		level = slog.LevelError
	}
	gone := errors.Is(r.Context().Err(), context.Canceled) // the client is
	if p.Status >= http.StatusInternalServerError && !gone && !errors.Is(err, errEnding) {
		log.Log(r.Context(), level, "request failed", append([]any{"method", r.Method, "path", r.URL.Path, "error", err}, attrs...)...)
	}
	p.write(w)
}
