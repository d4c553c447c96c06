package functions

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firestore-counters/counters/internal/settings"
)

// post sends a body from an address, and returns the answer's status and body.
func (g *guarded) post(t *testing.T, path, body, address string, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", g.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Forwarded-For", address)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := g.asks.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text := make([]byte, 1000)
	n, _ := resp.Body.Read(text)
	return resp.StatusCode, string(text[:n])
}

// newIDs is the body of a request that adds to n counters that nobody else adds to.
func newIDs(name string, n int) string {
	var increments []string
	for i := range n {
		increments = append(increments, fmt.Sprintf(`{"counter":"%s-%d"}`, name, i))
	}
	return `{"increments":[` + strings.Join(increments, ",") + `]}`
}

func (g *guarded) countersMade(t *testing.T) int {
	t.Helper()
	docs, err := g.fs.Collection("counters").Documents(t.Context()).GetAll()
	if err != nil {
		t.Fatal(err)
	}
	shards, err := g.fs.CollectionGroup("shards").Documents(t.Context()).GetAll()
	if err != nil || len(docs) == 0 && len(shards) > 0 {
		t.Fatalf("%d shards, %v", len(shards), err)
	}
	return len(docs)
}

// AUTO_CREATE in public would be a bill: a caller makes so many counters a minute, and beyond that
// nothing is made.
func TestCallersMakeFewCounters(t *testing.T) {
	t.Parallel()
	virtually := func(name string, test func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, test)
		})
	}
	bearer := func(user string) []string {
		return []string{"Authorization", "Bearer " + unsigned(emulated("p", user))}
	}
	virtually("a number", func(t *testing.T) {
		g := startVirtually(t, nil, func(s *settings.Settings) { s.AutoCreate, s.NumShards = settings.AutoCreate{On: true, PerMinute: 5}, 2 })
		for _, c := range []struct {
			path, body, address string
			status, made        int
		}{
			{"/", newIDs("a", 500), "3.3.3.3", 400, 0}, // more than ever at once: nobody is to try that again
			{"/", newIDs("a", 6), "3.3.3.3", 400, 0},
			{"/", newIDs("a", 6), "3.3.3.3", 429, 0}, // nor to have so many looked for again and again
			{"/", newIDs("a", 4), "1.1.1.1", 200, 4},
			{"/", newIDs("b", 5), "1.1.1.1", 429, 4}, // one is left, and the others come in 48 s
			{"/", newIDs("a", 4), "1.1.1.1", 200, 4}, // all there
			{"/", newIDs("a", 5), "1.1.1.1", 200, 5}, // one of them isn't
			{"/", newIDs("c", 4), "1.1.1.1", 429, 5},
			{"/a-1", "", "1.1.1.1", 200, 5},
			{"/", newIDs("d", 5), "2.2.2.2", 200, 10},
			{"/", newIDs("e", 4), "2.2.2.2", 429, 10},
		} {
			status, body := g.post(t, c.path, c.body, c.address)
			if made := g.countersMade(t); status != c.status || made != c.made {
				t.Errorf("POST %s %.60s of %s: %d %s, %d counters; want %d, %d", c.path, c.body, c.address, status, body, made, c.status, c.made)
			}
		}
	})
	virtually("users", func(t *testing.T) {
		g := startVirtually(t, emulatorTokens("p"), func(s *settings.Settings) { s.Auth, s.Members, s.NumShards = "firebase", settingOwn, 1 })
		for _, c := range []struct {
			user, path, body string
			status, made     int
		}{
			{"alice", "/", newIDs("a", 20), 200, 20},
			{"alice", "/", newIDs("b", 20), 200, 40},
			{"alice", "/", newIDs("c", 20), 200, 60},
			{"alice", "/", newIDs("a", 20), 200, 60},
			{"alice", "/", newIDs("d", 15), 429, 60},
			{"alice", "/", newIDs("c", 20), 200, 60},
			{"bob", "/", newIDs("d", 20), 200, 80},
		} {
			status, body := g.post(t, c.path, c.body, "1.1.1.1", bearer(c.user)...)
			if made := g.countersMade(t); status != c.status || made != c.made {
				t.Errorf("POST %s %.60s of %s: %d %s, %d counters; want %d, %d", c.path, c.body, c.user, status, body, made, c.status, c.made)
			}
		}
		if status := g.do(t, "PUT", "/c/total/me", bearer("bob")...).StatusCode; status != 200 || g.countersMade(t) != 81 {
			t.Errorf("a user joins a new counter: %d, %d counters", status, g.countersMade(t))
		}
	})
	virtually("one at a time", func(t *testing.T) {
		g := startVirtually(t, nil, func(s *settings.Settings) { s.AutoCreate, s.NumShards = settings.AutoCreate{On: true, PerMinute: 1}, 1 })
		for n, want := range []int{200, 429, 200} {
			path := []string{"/a", "/b", "/a"}[n]
			if status, body := g.post(t, path, "", "1.1.1.1"); status != want || g.countersMade(t) != 1 {
				t.Errorf("POST %s: %d %s, %d counters; want %d, and one", path, status, body, g.countersMade(t), want)
			}
		}
	})
	virtually("who joins makes one, too", func(t *testing.T) {
		g := startVirtually(t, emulatorTokens("p"), func(s *settings.Settings) {
			s.Auth, s.Members, s.NumShards, s.AutoCreate = "firebase", settingOwn, 1, settings.AutoCreate{On: true, PerMinute: 1}
		})
		for n, want := range []int{200, 429, 200} {
			path := []string{"/a/total/me", "/b/total/me", "/a/total/me"}[n]
			if status := g.do(t, "PUT", path, bearer("alice")...).StatusCode; status != want {
				t.Errorf("PUT %s: %d, want %d", path, status, want)
			}
		}
		if status := g.do(t, "DELETE", "/b/total/me", bearer("alice")...).StatusCode; status != 200 || g.countersMade(t) != 1 {
			t.Errorf("DELETE of a counter that isn't there: %d, %d counters", status, g.countersMade(t))
		}
	})
	virtually("behind IAM", func(t *testing.T) {
		g := startVirtually(t, nil, func(s *settings.Settings) { s.NumShards = 1 })
		if status, body := g.post(t, "/", newIDs("a", 80), "1.1.1.1"); status != 200 || g.countersMade(t) != 80 {
			t.Errorf("80 counters: %d %s, %d made", status, body, g.countersMade(t))
		}
	})
}

