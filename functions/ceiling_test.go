package functions

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/internal/settings"
)

// sent is what one address sends, and how it is answered.
type sent struct {
	method, path, key string
	status            int
	want              string // in the answer
}

func (g *guarded) sends(t *testing.T, all ...sent) {
	t.Helper()
	for _, s := range all {
		var header []string
		if s.key != "" {
			header = []string{"Idempotency-Key", s.key}
		}
		resp, body := g.send(t, s.method, s.path, header...)
		if resp.StatusCode != s.status || !strings.Contains(body, s.want) || s.status >= 429 && resp.Header.Get("Retry-After") == "" {
			t.Errorf("%s %s: %d %s, Retry-After %q; want %d with %q", s.method, s.path, resp.StatusCode, body, resp.Header.Get("Retry-After"), s.status, s.want)
		}
	}
}

// leave spends all of a unit but so much.
func (g *guarded) leave(u ceiling.Unit, left float64) {
	g.client.Budget().Spend(u, g.client.Budget().Left(u)-left)
}

// What gives way at the ceiling, in this order, and what doesn't.
func TestAtTheCeiling(t *testing.T) {
	t.Parallel()
	synctest.Test(t, atTheCeiling)
}

func atTheCeiling(t *testing.T) {
	g := startVirtually(t, nil, func(s *settings.Settings) {
		s.Members, s.Reset, s.ReadCache, s.NumShards = settingAny, settingAny, time.Nanosecond, 2
		s.Ceiling = settings.Ceiling{Writes: 1, Reads: 1, Creates: 0.001} // next to nothing is earned in a test's time
	})
	g.leave(ceiling.Writes, 300)
	g.leave(ceiling.Reads, 300)
	g.sends(t, sent{"POST", "/a", "", 200, "committed_at"}, sent{"GET", "/a", "", 200, `"total":0`},
		sent{"POST", "/b", "", 429, "holds up new counters"}, // one in 1,000 s
		sent{"GET", "/a?exact=true", "", 200, `"total":1`}, sent{"PUT", "/a/total/alice?hold=1m", "", 200, "until"})

	time.Sleep(time.Microsecond) // what was read is older than READ_CACHE
	reads := g.firestore.Server.Stats().Reads
	g.leave(ceiling.Reads, 4) // short
	g.sends(t, sent{"GET", "/a", "", 200, `"held_up":true`}, sent{"GET", "/nothing", "", 429, "holds up reads"},
		sent{"GET", "/a?exact=true", "", 429, "holds up reads that aren't from memory"}, sent{"GET", "/a/total/alice", "", 429, "holds up reads"},
		sent{"PUT", "/a/total/bob?hold=1m", "", 429, "holds up holds"}, sent{"POST", "/a/reset", "", 429, "holds up commands"},
		sent{"POST", "/a", "", 200, "committed_at"}, sent{"POST", "/a", "key", 200, "committed_at"})
	if got := g.firestore.Server.Stats().Reads; got != reads {
		t.Errorf("%d reads while they are short", got-reads)
	}
	g.leave(ceiling.Reads, -100) // owed
	g.sends(t, sent{"POST", "/a", "", 200, "committed_at"}, sent{"POST", "/a", "key", 429, "has to be looked for"},
		sent{"PUT", "/a/total/carol", "", 429, "has to be looked for"}, sent{"POST", "/unknown", "", 429, "not used lately"})

	time.Sleep(time.Microsecond)
	g.leave(ceiling.Reads, 300)
	g.leave(ceiling.Writes, 4)
	g.sends(t, sent{"POST", "/a", "", 200, "committed_at"}, sent{"PUT", "/a/total/bob?hold=1m", "", 429, "holds up holds"},
		sent{"POST", "/c", "", 429, "holds up new counters"}, sent{"GET", "/a", "", 200, `"held_up":true`})
	g.leave(ceiling.Writes, -100)
	g.sends(t, sent{"POST", "/a", "", 503, "too busy; nothing was counted"},
		sent{"DELETE", "/a/total/holds/unknown", "", 200, "ended"}, // its record is lent
		sent{"POST", "/a/total/alice/confirm", "", 200, "confirmed"}, sent{"DELETE", "/a/total/holds/other", "", 429, "holds up the ends of holds"})
	g.leave(ceiling.Writes, 300)
	g.sends(t, sent{"POST", "/a", "", 200, "committed_at"}, sent{"GET", "/a?exact=true", "", 200, `"total":7`}) // six, and alice
}

