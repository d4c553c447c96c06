package functions

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

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

// GuardedIncrementHandler is the function Increment over a client. It lets in the callers whom AUTH
// allows. It fetches the keys that sign tokens by [http.DefaultTransport].
func GuardedIncrementHandler(ctx context.Context, client *shards.Client, s settings.Settings, log *slog.Logger) http.Handler {
	return newIncrementHandler(client, s, tokensFor(ctx, s, client.Project()), log)
}

// ShardsConfig is the configuration of the clients of Increment, by the settings.
func ShardsConfig(s settings.Settings, log *slog.Logger) shards.Config {
	return shards.Config{
		Place:      s.Place(),
		AutoCreate: s.AutoCreate.On, NumShards: s.NumShards, MaxShards: s.MaxShards, CacheTTL: s.CacheTTL, ReadCache: s.ReadCache,
		InexactWrites: !s.ExactWrites, KeyTTL: s.RequestTTL, MaxBatch: s.MaxBatch, CommitInterval: s.CommitInterval, MaxQueue: s.MaxQueue,
		Logger: log,
		// A batch ends before the request that began it, so that the request can answer.
		Timeout: s.RequestTimeout*9/10 - s.CommitInterval, Wait: s.RequestTimeout,
	}
}

// newIncrementHandler answers requests to add to counters, and to read them.
//
//	POST /{counter}    adds 1, or {"by": 5}, or {"by": {"likes": 1, "views": 3}}
//	POST /             {"increments": [{"counter": "a", "by": 1}, …]}: all or none
//	GET  /{counter}    the counter's document, up to READ_CACHE old; with ?exact=true its total is
//	                   summed over the shards
//	GET  /?counter=…   the same, for ids that a path can't carry; with &field=… for a page that
//	                   watches that field: 400 if it isn't counted, 204 if there is no counter
//
//	POST /{counter}/reset   sets it back to 0; RESET says who may
//	PUT  /{counter}/limit   {"limit": 500} gives a field a limit, and null takes it away; LIMIT says who may
//
//	PUT    /{counter}/{field}/{member}   counts a member once; MEMBERS says whom a caller may name
//	                                     with ?hold=10m only for so long
//	POST   /{counter}/{field}/{member}/confirm   has it stay
//	DELETE /{counter}/{field}/{member}   takes it off again
//	GET    /{counter}/{field}/{member}   says whether it is counted
//
// It answers an increment after its commit. A request with an Idempotency-Key may be repeated, and
// counts once. If t isn't nil, callers need a token.
func newIncrementHandler(client *shards.Client, s settings.Settings, t *tokens, log *slog.Logger) http.Handler {
	limit := newLimiter(s.RateLimit)
	increments := &incrementHandler{client: client, tokens: t, limit: limit, creations: newCreations(s), most: s.MaxIncrement, fields: s.Fields, first: firstOf(s.Fields), timeout: s.RequestTimeout,
		proxies: s.TrustedProxies, members: s.Members, resets: s.Reset, setLimits: s.Limit, wildcards: s.Counters.Wildcards(), partsOfID: s.Counters.Parts(),
		cache: caching{kept: s.ReadCache, private: t != nil && !s.PublicReads}, log: log}
	switch {
	case s.Hosted:
		increments.unmade = "the app makes the documents " + s.Counters.String()
	case !s.AutoCreate.On:
		increments.unmade = "AUTO_CREATE is off, so counters create makes it"
	}
	var h http.Handler = increments
	if t != nil {
		_, counted := s.Fields.Split()
		public := func(r *http.Request) bool { // members are private, and counting documents costs a read per 1,000
			return s.PublicReads && r.Method == http.MethodGet && !increments.isMember(r) && (len(counted) == 0 || exactOf(r) != "true")
		}
		h = t.require(public, limit, s.TrustedProxies, log, h)
	}
	ofCounters := allowMethods(log, h, http.MethodGet, http.MethodPost)
	ofMembers := allowMethods(log, h, http.MethodGet, http.MethodPut, http.MethodDelete)
	confirmations := allowMethods(log, h, http.MethodPost)
	resets := allowMethods(log, h, http.MethodPost)
	limits := allowMethods(log, h, http.MethodPut)
	return allowOrigins(s.AllowedOrigins, log, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case increments.isConfirmation(r):
			confirmations.ServeHTTP(w, r)
		case increments.isMember(r):
			ofMembers.ServeHTTP(w, r)
		case increments.isCommand(r, resetCommand):
			resets.ServeHTTP(w, r)
		case increments.isCommand(r, limitCommand):
			limits.ServeHTTP(w, r)
		default:
			ofCounters.ServeHTTP(w, r)
		}
	}))
}

// firstOf is the name of the field that an increment without a field goes to; "" if there is nothing to
// increment.
func firstOf(fields layout.Fields) string {
	for _, field := range fields {
		if field.Counted == nil {
			return field.Name
		}
	}
	return ""
}

