package functions

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/coreos/go-oidc/v3/oidc"
	jose "github.com/go-jose/go-jose/v4"
	"google.golang.org/api/option"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/settings"
	"github.com/firestore-counters/counters/shards"
)

// issuer signs tokens, and serves the keys to check them by.
type issuer struct {
	key     *rsa.PrivateKey
	id      string // of the key
	server  *httptest.Server
	fetched atomic.Int64
	serves  atomic.Pointer[[]jose.JSONWebKey]
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{key: key, id: "1"}
	i.serves.Store(&[]jose.JSONWebKey{{Key: &key.PublicKey, KeyID: "1", Algorithm: "RS256", Use: "sig"}})
	i.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		i.fetched.Add(1)
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: *i.serves.Load()})
	}))
	t.Cleanup(i.server.Close)
	return i
}

// alsoServes has the issuer serve another one's key besides.
func (i *issuer) alsoServes(other *issuer) {
	keys := append(*i.serves.Load(), jose.JSONWebKey{Key: &other.key.PublicKey, KeyID: other.id, Algorithm: "RS256", Use: "sig"})
	i.serves.Store(&keys)
}

func (i *issuer) keys() oidc.KeySet {
	return remoteKeys(context.Background(), i.server.URL, keysTimeout, keysEvery)
}

// claims of a token, which tests change.
type claims map[string]any

func (c claims) with(name string, value any) claims {
	changed := maps.Clone(c)
	changed[name] = value
	return changed
}