// A user has a tenth of what is written a second while that is short, so that others have some.
func TestUsersShareACeiling(t *testing.T) {
	t.Parallel()
	synctest.Test(t, usersShareACeiling)
}

func usersShareACeiling(t *testing.T) {
	g := startVirtually(t, emulatorTokens("p"), func(s *settings.Settings) {
		s.Auth, s.Ceiling, s.NumShards = "firebase", settings.Ceiling{Writes: 1, Reads: 1000}, 1
	})
	g.leave(ceiling.Writes, 300)
	post := func(user string) int {
		return g.do(t, "POST", "/a", "Authorization", "Bearer "+unsigned(emulated("p", user))).StatusCode
	}
	for n := range 20 {
		if status := post("mallory"); status != 200 {
			t.Fatalf("increment %d while there is enough: %d", n, status)
		}
	}
	g.leave(ceiling.Writes, 4.5)
	if mallory, alice := post("mallory"), post("alice"); mallory != 429 || alice != 200 {
		t.Errorf("while it is short, mallory is answered %d, and alice %d; want 429 and 200", mallory, alice)
	}
}

// A request of many counters takes as much of a user's share as one for each of them.
func TestAShareIsOfCounters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, aShareIsOfCounters)
}

func aShareIsOfCounters(t *testing.T) {
	g := startVirtually(t, emulatorTokens("p"), func(s *settings.Settings) {
		s.Auth, s.Ceiling, s.NumShards = "firebase", settings.Ceiling{Writes: 1, Reads: 1000}, 1
	})
	g.leave(ceiling.Writes, 300)
	post := func(user, path, body string) int {
		req, err := http.NewRequestWithContext(t.Context(), "POST", g.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+unsigned(emulated("p", user)))
		resp, err := g.asks.Transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	if status := post("bob", "/", newIDs("a", 15)); status != 200 {
		t.Fatalf("15 counters are made: %d", status)
	}
	if status := post("mallory", "/", newIDs("a", 15)); status != 200 {
		t.Fatalf("15 counters while there is enough: %d", status)
	}
	g.leave(ceiling.Writes, 4.5)
	if mallory, alice := post("mallory", "/a-0", ""), post("alice", "/a-0", ""); mallory != 429 || alice != 200 {
		t.Errorf("while it is short, mallory is answered %d, and alice %d; want 429 and 200", mallory, alice)
	}
}

// What has no token is answered with least, and last; who has one is answered as long as it can be.
func TestBytesAreForThoseWithTokens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, bytesAreForThoseWithTokens)
}

func bytesAreForThoseWithTokens(t *testing.T) {
	g := startVirtually(t, emulatorTokens("p"), func(s *settings.Settings) {
		s.Auth, s.Ceiling, s.NumShards = "firebase", settings.Ceiling{Bytes: 100}, 1
	})
	bearer := []string{"Authorization", "Bearer " + unsigned(emulated("p", "alice"))}
	if status, body := g.read(t, "POST", "/a", bearer...); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	for _, c := range []struct {
		left                   float64
		nobody, alice, refused int // 0 is a connection that is closed without an answer
		nobodys, alices, texts bool
	}{
		{5000, 401, 200, 400, true, true, true},
		{900, 401, 200, 400, false, true, false},
		{600, 0, 200, 0, false, true, false},
		{400, 0, 200, 0, false, true, false},
		{300, 0, 0, 0, false, false, false}, // less than an answer has
		{-100, 0, 0, 0, false, false, false},
	} {
		for n, who := range [][]string{nil, bearer, bearer} {
			g.leave(ceiling.Bytes, c.left)
			req, err := http.NewRequestWithContext(t.Context(), "POST", g.URL+[]string{"/a", "/a", "/__a__"}[n], http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			if who != nil {
				req.Header.Set(who[0], who[1])
			}
			status, text := 0, []byte(nil)
			resp, err := g.asks.Transport.RoundTrip(req)
			if err == nil {
				status = resp.StatusCode
				text, err = io.ReadAll(resp.Body)
				resp.Body.Close()
			}
			if err != nil && !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			if want, says := []int{c.nobody, c.alice, c.refused}[n], []bool{c.nobodys, c.alices, c.texts}[n]; status != want || says != (len(text) > 0) {
				t.Errorf("with %v bytes left, request %d: %d %q; want %d, with a body: %v", c.left, n, status, text, want, says)
			}
		}
	}
}

// A page asks without a token whether it may send one. So long as who has a token is answered from what nobody else
// gets, a page learns that it may.
func TestPreflightsBesideAFlood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, preflightsBesideAFlood)
}

