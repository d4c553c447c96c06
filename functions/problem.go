package functions

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/firestore-counters/counters/shards"
)

// problem is an answer that is an error, as of RFC 9457.
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`

	retryAfter time.Duration // 0 where repeating the request as it is would not help, or not be safe
}

// badRequest is a request that can't be read.
type badRequest struct {
	status int
	detail string
}

func (e *badRequest) Error() string { return e.detail }

// problemOf is the one place that says which error is answered how. Errors that the caller can do nothing about keep
// their details for the log.
func problemOf(err error) problem {
	var bad *badRequest
	switch {
	case errors.As(err, &bad):
		return problem{Status: bad.status, Detail: bad.detail}
	case errors.Is(err, shards.ErrInvalidID), errors.Is(err, shards.ErrInvalidIncrement), errors.Is(err, shards.ErrInvalidKey):
		return problem{Status: http.StatusBadRequest, Detail: err.Error()}
	case errors.Is(err, shards.ErrKeyReused):
		return problem{Status: http.StatusUnprocessableEntity, Detail: "this Idempotency-Key came with another request before"}
	case errors.Is(err, shards.ErrUnknown): // before ErrBusy and ErrNotFound: doubt outweighs them
		return problem{Status: http.StatusGatewayTimeout, Detail: "nobody knows whether this was counted; with an Idempotency-Key it is safe to try again"}
	case errors.Is(err, shards.ErrNotFound):
		return problem{Status: http.StatusNotFound, Detail: err.Error()}
	case errors.Is(err, shards.ErrBusy), errors.Is(err, shards.ErrClosed):
		return problem{Status: http.StatusServiceUnavailable, Detail: "too busy; nothing was counted", retryAfter: time.Second}
	}
	return problem{Status: http.StatusInternalServerError}
}

// write answers with the problem.
func (p problem) write(w http.ResponseWriter) {
	p.Title = http.StatusText(p.Status)
	if p.retryAfter > 0 {
		seconds := int64((p.retryAfter + time.Second - 1) / time.Second)
		w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the client may be gone
}

// fail answers with err, and logs it when it is no fault of the caller's.
func fail(w http.ResponseWriter, r *http.Request, log *slog.Logger, err error) {
	p := problemOf(err)
	switch {
	case errors.Is(r.Context().Err(), context.Canceled): // the client is gone
	case p.Status == http.StatusInternalServerError:
		log.ErrorContext(r.Context(), "request failed", "method", r.Method, "path", r.URL.Path, "error", err)
	case p.Status > http.StatusInternalServerError:
		log.WarnContext(r.Context(), "request failed", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	p.write(w)
}
