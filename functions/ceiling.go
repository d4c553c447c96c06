package functions

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/shards"
)

// LogCeiling is the message of the line that says how much of the ceiling was used. A metric and an alert look for it.
const LogCeiling = "ceiling"

const (
	// headersOf is about how many bytes an answer has before those headers that a function sets: the status, the date,
	// and what Google's front end adds.
	headersOf = 250
	// useEvery is how often the use of a ceiling is logged.
	useEvery = time.Minute
)

// How many bytes have to be left for an answer, in the time in which they are earned. Who needs more of them is
// answered last. So refusals, however many, and reads leave enough for increments that fit.
const (
	leavesBody    = ceiling.Begins // a refusal with a body
	leavesUnknown = 15 * time.Second / 2
	leavesRefused = 5 * time.Second // a refusal of a known caller; others get none by then
	leavesReads   = 5 * time.Second / 2
)

// answerBytes is about how many bytes an answer has besides what it repeats, and repeats how much longer that is in
// JSON than it was sent, at most: %01 becomes \u0001. Both are kept for requests under way.
const answerBytes, repeats = 370, 2

// spender has a function keep to its ceiling: what its requests are answered, and how many are begun. It also logs how
// much was used.
type spender struct {
	budget *ceiling.Budget
	begins *rate.Limiter // requests; nil if they have no bound
	first  chan struct{} // holds the first of those that wait for it
	log    *slog.Logger
}

func newSpender(budget *ceiling.Budget, log *slog.Logger) *spender {
	s := &spender{budget: budget, first: make(chan struct{}, 1), log: log}
	if second := budget.Second(ceiling.Requests); second > 0 {
		s.begins = rate.NewLimiter(rate.Limit(second), int(math.Max(1, math.Ceil(second))))
	}
	return s
}

// around counts what next answers. Without a ceiling it is next.
func (s *spender) around(next http.Handler) http.Handler {
	if s.budget == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Requests wait in their slots: once all are taken, Cloud Run refuses others, which costs nothing.
		if s.begins != nil {
			if !s.begin(r.Context()) {
				w.Header().Set("Retry-After", "10")
				w.WriteHeader(http.StatusServiceUnavailable) // most clients are gone by now; without a status this would be 200
				return
			}
			s.budget.Spend(ceiling.Requests, 1)
		}
		defer s.tell(r.Context())
		next.ServeHTTP(&spending{ResponseWriter: w, budget: s.budget, preflight: isPreflight(r)}, r)
	})
}

// begin waits until a request may begin, in the order in which they came. It reports false if its client has gone away
// before. Only the first one waits at the limiter, where others come after it: who goes away must leave nothing taken
// there, or whoever sends many requests and goes away would have all others wait for hours.
func (s *spender) begin(ctx context.Context) bool {
	if s.begins.Tokens() < 1 {
		s.budget.Held()
	}
	select {
	case s.first <- struct{}{}:
		defer func() { <-s.first }()
		return s.begins.Wait(ctx) == nil
	case <-ctx.Done():
		return false
	}
}