type incrementHandler struct {
	client *shards.Client
	tokens *tokens // nil for none
	limit  *limiter
	// creations bounds how many counters each caller may make; nil if there is no bound, or if none are
	// made.
	creations *limiter
	proxies   int   // how many addresses at the end of X-Forwarded-For are of proxies
	most      int64 // largest increment of a request
	fields    layout.Fields
	first     string // field that is counted when none is named
	timeout   time.Duration
	cache     caching
	log       *slog.Logger

	unmade    string // why a missing counter is not made; "" if it is
	members   string // whom a caller may name as a member
	resets    string // whose counters a caller may reset
	setLimits string // whose limits a caller may set
	wildcards []string
	partsOfID int // how many parts a counter's id has
}

func (h *incrementHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost { // an increment gets its deadline from its client: see rest
		ctx, cancel := context.WithTimeout(r.Context(), h.timeout)
		defer cancel()
		r = r.WithContext(ctx)
	}
	answer, err := h.serve(w, r)
	if watched(r) != "" && errors.Is(err, shards.ErrNotFound) {
		// The page shows 0. An answer of 404 would be an error in its console, every two seconds.
		w.Header().Set("Cache-Control", "no-store") // it may be made in a moment
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if r.Method != http.MethodGet && errors.Is(err, shards.ErrNotFound) && h.unmade != "" {
		err = fmt.Errorf("%w: %s", err, h.unmade)
	}
	if err != nil {
		fail(w, r, h.log, err)
		return
	}
	body, err := json.Marshal(answer)
	if err != nil {
		fail(w, r, h.log, err)
		return
	}
	body = append(body, '\n')
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodGet && w.Header().Get("Cache-Control") != "no-store" {
		w.Header().Set("ETag", etagOf(body))
		// This answers 304 if the caller has the body already.
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
		return
	}
	_, _ = w.Write(body) // the client may be gone
}

func (h *incrementHandler) serve(w http.ResponseWriter, r *http.Request) (any, error) {
	limited := h.limitedAs(r)
	if err := h.limit.take(limited); err != nil {
		return nil, err
	}
	if h.isMember(r) {
		return h.serveMember(w, r, limited)
	}
	for command, serve := range map[string]func(http.ResponseWriter, *http.Request, string) (any, error){resetCommand: h.serveReset, limitCommand: h.serveLimit} {
		if counter, is, err := commandOf(r.URL, h.partsOfID, command); err != nil {
			return nil, err
		} else if is {
			return serve(w, r, counter)
		}
	}
	counter, err := counterOf(r.URL)
	if err != nil {
		return nil, err
	}
	switch {
	case r.Method == http.MethodGet:
		return h.read(w, r, counter, limited)
	case r.URL.Path == "/" || r.URL.Path == "":
		return h.addMany(w, r, limited)
	}
	return h.addOne(w, r, counter, limited)
}

// limitedAs is whose rate a request counts against: the user in its token, or else its address; ""
// if there is no limit. An address with an app's token counts separately from the same address without.
func (h *incrementHandler) limitedAs(r *http.Request) string {
	if h.limit == nil && h.creations == nil {
		return ""
	}
	caller := callerOf(r.Context())
	if caller != "" && !h.tokens.shared {
		return caller
	}
	return caller + " address:" + addressOf(r, h.proxies)
}

// mayMake counts the missing ones of these counters against the caller who would make them. Errors:
// [*rateLimited], and then nothing is made, and those of a read.
func (h *incrementHandler) mayMake(ctx context.Context, caller string, counters ...string) error {
	if h.creations == nil {
		return nil
	}
	// Reads for refused creations count separately, with the same rate. A single one costs as much as a GET.
	refused := "refused:" + caller
	if h.client.Unread(counters...) > 1 {
		if err := h.creations.owes(refused); err != nil {
			return err
		}
	}
	missing, err := h.client.Missing(ctx, counters...)
	if err != nil {
		return during{err, errRead}
	}
	err = h.creations.takeAll(caller, len(missing))
	if err != nil {
		h.creations.owe(refused, min(len(missing), h.creations.burst)) // so that a pause is a minute
	}
	return err
}

// rest bounds an increment by the rest of its request's time. Usually that is nearly all of it, which
// the client bounds by itself. It is less if the body was slow, or if counters were looked up.
func (h *incrementHandler) rest(r *http.Request, began time.Time) (context.Context, context.CancelFunc) {
	took := time.Since(began)
	if took < h.timeout/100 {
		return r.Context(), func() {}
	}
	return context.WithTimeout(r.Context(), h.timeout-took)
}

// added answers POST /{counter}.
type added struct {
	Counter  string `json:"counter"`
	By       amount `json:"by"`
	Replayed bool   `json:"replayed,omitempty"` // an earlier request with the same key was counted
}

func (h *incrementHandler) addOne(w http.ResponseWriter, r *http.Request, id, limited string) (any, error) {
	began := time.Now()
	counter, err := h.client.Counter(id)
	if err != nil {
		return nil, err
	}
	key, err := keyOf(r)
	if err != nil {
		return nil, err
	}
	body, err := readBody(w, r, maxBody)
	if err != nil {
		return nil, err
	}
	by, err := decodeBy(body, h.most)
	if err != nil {
		return nil, err
	}
	if err := h.mayMake(r.Context(), limited, id); err != nil {
		return nil, err
	}
	ctx, cancel := h.rest(r, began)
	defer cancel()
	var replayed bool
	if by.fields == nil {
		replayed, err = counter.AddOnce(ctx, by.by, key)
	} else {
		replayed, err = counter.AddFields(ctx, by.fields, key)
	}
	if err != nil {
		return nil, err
	}
	return added{Counter: id, By: by, Replayed: replayed}, nil
}

// addedMany answers POST /.
type addedMany struct {
	Increments []increment `json:"increments"`
	Replayed   bool        `json:"replayed,omitempty"`
}

func (h *incrementHandler) addMany(w http.ResponseWriter, r *http.Request, limited string) (any, error) {
	began := time.Now()
	key, err := keyOf(r)
	if err != nil {
		return nil, err
	}
	body, err := readBody(w, r, maxBodyMany)
	if err != nil {
		return nil, err
	}
	increments, err := decodeIncrements(body, h.most, h.first)
	if err != nil {
		return nil, err
	}
	if err := h.limit.charge(limited, len(increments)-1); err != nil { // each counts, and the first has counted
		return nil, err
	}
	ids := make([]string, len(increments))
	for n, i := range increments {
		ids[n] = i.Counter
	}
	if err := h.mayMake(r.Context(), limited, ids...); err != nil {
		return nil, err
	}
	ctx, cancel := h.rest(r, began)
	defer cancel()
	replayed, err := h.client.AddAll(ctx, each(increments), key)
	if err != nil {
		return nil, err
	}
	return addedMany{Increments: increments, Replayed: replayed}, nil
}

// read reads a counter, from memory unless the read is exact. It sets the headers that caches on the way
// need.
func (h *incrementHandler) read(w http.ResponseWriter, r *http.Request, id, limited string) (any, error) {
	exact := false
	if _, err := queryOf(r.URL); err != nil {
		return nil, err
	}
	switch value := exactOf(r); value {
	case "", "false":
	case "true":
		exact = true
	default:
		return nil, bad("exact is %q; want true or false", value)
	}
	counter, err := h.client.Counter(id)
	if err != nil {
		return nil, err
	}
	if field := watched(r); field != "" {
		if err := h.fields.CheckShown(field); err != nil {
			return nil, bad("%v", err)
		}
	}
	if exact {
		snapshot, err := counter.Sum(r.Context())
		h.limit.owe(limited, int(snapshot.Reads)-1) // the request is counted already
		if err != nil {
			return nil, during{err, errRead}
		}
		w.Header().Set("Cache-Control", "no-store")
		return snapshot, nil
	}
	var snapshot shards.Snapshot
	if h.cache.kept > 0 {
		snapshot, _, err = counter.Cached(r.Context())
	} else {
		snapshot, err = counter.Get(r.Context())
	}
	if err != nil {
		return nil, during{err, errRead}
	}
	w.Header().Set("Cache-Control", h.cache.control())
	return snapshot, nil
}

// watched is the field that a web page watches, from GET /?counter=…&field=…. It is an error for such a
// page if the field isn't counted, but not if the counter doesn't exist.
func watched(r *http.Request) string {
	if r.Method != http.MethodGet || strings.TrimPrefix(r.URL.EscapedPath(), "/") != "" {
		return ""
	}
	return r.URL.Query().Get("field")
}

// exactOf is the request's parameter exact.
func exactOf(r *http.Request) string { return r.URL.Query().Get("exact") }

// caching says how long a total may be kept, here and on its way.
type caching struct {
	kept    time.Duration // 0: every read asks again
	private bool          // reading takes a token, so shared caches must not keep it
}

// control is the header Cache-Control of an answer.
func (c caching) control() string {
	seconds := int64(c.kept / time.Second)
	switch {
	case seconds == 0:
		return "no-cache" // a cache may keep it, and must ask with its ETag
	case c.private:
		return fmt.Sprintf("private, max-age=%d", seconds)
	}
	return fmt.Sprintf("public, max-age=%d", seconds)
}

// etagOf identifies an answer: by all that it says.
func etagOf(body []byte) string {
	sum := sha256.Sum256(body)
	return fmt.Sprintf(`"%x"`, sum[:12])
}

// keyOf is the request's idempotency key.
func keyOf(r *http.Request) (shards.Key, error) {
	switch values := r.Header.Values("Idempotency-Key"); {
	case len(values) == 0:
		return shards.Key{}, nil
	case len(values) > 1 || values[0] == "":
		return shards.Key{}, bad("want one Idempotency-Key of 1 to 255 printable ASCII characters")
	default:
		return shards.Key{Caller: callerOf(r.Context()), Value: values[0]}, nil
	}
}
