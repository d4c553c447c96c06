package functions

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
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

// Issuers of tokens, before the project.
const (
	firebaseIssuer = "https://securetoken.google.com/"
	appCheckIssuer = "https://firebaseappcheck.googleapis.com/"
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
	wanted           string                     // what the tokens are, for those who send others
	shared           bool                       // many people share one caller, so it isn't limited as one
	unsigned         bool                       // from the Auth emulator, which doesn't sign tokens
	scheme           string                     // for WWW-Authenticate
}

// firebaseTokens are a project's ID tokens of Firebase Authentication.
func firebaseTokens(project string, keys oidc.KeySet) *tokens {
	return &tokens{
		issuer:   firebaseIssuer + project,
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
		wanted: "a user's ID token, which getIdToken() returns",
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
		issuer:   appCheckIssuer + projectNumber,
		audience: "projects/" + projectNumber,
		keys:     keys,
		of:       func(r *http.Request) string { return r.Header.Get("X-Firebase-AppCheck") },
		kind:     "app",
		wanted:   "an App Check token, which getToken() returns",
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

// verify returns the caller of a request, such as "user:" with the user's id. Errors: a problem
// with 401, and errNoKeys.
func (t *tokens) verify(r *http.Request) (string, error) {
	raw := t.of(r)
	if raw == "" {
		return "", unauthorized(t.scheme+` realm="counters"`, "the request has no token")
	}
	keys := &signature{KeySet: t.keys}
	config := &oidc.Config{ClientID: t.audience}
	if t.unsigned {
		config.InsecureSkipSignatureCheck, config.SupportedSigningAlgs = true, []string{"none"}
	}
	token, err := oidc.NewVerifier(t.issuer, keys, config).Verify(r.Context(), raw)
	switch {
	case keys.unchecked():
		return "", fmt.Errorf("%w: %w", errNoKeys, keys.err)
	case err != nil, token.Subject == "":
		return "", unauthorized(t.scheme+` realm="counters", error="invalid_token"`, "the token is refused: "+t.whyNot(raw, err))
	}
	return t.kind + ":" + token.Subject, nil
}

// otherTokens are tokens that callers send by mistake, by what their issuer or audience begins with.
var otherTokens = []struct{ begins, are string }{
	{"https://session.firebase.google.com/", "a session cookie"},
	{"https://identitytoolkit.googleapis.com/", "a custom token, to sign in with"},
	{"https://accounts.google.com", "an ID token of Google's"},
	{"accounts.google.com", "an ID token of Google's"},
	{firebaseIssuer, "a user's ID token"},
	{appCheckIssuer, "an App Check token"},
}

// whyNot says why a token was refused, by what it says itself: its owner knows that, and learns nothing else. It
// repeats nothing of the token.
func (t *tokens) whyNot(raw string, err error) string {
	var header struct {
		Alg string `json:"alg"`
	}
	var claims struct {
		Issuer   string          `json:"iss"`
		Audience json.RawMessage `json:"aud"`
	}
	parts := strings.Split(raw, ".")
	if len(parts) != 3 || !decodeToken(parts[0], &header) || !decodeToken(parts[1], &claims) {
		return "it is no JSON Web Token; want " + t.wanted
	}
	for _, other := range otherTokens {
		is := strings.HasPrefix(claims.Issuer, other.begins) || strings.HasPrefix(strings.Trim(string(claims.Audience), `["`), other.begins)
		if is && !strings.HasPrefix(t.issuer, other.begins) {
			return "it is " + other.are + "; want " + t.wanted
		}
	}
	_, isExpired := errors.AsType[*oidc.TokenExpiredError](err)
	switch {
	case claims.Issuer != t.issuer && t.unsigned: // on a developer's machine: say of which
		return fmt.Sprintf("it is of %.100q, not of %s: start the Auth emulator and the functions with one project", claims.Issuer, t.issuer)
	case claims.Issuer != t.issuer:
		return "it is of another project"
	case t.unsigned && header.Alg != "none":
		return "it is signed, so it is not of the Auth emulator (FIREBASE_AUTH_EMULATOR_HOST), whose tokens alone are taken here"
	case !t.unsigned && header.Alg == "none":
		return "it is of the Auth emulator, which signs none"
	case isExpired:
		return "it has expired: ask for a new one"
	case err == nil:
		return "it names nobody"
	}
	return "it is not for this project, not valid yet, or not signed by its keys"
}

// decodeToken decodes a part of a token.
func decodeToken(part string, to any) bool {
	text, err := base64.RawURLEncoding.DecodeString(part)
	return err == nil && json.Unmarshal(text, to) == nil
}

// userPrefix begins the name of a caller that is a user.
const userPrefix = "user:"

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
			} else {
				header.Set("Access-Control-Allow-Credentials", "true") // sendBeacon asks for it; no cookie means anything here
			}
			header.Set("Access-Control-Allow-Origin", origin)
			header.Set("Access-Control-Expose-Headers", "ETag, Retry-After, WWW-Authenticate")
		}
		if !isPreflight(r) {
			next.ServeHTTP(w, r)
			return
		}
		passOver(w, r)
		header.Set("Access-Control-Allow-Methods", "GET, POST, PUT, DELETE")
		header.Add("Vary", "Access-Control-Request-Headers")
		header.Set("Access-Control-Allow-Headers", allowedHeaders(r.Header.Get("Access-Control-Request-Headers")))
		header.Set("Access-Control-Max-Age", "3600")
		w.WriteHeader(http.StatusNoContent)
	})
}

// isPreflight reports whether a browser asks by the request whether a page may send another one. It has no token.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" && r.Header.Get("Origin") != ""
}

// maxHeaders bounds how many headers an answer to a preflight names.
const maxHeaders = 32

var (
	// ours are the headers that requests to us have.
	ours       = []string{"Authorization", "Content-Type", "Idempotency-Key", "If-None-Match", "X-Firebase-AppCheck"}
	headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'+.^_`|~-]{1,64}$")
	// authority begins the names of headers by which something before the function may know a caller.
	authority = regexp.MustCompile("(?i)^(x-serverless-|x-goog-|x-forwarded-|x-http-method|forwarded$|cookie|proxy-)")
)

// allowedHeaders are the headers that a page may send: ours, and those that it asks for and that give it no authority.
// What traces requests in browsers adds its own, such as sentry-trace or traceparent, to every one.
func allowedHeaders(asked string) string {
	allowed := slices.Clone(ours)
	for name := range strings.SplitSeq(asked, ",") {
		name = strings.TrimSpace(name)
		known := slices.ContainsFunc(allowed, func(other string) bool { return strings.EqualFold(other, name) })
		if !known && len(allowed) < maxHeaders && headerName.MatchString(name) && !authority.MatchString(name) {
			allowed = append(allowed, name)
		}
	}
	return strings.Join(allowed, ", ")
}
