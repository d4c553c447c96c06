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

// Where the keys are that sign tokens.
const (
	firebaseKeys = "https://www.googleapis.com/service_accounts/v1/jwk/securetoken@system.gserviceaccount.com"
	appCheckKeys = "https://firebaseappcheck.googleapis.com/v1/jwks"
)

// How keys are fetched. All requests that need them wait for the same fetch: if it hung, so would
// they.
const (
	keysTimeout = 5 * time.Second
	// keysEvery is the least time between two fetches. Whoever sends a token that names an unknown key
	// causes one; Google publishes a key long before it signs with it.
	keysEvery = 30 * time.Second
	// keysRetry is the least time after a fetch that failed while no keys are there, and so no caller
	// gets in.
	keysRetry = time.Second
)

// remoteKeys are keys of a URL, fetched when a token names one that isn't known, and no more often
// than every so long.
func remoteKeys(ctx context.Context, url string, timeout, every time.Duration) oidc.KeySet {
	client := &http.Client{Timeout: timeout, Transport: &seldom{every: every, retry: min(keysRetry, every), next: http.DefaultTransport}}
	return oidc.NewRemoteKeySet(oidc.ClientContext(ctx, client), url)
}

// errFetchedLately says that keys are not fetched, because they were a moment ago.
var errFetchedLately = errors.New("the keys have just been fetched")

// seldom lets requests through that are far enough apart. In between it returns what the last one
// came to: its error, or else [errFetchedLately].
type seldom struct {
	next         http.RoundTripper
	every, retry time.Duration

	mu      sync.Mutex
	allowed time.Time // when the next request is
	any     bool      // one has succeeded
	err     error     // of the last one
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

// tokens says which tokens are asked for, and how they are checked.
type tokens struct {
	issuer, audience string
	keys             oidc.KeySet
	of               func(*http.Request) string // the request's token, "" where it has none
	kind             string                     // of callers: user or app
	shared           bool                       // a caller is many people, and not limited as one
	unsigned         bool                       // they are the Auth emulator's, which signs none
	scheme           string                     // for WWW-Authenticate
}

// firebaseTokens are Firebase Authentication's ID tokens of a project.
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

// emulatorTokens are those of Firebase's Auth emulator: as [firebaseTokens], and nobody signs them.
// [settings.Parse] refuses it on Cloud Run.
func emulatorTokens(project string) *tokens {
	t := firebaseTokens(project, nil)
	t.unsigned = true
	return t
}

// appCheckTokens are Firebase App Check's tokens of a project, which is named by its number. They
// name the app, and no user of it.
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

// tokensFor are the tokens that the settings ask for, nil for none.
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

// signature is a key set that remembers its error: the verifier makes text of it.
type signature struct {
	oidc.KeySet
	err error
}

func (s *signature) VerifySignature(ctx context.Context, jwt string) (payload []byte, err error) {
	payload, s.err = s.KeySet.VerifySignature(ctx, jwt)
	return payload, s.err
}

// unchecked reports whether a signature could not be checked, for want of keys. The key set wraps
// an error where it can't fetch them, and nowhere else.
func (s *signature) unchecked() bool {
	return errors.Unwrap(s.err) != nil && !errors.Is(s.err, errFetchedLately)
}

// verify returns who a request comes from, such as "user:" and the user's id. Errors:
// [*unauthorized] and errNoKeys.
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
	case err != nil && t.unsigned: // on a developer's machine, who has to know what to change
		return "", &unauthorized{t.scheme + ` realm="counters", error="invalid_token"`,
			fmt.Sprintf("the token is not one of the Auth emulator's for project %s; start both with this project: %v", t.audience, err)}
	case keys.unchecked():
		return "", fmt.Errorf("%w: %w", errNoKeys, keys.err)
	case err != nil, token.Subject == "":
		return "", &unauthorized{t.scheme + ` realm="counters", error="invalid_token"`, "the token is not valid here, or no longer"}
	}
	return t.kind + ":" + token.Subject, nil
}

// require lets requests with a valid token through, and those that are public. Those with another
// one are limited by the address that they come from, and only those: whoever shares that address,
// or is behind the same proxy, is none the worse. Telling them apart takes a look at each token;
// keys that sign none are fetched seldom, whatever is asked.
func (t *tokens) require(public func(*http.Request) bool, limit *limiter, proxies int, log *slog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if public(r) {
			next.ServeHTTP(w, r)
			return
		}
		caller, err := t.verify(r)
		if _, refused := errors.AsType[*unauthorized](err); refused {
			// Counted apart from requests that are let through.
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

// callerOf is who a request comes from, "" where no token said so.
func callerOf(ctx context.Context) string {
	caller, _ := ctx.Value(callerKey{}).(string)
	return caller
}