// tell logs the use of the ceiling, once in a while, whatever else is logged: the alerts go by it.
func (s *spender) tell(ctx context.Context) {
	use, due := s.budget.Tell(useEvery)
	if !due {
		return
	}
	level := slog.LevelInfo
	if use.Held > 0 {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{slog.Float64("most", use.Most), slog.Int("held", use.Held), slog.Float64("over_s", use.Over.Seconds())}
	for _, u := range []ceiling.Unit{ceiling.Writes, ceiling.Reads, ceiling.Creates, ceiling.Bytes, ceiling.Requests} {
		if spent, bound := use.Spent[u]; bound {
			attrs = append(attrs, slog.Float64(u.String(), spent))
		}
	}
	s.log.LogAttrs(context.WithValue(ctx, unbound{}, true), level, LogCeiling, attrs...)
}

// spending is an answer whose bytes are spent. Refusals have no body while fewer bytes are left than there were at
// first. Below that, more and more is not answered at all, and the connection closed: what has no token, then refusals,
// then preflights, without which a page sends nothing. Who was let in is answered in any case.
type spending struct {
	http.ResponseWriter
	budget    *ceiling.Budget
	known     bool // the caller is: see [incrementHandler.admit]
	preflight bool
	begun     bool
	bare      bool // it gets no body
}

// Unwrap is for [http.ResponseController].
func (s *spending) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func (s *spending) WriteHeader(status int) {
	if s.begun { // the server would log a second one
		return
	}
	s.begun = true
	if refused := status >= http.StatusBadRequest && status != http.StatusConflict; refused || !s.known {
		least := leavesRefused
		switch {
		case s.preflight && !refused:
			least = leavesReads
		case !s.known:
			least = leavesUnknown
		}
		s.bare = refused && !s.budget.Has(ceiling.Bytes, leavesBody)
		if !s.budget.Has(ceiling.Bytes, least) {
			if s.bare = true; s.drop() {
				return
			}
		}
	}
	header := s.Header()
	if s.bare {
		if !s.known { // or else a page must be able to read that it was refused
			clear(header)
			header["Date"] = nil
		}
		if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable { // after 504 it may be counted
			header.Set("Retry-After", "10")
		}
		header.Set("Content-Length", "0")
	}
	n := headersOf
	for name, values := range header {
		for _, value := range values {
			n += len(name) + len(value) + len(": \r\n")
		}
	}
	s.budget.Spend(ceiling.Bytes, float64(n))
	s.ResponseWriter.WriteHeader(status)
}

// drop ends the connection without an answer, and reports whether it could.
func (s *spending) drop() bool {
	conn, _, err := http.NewResponseController(s.ResponseWriter).Hijack()
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

func (s *spending) Write(p []byte) (int, error) {
	if !s.begun {
		s.WriteHeader(http.StatusOK)
	}
	if s.bare {
		return len(p), nil
	}
	n, err := s.ResponseWriter.Write(p)
	s.budget.Spend(ceiling.Bytes, float64(n))
	return n, err
}

// recognize notes that an answer is for a caller who is let in.
func recognize(w http.ResponseWriter) {
	if s, is := w.(*spending); is {
		s.known = true
	}
}

// beyond is a request that the ceiling refuses: for how long, and what can't be done meanwhile.
func beyond(after time.Duration, what string) *problem {
	return rateLimited(after, "the deployment's ceiling holds up "+what+"; nothing was counted")
}

// within refuses what the ceiling has nothing left for, before anything is spent on it. What others can do without goes
// first: holds, new counters and exact reads. Errors: problems with 429.
func (h *incrementHandler) within(r *request) error {
	if h.budget == nil {
		return nil
	}
	asks := r.units()
	if r.kind == read && !r.exact { // a page polls
		asks = 0
	}
	r.lately = h.lately.count(r.caller, asks)
	adds, keyed := r.kind == addOne || r.kind == addMany, len(r.Header.Values("Idempotency-Key")) > 0
	r.Request = r.WithContext(ceiling.WithAsked(r.Context(), r.lately))
	wait, what := time.Duration(0), ""
	short := h.budget.Short(ceiling.Writes, ceiling.Reads)
	if r.Method != http.MethodGet { // the share of a user whom others would have to wait for
		if h.share.owe(r.payer, r.units()); short > 0 || !h.budget.Has(ceiling.Bytes, leavesRefused) {
			if err := h.share.owes(r.payer); err != nil {
				h.budget.Held()
				return err
			}
		}
	}
	// what it takes besides a look for its counters, about
	of := ceiling.Amounts{ceiling.Bytes: float64(answerBytes + repeats*len(r.RequestURI))}
	var owes ceiling.Amounts
	switch {
	case !h.budget.Has(ceiling.Bytes, h.leaves(r)):
		wait, what = time.Second, "answers"
	case r.exact:
		wait, what = h.budget.Short(ceiling.Reads), "reads that aren't from memory"
		took, _ := h.sums.Get(r.counter)
		of[ceiling.Reads] = float64(max(took, h.leastSum()))
	case r.kind == joined, r.kind == held:
		wait, what = h.budget.Short(ceiling.Reads), "reads that aren't from memory"
		of[ceiling.Reads] = book.Reads + 1
	case r.hold > 0, r.kind == reserve:
		wait, what = short, "holds"
	case r.kind == reset, r.kind == setLimit:
		wait, what = short, "commands"
		of[ceiling.Reads], of[ceiling.Writes] = float64(commandReads*len(h.Fields)+h.NumShards), commandUnits
		if r.kind == setLimit { // each shard's share changes
			of[ceiling.Writes] += float64(min(h.NumShards, layout.MostApart))
		}
	case r.kind == read:
	case !adds, keyed: // what finds no room, too, once it is read: see mayLook
		// What was done before costs no write, but reads.
		if what = "what has to be looked for"; r.kind == settle || r.kind == giveBack || r.kind == confirm {
			of[ceiling.Reads], owes[ceiling.Reads] = 1, 1 // what they write is lent
		} else {
			wait = h.untilReads(r, 1)
		}
	}
	if wait > 0 {
		h.budget.Held()
		return beyond(wait, what)
	}
	return h.promise(r, of, owes, cmp.Or(what, "answers"))
}

// owe counts n units more against a request's caller: while there are few, others go first.
func (h *incrementHandler) owe(r *request, n int) {
	h.share.owe(r.payer, n)
	h.lately.count(r.caller, max(0, n))
}

// mayLook refuses increments of fields with limits while there are no reads: what finds no room costs no write, but
// looks. Others, of which nothing has to be looked for, go on. Errors: a problem with 429.
func (h *incrementHandler) mayLook(r *request, increments []increment) error {
	if !h.limits || h.budget == nil {
		return nil
	}
	limited := (layout.Layout{Sharded: h.Fields}).Limited()
	looks := slices.ContainsFunc(each(increments), func(i shards.Increment) bool {
		return slices.ContainsFunc(limited, func(f layout.Field) bool { return f.Name == cmp.Or(i.Field, h.first) })
	})
	if wait := h.untilReads(r, 1); looks && wait > 0 {
		h.budget.Held()
		return beyond(wait, "what has to be looked for")
	}
	return nil
}

// untilReads is how long it takes until n reads are there for a request, and what it has to leave to those whose users
// have asked for less lately.
func (h *incrementHandler) untilReads(r *request, n float64) time.Duration {
	return h.budget.Until(ceiling.Reads, n+h.budget.Leaves(ceiling.Reads, r.lately))
}

// leastSum is how many reads an exact one takes at least.
func (h *incrementHandler) leastSum() int64 { return int64(book.Reads + len(h.Fields)) }

// commandReads are the reads for each field that a command takes.
const commandReads = 3

// leaves is how many bytes a request must leave to others, in the time in which they are earned.
func (h *incrementHandler) leaves(r *request) time.Duration {
	switch {
	case !h.knows(r):
		return leavesUnknown
	case r.Method == http.MethodGet:
		return leavesReads
	}
	return time.Duration(min(1, r.lately/ceiling.LeavesFrom) * float64(leavesReads/2))
}

// promise has a request count on units until it is over. Who has asked for little lately may owe some. Errors: a problem
// with 429, and then it is promised nothing.
func (h *incrementHandler) promise(r *request, of, owes ceiling.Amounts, what string) error {
	if wait := h.budget.PromiseOrOwe(r.Context(), of, owes); wait > 0 {
		h.budget.Held()
		return beyond(wait, what)
	}
	r.promised = r.promised.Plus(of)
	return nil
}

// back gives back what a request was promised: what it really took has been spent. Where ctx has ended, its caller has
// gone away. Sums go on then, which others wait for as well, so their reads stay promised until they must be over.
// Otherwise a thousand who go away at once would all count on what one of them can have.
func (h *incrementHandler) back(ctx context.Context, r *request) {
	if ctx.Err() != nil && r.promised[ceiling.Reads] > 0 {
		reads := r.promised[ceiling.Reads]
		r.promised[ceiling.Reads] = 0
		time.AfterFunc(h.RequestTimeout, func() { h.budget.Spend(ceiling.Reads, -reads) })
	}
	h.budget.Release(r.promised)
}

// mayCreate spends what is left for new counters, while there is enough for all that these take: others would have to
// wait until it is earned. Errors: a problem with 429, and those of [shards.Client.CheckNew]; then nothing is spent.
func (h *incrementHandler) mayCreate(counters []string) error {
	n := len(counters)
	if n == 0 || h.budget == nil {
		return nil
	}
	if err := h.client.CheckNew(n); err != nil {
		h.budget.Held()
		return err
	}
	wait := h.untilNew(n)
	if wait == 0 {
		wait = h.budget.Take(ceiling.Creates, float64(n))
	}
	if wait == 0 {
		return nil
	}
	if one := h.untilNew(1); one > 0 {
		for _, id := range counters {
			h.heldUp.Add(id, time.Now().Add(min(one, heldUpFor)))
		}
	}
	h.budget.Held()
	return beyond(wait, "new counters")
}

// untilNew is how long it takes until so many new counters can be made.
func (h *incrementHandler) untilNew(n int) time.Duration {
	wait := max(h.budget.Short(ceiling.Writes, ceiling.Reads), h.budget.Until(ceiling.Creates, float64(n)))
	for u, takes := range h.client.CostOfCounter().Times(n) {
		wait = max(wait, h.budget.Until(ceiling.Unit(u), takes))
	}
	return wait
}

// heldUpFor is for how long it is remembered at most that a counter isn't there, and can't be made: somebody else may.
const heldUpFor = 5 * time.Second

// isHeldUp refuses increments of a counter that was missing just now, and for which there is no room yet: a crowd of it
// would have it looked for again and again, and leave others no reads. Errors: a problem with 429.
func (h *incrementHandler) isHeldUp(counters []string) error {
	if h.budget == nil {
		return nil
	}
	for _, id := range counters {
		until, _ := h.heldUp.Get(id)
		if wait := time.Until(until); wait > 0 && h.client.Unread(id) > 0 {
			h.budget.Held()
			return beyond(wait, "new counters")
		}
	}
	return nil
}

// failures are the callers whose failures were logged lately. Those of one caller share a line a minute.
type failures struct {
	mu    sync.Mutex
	lines *lru.Cache[string, *failureLine]
}

type failureLine struct {
	at   time.Time
	more int // that were not logged since
}

// failuresEvery is how often a caller's failures are logged.
const failuresEvery = time.Minute

func newFailures() *failures {
	return &failures{lines: newLRU[*failureLine](knownCallers)}
}

func newLRU[V any](most int) *lru.Cache[string, V] {
	values, err := lru.New[string, V](most)
	if err != nil {
		panic(err) // not possible: only for a size below one
	}
	return values
}

// tell reports whether a failure of a caller is logged now, and how many were not since the last one.
func (f *failures) tell(caller string, now time.Time) (more int, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	line, known := f.lines.Get(caller)
	switch {
	case !known:
		f.lines.Add(caller, &failureLine{at: now})
		return 0, true
	case now.Sub(line.at) < failuresEvery:
		line.more++
		return 0, false
	}
	more, line.at, line.more = line.more, now, 0
	return more, true
}

// boundedLog writes so many bytes a second at most, on average, and leaves lines out beyond that: those that are no
// errors first.
type boundedLog struct {
	slog.Handler
	bytes *rate.Limiter
}

// newBoundLog is [newLogHandler] with a bound; 0 bytes a second are none.
func newBoundLog(w io.Writer, level slog.Level, second float64) slog.Handler {
	if second == 0 {
		return newLogHandler(w, level)
	}
	bytes := rate.NewLimiter(rate.Limit(second), int(math.Max(longestLine, second*ceiling.Begins.Seconds())))
	return boundedLog{newLogHandler(boundedLines{w, bytes}, level), bytes}
}

// unbound is in the context of a line that a [boundedLog] writes even where nothing is left, and then owes.
type unbound struct{}

// boundedLines counts lines as they are written: an id of control characters is six times as long in JSON.
type boundedLines struct {
	io.Writer
	bytes *rate.Limiter
}

func (b boundedLines) Write(line []byte) (int, error) {
	for n := len(line); n > 0; n -= b.bytes.Burst() {
		b.bytes.ReserveN(time.Now(), min(n, b.bytes.Burst()))
	}
	return b.Writer.Write(line)
}

// longestLine is how many bytes most lines have at most.
const longestLine = 4 << 10

func (b boundedLog) Enabled(ctx context.Context, level slog.Level) bool {
	if !b.Handler.Enabled(ctx, level) {
		return false
	}
	left := b.bytes.Tokens()
	return left >= float64(b.bytes.Burst())/2 || level >= slog.LevelError && left >= 0 || ctx.Value(unbound{}) != nil
}

func (b boundedLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return boundedLog{b.Handler.WithAttrs(attrs), b.bytes}
}

func (b boundedLog) WithGroup(name string) slog.Handler {
	return boundedLog{b.Handler.WithGroup(name), b.bytes}
}
