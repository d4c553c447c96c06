package functions

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/internal/store"
	"github.com/firestore-counters/counters/shards"
)

// problem is an answer by RFC 9457, and as an error what a request is refused with before anything is changed.
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`

	// of a limit: "limit-reached", or "taken" where it would be less than that; of which counter and field; of a hold:
	// "hold-ended" or "settled"
	Reason  string `json:"reason,omitempty"`
	Counter string `json:"counter,omitempty"`
	Field   string `json:"field,omitempty"`
	Left    *int64 `json:"left,omitempty"`
	Taken   *int64 `json:"taken,omitempty"`
	By      *int64 `json:"by,omitempty"` // of a hold that is settled: for how much

	retryAfter time.Duration // 0 if repeating the same request can't succeed, or isn't safe
	header     [2]string     // one more header: name and value
	close      bool          // close the connection: don't wait for the rest of the body or another request
}

func (p *problem) Error() string { return p.Detail }

// maxEchoed is how many characters of a text that was sent an answer or a line of the log repeats.
const maxEchoed = 100

// echoed is a text that was sent, as it is repeated.
func echoed(text string) string {
	n := 0
	for i := range text {
		if n++; n > maxEchoed {
			return text[:i] + "…"
		}
	}
	return text
}

// quoted matches what %q makes.
var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// shortened is an error's text with at most so many characters of each text that it quotes, and of each word.
func shortened(text string) string {
	if len(text) <= maxEchoed {
		return text
	}
	text = quoted.ReplaceAllStringFunc(text, func(q string) string {
		if short := echoed(q[1 : len(q)-1]); len(short) < len(q)-2 {
			return `"` + short + `"`
		}
		return q
	})
	return longWords.ReplaceAllStringFunc(text, echoed)
}

// longWords matches what no sentence of ours has.
var longWords = regexp.MustCompile(`[^\s"]{101,}`)

// bad is an invalid request.
func bad(format string, args ...any) error {
	for i, arg := range args { // before they are quoted, which makes long texts longer
		switch arg := arg.(type) {
		case string:
			args[i] = echoed(arg)
		case error:
			args[i] = shortened(arg.Error())
		}
	}
	return &problem{Status: http.StatusBadRequest, Detail: fmt.Sprintf(format, args...)}
}

// tooLarge is a body of more than limit bytes.
func tooLarge(limit int64) error {
	return &problem{Status: http.StatusRequestEntityTooLarge, Detail: fmt.Sprintf("the body has more than %d bytes", limit), close: true}
}

// wrongMethod is a request with another method than those.
func wrongMethod(allowed ...string) error {
	allow := strings.Join(allowed, ", ")
	return &problem{Status: http.StatusMethodNotAllowed, Detail: "want " + allow, header: [2]string{"Allow", allow}}
}

// unauthorized is a request without a valid token. The answer says of a token only what it says itself.
func unauthorized(challenge, detail string) error {
	return &problem{Status: http.StatusUnauthorized, Detail: detail, header: [2]string{"WWW-Authenticate", challenge}}
}

// forbidden is a request that a setting doesn't allow to this caller.
func forbidden(detail string) error { return &problem{Status: http.StatusForbidden, Detail: detail} }

// rateLimited refuses a request for some time. The detail says of what there was too much; "" stands for requests.
func rateLimited(after time.Duration, detail string) *problem {
	detail = cmp.Or(detail, "too many requests of one caller, or of new counters in them; nothing was counted")
	return &problem{Status: http.StatusTooManyRequests, Detail: detail, retryAfter: after}
}

// hasStatus reports whether an error is a problem with that status.
func hasStatus(err error, status int) bool {
	p, is := errors.AsType[*problem](err)
	return is && p.Status == status
}

// What a setting doesn't allow.
var (
	errOrigin      = forbidden("pages of this origin may not call; see ALLOWED_ORIGINS")
	errNotOwn      = forbidden("you can only join or leave as yourself: the member is the user of your token, or me")
	errNoMembers   = forbidden("members are off here: set AUTH=firebase, with which users join as themselves, or MEMBERS=any, with which a backend may name anybody")
	errNotOwned    = forbidden("you can only reset your own counter: that of the user of your token")
	errNoReset     = forbidden("resets are off here: set AUTH=firebase and RESET=own, with which users reset their own counters, or RESET=any, with which a backend may reset any")
	errNotOwnLimit = forbidden("you can only limit your own counter: that of the user of your token")
	errNoLimit     = forbidden("limits can't be set here: use counters limit, or set AUTH=firebase and LIMIT=own, with which users limit their own counters, or LIMIT=any, with which a backend may limit any")
)

var (
	// errNoKeys: a token could not be checked, which is not the caller's fault.
	errNoKeys = errors.New("the keys that sign tokens can't be fetched")
	// errSlowBody: the body did not arrive within REQUEST_TIMEOUT.
	errSlowBody = errors.New("the body took too long to arrive")
	// errBodies: other requests' bodies take all the memory that bodies may.
	errBodies = errors.New("too much is being sent at once")
	// errEnding: the process got SIGTERM, and takes no further requests.
	errEnding = errors.New("this instance is ending")
	// errStart: the function's clients could not be made.
	errStart = errors.New("the function could not start")
	// errNotCounted: an event must be delivered again.
	errNotCounted = errors.New("not counted yet")
)

// doing is what was under way when an error came.
type doing struct {
	nothing string // what is certain if nothing was changed
	unknown string // what is said of doubt
}

var (
	counting  = &doing{"nothing was counted", "whether this was counted is unknown; with an Idempotency-Key it is safe to try again"}
	joining   = &doing{"nothing was counted", "whether this was counted is unknown; asking again is safe"}
	holding   = &doing{"nothing was changed", "whether this was done is unknown; asking again for the same hold is safe"}
	resetting = &doing{"nothing was set back", "whether this was set back is unknown; asked again, it is set back again"}
	limiting  = &doing{"nothing was changed", "whether the limit was set is unknown; asking again is safe"}
	reading   = &doing{"try again", "try again"}
)

// during adds to an error what was under way. It doesn't change the text.
type during struct {
	error
	doing *doing
}

func (d during) Unwrap() error { return d.error }

// settledFor is a [shards.ErrSettled] that says for how much.
type settledFor struct{ by int64 }

func (e settledFor) Error() string { return fmt.Sprintf("%v for %d", shards.ErrSettled, e.by) }

func (e settledFor) Is(target error) bool { return target == shards.ErrSettled }

// answers say how each error is answered. The first row that fits counts, so doubt stands before what would be certain
// without it. In a detail {error} is the error's text, {is} that of the row's error, and {nothing} and {unknown} are
// what the doing says. Whatever is in no row is answered 500, and its details are only in the log.
var answers = []struct {
	is     error
	doing  *doing // nil is any
	status int
	detail string
	retry  bool // in a second
	close  bool
}{
	{is: errSlowBody, status: 408, detail: "{is}; {nothing}", close: true},
	{is: errEnding, status: 503, detail: "{is}; {nothing}", retry: true, close: true},
	{is: errBodies, status: 503, detail: "{is}; {nothing}", retry: true, close: true},
	{is: errNoKeys, status: 503, detail: "the token can't be checked now; {nothing}", retry: true},
	{is: errStart, status: 503, detail: "{is}; its log says why"},
	{is: shards.ErrInvalidID, status: 400, detail: "{error}"},
	{is: shards.ErrInvalidIncrement, status: 400, detail: "{error}"},
	{is: shards.ErrInvalidKey, status: 400, detail: "{error}"},
	{is: shards.ErrInvalidMember, status: 400, detail: "{error}"},
	{is: shards.ErrInvalidField, status: 400, detail: "{error}"},
	{is: shards.ErrKeyReused, status: 422, detail: "this Idempotency-Key came with another request before"},
	{is: shards.ErrUnknown, status: 504, detail: "{unknown}"},
	{is: shards.ErrLimit, status: 409, detail: "{error}; {nothing}"},
	{is: shards.ErrInvalidLimit, doing: limiting, status: 409, detail: "{error}; {nothing}"},
	{is: shards.ErrInvalidShards, doing: limiting, status: 409, detail: "{error}; {nothing}"},
	{is: shards.ErrNotInteger, doing: reading, status: 409, detail: "{error}"},
	{is: shards.ErrNotInteger, status: 409, detail: "{error}; {nothing}"},
	{is: book.ErrBeyond, status: 409, detail: "{error}; {nothing}"},
	{is: shards.ErrDamagedBase, status: 500, detail: "{is}, and nothing was changed: counters reconcile says why"},
	{is: shards.ErrHasMembers, status: 409, detail: "{is}; {nothing}"},
	{is: shards.ErrHoldEnded, status: 409, detail: "{is}"},
	{is: shards.ErrSettled, status: 409, detail: "{error}; {nothing}"},
	{is: shards.ErrNoHold, status: 404, detail: "{is}"},
	{is: shards.ErrNotFound, status: 404, detail: "{error}"},
	{is: shards.ErrFull, status: 409, detail: "{is}; {nothing}"},
	{is: shards.ErrNotCounted, status: 409, detail: "{error}"},
	{is: shards.ErrUnreachable, status: 503, detail: "Firestore does not answer; {nothing}", retry: true},
	{is: shards.ErrBusy, status: 503, detail: "too busy; {nothing}", retry: true},
	{is: shards.ErrClosed, status: 503, detail: "too busy; {nothing}", retry: true},
}

// problemOf is the answer to an error.
func problemOf(err error) problem {
	at := counting
	if d, is := errors.AsType[during](err); is {
		at = d.doing
	}
	if errors.Is(err, errNotCounted) { // whatever else it is
		closes := errors.Is(err, errSlowBody) || errors.Is(err, errEnding)
		return problem{Status: http.StatusServiceUnavailable, Detail: errNotCounted.Error() + ": deliver it again", retryAfter: time.Second, close: closes}
	}
	if p, is := errors.AsType[*problem](err); is {
		return *p
	}
	if short, is := errors.AsType[*ceiling.ShortError](err); is {
		return *beyond(short.Wait, short.For)
	}
	if others, is := errors.AsType[*book.SettingError](err); is {
		return problem{Status: http.StatusConflict, Detail: others.Error() + "; nothing was changed"}
	}
	text := err.Error()
	full, isFull := errors.AsType[*shards.LimitError](err)
	if isFull {
		text = full.Error()
	}
	settled, isSettled := errors.AsType[settledFor](err)
	if isSettled {
		text = settled.Error()
	}
	for _, a := range answers {
		if !errors.Is(err, a.is) || a.doing != nil && a.doing != at {
			continue
		}
		words := strings.NewReplacer("{error}", text, "{is}", a.is.Error(), "{nothing}", at.nothing, "{unknown}", at.unknown)
		p := problem{Status: a.status, Detail: words.Replace(a.detail), close: a.close}
		if a.retry {
			p.retryAfter = time.Second
		}
		switch {
		case a.is == shards.ErrHoldEnded:
			p.Reason = "hold-ended"
		case isSettled && a.is == shards.ErrSettled:
			p.Reason, p.By = "settled", &settled.by
		case a.is == shards.ErrLimit && isFull && at == limiting:
			p.Reason, p.Counter, p.Field, p.Taken = "taken", full.Counter, full.Field, &full.Taken
		case a.is == shards.ErrLimit && isFull:
			p.Reason, p.Counter, p.Field, p.Left = "limit-reached", full.Counter, full.Field, &full.Left
		}
		return p
	}
	if at == reading && store.MayPass(err) {
		return problem{Status: http.StatusServiceUnavailable, Detail: "Firestore does not answer; " + at.nothing, retryAfter: time.Second}
	}
	return problem{Status: http.StatusInternalServerError}
}

// write answers with the problem.
func (p problem) write(w http.ResponseWriter) {
	p.Title, p.Detail = http.StatusText(p.Status), shortened(p.Detail)
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
	body, _ := jsonOf(p)                    // it has no values that JSON has not
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // the client may be gone
}

// jsonOf is an answer as JSON, with a line break. It leaves < as it is: nobody takes the answer for HTML.
func jsonOf(answer any) ([]byte, error) {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(answer)
	return body.Bytes(), err
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
		log.Log(r.Context(), level, "request failed", append([]any{"method", r.Method, "path", echoed(r.URL.Path), "error", shortened(err.Error())}, attrs...)...)
	}
	passOver(w, r)
	p.write(w)
}
