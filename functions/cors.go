package functions

import (
	"log/slog"
	"net/http"
	"slices"
)

// allowOrigins lets only web pages of these origins call next; "*" is any. It checks every request, not
// only preflights, because a browser sends a plain POST without one. Browsers name the page's origin in
// every request that could change something. Other callers send no Origin.
func allowOrigins(origins []string, log *slog.Logger, next http.Handler) http.Handler {
	every := slices.Contains(origins, "*")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		if !every {
			header.Add("Vary", "Origin")
		}
		from := r.Header.Values("Origin")
		for _, origin := range from {
			if !every && !slices.Contains(origins, origin) {
				fail(w, r, log, errOrigin)
				return
			}
		}
		if len(from) > 0 {
			origin := from[0]
			if every {
				origin = "*"
			}
			header.Set("Access-Control-Allow-Origin", origin)
			header.Set("Access-Control-Expose-Headers", "ETag, Retry-After, WWW-Authenticate")
		}
		if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" || len(from) == 0 {
			next.ServeHTTP(w, r)
			return
		}
		header.Set("Access-Control-Allow-Methods", "GET, POST, PUT, DELETE")
		header.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, If-None-Match, X-Firebase-AppCheck")
		header.Set("Access-Control-Max-Age", "3600")
		w.WriteHeader(http.StatusNoContent)
	})
}
