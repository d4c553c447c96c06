package functions

import (
	"net/http"
	"slices"
)

// allowOrigins lets web pages of these origins call next; "*" is any.
func allowOrigins(origins []string, next http.Handler) http.Handler {
	if len(origins) == 0 {
		return next
	}
	any := slices.Contains(origins, "*")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origin := r.Header.Get("Origin")
		header := w.Header()
		if !any {
			header.Add("Vary", "Origin")
		}
		allowed := origin != "" && (any || slices.Contains(origins, origin))
		if allowed {
			if any {
				origin = "*"
			}
			header.Set("Access-Control-Allow-Origin", origin)
			header.Set("Access-Control-Expose-Headers", "Retry-After, WWW-Authenticate")
		}
		if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
			next.ServeHTTP(w, r)
			return
		}
		if !allowed {
			problem{Status: http.StatusForbidden, Detail: "this origin may not call; see ALLOWED_ORIGINS"}.write(w)
			return
		}
		header.Set("Access-Control-Allow-Methods", "GET, POST")
		header.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, X-Firebase-AppCheck")
		header.Set("Access-Control-Max-Age", "3600")
		w.WriteHeader(http.StatusNoContent)
	})
}