func (i *issuer) sign(t *testing.T, c claims) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: i.key, KeyID: i.id}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// confused is a token that is signed with the public key, as if that were a secret.
func (i *issuer) confused(t *testing.T, c claims) string {
	t.Helper()
	public, err := x509.MarshalPKIXPublicKey(&i.key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	secret := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: jose.JSONWebKey{Key: secret, KeyID: "1"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func unsigned(c claims) string {
	payload, _ := json.Marshal(c)
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + encode(payload) + "."
}

// emulated is a token as Firebase's Auth emulator makes it for a user who signs in anonymously.
func emulated(project, user string) claims {
	return valid("https://securetoken.google.com/"+project, project, user).
		with("provider_id", "anonymous").with("user_id", user).with("auth_time", time.Now().Unix()).
		with("firebase", map[string]any{"identities": map[string]any{}, "sign_in_provider": "anonymous"})
}

func valid(issuer, audience, subject string) claims {
	now := time.Now()
	return claims{"iss": issuer, "aud": audience, "sub": subject, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}
}

// guarded is the function's handler with tokens of a test's own.
type guarded struct {
	*httptest.Server
	firestore *emulator.Instance
	fs        *firestore.Client
	client    *shards.Client
	asks      http.Client
}

func startGuarded(t *testing.T, tokens *tokens, change func(*settings.Settings)) *guarded {
	t.Helper()
	return startGuardedWithLog(t, tokens, change, slog.New(slog.DiscardHandler))
}

func startGuardedWithLog(t *testing.T, tokens *tokens, change func(*settings.Settings), log *slog.Logger) *guarded {
	t.Helper()
	s, err := settings.Parse([]string{"GOOGLE_CLOUD_PROJECT=p", "AUTO_CREATE=true"})
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&s)
	}
	i := emulator.Start(t)
	client, err := openShards(s, log, option.WithGRPCConn(i.Conn(t)))
	if err != nil {
		t.Fatal(err)
	}
	g := &guarded{Server: httptest.NewServer(newIncrementHandler(client, s, tokens, log)), firestore: i, fs: i.Client(t, "p"), client: client}
	// Not the transport of all: where a test server closes, its idle connections are closed, and a request of another
	// test that just takes one of them fails.
	g.asks = *g.Client()
	t.Cleanup(func() {
		g.Close()
		client.Close()
	})
	return g
}

// startVirtually is startGuarded in a bubble of testing/synctest: requests reach the handler without a connection, and
// only what waits takes time.
func startVirtually(t *testing.T, tokens *tokens, change func(*settings.Settings)) *guarded {
	t.Helper()
	s, err := settings.Parse([]string{"GOOGLE_CLOUD_PROJECT=p", "AUTO_CREATE=true"})
	if err != nil {
		t.Fatal(err)
	}
	change(&s)
	server := emulator.New(emulator.Options{})
	t.Cleanup(server.Close)
	conn, err := server.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	fs, err := firestore.NewClient(t.Context(), "p", option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	client, err := openShards(s, log, option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	handler := newIncrementHandler(client, s, tokens, log)
	return &guarded{
		Server: &httptest.Server{URL: "http://functions"}, firestore: &emulator.Instance{Server: server}, fs: fs, client: client,
		asks: http.Client{Transport: inProcess{handler}},
	}
}

// inProcess sends requests to a handler without a connection. Where the handler closes that, the error is [io.EOF].
type inProcess struct{ http.Handler }

func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := &hijacked{ResponseRecorder: httptest.NewRecorder()}
	if p.ServeHTTP(answer, r); answer.closed {
		return nil, io.EOF
	}
	return answer.Result(), nil
}

// hijacked is an answer whose connection the handler may close.
type hijacked struct {
	*httptest.ResponseRecorder
	closed bool
}

func (h *hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	h.closed = true
	conn, other := net.Pipe()
	return conn, nil, other.Close()
}

func (g *guarded) do(t *testing.T, method, path string, header ...string) *http.Response {
	t.Helper()
	resp, _ := g.send(t, method, path, header...)
	return resp
}

// read is do that returns the answer's body.
func (g *guarded) read(t *testing.T, method, path string, header ...string) (int, string) {
	t.Helper()
	resp, body := g.send(t, method, path, header...)
	return resp.StatusCode, body
}

func (g *guarded) send(t *testing.T, method, path string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, g.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := g.asks.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func TestTokens(t *testing.T) {
	t.Parallel()
	good, foreign := newIssuer(t), newIssuer(t)
	for _, kind := range []struct {
		name, header, prefix string
		tokens               *tokens
		claims               claims
		challenge            string
	}{
		{"firebase", "Authorization", "Bearer ", firebaseTokens("p", good.keys()), valid("https://securetoken.google.com/p", "p", "alice"), "Bearer"},
		{"appcheck", "X-Firebase-AppCheck", "", appCheckTokens("123", good.keys()),
			valid("https://firebaseappcheck.googleapis.com/123", "projects/123", "1:123:web:abc").with("aud", []string{"projects/123", "projects/p"}), "AppCheck"},
	} {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			g := startGuarded(t, kind.tokens, nil)
			hour := int64(time.Hour / time.Second)
			now := time.Now().Unix()
			for _, c := range []struct {
				name, token string
				status      int
			}{
				{"valid", good.sign(t, kind.claims), 200},
				{"missing", "", 401},
				{"garbage", "garbage", 401},
				{"expired", good.sign(t, kind.claims.with("exp", now-hour)), 401},
				{"no expiry", good.sign(t, kind.claims.with("exp", nil)), 401},
				{"not yet valid", good.sign(t, kind.claims.with("nbf", now+hour)), 401},
				{"foreign issuer", good.sign(t, kind.claims.with("iss", "https://example.com")), 401},
				{"foreign audience", good.sign(t, kind.claims.with("aud", "other")), 401},
				{"foreign signature", foreign.sign(t, kind.claims), 401},
				{"unsigned", unsigned(kind.claims), 401},
				{"signed with the public key", good.confused(t, kind.claims), 401},
				{"nobody", good.sign(t, kind.claims.with("sub", "")), 401},
			} {
				var header []string
				if c.token != "" {
					header = []string{kind.header, kind.prefix + c.token}
				}
				resp := g.do(t, "POST", "/a", header...)
				if resp.StatusCode != c.status {
					t.Errorf("%s: %d, want %d", c.name, resp.StatusCode, c.status)
				}
				if challenge := resp.Header.Get("WWW-Authenticate"); c.status == 401 && !strings.HasPrefix(challenge, kind.challenge+" ") {
					t.Errorf("%s: WWW-Authenticate is %q, want %s", c.name, challenge, kind.challenge)
				}
			}
			if resp := g.do(t, "GET", "/a"); resp.StatusCode != 200 {
				t.Errorf("GET without a token: %d, want 200", resp.StatusCode)
			}
		})
	}
	t.Run("no public reads", func(t *testing.T) {
		t.Parallel()
		g := startGuarded(t, firebaseTokens("p", good.keys()), func(s *settings.Settings) { s.PublicReads = false })
		if resp := g.do(t, "GET", "/a"); resp.StatusCode != 401 {
			t.Errorf("GET without a token: %d, want 401", resp.StatusCode)
		}
	})
}

func TestKeysOfTokens(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	g := startGuarded(t, firebaseTokens("p", i.keys()), nil)
	alice := "Bearer " + i.sign(t, valid("https://securetoken.google.com/p", "p", "alice"))
	bob := "Bearer " + i.sign(t, valid("https://securetoken.google.com/p", "p", "bob"))
	for range 3 {
		if resp := g.do(t, "POST", "/a", "Authorization", alice, "Idempotency-Key", "k"); resp.StatusCode != 200 {
			t.Fatalf("alice: %d", resp.StatusCode)
		}
	}
	if n := i.fetched.Load(); n != 1 {
		t.Errorf("the signing keys were fetched %d times, want once", n)
	}
	// Another caller's same idempotency key is another key.
	if resp := g.do(t, "POST", "/a", "Authorization", bob, "Idempotency-Key", "k"); resp.StatusCode != 200 {
		t.Errorf("bob: %d", resp.StatusCode)
	}
	markers, err := g.fs.Collection("counter_requests").Documents(t.Context()).GetAll()
	if err != nil || len(markers) != 2 {
		t.Errorf("%d markers (%v), want one of alice and one of bob", len(markers), err)
	}
	for _, m := range markers {
		if strings.Contains(fmt.Sprint(m.Ref.ID, m.Data()), "alice") {
			t.Errorf("a marker names the caller: %v", m.Data())
		}
	}

	// Keys that can't be fetched are no fault of the caller's.
	gone := newIssuer(t)
	keys := gone.keys()
	gone.server.Close()
	g = startGuarded(t, firebaseTokens("p", keys), nil)
	if resp := g.do(t, "POST", "/a", "Authorization", alice); resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
		t.Errorf("without keys: %d, want 503 with Retry-After", resp.StatusCode)
	}
}

