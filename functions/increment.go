package functions

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/settings"
	"github.com/firestore-counters/counters/shards"
)

func buildIncrement(ctx context.Context, s settings.Settings, log *slog.Logger) (http.Handler, drain, error) {
	client, err := shards.Open(ctx, ShardsConfig(s, log))
	if err != nil {
		return nil, nil, err
	}
	if s.Auth == "firebase" && s.AuthEmulator != "" && os.Getenv("FIRESTORE_EMULATOR_HOST") == "" {
		log.Warn("anybody can be any user of this database: tokens are not signed", "FIREBASE_AUTH_EMULATOR_HOST", s.AuthEmulator)
	}
	return GuardedIncrementHandler(ctx, client, s, log), nil, nil
}

// ShardsConfig is the configuration of the clients of Increment, by the settings.
func ShardsConfig(s settings.Settings, log *slog.Logger) shards.Config {
	return shards.Config{
		Place:      s.Place(),
		AutoCreate: s.AutoCreate.On, NumShards: s.NumShards, MaxShards: s.MaxShards, CacheTTL: s.CacheTTL, ReadCache: s.ReadCache,
		InexactWrites: !s.ExactWrites, KeyTTL: s.RequestTTL, MaxBatch: s.MaxBatch, CommitInterval: s.CommitInterval, MaxQueue: s.MaxQueue,
		Logger: log,
		Budget: ceiling.New(ceiling.Rates(s.Ceiling)),
		// A batch ends before the request that began it, so that the request can answer.
		Timeout: s.RequestTimeout*9/10 - s.CommitInterval, Wait: s.RequestTimeout,
	}
}

// GuardedIncrementHandler is the function Increment over a client. It lets in the callers whom AUTH
// allows. It fetches the keys that sign tokens by [http.DefaultTransport].
func GuardedIncrementHandler(ctx context.Context, client *shards.Client, s settings.Settings, log *slog.Logger) http.Handler {
	return newIncrementHandler(client, s, tokensFor(ctx, s, client.Project()), log)
}

// newIncrementHandler answers requests to add to counters, and to read them; docs/openapi.yaml describes them. If t
// isn't nil, callers need a token. It answers an increment after its commit. A request with an Idempotency-Key may be
// repeated, and counts once.
func newIncrementHandler(client *shards.Client, s settings.Settings, t *tokens, log *slog.Logger) http.Handler {
	h := &incrementHandler{Settings: s, client: client, tokens: t, limit: newLimiter(s.RateLimit), creations: newCreations(s), log: log,
		budget: client.Budget(), failures: newFailures(), sums: newLRU[int64](knownCounters), heldUp: newLRU[time.Time](knownCounters), limits: len((layout.Layout{Sharded: s.Fields}).Limited()) > 0}
	if writes := h.budget.Second(ceiling.Writes); writes > 0 && s.Auth == "firebase" { // others share an address
		h.share = newBuckets(max(1, writes*userShare), int(math.Ceil(max(1, writes*userShare)*ceiling.Begins.Seconds())))
		h.lately = &lately{callers: newLRU[asked](knownCallers)}
	}
	if i := slices.IndexFunc(s.Fields, func(f layout.Field) bool { return f.Counted == nil }); i >= 0 {
		h.first = s.Fields[i].Name
	}
	return newSpender(h.budget, log).around(allowOrigins(s.AllowedOrigins, log, h))
}

// knownCounters is of how many counters it is remembered what an exact read takes, or that they can't be made for now.
const knownCounters = 1000

// userShare is the part of a ceiling's writes that one user may have while they are short.
const userShare = 0.1

type incrementHandler struct {
	settings.Settings
	client    *shards.Client
	tokens    *tokens // nil for none
	limit     *limiter
	creations *limiter // how many counters each caller may make; nil if there is no bound, or if none are made
	budget    *ceiling.Budget
	lately    *lately      // what each user has asked for in the last minute; nil as share
	share     *limiter     // what each user may have of it while it is short; nil if there are no users, or no ceiling
	awaited   atomic.Int64 // bodies
	failures  *failures
	sums      *lru.Cache[string, int64]     // :: counter → what its last exact read took, if that was more than the least
	heldUp    *lru.Cache[string, time.Time] // :: counter that isn't there → until when there is no room for it
	limits    bool                          // fields have limits
	first     string                        // field that is counted when none is named; "" if there is nothing to increment
	log       *slog.Logger
}

