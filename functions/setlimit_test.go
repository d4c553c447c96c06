package functions

import (
	"strings"
	"testing"

	"github.com/firestore-counters/counters/internal/settings"
)

// A limit is set and raised over HTTP. What can't be is refused with a sentence, and changes nothing.
func TestSetLimit(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "Increment", "LIMIT=any", "FIELDS=total=limit(),seats=limit(9),likes")
	for _, id := range []string{"tickets", "a limit"} {
		p.create(t, id)
	}
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		want                     string // a part of the answer
	}{
		{"set", "PUT", "/tickets/limit", `{"limit": 3}`, 200, `{"counter":"tickets","field":"total","limit":3}`},
		{"set again", "PUT", "/tickets/limit", `{"limit": 3.0}`, 200, `"limit":3`},
		{"taken", "POST", "/tickets", `{"by": 2}`, 200, ""},
		{"no room", "POST", "/tickets", `{"by": 2}`, 409, `"reason":"limit-reached"`},
		{"less than is taken", "PUT", "/tickets/limit", `{"limit": 1}`, 409, `2 of total are taken, so the limit can't be 1; nothing was changed`},
		{"less than is taken, for a page", "PUT", "/tickets/limit", `{"limit": 1}`, 409, `"reason":"taken","counter":"tickets","field":"total","taken":2}`},
		{"what is taken", "PUT", "/tickets/limit", `{"limit": 2}`, 200, `"limit":2`},
		{"another field", "PUT", "/tickets/limit", `{"field": "seats", "limit": 0}`, 200, `{"counter":"tickets","field":"seats","limit":0}`},
		{"shown", "GET", "/tickets?exact=true", "", 200, `"limits":{"seats":0,"total":2},"left":{"seats":0,"total":0}`},
		{"none", "PUT", "/tickets/limit", `{"limit": null}`, 400, "want an integer of 0 or more"},
		{"a field that has none", "PUT", "/tickets/limit", `{"field": "likes", "limit": 3}`, 409, "likes=limit(500)"},
		{"an id to be decoded", "PUT", "/a%20limit/limit", `{"limit": 9223372036854775807}`, 200, `{"counter":"a limit","field":"total","limit":9223372036854775807}`},

		{"no such counter", "PUT", "/unknown/limit", `{"limit": 3}`, 404, ""},
		{"a field that isn't counted", "PUT", "/tickets/limit", `{"field": "views", "limit": 3}`, 400, "is not counted"},
		{"no body", "PUT", "/tickets/limit", "", 400, `want {\"limit\": 500}`},
		{"no limit", "PUT", "/tickets/limit", `{"field": "seats"}`, 400, "has no limit"},
		{"no field", "PUT", "/tickets/limit", `{"field": "", "limit": 3}`, 400, "field is empty"},
		{"below 0", "PUT", "/tickets/limit", `{"limit": -1}`, 400, "0 or more"},
		{"a fraction", "PUT", "/tickets/limit", `{"limit": 1.5}`, 400, "0 or more"},
		{"beyond 64 bits", "PUT", "/tickets/limit", `{"limit": 9223372036854775808}`, 400, "at most"},
		{"below 64 bits", "PUT", "/tickets/limit", `{"limit": -9223372036854775809}`, 400, "0 or more"},
		{"a text", "PUT", "/tickets/limit", `{"limit": "3"}`, 400, "a string"},
		{"another name", "PUT", "/tickets/limit", `{"by": 3}`, 400, "unknown field"},
		{"twice", "PUT", "/tickets/limit", `{"limit": 3, "limit": 4}`, 400, "comes twice"},
		{"more after it", "PUT", "/tickets/limit", `{"limit": 3} {}`, 400, "goes on"},
		{"no JSON", "PUT", "/tickets/limit", `{`, 400, "not JSON"},
		{"another method", "POST", "/tickets/limit", "", 405, "want PUT"},
		{"a document's path", "PUT", "/counters/tickets/limit", "", 403, "members are off"},
	} {
		a := p.do(t, c.method, c.path, c.body)
		if a.status != c.status || !strings.Contains(a.text, c.want) {
			t.Errorf("%s: %d %s, want %d with %s", c.name, a.status, a.text, c.status, c.want)
		}
	}
}