// A key server that takes a request and never answers holds nobody up for good, and not at all once
// it answers again.
func TestKeysThatDoNotCome(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	var asked atomic.Int64
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			<-r.Context().Done() // until the client gives up
			return
		}
		http.Redirect(w, r, i.server.URL, http.StatusFound)
	}))
	t.Cleanup(slow.Close)
	g := startGuarded(t, firebaseTokens("p", remoteKeys(context.Background(), slow.URL, 50*time.Millisecond, 0)), nil)
	alice := "Bearer " + i.sign(t, valid("https://securetoken.google.com/p", "p", "alice"))
	if resp := g.do(t, "POST", "/a", "Authorization", alice); resp.StatusCode != 503 {
		t.Errorf("without keys: %d, want 503", resp.StatusCode)
	}
	for until := time.Now().Add(time.Minute); ; { // on a busy machine 50 ms may pass more than once
		if resp := g.do(t, "POST", "/a", "Authorization", alice); resp.StatusCode == 200 {
			break
		} else if resp.StatusCode != 503 || time.Now().After(until) {
			t.Fatalf("when the keys come again: %d, want 200", resp.StatusCode)
		}
	}
}

func TestCORS(t *testing.T) {
	t.Parallel()
	const ours, theirs = "https://ours.example", "https://theirs.example"
	g := startGuarded(t, nil, func(s *settings.Settings) { s.AllowedOrigins = []string{ours} })
	anyone := startGuarded(t, nil, func(s *settings.Settings) { s.AllowedOrigins = []string{"*"} })
	nobody := startGuarded(t, nil, nil)
	for _, c := range []struct {
		name           string
		g              *guarded
		method, origin string
		preflight      bool
		status         int
		allow          string
	}{
		{"preflight", g, "OPTIONS", ours, true, 204, ours},
		{"foreign preflight", g, "OPTIONS", theirs, true, 403, ""},
		{"request", g, "POST", ours, false, 200, ours},
		{"foreign request", g, "POST", theirs, false, 403, ""}, // a browser would send it all the same
		{"foreign read", g, "GET", theirs, false, 403, ""},
		{"a page without an origin of its own", g, "POST", "null", false, 403, ""},
		{"no origin", g, "POST", "", false, 200, ""},
		{"any preflight", anyone, "OPTIONS", theirs, true, 204, "*"},
		{"any request", anyone, "GET", theirs, false, 200, "*"},
		{"no origins preflight", nobody, "OPTIONS", ours, true, 403, ""},
		{"no origins", nobody, "POST", ours, false, 403, ""},
		{"no origins, no origin", nobody, "POST", "", false, 200, ""},
		{"OPTIONS", g, "OPTIONS", ours, false, 405, ours},
	} {
		if c.method == "GET" {
			c.g.do(t, "POST", "/a")
		}
		var header []string
		if c.origin != "" {
			header = append(header, "Origin", c.origin)
		}
		if c.preflight {
			header = append(header, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "idempotency-key")
		}
		resp := c.g.do(t, c.method, "/a", header...)
		if resp.StatusCode != c.status || resp.Header.Get("Access-Control-Allow-Origin") != c.allow {
			t.Errorf("%s: %d, allowed for %q; want %d, %q", c.name, resp.StatusCode, resp.Header.Get("Access-Control-Allow-Origin"), c.status, c.allow)
		}
		if c.status == 204 && !strings.Contains(resp.Header.Get("Access-Control-Allow-Headers"), "Idempotency-Key") {
			t.Errorf("%s: a page may not send an Idempotency-Key", c.name)
		}
		if docs, err := c.g.fs.Collection("counters").Documents(t.Context()).GetAll(); c.status == 403 && c.g == nobody && (err != nil || len(docs) > 0) {
			t.Errorf("%s: it was counted: %d counters, %v", c.name, len(docs), err)
		}
		if c.g == g && resp.Header.Get("Vary") != "Origin" {
			t.Errorf("%s: Vary is %q; a cache would give one origin's answer to another", c.name, resp.Header.Get("Vary"))
		}
	}
}

