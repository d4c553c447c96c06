package functions

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/firestore-counters/counters/internal/settings"
)

// RATE_LIMIT counts what a request costs, not the request: its caller pauses for as many seconds as it took units, at
// one a second.
func TestRateLimitCountsUnits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		method, path, body string
		units              int
	}{
		"a field":              {"POST", "/a", `{"by":1}`, 1},
		"three fields":         {"POST", "/a", `{"by":{"x":1,"y":2,"z":3}}`, 3},
		"two counters":         {"POST", "/", `{"increments":[{"counter":"a"},{"counter":"b"}]}`, 2},
		"fields of counters":   {"POST", "/", `{"increments":[{"counter":"a","by":{"x":1,"y":2}},{"counter":"b","by":{"x":1,"y":2,"z":3}}]}`, 5},
		"a new counter":        {"POST", "/new", ``, 12}, // its document, ten shards, and the one that is added to
		"two new counters":     {"POST", "/", `{"increments":[{"counter":"new1"},{"counter":"new2"}]}`, 24},
		"a membership":         {"PUT", "/a/x/alice", ``, 1},
		"a seat that is held":  {"PUT", "/a/x/alice?hold=1s", ``, holdUnits},
		"a reset":              {"POST", "/a/reset", ``, commandUnits},
		"a read":               {"GET", "/a", ``, 1},
		"an exact read":        {"GET", "/a?exact=true", ``, 5}, // document, base, and three sums
		"a read of nothing":    {"GET", "/nothing", ``, 1},
		"a request of nothing": {"POST", "/a", `{"by":0}`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := startVirtually(t, nil, func(s *settings.Settings) {
					s.Fields, s.RateLimit, s.Members, s.Reset = fieldsOf(t, "x,y,z"), 1, settingAny, settingAny
				})
				for _, id := range []string{"a", "b"} {
					if status, body := g.post(t, "/"+id, "", "9.9.9."+id); status != 200 {
						t.Fatalf("%d %s", status, body)
					}
				}
				req, err := http.NewRequestWithContext(t.Context(), c.method, g.URL+c.path, strings.NewReader(c.body))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("X-Forwarded-For", "1.1.1.1")
				resp, err := g.asks.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				after := g.do(t, "GET", "/a", "X-Forwarded-For", "1.1.1.1")
				pause, _ := strconv.Atoi(after.Header.Get("Retry-After"))
				if resp.StatusCode == 429 || after.StatusCode != 429 || pause < max(1, c.units-5) || pause > c.units {
					t.Errorf("%s %s: %s, then %s with Retry-After %d; want about %d", c.method, c.path, resp.Status, after.Status, pause, c.units)
				}
			})
		})
	}
}

// Who has a token may name few counters in a request: each is a write that somebody else pays. A backend, which IAM
// lets in, may name 500.
func TestUsersNameFewCounters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, usersNameFewCounters)
}

func usersNameFewCounters(t *testing.T) {
	bearer := []string{"Authorization", "Bearer " + unsigned(emulated("p", "alice"))}
	users := startVirtually(t, emulatorTokens("p"), func(s *settings.Settings) { s.Auth, s.NumShards = "firebase", 1 })
	same := `{"increments":[` + strings.TrimSuffix(strings.Repeat(`{"counter":"a"},`, 21), ",") + `]}`
	for _, c := range []struct {
		body   string
		status int
		want   string
	}{
		{newIDs("a", maxNamed+1), 400, "the request names 21 counters; with a token at most 20 are allowed"},
		{newIDs("a", maxNamed), 200, "committed_at"},
		{`{"increments":[` + strings.Repeat(" ", maxBody) + `{"counter":"a"}]}`, 413, "the body has more than 65536 bytes"},
		{same, 200, "committed_at"}, // one counter, however often
	} {
		if status, body := users.post(t, "/", c.body, "1.1.1.1", bearer...); status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%.60s: %d %s, want %d with %q", c.body, status, body, c.status, c.want)
		}
	}
	if made := users.countersMade(t); made != maxNamed+1 {
		t.Errorf("%d counters, want %d", made, maxNamed+1)
	}
	backend := startVirtually(t, nil, func(s *settings.Settings) { s.NumShards = 1 })
	if status, body := backend.post(t, "/", newIDs("a", 500), "1.1.1.1"); status != 200 {
		t.Errorf("a backend that names 500: %d %s", status, body)
	}
}

// An answer repeats little of what was sent, whatever that was, and a line of the log no more.
func TestAnswersRepeatLittle(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "Increment", "MEMBERS=any")
	long := strings.Repeat("<&>", 4000)
	escaped := strings.Repeat("%3C%26%3E", 4000)
	for name, c := range map[string]struct {
		method, path, body string
		status             int
	}{
		"an id":                {"GET", "/" + escaped, "", 400},
		"an id, exact":         {"GET", "/" + escaped + "?exact=true", "", 400},
		"an id that may be":    {"GET", "/" + escaped[:9*160], "", 404},
		"of control bytes":     {"GET", "/" + strings.Repeat("%01", 4000), "", 400},
		"an id as a parameter": {"GET", "/?counter=" + escaped, "", 400},
		"a parameter":          {"GET", "/a?" + escaped + "=1", "", 400},
		"exact":                {"GET", "/a?exact=" + escaped, "", 400},
		"a hold":               {"PUT", "/a/total/alice?hold=" + escaped, "", 400},
		"a field of members":   {"PUT", "/a/" + escaped + "/alice", "", 400},
		"a member":             {"PUT", "/a/total/" + escaped, "", 400},
		"a name in a body":     {"POST", "/a", `{"` + long + `":1}`, 400},
		"a field":              {"POST", "/a", `{"by":{"` + long + `":1}}`, 400},
		"a field of no number": {"POST", "/a", `{"by":{"` + long + `":"x"}}`, 400},
		"a number":             {"POST", "/a", `{"by":` + strings.Repeat("9", 12_000) + `}`, 400},
		"a megabyte":           {"POST", "/", `{"` + strings.Repeat("x", maxBodyMany-100) + `":1}`, 400},
		"a counter":            {"POST", "/", `{"increments":[{"counter":"` + long + `"}]}`, 400},
		"a field that is twice": {"POST", "/", `{"increments":[{"counter":"a","by":{"` + strings.Repeat("x", 400_000) + `":1,"` + strings.Repeat("x", 400_000) + `":1}}]}`,
			400},
		"a key": {"POST", "/a", "", 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var header []string
			if name == "a key" {
				header = []string{"Idempotency-Key", strings.Repeat("k", 12_000)}
			}
			a := p.do(t, c.method, c.path, c.body, header...)
			if a.status != c.status || len(a.text) > 800 || strings.Contains(a.text, `\u003c`) {
				t.Errorf("%d, and %d bytes: %.1000s; want %d, and few", a.status, len(a.text), a.text, c.status)
			}
		})
	}
	if got := echoed(strings.Repeat("ä", 200)); got != strings.Repeat("ä", 100)+"…" {
		t.Errorf("200 letters are repeated as %s", got)
	}
	text := fmt.Sprintf("%q and %q are long", strings.Repeat(`"`, 300), "short")
	if got := shortened(text); len(got) > 150 || !strings.Contains(got, `" and "short" are long`) {
		t.Errorf("%s is shortened to %s", text, got)
	}
}
