package simulation

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	mathrand "math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// In some worlds callers are users of Firebase Authentication, who show its tokens, and members are
// these users themselves. Strangers come too: without a token, with one that has expired, one of
// another project or one that somebody else has signed; and users who name others as members.

// drawAuth draws whether callers are users, from dice of its own.
func (p *Plan) drawAuth() {
	if p.Auth = dice(p.Seed, "auth", 0).IntN(4) == 0; !p.Auth {
		return
	}
	p.Environ = append(p.Environ, "AUTH=firebase", "RESET=off")
	if p.Members > 0 {
		p.Environ = append(p.Environ, "MEMBERS=own")
	}
}

// leaveAuth leaves callers out of a plan: whoever calls may, as without drawAuth.
func (p *Plan) leaveAuth() {
	p.Auth = false
	p.Environ = slices.DeleteFunc(slices.Clone(p.Environ), func(setting string) bool {
		return slices.Contains([]string{"AUTH=firebase", "RESET=off", "MEMBERS=own"}, setting)
	})
}

// Kinds of tokens that must let nobody in, before the user that they name.
var worthless = []string{"none ", "expired ", "elsewhere ", "forged "}

// callerOf is who calls for a user, with which token; and whether that is one who must not.
func (w *world) callerOf(r *mathrand.Rand, user string) (caller string, stranger bool) {
	if !w.plan.Auth {
		return "", false
	}
	switch kind := r.IntN(60); {
	case kind < len(worthless):
		return worthless[kind] + user, true
	case kind < 6 && strings.HasPrefix(user, "m"): // of members, one names another
		return "u0", true
	}
	return user, false
}

// tokenLasts is for how long a caller shows the same token.
const tokenLasts = 30 * time.Minute

// tokens are those that callers show.
type tokens struct {
	mu   sync.Mutex
	made map[shownToken]string
}

type shownToken struct {
	caller string
	since  time.Time
	ahead  time.Duration // of the clock of the process that is to see it
}

// of is the token that a caller shows now to a process whose clock is ahead; "" is none.
func (t *tokens) of(caller string, ahead time.Duration) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	shown := shownToken{caller, time.Now().Truncate(tokenLasts), ahead}
	if token, made := t.made[shown]; made {
		return token, nil
	}
	token, err := shown.sign()
	if err != nil {
		return "", err
	}
	if t.made == nil {
		t.made = map[shownToken]string{}
	}
	t.made[shown] = token
	return token, nil
}

func (t shownToken) sign() (string, error) {
	kind, user, is := strings.Cut(t.caller, " ")
	if !is {
		kind, user = "", t.caller
	}
	if kind == "none" {
		return "", nil
	}
	begun, of := t.since.Add(-t.ahead), project
	if kind == "expired" {
		begun = begun.Add(-2 * time.Hour)
	}
	if kind == "elsewhere" {
		of = "another"
	}
	head, err := json.Marshal(map[string]string{"alg": "RS256", "typ": "JWT", "kid": keyID})
	if err != nil {
		return "", err
	}
	claims, err := json.Marshal(map[string]any{
		"iss": "https://securetoken.google.com/" + of, "aud": of, "sub": user,
		"iat": begun.Unix(), "exp": begun.Add(time.Hour).Unix(),
	})
	if err != nil {
		return "", err
	}
	text := base64.RawURLEncoding.EncodeToString(head) + "." + base64.RawURLEncoding.EncodeToString(claims)
	sum := sha256.Sum256([]byte(text))
	key, err := signer()
	if err != nil {
		return "", err
	}
	signature, err := rsa.SignPKCS1v15(nil, key, crypto.SHA256, sum[:])
	if err != nil {
		return "", err
	}
	if kind == "forged" {
		signature[7]++
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}

const keyID = "simulated"

// signer is the key that signs tokens: a short one, which is faster. It is in no history.
var signer = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 1024) })

// Keys is where Google publishes the keys that sign tokens, in place of the network: it answers
// that one URL, and refuses all others.
type Keys struct{}

func (Keys) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != "www.googleapis.com" || !strings.Contains(r.URL.Path, "securetoken") {
		return nil, errors.New("simulated: there is no network")
	}
	key, err := signer()
	if err != nil {
		return nil, err
	}
	number := func(n *big.Int) string { return base64.RawURLEncoding.EncodeToString(n.Bytes()) }
	body, err := json.Marshal(map[string]any{"keys": []map[string]string{{
		"kid": keyID, "alg": "RS256", "use": "sig", "kty": "RSA", "n": number(key.N), "e": number(big.NewInt(int64(key.E))),
	}}})
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK", Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(string(body))), Request: r,
	}, nil
}