// Users limit their own counters, and nobody else's; unless LIMIT says so, nobody sets one.
func TestWhoSetsLimits(t *testing.T) {
	t.Parallel()
	good := newIssuer(t)
	bearer := func(user string) []string {
		return []string{"Authorization", "Bearer " + good.sign(t, valid("https://securetoken.google.com/p", "p", user))}
	}
	tokens := firebaseTokens("p", good.keys())
	for setting, want := range map[string]map[string]int{
		settingOwn: {"alice": 400, "bob": 403, "": 401}, // 400: it may, and says nothing
		"off":      {"alice": 403, "bob": 403, "": 401},
	} {
		change := at(t, "users/{uid}", "off")
		g := startGuarded(t, tokens, func(s *settings.Settings) { change(s); s.Limit = setting })
		g.send(t, "POST", "/alice", bearer("alice")...)
		for user, status := range want {
			var header []string
			if user != "" {
				header = bearer(user)
			}
			if resp, body := g.send(t, "PUT", "/alice/limit", header...); resp.StatusCode != status {
				t.Errorf("LIMIT=%s: %q is answered %d %s, want %d", setting, user, resp.StatusCode, body, status)
			}
		}
	}
}

// A document of the app's own has a limit, seats and holds. One that is full says
// what to do.
func TestHostedLimit(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "Increment", "COUNTERS=shows/{show}", "HOSTED=true", "LIMIT=any", "MEMBERS=any", "FIELDS=seats=limit(),waiting", "READ_CACHE=0s")
	full := map[string]any{"text": strings.Repeat("x", 1<<19), "more": strings.Repeat("x", 1<<19-90)}
	for id, data := range map[string]map[string]any{"tosca": {"title": "Tosca"}, "full": full} {
		if _, err := p.fs.Doc("shows/"+id).Set(t.Context(), data); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		want                     string // a part of the answer
	}{
		{"unknown", "PUT", "/aida/limit", `{"limit": 2}`, 404, ""},
		{"full", "PUT", "/full/limit", `{"limit": 2}`, 409, "make room in it"},
		{"set", "PUT", "/tosca/limit", `{"limit": 2}`, 200, `{"counter":"tosca","field":"seats","limit":2}`},
		{"a seat", "PUT", "/tosca/seats/alice", "", 200, `"counted":true`},
		{"held", "PUT", "/tosca/seats/bob?hold=10m", "", 200, `"until"`},
		{"sold out", "PUT", "/tosca/seats/carol", "", 409, `"reason":"limit-reached","counter":"tosca","field":"seats","left":0`},
		{"confirmed", "POST", "/tosca/seats/bob/confirm", "", 200, `"confirmed":true`},
		{"given back", "DELETE", "/tosca/seats/alice", "", 200, `"counted":true`},
		{"too many", "POST", "/tosca", `{"by": {"seats": 2, "waiting": 1}}`, 409, `"left":1`},
		{"the last one", "POST", "/tosca", `{"by": {"seats": 1, "waiting": 1}}`, 200, ""},
		{"shown", "GET", "/tosca?exact=true", "", 200, `"limits":{"seats":2},`},
		{"less than is taken", "PUT", "/tosca/limit", `{"limit": 1}`, 409, `"reason":"taken"`},
	} {
		if a := p.do(t, c.method, c.path, c.body); a.status != c.status || !strings.Contains(a.text, c.want) {
			t.Errorf("%s: %d %s, want %d with %s", c.name, a.status, a.text, c.status, c.want)
		}
	}
}
