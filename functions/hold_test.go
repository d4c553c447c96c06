package functions

import (
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore"

	"github.com/firestore-counters/counters/internal/settings"
)

// A seat is held, confirmed, and gone once its time is over; what can't be is refused with a sentence.
func TestHoldRequests(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "Increment", "MEMBERS=any", "LIMIT=any", "FIELDS=total=limit()")
	p.create(t, "concert")
	ask := func(name, method, path string, status int, want string) answer {
		t.Helper()
		a := p.do(t, method, path, "")
		if a.status != status || !strings.Contains(a.text, want) {
			t.Errorf("%s: %d %s, want %d with %s", name, a.status, a.text, status, want)
		}
		return a
	}
	if a := p.do(t, "PUT", "/concert/limit", `{"limit": 2}`); a.status != 200 {
		t.Fatal(a)
	}
	alice := ask("hold", "PUT", "/concert/total/alice?hold=10m", 200, `"member":"alice","counted":true,"until":"2`)
	until, err := time.Parse(time.RFC3339Nano, alice.body["until"].(string))
	if left := time.Until(until); err != nil || left > 10*time.Minute || left < 5*time.Minute {
		t.Errorf("held until %v, %v", alice.body["until"], err)
	}
	same := `"until":"` + alice.body["until"].(string) + `"`
	ask("hold again", "PUT", "/concert/total/alice?hold=1h30m", 200, `"counted":false,`+same)
	ask("a query that can't be read would confirm", "PUT", "/concert/total/alice?hold=20m;x", 400, "the query can't be read")
	ask("or take a seat for good", "PUT", "/concert/total/dave?hold=10m%", 400, "the query can't be read")
	ask("nor is an exact read another", "GET", "/concert?exact=true;x", 400, "the query can't be read")
	ask("read", "GET", "/concert/total/alice", 200, same)
	ask("hold another", "PUT", "/concert/total/bob?hold=10m", 200, `"counted":true`)
	ask("no seat", "PUT", "/concert/total/carol?hold=10m", 409, `"reason":"limit-reached"`)
	ask("confirm", "POST", "/concert/total/alice/confirm", 200, `{"counter":"concert","field":"total","member":"alice","confirmed":true}`)
	ask("confirm again", "POST", "/concert/total/alice/confirm", 200, `"confirmed":true`)
	if a := ask("read", "GET", "/concert/total/alice", 200, `"joined":true`); a.body["until"] != nil {
		t.Errorf("%s, want it there for good", a.text)
	}
	if a := ask("hold who is there", "PUT", "/concert/total/alice?hold=10m", 200, `"counted":false`); a.body["until"] != nil {
		t.Errorf("%s, want it there for good", a.text)
	}
	bob := p.fs.Doc("counters/concert/total_members/bob") // whose time is over now
	if _, err := bob.Update(t.Context(), []firestore.Update{{Path: "until", Value: time.Now().Add(-time.Second)}}); err != nil {
		t.Fatal(err)
	}
	ask("a seat", "PUT", "/concert/total/carol?hold=10m", 200, `"counted":true`)
	ask("too late", "POST", "/concert/total/bob/confirm", 409, `"the hold is over, or there was none"`)
	ask("too late, for a page", "POST", "/concert/total/bob/confirm", 409, `"reason":"hold-ended"`)
	ask("never held", "POST", "/concert/total/dave/confirm", 409, `"reason":"hold-ended"`)
	ask("no such counter", "POST", "/unknown/total/dave/confirm", 409, `"reason":"hold-ended"`)
	ask("join who is held", "PUT", "/concert/total/carol", 200, `"counted":false}`)
	ask("confirmed by that", "POST", "/concert/total/carol/confirm", 200, "")
	ask("given back", "DELETE", "/concert/total/carol", 200, `"counted":true`)

	for _, d := range []string{"", "10", "x", "999ms", "-1m", "721h"} {
		ask("held for "+d, "PUT", "/concert/total/dave?hold="+d, 400, "want a time from 1s to 720h")
	}
	ask("a field that isn't counted", "POST", "/concert/likes/alice/confirm", 400, "is not counted")
	ask("another method", "GET", "/concert/total/alice/confirm", 405, "want POST")
	if a := p.do(t, "POST", "/concert/total/alice/confirm", "{}"); a.status != 400 {
		t.Errorf("with a body: %d %s", a.status, a.text)
	}
	if a := p.do(t, "GET", "/concert?exact=true", ""); a.body["total"] != 1.0 {
		t.Errorf("%v, want that 1 is taken", a.body)
	}
}

// Users hold and confirm seats of their own alone.
func TestWhoConfirms(t *testing.T) {
	t.Parallel()
	good := newIssuer(t)
	bearer := func(user string) []string {
		return []string{"Authorization", "Bearer " + good.sign(t, valid("https://securetoken.google.com/p", "p", user))}
	}
	g := startGuarded(t, firebaseTokens("p", good.keys()), func(s *settings.Settings) { s.Members, s.NumShards = settingOwn, 1 })
	for _, c := range []struct {
		method, path string
		header       []string
		status       int
	}{
		{"PUT", "/a/total/me?hold=10m", bearer("alice"), 200},
		{"POST", "/a/total/alice/confirm", bearer("bob"), 403},
		{"POST", "/a/total/alice/confirm", nil, 401},
		{"POST", "/a/total/me/confirm", bearer("bob"), 409},
		{"POST", "/a/total/me/confirm", bearer("alice"), 200},
	} {
		if resp, body := g.send(t, c.method, c.path, c.header...); resp.StatusCode != c.status {
			t.Errorf("%s %s: %d %s, want %d", c.method, c.path, resp.StatusCode, body, c.status)
		}
	}
}
