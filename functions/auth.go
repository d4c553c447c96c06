package functions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/firestore-counters/counters/internal/settings"
)

// URLs of the keys that sign tokens.
const (
	firebaseKeys = "https://www.googleapis.com/service_accounts/v1/jwk/securetoken@system.gserviceaccount.com"
	appCheckKeys = "https://firebaseappcheck.googleapis.com/v1/jwks"
)

// Limits of fetching keys. All requests that need keys wait for the same fetch, so it must not hang.
const (
	keysTimeout = 5 * time.Second
	// keysEvery is the least time between two fetches. Any caller can cause a fetch, with a token that
	// names an unknown key. Google publishes a key long before it signs with it.
	keysEvery = 30 * time.Second
	// keysRetry is the least time after a failed fetch while there are no keys: no caller gets in until
	// there are.
	keysRetry = time.Second
)

// remoteKeys are the keys at a URL. They are fetched when a token names an unknown key, and at most
// once in the time every.
func remoteKeys(ctx context.Context, url string, timeout, every time.Duration) oidc.KeySet {
	client := &http.Client{Timeout: timeout, Transport: &seldom{every: every, retry: min(keysRetry, every), next: http.DefaultTransport}}
	return oidc.NewRemoteKeySet(oidc.ClientContext(ctx, client), url)
}

// errFetchedLately says that keys were not fetched, because they had been a moment ago.
var errFetchedLately = errors.New("the keys have just been fetched")

// seldom lets requests through that are far enough apart. In between it returns the last one's error,
// or [errFetchedLately].
type seldom struct {
	next         http.RoundTripper
	every, retry time.Duration

	mu      sync.Mutex
	allowed time.Time // when the next request may go
	any     bool      // a request has succeeded
	err     error     // of the last request
}

func (s *seldom) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock() // the key set has one fetch at a time
	if time.Now().Before(s.allowed) {
		if s.err != nil && !s.any {
			return nil, s.err
		}
		return nil, errFetchedLately
	}
	resp, err := s.next.RoundTrip(r)
	if err == nil && resp.StatusCode >= http.StatusBadRequest {
		_ = resp.Body.Close()
		resp, err = nil, fmt.Errorf("%s answers %s", r.URL.Host, resp.Status)
	}
	s.err, s.any = err, s.any || err == nil
	pause := s.every
	if !s.any {
		pause = s.retry
	}
	s.allowed = time.Now().Add(pause)
	return resp, err
}

// tokens says which tokens callers need, and how they are checked.
type tokens struct {
	issuer, audience string
	keys             oidc.KeySet
	of               func(*http.Request) string // the request's token; "" if it has none
	kind             string                     // of callers: user or app
	shared           bool                       // many people share one caller, so it isn't limited as one
	unsigned         bool                       // from the Auth emulator, which doesn't sign tokens
	scheme           string                     // for WWW-Authenticate
}

// firebaseTokens are a project's ID tokens of Firebase Authentication.
func firebaseTokens(project string, keys oidc.KeySet) *tokens {
	return &tokens{
		issuer:   "https://securetoken.google.com/" + project,
		audience: project,
		keys:     keys,
		of: func(r *http.Request) string {
			scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
			if !strings.EqualFold(scheme, "Bearer") {
				return ""
			}
			return strings.TrimSpace(token)
		},
		kind:   strings.TrimSuffix(userPrefix, ":"),
		scheme: "Bearer",
	}
}

// emulatorTokens are those of Firebase's Auth emulator. They are like [firebaseTokens], but nobody signs
// them. [settings.Parse] refuses them on Cloud Run.
func emulatorTokens(project string) *tokens {
	t := firebaseTokens(project, nil)
	t.unsigned = true
	return t
}

// appCheckTokens are a project's tokens of Firebase App Check. They name the project by its number, and
// the app, but no user.
func appCheckTokens(projectNumber string, keys oidc.KeySet) *tokens {
	return &tokens{
		issuer:   "https://firebaseappcheck.googleapis.com/" + projectNumber,
		audience: "projects/" + projectNumber,
		keys:     keys,
		of:       func(r *http.Request) string { return r.Header.Get("X-Firebase-AppCheck") },
		kind:     "app",
		shared:   true,
		scheme:   "AppCheck",
	}
}

// tokensFor are the tokens that the settings ask for; nil if they ask for none.
func tokensFor(ctx context.Context, s settings.Settings, project string) *tokens {
	switch s.Auth {
	case "firebase":
		if s.AuthEmulator != "" {
			return emulatorTokens(project)
		}
		return firebaseTokens(project, remoteKeys(ctx, firebaseKeys, keysTimeout, keysEvery))
	case "appcheck":
		return appCheckTokens(s.ProjectNumber, remoteKeys(ctx, appCheckKeys, keysTimeout, keysEvery))
	}
	return nil
}

// signature is a key set that remembers its error, because the verifier turns errors into text.
type signature struct {
	oidc.KeySet
	err error
}

func (s *signature) VerifySignature(ctx context.Context, jwt string) (payload []byte, err error) {
	payload, s.err = s.KeySet.VerifySignature(ctx, jwt)
	return payload, s.err
}

// unchecked reports whether a signature could not be checked because there were no keys. The key set
// wraps an error only if it can't fetch keys.
func (s *signature) unchecked() bool {
	return errors.Unwrap(s.err) != nil && !errors.Is(s.err, errFetchedLately)
}

// verify returns the caller of a request, such as "user:" with the user's id. Errors: [*unauthorized]
// and errNoKeys.
func (t *tokens) verify(r *http.Request) (string, error) {
	raw := t.of(r)
	if raw == "" {
		return "", &unauthorized{t.scheme + ` realm="counters"`, "the request has no token"}
	}
	keys := &signature{KeySet: t.keys}
	config := &oidc.Config{ClientID: t.audience}
	if t.unsigned {
		config.InsecureSkipSignatureCheck, config.SupportedSigningAlgs = true, []string{"none"}
	}
	token, err := oidc.NewVerifier(t.issuer, keys, config).Verify(r.Context(), raw)
	switch {
	case err != nil && t.unsigned: // on a developer's machine: say what to change
		return "", &unauthorized{t.scheme + ` realm="counters", error="invalid_token"`,
			fmt.Sprintf("the token is not one of the Auth emulator's for project %s; start both with this project: %v", t.audience, err)}
	case keys.unchecked():
		return "", fmt.Errorf("%w: %w", errNoKeys, keys.err)
	case err != nil, token.Subject == "":
		return "", &unauthorized{t.scheme + ` realm="counters", error="invalid_token"`, "the token is not valid here, or no longer"}
	}
	return t.kind + ":" + token.Subject, nil
}

// require lets public requests through, and those with a valid token. It limits requests with an invalid
// token by their address. That doesn't affect valid ones from the same address or proxy. So it must
// check every token, but it seldom fetches keys.
func (t *tokens) require(public func(*http.Request) bool, limit *limiter, proxies int, log *slog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if public(r) {
			next.ServeHTTP(w, r)
			return
		}
		caller, err := t.verify(r)
		if _, refused := errors.AsType[*unauthorized](err); refused {
			// Counted separately from requests that get through.
			if limited := limit.take("refused:" + addressOf(r, proxies)); limited != nil {
				err = limited
			}
		}
		if err != nil {
			fail(w, r, log, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, caller)))
	})
}

// userPrefix begins the name of a caller that is a user.
const userPrefix = "user:"

type callerKey struct{}

// callerOf is the caller of a request by its token; "" if it had none.
func callerOf(ctx context.Context) string {
	caller, _ := ctx.Value(callerKey{}).(string)
	return caller
}