// What traces requests in browsers adds headers to every one, and sendBeacon asks for credentials. Neither keeps a page
// from counting; what tells who a caller is, no page may send, but its tokens.
func TestPreflightOfWhatTracingAdds(t *testing.T) {
	t.Parallel()
	const page = "https://ours.example"
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprint("x", i))
	}
	for _, origins := range []string{page, "*"} {
		g := startGuarded(t, nil, func(s *settings.Settings) { s.AllowedOrigins = []string{origins} })
		for asked, want := range map[string][]string{
			"":                             nil,
			"idempotency-key,content-type": nil,
			"sentry-trace,baggage,traceparent,tracestate,x-requested-with,x-datadog-trace-id": {"sentry-trace", "baggage", "traceparent", "tracestate", "x-requested-with", "x-datadog-trace-id"},
			"Baggage , b3,b3,key": {"Baggage", "b3", "key"},
			"X-Serverless-Authorization,x-goog-iap-jwt-assertion,x-forwarded-for,forwarded,cookie,proxy-authorization,b3": {"b3"},
			"a b,*,,(x),ä": nil,
			strings.Repeat("y", 65) + "," + strings.Join(many, ","): many[:maxHeaders-5],
		} {
			resp := g.do(t, "OPTIONS", "/a", "Origin", page, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", asked)
			got := strings.Split(resp.Header.Get("Access-Control-Allow-Headers"), ", ")
			if resp.StatusCode != 204 || len(got) < 5 || !slices.Equal(got[5:], want) {
				t.Errorf("%.100q: %d, allowed are %q, want ours and %q", asked, resp.StatusCode, got, want)
			}
			if vary := resp.Header.Values("Vary"); !slices.Contains(vary, "Access-Control-Request-Headers") {
				t.Errorf("%.100q: Vary is %q", asked, vary)
			}
		}
		for _, method := range []string{"OPTIONS", "POST"} {
			resp := g.do(t, method, "/a", "Origin", page, "Access-Control-Request-Method", "POST")
			if credentials := resp.Header.Get("Access-Control-Allow-Credentials"); (credentials == "true") != (origins != "*") {
				t.Errorf("%s where ALLOWED_ORIGINS is %s: credentials are allowed: %q", method, origins, credentials)
			}
		}
	}
}

func TestRateLimit(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	// One, and then none for a long time.
	g := startGuarded(t, firebaseTokens("p", i.keys()), func(s *settings.Settings) { s.RateLimit = 0.001 })
	token := func(user string) string {
		return "Bearer " + i.sign(t, valid("https://securetoken.google.com/p", "p", user))
	}
	alice, bob := token("alice"), token("bob")
	for _, c := range []struct {
		name, method, header, value string
		status                      int
	}{
		{"alice", "POST", "Authorization", alice, 200},
		{"alice again", "POST", "Authorization", alice, 429},
		{"alice with a new token", "POST", "Authorization", token("alice"), 429},
		{"bob", "POST", "Authorization", bob, 200},
		{"an address", "GET", "X-Forwarded-For", "1.1.1.1", 200},
		{"an address that claims to be another", "GET", "X-Forwarded-For", "2.2.2.2, 1.1.1.1", 429},
		{"another address", "GET", "X-Forwarded-For", "1.1.1.1, 3.3.3.3", 200},
		{"the connection's address", "GET", "", "", 200},
		{"the connection's address again", "GET", "", "", 429},
	} {
		var header []string
		if c.header != "" {
			header = []string{c.header, c.value}
		}
		resp := g.do(t, c.method, "/a", header...)
		if resp.StatusCode != c.status || (resp.Header.Get("Retry-After") != "") != (c.status == 429) {
			t.Errorf("%s: %d, Retry-After %q; want %d", c.name, resp.StatusCode, resp.Header.Get("Retry-After"), c.status)
		}
	}
}

// A caller of AUTH=appcheck is an app, which all of its users share: one of them must not use up
// the others' rate.
func TestRateLimitOfAppCheckIsTheAddress(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	g := startGuarded(t, appCheckTokens("123", i.keys()), func(s *settings.Settings) { s.RateLimit = 0.001 })
	token := i.sign(t, valid("https://firebaseappcheck.googleapis.com/123", "projects/123", "1:123:web:abc"))
	for _, c := range []struct {
		address string
		status  int
	}{{"1.1.1.1", 200}, {"1.1.1.1", 429}, {"2.2.2.2", 200}, {"2.2.2.2", 429}} {
		if resp := g.do(t, "POST", "/a", "X-Firebase-AppCheck", token, "X-Forwarded-For", c.address); resp.StatusCode != c.status {
			t.Errorf("from %s: %d, want %d", c.address, resp.StatusCode, c.status)
		}
	}
}