func preflightsBesideAFlood(t *testing.T) {
	g := startVirtually(t, emulatorTokens("p"), func(s *settings.Settings) {
		s.Auth, s.Ceiling, s.AllowedOrigins = "firebase", settings.Ceiling{Bytes: 1000}, []string{"https://app.example"}
	})
	for left, want := range map[float64]int{50_000: 204, 4000: 204, 2600: 204, 900: 0} { // below 7500 no other request without a token is answered
		g.leave(ceiling.Bytes, left)
		req, err := http.NewRequestWithContext(t.Context(), "OPTIONS", g.URL+"/a", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Origin", "https://app.example")
		req.Header.Set("Access-Control-Request-Method", "POST")
		status, methods := 0, ""
		if resp, err := g.asks.Transport.RoundTrip(req); err == nil {
			status, methods = resp.StatusCode, resp.Header.Get("Access-Control-Allow-Methods")
			resp.Body.Close()
		}
		if status != want || (methods != "") != (want != 0) {
			t.Errorf("with %v bytes left: %d, allowed %q; want %d", left, status, methods, want)
		}
	}
}

// The failures of one caller share a line of the log a minute.
func TestFailuresShareALine(t *testing.T) {
	t.Parallel()
	f, began := newFailures(), time.Now()
	for _, c := range []struct {
		caller string
		after  time.Duration
		more   int
		ok     bool
	}{
		{"a", 0, 0, true}, {"a", time.Second, 0, false}, {"b", time.Second, 0, true}, {"a", 59 * time.Second, 0, false},
		{"a", time.Minute, 2, true}, {"a", 61 * time.Second, 0, false}, {"a", time.Hour, 1, true}, {"a", 2 * time.Hour, 0, true},
	} {
		if more, ok := f.tell(c.caller, began.Add(c.after)); more != c.more || ok != c.ok {
			t.Errorf("%+v: %d, %v", c, more, ok)
		}
	}
	var log bytes.Buffer
	g := startGuardedWithLog(t, nil, func(s *settings.Settings) { s.Ceiling.Writes = 1 }, slog.New(newLogHandler(&log, slog.LevelInfo)))
	g.leave(ceiling.Writes, 300)
	g.sends(t, sent{"POST", "/a", "", 200, ""})
	g.leave(ceiling.Writes, -100)
	g.sends(t, sent{"POST", "/a", "", 503, ""}, sent{"POST", "/a", "", 503, ""}, sent{"POST", "/a", "", 503, ""})
	g.Close()
	if lines := strings.Count(log.String(), "request failed"); lines != 1 {
		t.Errorf("three failures of one caller are logged in %d lines:\n%s", lines, log.String())
	}
}

// A bound log has no more bytes than that, and errors last of all. An id that is long in JSON counts as it is written,
// also one that a logger has.
func TestLogsHaveABound(t *testing.T) {
	t.Parallel()
	for name, id := range map[string]string{"short": "a", "long": strings.Repeat("\x01", 1400)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var text bytes.Buffer
				log := slog.New(newBoundLog(&text, slog.LevelInfo, 1000))
				for range 60 {
					for range 100 {
						log.Info("roll-up", "counter", id, "delta", 1)
						log.With("counter", id).Warn("drift", "drift", 1)
					}
					log.Error("poison event")
					time.Sleep(time.Second)
				}
				if n := text.Len(); n > 61*1000+10_000+4*longestLine || n < 30_000 {
					t.Errorf("%d bytes in a minute, want at most 1,000 a second", n)
				}
				if n := strings.Count(text.String(), "poison event"); n < 60 && id == "a" || n < 30 { // a line that is longer than what is kept for them may come before
					t.Errorf("%d of 60 errors were logged", n)
				}
			})
		})
	}
}

// Once a minute a line says how much of the ceiling was used, in the words that a metric goes by.
func TestUseOfTheCeilingIsLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		budget := ceiling.New(ceiling.Rates{Writes: 10, Requests: 100})
		s := newSpender(budget, slog.New(newLogHandler(&text, slog.LevelInfo)))
		handler := s.around(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { budget.Spend(ceiling.Writes, 1) }))
		for range 300 {
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/a", nil))
			time.Sleep(time.Second / 2)
		}
		lines := strings.Split(strings.TrimSpace(text.String()), "\n")
		var line map[string]any
		if err := json.Unmarshal([]byte(lines[0]), &line); err != nil || len(lines) != 2 {
			t.Fatalf("%v, in\n%s", err, text.String())
		}
		if line["message"] != LogCeiling || line["severity"] != "INFO" || line["held"] != 0.0 || line["writes"] != 121.0 || line["requests"] != 121.0 || line["over_s"] != 60.0 {
			t.Errorf("%s", lines[0])
		}
		if most, _ := line["most"].(float64); most < 0.2 || most > 0.21 {
			t.Errorf("%v of it was used, want a fifth", most)
		}
	})
}

