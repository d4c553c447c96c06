package functions

import (
	"log/slog"
	"net/http"
	"slices"
	"strings"
)

// allowMethods refuses methods that a function doesn't have, before it checks anything else.
func allowMethods(log *slog.Logger, next http.Handler, methods ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(methods, r.Method) {
			fail(w, r, log, &wrongMethod{strings.Join(methods, ", ")})
			return
		}
		next.ServeHTTP(w, r)
	})
}