// Tokens that name a key which isn't known cause one fetch of the keys, and not one each; those
// that are valid go on.
func TestJunkTokensFetchKeysSeldom(t *testing.T) {
	t.Parallel()
	i, other := newIssuer(t), newIssuer(t)
	other.id = "unknown"
	g := startGuarded(t, firebaseTokens("p", i.keys()), nil)
	alice := valid("https://securetoken.google.com/p", "p", "alice")
	for n := range 50 {
		if resp := g.do(t, "POST", "/a", "Authorization", "Bearer "+other.sign(t, alice)); resp.StatusCode != 401 {
			t.Fatalf("junk: %d, want 401", resp.StatusCode)
		}
		if resp := g.do(t, "POST", "/a", "Authorization", "Bearer "+i.sign(t, alice)); n%10 == 0 && resp.StatusCode != 200 {
			t.Fatalf("a valid token beside junk: %d, want 200", resp.StatusCode)
		}
	}
	if n := i.fetched.Load(); n != 1 {
		t.Errorf("the keys were fetched %d times, want once", n)
	}
}

// A key that is new is fetched once the last fetch is long enough ago.
func TestNewKeysAreFetched(t *testing.T) {
	t.Parallel()
	i, next := newIssuer(t), newIssuer(t)
	next.id = "2"
	g := startGuarded(t, firebaseTokens("p", remoteKeys(context.Background(), i.server.URL, keysTimeout, 20*time.Millisecond)), nil)
	alice := valid("https://securetoken.google.com/p", "p", "alice")
	if resp := g.do(t, "POST", "/a", "Authorization", "Bearer "+i.sign(t, alice)); resp.StatusCode != 200 {
		t.Fatalf("the first key: %d", resp.StatusCode)
	}
	i.alsoServes(next)
	time.Sleep(20 * time.Millisecond)
	if resp := g.do(t, "POST", "/a", "Authorization", "Bearer "+next.sign(t, alice)); resp.StatusCode != 200 {
		t.Errorf("the next key: %d, want 200", resp.StatusCode)
	}
}

// Who sends tokens that are not valid is limited, and who has a valid one is not.
func TestJunkTokensAreLimitedByAddress(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	g := startGuarded(t, firebaseTokens("p", i.keys()), func(s *settings.Settings) { s.RateLimit = 2.001 })
	alice := "Bearer " + i.sign(t, valid("https://securetoken.google.com/p", "p", "alice"))
	const junk = 200 // at once, and so many that a slow machine is none the wiser: two a second go on being looked at
	answers := make(chan int, junk)
	var all sync.WaitGroup
	for range junk {
		all.Go(func() {
			answers <- g.do(t, "POST", "/a", "Authorization", "Bearer junk", "X-Forwarded-For", "1.1.1.1").StatusCode
		})
	}
	all.Wait()
	close(answers)
	refused := map[int]int{}
	for status := range answers {
		refused[status]++
	}
	if refused[401] < 3 || refused[429] < 10 || refused[401]+refused[429] != junk {
		t.Errorf("junk of one address: %v, want a few 401, then 429", refused)
	}
	if resp := g.do(t, "POST", "/a", "Authorization", alice, "X-Forwarded-For", "2.2.2.2"); resp.StatusCode != 200 {
		t.Errorf("another address: %d, want 200", resp.StatusCode)
	}
}

// One attacker's junk is no reason to refuse who shares its address: everybody does behind a proxy
// that isn't named.
func TestValidTokensAreNeverLimitedByJunk(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	for name, kind := range map[string]struct {
		tokens        *tokens
		header, valid string
	}{
		"firebase": {firebaseTokens("p", i.keys()), "Authorization", "Bearer " + i.sign(t, valid("https://securetoken.google.com/p", "p", "alice"))},
		"appcheck": {appCheckTokens("123", i.keys()), "X-Firebase-AppCheck", i.sign(t, valid("https://firebaseappcheck.googleapis.com/123", "projects/123", "1:123:web:abc"))},
	} {
		g := startGuarded(t, kind.tokens, func(s *settings.Settings) { s.RateLimit = 0.001 })
		for n, want := range []int{401, 429, 429} {
			if resp := g.do(t, "POST", "/a", kind.header, "junk", "X-Forwarded-For", "3.3.3.3"); resp.StatusCode != want {
				t.Errorf("%s: junk %d: %d, want %d", name, n, resp.StatusCode, want)
			}
		}
		for n := range 2 { // reads without a token are counted apart from junk
			if resp := g.do(t, "GET", "/?counter=none", "X-Forwarded-For", "3.3.3.3"); (resp.StatusCode == 429) != (n == 1) {
				t.Errorf("%s: anonymous read %d: %d; want 429 of the second", name, n, resp.StatusCode)
			}
		}
		if resp := g.do(t, "POST", "/a", kind.header, kind.valid, "X-Forwarded-For", "3.3.3.3"); resp.StatusCode != 200 {
			t.Errorf("%s: a valid token behind the same address: %d, want 200", name, resp.StatusCode)
		}
	}
}