// Whoever has many lines logged doesn't keep the owner from being told how much of the ceiling is used.
func TestUseOfTheCeilingIsLoggedInAFlood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		log := slog.New(newBoundLog(&text, slog.LevelInfo, 800))
		budget := ceiling.New(ceiling.Rates{Writes: 10})
		s := newSpender(budget, log)
		handler := s.around(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			budget.Spend(ceiling.Writes, 0.1)
			budget.Held()
			log.Warn("request failed", "error", "the counter is busy", "path", "/increment/a")
			log.Error("request failed", "error", "nobody knows what became of it", "path", "/increment/a")
		}))
		for range 10 * 60 * 50 {
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/a", nil))
			time.Sleep(20 * time.Millisecond)
		}
		if lines := strings.Count(text.String(), `"message":"ceiling"`); lines < 9 {
			t.Errorf("%d of 10 lines", lines)
		}
		if n := text.Len(); n > 611*800+longestLine {
			t.Errorf("%d bytes in ten minutes", n)
		}
	})
}

// An answer without a body asks for a repetition only where nothing was counted.
func TestBareAnswersSayWhatMayBeRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for status, again := range map[int]string{429: "10", 503: "10", 504: "", 404: ""} {
			budget := ceiling.New(ceiling.Rates{Bytes: 1000})
			budget.Spend(ceiling.Bytes, 1000)
			answer := httptest.NewRecorder()
			newSpender(budget, slog.New(slog.DiscardHandler)).around(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				recognize(w)
				problem{Status: status, Detail: "why"}.write(w)
			})).ServeHTTP(answer, httptest.NewRequest("POST", "/a", nil))
			if got := answer.Header().Get("Retry-After"); answer.Code != status || answer.Body.Len() > 0 || got != again {
				t.Errorf("%d %q, Retry-After %q; want %d, no body, and %q", answer.Code, answer.Body, got, status, again)
			}
		}
	})
}

// Requests beyond their rate wait in the order in which they came, and a client that goes away waits no longer.
func TestRequestsBeginSoManyASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		handler := newSpender(ceiling.New(ceiling.Rates{Requests: 10}), slog.New(slog.DiscardHandler)).around(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "done")
		}))
		began := time.Now()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/a", nil)) })
		}
		all.Go(func() {
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			gone := httptest.NewRecorder()
			handler.ServeHTTP(gone, httptest.NewRequestWithContext(ctx, "GET", "/a", nil))
			if gone.Body.Len() > 0 {
				t.Error("a client that has gone away is answered")
			}
		})
		all.Wait()
		if took := time.Since(began); took < 8*time.Second || took > 10*time.Second {
			t.Errorf("100 requests at 10 a second took %v", took)
		}
	})
}

// Reads without a token have no user forgotten who has asked for much, however many addresses they come from.
func TestAnonymousReadsHaveNobodyForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := startVirtually(t, emulatorTokens("p"), func(s *settings.Settings) {
			s.Auth, s.Ceiling, s.NumShards, s.PublicReads = "firebase", settings.Ceiling{Writes: 1000, Reads: 10}, 1, true
		})
		g.leave(ceiling.Reads, 300)
		post := func(user string) int {
			return g.do(t, "POST", "/a", "Authorization", "Bearer "+unsigned(emulated("p", user)), "Idempotency-Key", "key").StatusCode
		}
		for range 30 {
			post("mallory")
		}
		for n := range knownCallers + 1 {
			if resp := g.do(t, "GET", "/a", "X-Forwarded-For", fmt.Sprintf("10.%d.%d.1", n/256, n%256)); resp.StatusCode != 200 {
				t.Fatal(n, resp.Status)
			}
		}
		g.leave(ceiling.Reads, 4)
		if mallory, alice := post("mallory"), post("alice"); mallory != 429 || alice != 200 {
			t.Errorf("mallory is answered %d, and alice %d; want 429 and 200", mallory, alice)
		}
	})
}
