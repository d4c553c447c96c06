package functions

import (
	"math"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/internal/settings"
)

// knownCallers is how many callers are remembered, of about 200 bytes each. If there are more, those
// that were quiet longest are forgotten, and start afresh.
const knownCallers = 20_000

// limiter bounds what each caller may do: perSecond units a second, with bursts of one second's worth, or so many new
// counters. Each instance counts for itself. A nil limiter limits nothing.
type limiter struct {
	perSecond float64
	burst     int
	callers   *lru.Cache[string, *rate.Limiter]

	mu sync.Mutex // held from a look at a bucket to what follows from it
}

// newLimiter returns nil for a rate of 0.
func newLimiter(perSecond float64) *limiter {
	if perSecond == 0 {
		return nil
	}
	return newBuckets(perSecond, int(math.Ceil(perSecond)))
}

// newCreations bounds how many counters AUTO_CREATE lets each caller make. It is nil if there is no
// bound, or if none are made.
func newCreations(s settings.Settings) *limiter {
	perMinute := s.NewCounters()
	if !s.AutoCreate.On || perMinute == 0 {
		return nil
	}
	return newBuckets(float64(perMinute)/60, perMinute)
}

func newBuckets(perSecond float64, burst int) *limiter {
	return &limiter{perSecond: perSecond, burst: burst, callers: newLRU[*rate.Limiter](knownCallers)}
}

// of is a caller's bucket, which begins full.
func (l *limiter) of(caller string) *rate.Limiter {
	bucket, ok := l.callers.Get(caller)
	if !ok {
		bucket = rate.NewLimiter(rate.Limit(l.perSecond), l.burst)
		if earlier, there, _ := l.callers.PeekOrAdd(caller, bucket); there {
			bucket = earlier
		}
	}
	return bucket
}

// take counts one against a caller. If the caller has none left, it counts nothing, and returns a
// [rateLimited] error.
func (l *limiter) take(caller string) error {
	if l == nil {
		return nil
	}
	return l.takeAll(caller, 1)
}

// lately is how many units each caller has asked for in about the last minute, also where that was refused: what is
// older counts less and less. A nil one knows of nobody.
type lately struct {
	mu      sync.Mutex
	callers *lru.Cache[string, asked]
}

type asked struct {
	units float64
	at    time.Time
}

// freeUnits are how many units in a minute put nobody behind others: who was refused tries again.
const freeUnits = 5

// count counts n against a caller, and returns how many there were before, without those that are free. Whoever has no
// token leaves all to users: anybody has as many addresses as are remembered, and nobody would be known any more.
func (l *lately) count(caller string, n int) (before float64) {
	switch {
	case l == nil:
		return 0
	case caller == "":
		return ceiling.LeavesFrom
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if last, ok := l.callers.Get(caller); ok {
		before = last.units * math.Exp(-now.Sub(last.at).Minutes())
	}
	l.callers.Add(caller, asked{before + float64(n), now})
	return max(0, before-freeUnits)
}

// What requests count against their callers' rate, in units of a document that is written or read. Each field that an
// increment adds to is a unit, and so is each read that an exact one takes, and each document of a new counter.
const (
	// holdUnits are those of a seat or an amount that is held: its record, what tells when it is over and a shard, and
	// the same again when it ends.
	holdUnits = 6
	// commandUnits are those of a reset, or of a limit that is set: up to that many documents of a small counter are
	// read and written.
	commandUnits = 10
)

// units are what a request counts at least, before its body is read.
func (r *request) units() int {
	switch {
	case r.hold > 0, r.kind == reserve:
		return holdUnits
	case r.kind == reset, r.kind == setLimit:
		return commandUnits
	}
	return 1
}

// takeAll counts n against a caller. If the caller has fewer left, it counts nothing, and returns a
// [rateLimited] error; a problem with 400 if the caller never has so many.
func (l *limiter) takeAll(caller string, n int) error {
	if l == nil || n == 0 {
		return nil
	}
	if l.burst < n {
		return bad("this would make %d counters, and a caller may make %d a minute; nothing was made", n, l.burst)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	reservation := l.of(caller).ReserveN(now, n)
	if delay := reservation.DelayFrom(now); delay > 0 {
		reservation.CancelAt(now)
		return rateLimited(delay, "")
	}
	return nil
}

// charge counts n more against a caller, even if the caller then owes some. So a request with many
// increments gets through once, and the caller must pause afterwards. If the caller owes some already,
// charge counts nothing, and returns a [rateLimited] error.
func (l *limiter) charge(caller string, n int) error {
	if l == nil || n <= 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.owed(caller); err != nil {
		return err
	}
	l.add(caller, n)
	return nil
}

// owes returns a [rateLimited] error for a caller who owes, and counts nothing.
func (l *limiter) owes(caller string) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.owed(caller)
}

// owe counts n more against a caller for what has been done.
func (l *limiter) owe(caller string, n int) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(caller, n)
}

// owed is owes, for callers that hold the lock, and so is add.
func (l *limiter) owed(caller string) error {
	if owed := -l.of(caller).TokensAt(time.Now()); owed > 0 {
		return rateLimited(time.Duration(owed/l.perSecond*float64(time.Second)), "")
	}
	return nil
}

func (l *limiter) add(caller string, n int) {
	now, bucket := time.Now(), l.of(caller)
	for n > 0 {
		some := min(n, bucket.Burst()) // the bucket ignores more at once
		bucket.ReserveN(now, some)
		n -= some
	}
}

// addressOf is the address that a request comes from, as far as we know. Each proxy on the way appends
// its caller's address to X-Forwarded-For. Cloud Run does, too, and anybody may have written what
// stands before that. Google's load balancers append the client's address and then their own. So
// proxies, the setting TRUSTED_PROXIES, is how many addresses at the end are of proxies.
//
// A host with IPv6 has at least 2^64 addresses, and a customer's network mostly 2^8 or 2^16 times as
// many. So addresses that share 56 bits count as one.
func addressOf(r *http.Request, proxies int) string {
	var hops []string
	for _, header := range r.Header.Values("X-Forwarded-For") {
		hops = append(hops, strings.Split(header, ",")...)
	}
	address := r.RemoteAddr
	if len(hops) > 0 {
		address = strings.TrimSpace(hops[max(0, len(hops)-1-proxies)])
	}
	ip, err := netip.ParseAddr(address)
	if err != nil {
		withPort, err := netip.ParseAddrPort(address)
		if err != nil {
			return address
		}
		ip = withPort.Addr()
	}
	if ip = ip.Unmap().WithZone(""); ip.Is4() {
		return ip.String()
	}
	return netip.PrefixFrom(ip, 56).Masked().String()
}
