package functions

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"os"
	"slices"
	"strconv"
	"time"

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
		budget: client.Budget(), failures: newFailures(), limits: len((layout.Layout{Fields: s.Fields}).Limited()) > 0}
	if writes := h.budget.Second(ceiling.Writes); writes > 0 && s.Auth == "firebase" { // others share an address
		h.share = newBuckets(max(1, writes*userShare), int(math.Ceil(max(1, writes*userShare)*ceiling.Begins.Seconds())))
	}
	if i := slices.IndexFunc(s.Fields, func(f layout.Field) bool { return f.Counted == nil }); i >= 0 {
		h.first = s.Fields[i].Name
	}
	return newSpender(h.budget, log).around(allowOrigins(s.AllowedOrigins, log, h))
}

// userShare is the part of a ceiling's writes that one user may have while they are short.
const userShare = 0.1

type incrementHandler struct {
	settings.Settings
	client    *shards.Client
	tokens    *tokens // nil for none
	limit     *limiter
	creations *limiter // how many counters each caller may make; nil if there is no bound, or if none are made
	budget    *ceiling.Budget
	share     *limiter // what each user may have of it while it is short; nil if there are no users, or no ceiling
	failures  *failures
	limits    bool   // fields have limits
	first     string // field that is counted when none is named; "" if there is nothing to increment
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
		defer func() { h.budget.Spend(ceiling.Bytes, -r.promised) }() // what it really took has been spent
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
		// This answers 304 if the caller has the body already.
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

// mayMake counts the missing ones of these counters against the caller who would make them. Errors: a problem with
// 429, and then nothing is made, and those of a read.
func (h *incrementHandler) mayMake(r *request, counters ...string) error {
	if err := h.mayLook(counters...); err != nil {
		return err
	}
	if h.creations == nil && (h.limit == nil && !h.budget.Bounds(ceiling.Creates) || !h.AutoCreate.On) {
		return nil
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
	if err := h.mayCreate(len(missing)); err != nil {
		return err
	}
	h.share.owe(r.payer, len(missing)*(h.NumShards+1))
	h.limit.owe(r.payer, len(missing)*(h.NumShards+1)) // its document and its shards; the request is counted already
	return nil
}

// increment is one of several in a request, and in its answer.
type increment struct {
	Counter string           `json:"counter"`
	By      amount           `json:"by"`
	Left    map[string]int64 `json:"left,omitempty"` // of limits, once it is counted
}

// amount is what a request adds to a counter.
type amount struct {
	by     int64            // for the first counted field
	fields map[string]int64 // or for these fields; may be nil
}

func (a amount) MarshalJSON() ([]byte, error) {
	if a.fields != nil {
		return json.Marshal(a.fields)
	}
	return strconv.AppendInt(nil, a.by, 10), nil
}

// of is the amount as increments of a counter, in the order of the fields' names.
func (a amount) of(counter string) []shards.Increment {
	if a.fields == nil {
		return []shards.Increment{{Counter: counter, By: a.by}}
	}
	var increments []shards.Increment
	for _, field := range slices.Sorted(maps.Keys(a.fields)) {
		increments = append(increments, shards.Increment{Counter: counter, Field: field, By: a.fields[field]})
	}
	return increments
}

// each are the increments of all fields.
func each(increments []increment) (list []shards.Increment) {
	for _, i := range increments {
		list = append(list, i.By.of(i.Counter)...)
	}
	return list
}

// counted says that increments were counted.
type counted struct {
	Replayed bool `json:"replayed,omitempty"` // an earlier request with the same key was counted

	CommittedAt time.Time `json:"committed_at,omitzero"`
}

func (h *incrementHandler) addOne(w http.ResponseWriter, r *request) (any, error) {
	began := time.Now()
	if _, err := h.client.Counter(r.counter); err != nil {
		return nil, err
	}
	key, err := keyOf(r)
	if err != nil {
		return nil, err
	}
	body, err := readBody(w, r.Request, maxBody)
	if err != nil {
		return nil, err
	}
	by, err := decodeBy(body, h.MaxIncrement)
	if err != nil {
		return nil, err
	}
	if err := h.limit.charge(r.payer, len(by.fields)-1); err != nil { // each counts, and the first has counted
		return nil, err
	}
	h.share.owe(r.payer, len(by.fields)-1)
	one := increment{Counter: r.counter, By: by}
	done, err := h.apply(r, began, key, one)
	if err == nil && !done.Replayed {
		one.Left = h.left(one)
	}
	return struct {
		increment
		counted
	}{one, done}, err
}

// left is what this instance knows to be left of the limited fields that an increment adds to, by their names.
func (h *incrementHandler) left(i increment) (left map[string]int64) {
	if !h.limits {
		return nil
	}
	counter, err := h.client.Counter(i.Counter)
	if err != nil {
		return nil
	}
	for _, add := range i.By.of(i.Counter) {
		field := cmp.Or(add.Field, h.first)
		if n, ok := counter.Left(field); ok {
			if left == nil {
				left = map[string]int64{}
			}
			left[field] = n
		}
	}
	return left
}

func (h *incrementHandler) addMany(w http.ResponseWriter, r *request) (any, error) {
	began := time.Now()
	key, err := keyOf(r)
	if err != nil {
		return nil, err
	}
	body, err := readBody(w, r.Request, maxBodyMany)
	if err != nil {
		return nil, err
	}
	increments, err := decodeIncrements(body, h.MaxIncrement, h.first)
	if err == nil {
		err = h.mayName(increments)
	}
	if err != nil {
		return nil, err
	}
	if err := h.limit.charge(r.payer, len(each(increments))-1); err != nil { // each counts, and the first has counted
		return nil, err
	}
	h.share.owe(r.payer, len(each(increments))-1)
	done, err := h.apply(r, began, key, increments...)
	if err == nil && !done.Replayed {
		for n := range increments {
			increments[n].Left = h.left(increments[n])
		}
	}
	return struct {
		Increments []increment `json:"increments"`
		counted
	}{increments, done}, err
}

// maxNamed is how many counters a request of a token's bearer may name. Each is a write that the app's owner pays, and
// a page shows few. A backend may name [shards.MaxIncrements].
const maxNamed = 20

// mayName makes sure that a request names no more counters than its caller may.
func (h *incrementHandler) mayName(increments []increment) error {
	named := map[string]bool{}
	for _, i := range increments {
		named[i.Counter] = true
	}
	if h.tokens != nil && len(named) > maxNamed {
		return bad("the request names %d counters; with a token at most %d are allowed", len(named), maxNamed)
	}
	return nil
}

// apply counts increments, all or none, within the rest of the request's time. Usually that is nearly all of it, which
// the client bounds by itself. It is less if the body was slow, or if counters were looked up.
func (h *incrementHandler) apply(r *request, began time.Time, key shards.Key, increments ...increment) (counted, error) {
	ids := make([]string, len(increments))
	for n, i := range increments {
		ids[n] = i.Counter
	}
	if err := h.mayMake(r, ids...); err != nil {
		return counted{}, err
	}
	ctx := r.Context()
	if took := time.Since(began); took >= h.RequestTimeout/100 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, h.RequestTimeout-took)
		defer cancel()
	}
	replayed, at, err := h.client.Apply(ctx, each(increments), key)
	return counted{replayed, at}, err
}

