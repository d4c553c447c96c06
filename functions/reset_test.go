package functions

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/settings"
)

// at has the counters at a path.
func at(t *testing.T, pattern, reset string) func(*settings.Settings) {
	path, err := layout.ParsePath(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return func(s *settings.Settings) { s.Counters, s.Reset, s.NumShards = path, reset, 2 }
}

// Users set their own counter back, and nobody else's; what is counted later is counted from 0 on.
func TestResetIsTheUsersOwn(t *testing.T) {
	t.Parallel()
	good := newIssuer(t)
	bearer := func(user string) []string {
		return []string{"Authorization", "Bearer " + good.sign(t, valid("https://securetoken.google.com/p", "p", user))}
	}
	for pattern, id := range map[string]string{"users/{uid}": "alice", "teams/{team}/unread/{uid}": "red/alice", "users/{uid}/boxes/{box}": "alice/in"} {
		g := startGuarded(t, firebaseTokens("p", good.keys()), at(t, pattern, settingOwn))
		expect := func(method, path string, header []string, status int, answered string) {
			t.Helper()
			resp, body := g.send(t, method, path, header...)
			if resp.StatusCode != status || !strings.Contains(body, answered) {
				t.Errorf("%s: %s %s: %d %s, want %d with %s", pattern, method, path, resp.StatusCode, body, status, answered)
			}
		}
		expect("POST", "/"+id+"/reset", bearer("alice"), 404, "")
		for range 3 {
			expect("POST", "/"+id, bearer("bob"), 200, "")
		}
		expect("POST", "/"+id+"/reset", bearer("bob"), 403, "your own")
		expect("POST", "/"+id+"/reset", nil, 401, "")
		expect("GET", "/"+id+"?exact=true", nil, 200, `"total":3,`)
		expect("POST", "/"+id+"/reset", bearer("alice"), 200, `{"counter":"`+id+`","reset":true}`)
		expect("GET", "/"+id+"?exact=true", nil, 200, `"total":0,`)
		expect("POST", "/"+id+"/reset", bearer("alice"), 200, `"reset":true`) // once more
		expect("POST", "/"+id, bearer("bob"), 200, "")
		expect("GET", "/"+id+"?exact=true", nil, 200, `"total":1,`)
		expect("POST", "/"+strings.ReplaceAll(id, "alice", "%61lice")+"/reset", bearer("alice"), 200, "")
		expect("POST", "/"+strings.ReplaceAll(id, "alice", "bob")+"/reset", bearer("alice"), 403, "")
		expect("PUT", "/"+id+"/reset", bearer("alice"), 405, "")
		expect("GET", "/"+id+"/reset", bearer("alice"), 405, "want POST")
	}
}

// Where nothing lets a caller set a counter back, nothing does.
func TestResetIsOff(t *testing.T) {
	t.Parallel()
	good := newIssuer(t)
	app := good.sign(t, valid("https://firebaseappcheck.googleapis.com/123", "p", "app").with("aud", []string{"projects/123"}))
	for name, g := range map[string]*guarded{
		"off":           startGuarded(t, nil, at(t, "users/{uid}", "off")),
		"none, own":     startGuarded(t, nil, at(t, "users/{uid}", settingOwn)),
		"appcheck, own": startGuarded(t, appCheckTokens("123", good.keys()), at(t, "users/{uid}", settingOwn)),
		"no user":       startGuarded(t, firebaseTokens("p", good.keys()), at(t, "users/{user}", settingOwn)),
	} {
		header := []string{"X-Firebase-AppCheck", app}
		if name == "no user" {
			header = []string{"Authorization", "Bearer " + good.sign(t, valid("https://securetoken.google.com/p", "p", "app"))}
		}
		g.send(t, "POST", "/app", header...)
		if resp, body := g.send(t, "POST", "/app/reset", header...); resp.StatusCode != 403 {
			t.Errorf("%s: %d %s", name, resp.StatusCode, body)
		}
		if _, body := g.send(t, "GET", "/app?exact=true", header...); !strings.Contains(body, `"total":1,`) {
			t.Errorf("%s: %s", name, body)
		}
	}
}

// A counter is set back while others add to it: once it is quiet, it is what came after the last
// reset, and a reset of what has members is refused.
func TestResetBesideIncrements(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, nil, func(s *settings.Settings) { s.Reset, s.Members = settingAny, settingAny })
	var all sync.WaitGroup
	for n := range 40 {
		all.Go(func() {
			path := "/busy"
			if n%8 == 7 {
				path += "/reset"
			}
			for resp, body := g.send(t, "POST", path); resp.StatusCode != 200; resp, body = g.send(t, "POST", path) {
				if resp.StatusCode != 503 && resp.StatusCode != 404 {
					t.Errorf("%s: %d %s", path, resp.StatusCode, body)
					return
				}
			}
		})
	}
	all.Wait()
	if _, body := g.send(t, "GET", "/busy?exact=true"); !strings.Contains(body, `"total":`) {
		t.Error(body)
	}
	if resp, body := g.send(t, "POST", "/busy/reset"); resp.StatusCode != 200 {
		t.Error(body)
	}
	for n := range 3 {
		if _, body := g.send(t, "GET", "/busy?exact=true"); !strings.Contains(body, fmt.Sprintf(`"total":%d,`, n)) {
			t.Errorf("after %d: %s", n, body)
		}
		g.send(t, "POST", "/busy")
	}
	g.send(t, "PUT", "/busy/total/alice")
	if resp, body := g.send(t, "POST", "/busy/reset"); resp.StatusCode != 409 || !strings.Contains(body, "members") {
		t.Errorf("with a member: %d %s", resp.StatusCode, body)
	}
	if _, body := g.send(t, "GET", "/busy?exact=true"); !strings.Contains(body, `"total":4,`) {
		t.Error(body)
	}
}