// Whose rate a request counts against, where it is an address's.
func TestRateLimitByAddress(t *testing.T) {
	t.Parallel()
	type request struct {
		forwarded string
		status    int
	}
	for proxies, requests := range map[int][]request{
		0: {
			{"2001:db8:1:1::1", 200},
			{"2001:db8:1:1::2", 429}, // of the same network
			{"2001:db8:1:1:ffff:ffff:ffff:ffff", 429},
			{"[2001:db8:1:1::3]:4711", 429},
			{"2001:0DB8:0001:0001:0:0:0:9", 429},
			{"2001:db8:1:2::1", 429}, // of the same customer, or of few
			{"2001:db8:1:ff:1:2:3:4", 429},
			{"2001:db8:1:100::1", 200},
			{"junk, 2001:db8:1:101::2", 429},
			{"9.9.9.9", 200},
			{"::ffff:9.9.9.9", 429}, // is 9.9.9.9
			{"9.9.9.9:80", 429},
			{"9.9.9.8", 200},
		},
		1: { // Google's load balancer: what the client wrote, the client, the balancer
			{"1.1.1.1, 130.211.0.1", 200},
			{"1.1.1.1, 130.211.0.2", 429},
			{"2.2.2.2,130.211.0.1", 200},
			{"5.5.5.5, 6.6.6.6, 2.2.2.2, 130.211.0.1", 429},
			{"2001:db8::1, 2001:db8:2::1", 200},
			{"2001:db8::2, 2001:db8:2::1", 429},
			{"3.3.3.3", 200}, // not by the balancer
			{"3.3.3.3", 429},
		},
		2: {
			{"1.1.1.1, 10.0.0.1, 130.211.0.1", 200},
			{"2.2.2.2, 10.0.0.1, 130.211.0.1", 200},
			{"7.7.7.7, 1.1.1.1, 10.0.0.1, 130.211.0.1", 429},
		},
	} {
		g := startGuarded(t, nil, func(s *settings.Settings) { s.RateLimit, s.TrustedProxies = 0.001, proxies })
		for _, r := range requests {
			if resp := g.do(t, "POST", "/a", "X-Forwarded-For", r.forwarded); resp.StatusCode != r.status {
				t.Errorf("TRUSTED_PROXIES=%d, from %s: %d, want %d", proxies, r.forwarded, resp.StatusCode, r.status)
			}
		}
	}
	g := startGuarded(t, firebaseTokens("p", newIssuer(t).keys()), func(s *settings.Settings) { s.RateLimit, s.TrustedProxies = 0.001, 1 })
	for n, want := range []int{401, 401, 429} { // junk, too
		if resp := g.do(t, "POST", "/a", "X-Forwarded-For", []string{"1.1.1.1", "2001:db8::1", "2001:db8::2"}[n]+", 130.211.0.1"); resp.StatusCode != want {
			t.Errorf("no token, %d: %d, want %d", n, resp.StatusCode, want)
		}
	}
}

// What is in a token decides nothing but whether it is valid, and is neither answered nor logged.
func TestTokenErrorsAreToldApartByType(t *testing.T) {
	t.Parallel()
	i, foreign := newIssuer(t), newIssuer(t)
	const text = "fetching keys attacker"
	foreign.id = text
	var logged syncBuffer
	g := startGuardedWithLog(t, firebaseTokens(text, i.keys()), nil, slog.New(newLogHandler(&logged, slog.LevelDebug)))
	claims := valid("https://securetoken.google.com/"+text, text, text)
	for name, token := range map[string]string{
		"a key's name": foreign.sign(t, claims),
		"the issuer":   i.sign(t, claims.with("iss", text)),
		"the audience": i.sign(t, claims.with("aud", text+"!")),
		"garbage":      text,
	} {
		status, body := g.read(t, "POST", "/a", "Authorization", "Bearer "+token)
		if status != 401 || strings.Contains(body, "attacker") || strings.Contains(body, "oidc") || strings.Contains(body, "expected") {
			t.Errorf("%s: %d %s; want 401, without a word of the token's or the library's", name, status, body)
		}
	}
	if strings.Contains(logged.String(), "attacker") {
		t.Errorf("logged: %s", logged.String())
	}
}