func (h *incrementHandler) ServeHTTP(w http.ResponseWriter, httpRequest *http.Request) {
	r, err := readRequest(httpRequest, h.Counters.Parts())
	if err == nil {
		err = h.admit(r)
	}
	if err == nil {
		if h.knows(r) {
			recognize(w)
		}
		err = h.within(r)
		defer h.back(httpRequest.Context(), r)
	}
	if err != nil {
		h.fail(w, httpRequest, "", err)
		return
	}
	if r.kind != addOne && r.kind != addMany { // an increment gets its deadline from its client: see apply
		ctx, cancel := context.WithTimeout(r.Context(), h.RequestTimeout)
		defer cancel()
		r.Request = r.WithContext(ctx)
	}
	if b, is := r.Body.(*boundedBody); is {
		b.awaited = &h.awaited
	}
	under, do := h.does(r.kind)
	answer, err := do(w, r)
	switch missing := errors.Is(err, shards.ErrNotFound); {
	case missing && r.kind == read && r.field != "":
		// The page shows 0. An answer of 404 would be an error in its console, every two seconds.
		passOver(w, r.Request)
		w.Header().Set("Cache-Control", "no-store") // it may be made in a moment
		w.WriteHeader(http.StatusNoContent)
		return
	case missing && r.Method != http.MethodGet && h.Hosted:
		err = fmt.Errorf("%w: the app makes the documents %v", err, h.Counters)
	case missing && r.Method != http.MethodGet && !h.AutoCreate.On:
		err = fmt.Errorf("%w: AUTO_CREATE is off, so counters create makes it", err)
	}
	if _, is := errors.AsType[during](err); err != nil && !is {
		err = during{err, under}
	}
	var body []byte
	if err == nil {
		body, err = jsonOf(answer)
	}
	if err != nil {
		h.fail(w, r.Request, r.payer, err)
		return
	}
	passOver(w, r.Request)
	w.Header().Set("Content-Type", "application/json")
	if r.kind == read && !r.exact {
		w.Header().Set("ETag", etagOf(body))
		// This answers 304 if the caller has the body already. It would answer many ranges of it with headers for each.
		r.Header.Del("Range")
		http.ServeContent(w, r.Request, "", time.Time{}, bytes.NewReader(body))
		return
	}
	_, _ = w.Write(body) // the client may be gone
}

// knows reports whether a request's caller has a token, or needs none.
func (h *incrementHandler) knows(r *request) bool { return r.caller != "" || h.tokens == nil }

// does says what is under way in requests of a kind, and what answers them.
func (h *incrementHandler) does(k kind) (*doing, func(http.ResponseWriter, *request) (any, error)) {
	switch k {
	case read:
		return reading, h.read
	case joined:
		return reading, h.joined
	case held:
		return reading, h.held
	case join, leave:
		return joining, h.toggle
	case confirm:
		return joining, h.confirm
	case reserve:
		return holding, h.reserve
	case settle, giveBack:
		return holding, h.finish
	case reset:
		return resetting, h.reset
	case setLimit:
		return limiting, h.setLimit
	case addMany:
		return counting, h.addMany
	}
	return counting, h.addOne
}

// admit lets in the callers whom AUTH allows, as far as their rate goes. It limits requests with an invalid token by
// their address, separately from valid ones of the same address or proxy. So it must check every token, but it seldom
// fetches keys.
func (h *incrementHandler) admit(r *request) (err error) {
	if h.tokens != nil && !h.public(r) {
		r.caller, err = h.tokens.verify(r.Request)
		if hasStatus(err, http.StatusUnauthorized) {
			h.log.DebugContext(r.Context(), "token refused", "method", r.Method, "path", echoed(r.URL.Path), "error", shortened(err.Error()))
			if limited := h.limit.take("refused:" + addressOf(r.Request, h.TrustedProxies)); limited != nil {
				err = limited
			}
		}
		if err != nil {
			return err
		}
	}
	if h.limit != nil || h.creations != nil || h.share != nil {
		// An address with an app's token counts separately from the same address without.
		if r.payer = r.caller; r.caller == "" || h.tokens.shared {
			r.payer += " address:" + addressOf(r.Request, h.TrustedProxies)
		}
	}
	if err := h.limit.take(r.payer); err != nil {
		return err
	}
	return h.limit.charge(r.payer, r.units()-1)
}

// fail answers with err. The failures of one caller share a line of the log a minute.
func (h *incrementHandler) fail(w http.ResponseWriter, r *http.Request, caller string, err error) {
	log, attrs := h.log, []any(nil)
	if _, short := errors.AsType[*ceiling.ShortError](err); short {
		h.budget.Held()
	}
	if problemOf(err).Status >= http.StatusInternalServerError {
		more, ok := h.failures.tell(cmp.Or(caller, addressOf(r, h.TrustedProxies)), time.Now())
		if more > 0 {
			attrs = append(attrs, "more", more)
		}
		if !ok {
			log = slog.New(slog.DiscardHandler)
		}
	}
	fail(w, r, log, err, attrs...)
}

// public reports whether a request needs no token. Members are private, and counting documents costs a read per 1,000.
func (h *incrementHandler) public(r *request) bool {
	_, counted := h.Fields.Split()
	return h.PublicReads && r.kind == read && (len(counted) == 0 || !r.exact)
}

// mayMake counts the missing ones of these counters against the caller who would make them. Errors: a problem with 429,
// or 400 where these are more than the caller may ever make at once, and then nothing is made; and those of a read.
func (h *incrementHandler) mayMake(r *request, counters ...string) error {
	if !h.AutoCreate.On || h.creations == nil && h.limit == nil && h.budget == nil {
		return nil
	}
	if err := h.isHeldUp(counters); err != nil {
		return err
	}
	// Reads for refused creations count separately, with the same rate. A single one costs as much as a GET.
	refused := "refused:" + r.payer
	if h.creations != nil && h.client.Unread(counters...) > 1 {
		if err := h.creations.owes(refused); err != nil {
			return err
		}
	}
	missing, err := h.client.Missing(r.Context(), counters...)
	if err != nil {
		return during{err, reading}
	}
	if err := h.creations.takeAll(r.payer, len(missing)); err != nil {
		h.creations.owe(refused, min(len(missing), h.creations.burst)) // so that a pause is a minute
		return err
	}
	if err := h.mayCreate(missing); err != nil {
		return err
	}
	h.owe(r, len(missing)*(h.NumShards+1))
	h.limit.owe(r.payer, len(missing)*(h.NumShards+1)) // its document and its shards; the request is counted already
	return nil
}