// Of those who were let through at once, one may come to owe, and no other.
func TestWhoOwesIsNotLetThrough(t *testing.T) {
	t.Parallel()
	l := newLimiter(10)
	for n := range 2 {
		if err := l.take("a"); err != nil {
			t.Fatalf("request %d: %v", n, err)
		}
	}
	if err := l.charge("a", 499); err != nil {
		t.Fatalf("500 increments: %v", err)
	}
	if err := l.charge("a", 499); !hasStatus(err, 429) || problemOf(err).retryAfter < 40*time.Second {
		t.Errorf("500 more of who owes already: %v; want 429, for 49 s", err)
	}
	if err := l.charge("b", 499); err != nil {
		t.Errorf("somebody else: %v", err)
	}
}

// RATE_LIMIT is charged before anything is done: of requests that come at once, one is let through
// to owe.
func TestRateLimitChargesBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, rateLimitChargesBefore)
}

func rateLimitChargesBefore(t *testing.T) {
	g := startVirtually(t, nil, func(s *settings.Settings) { s.RateLimit, s.NumShards, s.RequestTimeout = 10, 1, 10*time.Minute })
	var all sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	for n := range 6 {
		all.Go(func() {
			status, _ := g.post(t, "/", newIDs(fmt.Sprint(n), 500), "1.1.1.1")
			mu.Lock()
			defer mu.Unlock()
			statuses[status]++
		})
	}
	all.Wait()
	if statuses[200] != 1 || statuses[429] != 5 {
		t.Errorf("six requests of 500 increments at once, at 10 a second: %v; want one 200, and 429", statuses)
	}
	if made := g.countersMade(t); made != 500 {
		t.Errorf("%d counters, want those of one request, 500", made)
	}
}