// A request with many increments counts for that many.
func TestRateLimitCountsIncrements(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, nil, func(s *settings.Settings) { s.RateLimit = 1 })
	many := `{"increments":[` + strings.TrimSuffix(strings.Repeat(`{"counter":"a"},`, 500), ",") + `]}`
	post := func(address string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), "POST", g.URL, strings.NewReader(many))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Forwarded-For", address)
		resp, err := g.asks.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp
	}
	if resp := post("1.1.1.1"); resp.StatusCode != 200 {
		t.Fatalf("500 increments: %d", resp.StatusCode)
	}
	// 499 of them are owed, for as many seconds, and eleven documents of the counter that was made.
	resp := post("1.1.1.1")
	if after, err := strconv.Atoi(resp.Header.Get("Retry-After")); resp.StatusCode != 429 || err != nil || after < 400 || after > 511 {
		t.Errorf("500 more: %d, Retry-After %d; want 429, and to wait for all of the first", resp.StatusCode, after)
	}
	if resp := post("2.2.2.2"); resp.StatusCode != 200 {
		t.Errorf("another caller: %d", resp.StatusCode)
	}
}

var committedAt = regexp.MustCompile(`,"committed_at":"[^"]*"`)

// After a change of AUTH the same request comes from another caller, and its key is another key:
// docs/deploying.md says so, and that members are counted once all the same.
func TestAChangeOfAuthChangesWhoseKeyItIs(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	before := startGuarded(t, nil, func(s *settings.Settings) { s.Members = settingAny })
	s, err := settings.Parse([]string{"GOOGLE_CLOUD_PROJECT=p", "AUTH=firebase"})
	if err != nil {
		t.Fatal(err)
	}
	client, err := openShards(s, slog.New(slog.DiscardHandler), option.WithGRPCConn(before.firestore.Conn(t)))
	if err != nil {
		t.Fatal(err)
	}
	after := httptest.NewServer(newIncrementHandler(client, s, firebaseTokens("p", i.keys()), slog.New(slog.DiscardHandler)))
	t.Cleanup(func() {
		after.Close()
		client.Close()
	})
	alice := "Bearer " + i.sign(t, valid("https://securetoken.google.com/p", "p", "alice"))
	for _, step := range []struct{ server, method, path, want string }{
		{before.URL, "POST", "/a", `{"counter":"a","by":1}`},
		{before.URL, "POST", "/a", `{"counter":"a","by":1,"replayed":true}`},
		{after.URL, "POST", "/a", `{"counter":"a","by":1}`},
		{after.URL, "POST", "/a", `{"counter":"a","by":1,"replayed":true}`},
		{before.URL, "PUT", "/a/total/alice", `{"counter":"a","field":"total","member":"alice","counted":true}`},
		{after.URL, "PUT", "/a/total/alice", `{"counter":"a","field":"total","member":"alice","counted":false}`},
	} {
		g := guarded{Server: &httptest.Server{URL: step.server}}
		status, body := g.read(t, step.method, step.path, "Idempotency-Key", "k", "Authorization", alice)
		if body = committedAt.ReplaceAllString(body, ""); status != 200 || strings.TrimSpace(body) != step.want {
			t.Errorf("%s %s: %d %s, want %s", step.method, step.path, status, body, step.want)
		}
	}
	operations, err := os.ReadFile("../docs/operations.md")
	if err != nil || !strings.Contains(string(operations), "A change of `AUTH` changes [whose key it is]") {
		t.Errorf("docs/operations.md doesn't say so (%v)", err)
	}
}

// customAudience is the audience of tokens that a backend makes, and that users sign in with.
const customAudience = "https://identitytoolkit.googleapis.com/google.identity.identitytoolkit.v1.IdentityToolkit"

