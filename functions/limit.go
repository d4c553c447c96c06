package functions

import (
	"math"
	"net"
	"net/http"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

// limitedCallers is how many callers are told apart. One takes about 200 bytes; of more, those that were quiet longest
// are forgotten, and start afresh.
const limitedCallers = 20_000

// limiter bounds what each caller may do: perSecond increments or reads a second, with bursts of one second's worth. Each
// instance counts for itself. A nil limiter limits nothing.
type limiter struct {
	perSecond float64
	callers   *lru.Cache[string, *rate.Limiter]
}

// newLimiter returns nil for a rate of 0.
func newLimiter(perSecond float64) *limiter {
	if perSecond == 0 {
		return nil
	}
	callers, err := lru.New[string, *rate.Limiter](limitedCallers)
	if err != nil {
		panic(err) // only for a size below one
	}
	return &limiter{perSecond: perSecond, callers: callers}
}

// of is a caller's bucket, which begins full.
func (l *limiter) of(caller string) *rate.Limiter {
	bucket, ok := l.callers.Get(caller)
	if !ok {
		bucket = rate.NewLimiter(rate.Limit(l.perSecond), int(math.Ceil(l.perSecond)))
		if earlier, there, _ := l.callers.PeekOrAdd(caller, bucket); there {
			bucket = earlier
		}
	}
	return bucket
}

// take counts one against a caller. When the caller has none left it counts nothing, and returns a [*rateLimited].
func (l *limiter) take(caller string) error {
	if l == nil {
		return nil
	}
	now := time.Now()
	reservation := l.of(caller).ReserveN(now, 1)
	if delay := reservation.DelayFrom(now); delay > 0 {
		reservation.CancelAt(now)
		return &rateLimited{delay}
	}
	return nil
}

// spent reports, as a [*rateLimited], that a caller has none left. It counts nothing.
func (l *limiter) spent(caller string) error {
	if l == nil {
		return nil
	}
	if missing := 1 - l.of(caller).Tokens(); missing > 0 {
		return &rateLimited{time.Duration(missing / l.perSecond * float64(time.Second))}
	}
	return nil
}

// charge counts n more against a caller, who may come to owe them: a request with many increments is let through once,
// however many they are, and paid for by the pause after it.
func (l *limiter) charge(caller string, n int) {
	if l == nil {
		return
	}
	now, bucket := time.Now(), l.of(caller)
	for n > 0 {
		some := min(n, bucket.Burst()) // more at once would not be counted at all
		bucket.ReserveN(now, some)
		n -= some
	}
}

// addressOf is where a request comes from. Cloud Run appends the address that it sees to X-Forwarded-For; what stands
// before that, anybody may have written.
func addressOf(r *http.Request) string {
	if forwarded := r.Header.Values("X-Forwarded-For"); len(forwarded) > 0 {
		last := forwarded[len(forwarded)-1]
		return strings.TrimSpace(last[strings.LastIndexByte(last, ',')+1:])
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}