// keyOf is the request's idempotency key.
func keyOf(r *request) (shards.Key, error) {
	switch values := r.Header.Values("Idempotency-Key"); {
	case len(values) == 0:
		return shards.Key{}, nil
	case len(values) > 1 || values[0] == "":
		return shards.Key{}, bad("want one Idempotency-Key of 1 to 255 printable ASCII characters")
	default:
		return shards.Key{Caller: r.caller, Value: values[0]}, nil
	}
}

// decodeBy reads the body of POST /{counter}: empty, {"by": 5} or {"by": {"likes": 1, "views": 3}}.
func decodeBy(body []byte, most int64) (amount, error) {
	const want = `want {"by": 5}, or nothing`
	by := amount{by: 1}
	if len(body) == 0 {
		return by, nil
	}
	err := decodeObject(body, want, func(d decoder, name string) (err error) {
		if name != "by" {
			return bad(`unknown field %q; %s`, name, want)
		}
		by, err = d.by(most)
		return err
	})
	return by, err
}

// decodeIncrements reads the body of POST /: {"increments": [{"counter": "a", "by": 1}, …]}.
func decodeIncrements(body []byte, most int64, first string) ([]increment, error) {
	const want = `want {"increments": [{"counter": "a", "by": 1}]}`
	var increments []increment
	err := decodeObject(body, want, func(d decoder, name string) error {
		if name != "increments" {
			return bad("unknown field %q; %s", name, want)
		}
		return d.array(want, func() error {
			if len(increments) == shards.MaxIncrements {
				return bad("more than %d increments", shards.MaxIncrements)
			}
			i, named := increment{By: amount{by: 1}}, false
			err := d.object(want, func(name string) (err error) {
				switch name {
				case "counter":
					named = true
					i.Counter, err = d.text()
				case "by":
					i.By, err = d.by(most)
				default:
					err = bad("unknown field %q; %s", name, want)
				}
				return err
			})
			if err == nil && !named {
				err = bad("an increment names no counter; %s", want)
			}
			increments = append(increments, i)
			return err
		})
	})
	switch {
	case err != nil:
	case len(increments) == 0:
		err = bad("no increments; %s", want)
	default:
		err = notBeyond(most, first, increments)
	}
	return increments, err
}