// Who is refused is told why, by what the token itself says; and so is whoever reads the log at DEBUG.
func TestWhyTokensAreRefused(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	user := valid("https://securetoken.google.com/p", "p", "alice")
	app := valid("https://firebaseappcheck.googleapis.com/123", "projects/123", "1:123:web:abc").with("aud", []string{"projects/123", "projects/p"})
	const wantsUser, wantsApp = "; want a user's ID token, which getIdToken() returns", "; want an App Check token, which getToken() returns"
	firebase, appCheck := firebaseTokens("p", i.keys()), appCheckTokens("123", i.keys())
	for _, c := range []struct {
		name, token string
		tokens      *tokens
		want        string
	}{
		{"expired", i.sign(t, user.with("exp", time.Now().Add(-time.Hour).Unix())), firebase, "it has expired: ask for a new one"},
		{"of another project", i.sign(t, user.with("iss", "https://securetoken.google.com/shop").with("aud", "shop")), firebase, "it is of another project"},
		{"of the emulator", unsigned(user), firebase, "it is of the Auth emulator, which signs none"},
		{"custom", i.sign(t, claims{"iss": "a@p.iam.gserviceaccount.com", "aud": customAudience, "uid": "alice"}), firebase, "it is a custom token, to sign in with" + wantsUser},
		{"session", i.sign(t, user.with("iss", "https://session.firebase.google.com/p")), firebase, "it is a session cookie" + wantsUser},
		{"of gcloud", i.sign(t, user.with("iss", "https://accounts.google.com")), firebase, "it is an ID token of Google's" + wantsUser},
		{"of an app", i.sign(t, app), firebase, "it is an App Check token" + wantsUser},
		{"a refresh token", "AMf-vBx", firebase, "it is no JSON Web Token" + wantsUser},
		{"garbage", "a.b.c", firebase, "it is no JSON Web Token" + wantsUser},
		{"of others' keys", newIssuer(t).sign(t, user), firebase, "or not signed by its keys"},
		{"for others", i.sign(t, user.with("aud", "shop")), firebase, "it is not for this project"},
		{"for others, without a signature", unsigned(user.with("iss", "x")), firebase, "it is of another project"},
		{"of a user", i.sign(t, user), appCheck, "it is a user's ID token" + wantsApp},
		{"of another number", i.sign(t, app.with("iss", "https://firebaseappcheck.googleapis.com/124")), appCheck, "it is of another project"},
	} {
		var log bytes.Buffer
		g := startGuardedWithLog(t, c.tokens, nil, slog.New(newLogHandler(&log, slog.LevelDebug)))
		header, value := "Authorization", "Bearer "+c.token
		if c.tokens == appCheck {
			header, value = "X-Firebase-AppCheck", c.token
		}
		status, body := g.read(t, "POST", "/a", header, value)
		var answer struct{ Detail string }
		if err := json.Unmarshal([]byte(body), &answer); err != nil || status != 401 || !strings.HasPrefix(answer.Detail, "the token is refused: ") || !strings.Contains(answer.Detail, c.want) {
			t.Errorf("%s: %d %s, want %s", c.name, status, body, c.want)
		}
		var logged struct{ Message, Severity, Error string }
		if err := json.Unmarshal(log.Bytes(), &logged); err != nil || logged.Severity != "DEBUG" || logged.Message != "token refused" || logged.Error != answer.Detail {
			t.Errorf("%s: logged is %s, %v", c.name, &log, err)
		}
		if strings.Contains(body+log.String(), c.token) {
			t.Errorf("%s: the token itself is told or logged", c.name)
		}
	}
}

// Where FIREBASE_AUTH_EMULATOR_HOST is set, callers are users of Firebase's Auth emulator, of the
// same project, and nobody else.
func TestAuthEmulator(t *testing.T) {
	t.Parallel()
	s := settings.Settings{Auth: "firebase", AuthEmulator: "127.0.0.1:9099"}
	g := startGuarded(t, tokensFor(t.Context(), s, "p"), func(s *settings.Settings) { s.Members = settingOwn })
	alice, now := emulated("p", "alice"), time.Now()
	for _, c := range []struct {
		name, token string
		status      int
		want        string // in the answer
	}{
		{"a user of the emulator", unsigned(alice), 200, `"member":"alice","counted":true`},
		{"the same again", unsigned(alice), 200, `"counted":false`},
		{"of another project", unsigned(emulated("demo-shop", "alice")), 401, `demo-shop\", not of https://securetoken.google.com/p: start the Auth emulator and the functions with one project"`},
		{"expired", unsigned(alice.with("exp", now.Add(-time.Hour).Unix())), 401, `"the token is refused: it has expired: ask for a new one"`},
		{"nobody", unsigned(alice.with("sub", "")), 401, "it names nobody"},
		{"signed", newIssuer(t).sign(t, alice), 401, "it is signed, so it is not of the Auth emulator (FIREBASE_AUTH_EMULATOR_HOST), whose tokens alone are taken here"},
		{"custom", unsigned(claims{"iss": "firebase-auth-emulator@example.com", "aud": customAudience, "uid": "alice"}), 401, "it is a custom token, to sign in with; want a user's ID token, which getIdToken() returns"},
		{"session", unsigned(alice.with("iss", "https://session.firebase.google.com/p")), 401, "it is a session cookie; want a user's ID token"},
		{"none", "", 401, "no token"},
	} {
		var header []string
		if c.token != "" {
			header = []string{"Authorization", "Bearer " + c.token}
		}
		if status, body := g.read(t, "PUT", "/a/total/me", header...); status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s: %d %s, want %d and %s", c.name, status, body, c.status, c.want)
		}
	}
	if _, body := g.read(t, "PUT", "/a/total/me", "Authorization", "Bearer "+unsigned(alice.with("iss", strings.Repeat("\n", 200)))); !strings.Contains(body, `it is of \"`+strings.Repeat(`\\n`, 50)+`…\", not of`) {
		t.Errorf("of a long name: %s", body)
	}
	s.AuthEmulator = ""
	if tokens := tokensFor(t.Context(), s, "p"); tokens.unsigned {
		t.Error("without the emulator unsigned tokens are taken")
	}
}
