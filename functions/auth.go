package functions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/firestore-counters/counters/internal/settings"
)

// Where the keys are that sign tokens.
const (
	firebaseKeys = "https://www.googleapis.com/service_accounts/v1/jwk/securetoken@system.gserviceaccount.com"
	appCheckKeys = "https://firebaseappcheck.googleapis.com/v1/jwks"
)

// keysTimeout bounds a fetch of keys. All requests that need them wait for the same one: if it hung, so would they.
const keysTimeout = 5 * time.Second

func remoteKeys(ctx context.Context, url string, timeout time.Duration) oidc.KeySet {
	return oidc.NewRemoteKeySet(oidc.ClientContext(ctx, &http.Client{Timeout: timeout}), url)
}

// tokens says which tokens are asked for, and how they are checked.
type tokens struct {
	verifier *oidc.IDTokenVerifier
	of       func(*http.Request) string // the request's token, "" where it has none
	kind     string                     // of callers: user or app
	scheme   string                     // for WWW-Authenticate
}

// firebaseTokens are Firebase Authentication's ID tokens of a project.
func firebaseTokens(project string, keys oidc.KeySet) *tokens {
	return &tokens{
		verifier: oidc.NewVerifier("https://securetoken.google.com/"+project, keys, &oidc.Config{ClientID: project}),
		of: func(r *http.Request) string {
			scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
			if !strings.EqualFold(scheme, "Bearer") {
				return ""
			}
			return strings.TrimSpace(token)
		},
		kind:   "user",
		scheme: "Bearer",
	}
}

// appCheckTokens are Firebase App Check's tokens of a project, which is named by its number.
func appCheckTokens(projectNumber string, keys oidc.KeySet) *tokens {
	return &tokens{
		verifier: oidc.NewVerifier("https://firebaseappcheck.googleapis.com/"+projectNumber, keys,
			&oidc.Config{ClientID: "projects/" + projectNumber}),
		of:     func(r *http.Request) string { return r.Header.Get("X-Firebase-AppCheck") },
		kind:   "app",
		scheme: "AppCheck",
	}
}

// tokensFor are the tokens that the settings ask for, nil for none.
func tokensFor(ctx context.Context, s settings.Settings, project string) *tokens {
	switch s.Auth {
	case "firebase":
		return firebaseTokens(project, remoteKeys(ctx, firebaseKeys, keysTimeout))
	case "appcheck":
		return appCheckTokens(s.ProjectNumber, remoteKeys(ctx, appCheckKeys, keysTimeout))
	}
	return nil
}

// errNoKeys says that a token could not be checked. That is no fault of the caller's.
var errNoKeys = errors.New("the keys that sign tokens can't be fetched")

// verify returns who a request comes from, such as "user:" and the user's id.
func (t *tokens) verify(r *http.Request) (string, error) {
	raw := t.of(r)
	if raw == "" {
		return "", errors.New("the request has no token")
	}
	token, err := t.verifier.Verify(r.Context(), raw)
	switch {
	case err != nil && strings.Contains(err.Error(), "fetching keys"): // go-oidc has no better way to tell
		return "", fmt.Errorf("%w: %w", errNoKeys, err)
	case err != nil:
		return "", err
	case token.Subject == "":
		return "", errors.New("the token names nobody")
	}
	return t.kind + ":" + token.Subject, nil
}

// require lets requests with a valid token through, and with publicReads every GET.
func (t *tokens) require(publicReads bool, log *slog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if publicReads && r.Method == http.MethodGet {
			next.ServeHTTP(w, r)
			return
		}
		caller, err := t.verify(r)
		switch {
		case errors.Is(err, errNoKeys):
			log.WarnContext(r.Context(), "request failed", "error", err)
			problem{Status: http.StatusServiceUnavailable, Detail: "the token can't be checked now", retryAfter: time.Second}.write(w)
		case err != nil:
			challenge := t.scheme + ` realm="counters"`
			if t.of(r) != "" {
				challenge += `, error="invalid_token"`
			}
			w.Header().Set("WWW-Authenticate", challenge)
			problem{Status: http.StatusUnauthorized, Detail: err.Error()}.write(w)
		default:
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, caller)))
		}
	})
}

type callerKey struct{}

// callerOf is who a request comes from, "" where no token said so.
func callerOf(ctx context.Context) string {
	caller, _ := ctx.Value(callerKey{}).(string)
	return caller
}