// notBeyond makes sure that several increments together add at most most, up or down, to a field of a
// counter. first is the name of the field that an increment without a field goes to.
func notBeyond(most int64, first string, increments []increment) error {
	type place struct{ counter, field string }
	sums := make(map[place]int64, len(increments))
	for _, i := range each(increments) {
		at := place{i.Counter, cmp.Or(i.Field, first)}
		sum := sums[at]
		if sum > 0 && i.By > most-sum || sum < 0 && i.By < -most-sum { // no overflow: sum is within most already
			return bad("the increments of %q add up to more than %d, up or down", i.Counter, most)
		}
		sums[at] = sum + i.By
	}
	return nil
}

// by reads an amount: an integer other than 0, at most most up or down, or an object of such integers.
func (d decoder) by(most int64) (amount, error) {
	t, err := d.token()
	if err != nil {
		return amount{}, err
	}
	if t != json.Delim('{') {
		by, err := integer("by", t, most)
		return amount{by: by}, err
	}
	a := amount{fields: map[string]int64{}}
	err = d.members(func(name string) error {
		if name == "" { // it would mean the first field
			return bad("by has a field without a name")
		}
		t, err := d.token()
		if err == nil {
			a.fields[name], err = integer("by."+name, t, most)
		}
		return err
	})
	if err == nil && len(a.fields) == 0 {
		err = bad(`by is empty; want an integer, or fields such as {"likes": 1}`)
	}
	return a, err
}

// integer is an increment: other than 0, at most most up or down. name is what the body calls it.
func integer(name string, t json.Token, most int64) (int64, error) {
	number, ok := t.(json.Number)
	if !ok {
		return 0, bad("%s is %v; want an integer other than 0", name, describe(t))
	}
	by, err := whole(number.String())
	shown := number.String()
	if len(shown) > 40 { // a body has room for 65,000 digits
		shown = shown[:40] + "…"
	}
	switch {
	case errors.Is(err, strconv.ErrRange), err == nil && (by > most || by < -most):
		return 0, bad("%s is %v; at most %d is allowed, up or down", name, shown, most)
	case err != nil, by == 0:
		return 0, bad("%s is %v; want an integer other than 0", name, shown)
	}
	return by, nil
}
