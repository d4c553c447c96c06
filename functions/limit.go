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

// limitRate lets each caller through perSecond times a second, with bursts of one second's worth. A caller is who its
// token says, else its address. Each instance counts for itself.
func limitRate(perSecond float64, next http.Handler) http.Handler {
	if perSecond == 0 {
		return next
	}
	burst := int(math.Ceil(perSecond))
	callers, err := lru.New[string, *rate.Limiter](limitedCallers)
	if err != nil {
		panic(err) // only for a size below one
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller := callerOf(r.Context())
		if caller == "" {
			caller = "address:" + addressOf(r)
		}
		limiter, ok := callers.Get(caller)
		if !ok {
			limiter = rate.NewLimiter(rate.Limit(perSecond), burst)
			if earlier, there, _ := callers.PeekOrAdd(caller, limiter); there {
				limiter = earlier
			}
		}
		now := time.Now()
		if reservation := limiter.ReserveN(now, 1); reservation.DelayFrom(now) > 0 {
			delay := reservation.DelayFrom(now)
			reservation.CancelAt(now)
			problem{Status: http.StatusTooManyRequests, Detail: "too many requests of one caller", retryAfter: delay}.write(w)
			return
		}
		next.ServeHTTP(w, r)
	})
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
