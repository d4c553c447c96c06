package functions

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/settings"
)

func TestMemberRequests(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "Increment", "FIELDS=likes,views", "MEMBERS=any")
	const odd = "a b%2F…日本#?&;+"
	for _, id := range []string{"post-123", odd} {
		p.create(t, id)
	}
	long := strings.Repeat("x", 1500)
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		want                     string // as JSON: fields that the body must have
		writes                   bool
	}{
		{name: "join", method: "PUT", path: "/post-123/likes/alice", status: 200, want: `{"counter":"post-123","field":"likes","member":"alice","counted":true}`, writes: true},
		{name: "join again", method: "PUT", path: "/post-123/likes/alice", status: 200, want: `{"member":"alice","counted":false}`},
		{name: "joined", method: "GET", path: "/post-123/likes/alice", status: 200, want: `{"counter":"post-123","field":"likes","member":"alice","joined":true}`},
		{name: "joined another field", method: "GET", path: "/post-123/views/alice", status: 200, want: `{"joined":false}`},
		{name: "leave", method: "DELETE", path: "/post-123/likes/alice", status: 200, want: `{"member":"alice","counted":true}`, writes: true},
		{name: "leave again", method: "DELETE", path: "/post-123/likes/alice", status: 200, want: `{"member":"alice","counted":false}`},
		{name: "joined no more", method: "GET", path: "/post-123/likes/alice", status: 200, want: `{"joined":false}`},
		{name: "any Unicode", method: "PUT", path: "/" + url.PathEscape(odd) + "/likes/" + url.PathEscape(odd), status: 200, want: `{"counter":"` + odd + `","member":"` + odd + `","counted":true}`, writes: true},
		{name: "any Unicode joined", method: "GET", path: "/" + url.PathEscape(odd) + "/likes/" + url.PathEscape(odd), status: 200, want: `{"joined":true}`},
		{name: "longest", method: "PUT", path: "/post-123/likes/" + long, status: 200, want: `{"counted":true}`, writes: true},
		{name: "by of several fields", method: "POST", path: "/post-123", body: `{"by":{"likes":2,"views":3}}`, status: 200, want: `{"by":{"likes":2,"views":3}}`, writes: true},
		{name: "several, of several fields", method: "POST", path: "/", body: `{"increments":[{"counter":"post-123","by":{"views":1}}]}`, status: 200, writes: true},
		{name: "totals", method: "GET", path: "/post-123?exact=true", status: 200, want: `{"total":3,"totals":{"likes":3,"views":4}}`},

		{name: "by of no field", method: "POST", path: "/post-123", body: `{"by":{}}`, status: 400},
		{name: "by of nothing", method: "POST", path: "/post-123", body: `{"by":{"likes":0}}`, status: 400},
		{name: "by of a field that isn't counted", method: "POST", path: "/post-123", body: `{"by":{"comments":1}}`, status: 400},
		{name: "unknown counter", method: "PUT", path: "/unknown/likes/alice", status: 404},
		{name: "unknown counter left", method: "DELETE", path: "/unknown/likes/alice", status: 200, want: `{"member":"alice","counted":false}`},
		{name: "unknown counter read", method: "GET", path: "/unknown/likes/alice", status: 200, want: `{"member":"alice","joined":false}`},
		{name: "a field that isn't counted", method: "PUT", path: "/post-123/comments/alice", status: 400,
			want: `{"detail":"join comments of counter \"post-123\": invalid field: \"comments\" is not counted; want one of likes, views; to count it too, set FIELDS=likes,views,comments (counters dev --fields likes,views,comments)"}`},
		{name: "a field that isn't counted, read", method: "GET", path: "/post-123/comments/alice", status: 400},
		{name: "no member", method: "PUT", path: "/post-123/likes/", status: 400},
		{name: "me", method: "PUT", path: "/post-123/likes/me", status: 400},
		{name: "slash in the member", method: "PUT", path: "/post-123/likes/a%2Fb", status: 400},
		{name: "slash in the counter", method: "PUT", path: "/post%2F123/likes/alice", status: 400},
		{name: "reserved member", method: "PUT", path: "/post-123/likes/__x__", status: 400},
		{name: "long member", method: "PUT", path: "/post-123/likes/" + long + "x", status: 400},
		{name: "member not UTF-8", method: "PUT", path: "/post-123/likes/%ff", status: 400},
		{name: "a body", method: "PUT", path: "/post-123/likes/alice", body: `{"by":5}`, status: 400},
		{name: "large body", method: "PUT", path: "/post-123/likes/alice", body: strings.Repeat(" ", 64<<10+1), status: 413},
		{name: "POST of a member", method: "POST", path: "/post-123/likes/alice", status: 400},
		{name: "PATCH of a member", method: "PATCH", path: "/post-123/likes/alice", status: 405},
		{name: "PUT of a counter", method: "PUT", path: "/post-123", status: 405},
		{name: "DELETE of a field", method: "DELETE", path: "/post-123/likes", status: 405},
		{name: "too deep", method: "PUT", path: "/post-123/likes/alice/x", status: 405},
	} {
		before := p.dump(t) + p.memberships(t)
		got := p.do(t, c.method, c.path, c.body)
		if got.status != c.status {
			t.Errorf("%s: answered %d %v, want %d", c.name, got.status, got.body, c.status)
		}
		if c.want != "" {
			var want map[string]any
			if err := json.Unmarshal([]byte(c.want), &want); err != nil {
				t.Fatal(err)
			}
			for field, value := range want {
				if fmt.Sprint(got.body[field]) != fmt.Sprint(value) {
					t.Errorf("%s: answered %v, want %s: %v", c.name, got.body, field, value)
				}
			}
		}
		if after := p.dump(t) + p.memberships(t); (after != before) != c.writes {
			t.Errorf("%s: something was written: %v, want %v", c.name, after != before, c.writes)
		}
		if allow := got.header.Get("Allow"); c.status == 405 && (allow == "" || strings.Contains(allow, c.method)) {
			t.Errorf("%s: Allow is %q", c.name, allow)
		}
		if _, is := got.body["joined"]; is {
			at, err := time.Parse(time.RFC3339, fmt.Sprint(got.body["at"]))
			if got.body["joined"] == true && (err != nil || time.Since(at) > time.Hour) || got.body["joined"] == false && got.body["at"] != nil {
				t.Errorf("%s: %v", c.name, got.body)
			}
			if control := got.header.Get("Cache-Control"); control != "no-store" {
				t.Errorf("%s: Cache-Control is %q, want no-store", c.name, control)
			}
		}
	}
}

// memberships are all of them, as text.
func (p *process) memberships(t *testing.T) string {
	t.Helper()
	docs, err := p.fs.CollectionGroup("likes_members").Documents(t.Context()).GetAll()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, doc := range docs {
		fmt.Fprintln(&b, doc.Ref.Path, doc.UpdateTime.UnixNano(), doc.Data())
	}
	return b.String()
}

// Users join and leave for themselves, and nobody sees who else has.
func TestMembersAreUsers(t *testing.T) {
	t.Parallel()
	good := newIssuer(t)
	g := startGuarded(t, firebaseTokens("p", good.keys()), func(s *settings.Settings) { s.Members = "own" })
	bearer := func(user string) string {
		return "Bearer " + good.sign(t, valid("https://securetoken.google.com/p", "p", user))
	}
	alice := bearer("alice")
	for _, c := range []struct {
		method, member, token string
		status                int
		answered              string
	}{
		{"PUT", "me", alice, 200, `"member":"alice","counted":true`},
		{"PUT", "alice", alice, 200, `"member":"alice","counted":false`},
		{"PUT", "bob", alice, 403, "me"},
		{"DELETE", "alice", bearer("bob"), 403, ""},
		{"DELETE", "me", bearer("bob"), 200, `"member":"bob","counted":false`},
		{"GET", "me", alice, 200, `"member":"alice","joined":true`},
		{"GET", "alice", bearer("bob"), 403, ""},
		{"GET", "alice", "", 401, ""}, // reads of counters are public
		{"PUT", "alice", "", 401, ""},
		{"DELETE", "alice", "", 401, ""},
		{"DELETE", "alice", alice, 200, `"counted":true`},
	} {
		var header []string
		if c.token != "" {
			header = []string{"Authorization", c.token}
		}
		resp, body := g.send(t, c.method, "/a/total/"+c.member, header...)
		if resp.StatusCode != c.status || !strings.Contains(body, c.answered) {
			t.Errorf("%s %s: %d %s, want %d with %s", c.method, c.member, resp.StatusCode, body, c.status, c.answered)
		}
	}
	if resp := g.do(t, "GET", "/a"); resp.StatusCode != 200 {
		t.Errorf("GET of the counter without a token: %d, want 200", resp.StatusCode)
	}
}

// Where callers are not users they can't name themselves, and where nothing says that they may,
// they name no one else.
func TestMembersAreOff(t *testing.T) {
	t.Parallel()
	good := newIssuer(t)
	app := good.sign(t, valid("https://firebaseappcheck.googleapis.com/123", "p", "app").with("aud", []string{"projects/123"}))
	for name, g := range map[string]*guarded{
		"none":     startGuarded(t, nil, nil),
		"appcheck": startGuarded(t, appCheckTokens("123", good.keys()), nil),
		// However it comes to this setting: an app is not a user.
		"appcheck, own": startGuarded(t, appCheckTokens("123", good.keys()), func(s *settings.Settings) { s.Members = "own" }),
	} {
		for _, method := range []string{"PUT", "DELETE", "GET"} {
			resp, body := g.send(t, method, "/a/total/alice", "X-Firebase-AppCheck", app)
			if resp.StatusCode != 403 || !strings.Contains(body, "firebase") && name != "appcheck, own" {
				t.Errorf("%s: %s: %d %s, want 403 and what it takes", name, method, resp.StatusCode, body)
			}
		}
	}
}

func TestMembersUnderFaults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, membersUnderFaults)
}

func membersUnderFaults(t *testing.T) {
	p := startInBubble(t, func(s *settings.Settings) { s.Members, s.RequestTimeout = settingAny, 2*time.Second })
	p.create(t, "a")
	for _, c := range []struct {
		name    string
		verdict emulator.Verdict
		status  int
		detail  string
	}{
		{"contention", emulator.Verdict{Before: status.Error(codes.Aborted, "contention")}, 503, "nothing was counted"},
		{"down", emulator.Verdict{Before: status.Error(codes.Unavailable, "down")}, 504, "asking again is safe"},
		{"denied", emulator.Verdict{Before: status.Error(codes.PermissionDenied, "a secret")}, 500, ""},
	} {
		p.onCommits(c.verdict)
		got := p.do(t, "PUT", "/a/total/"+c.name, "")
		p.firestore.Server.SetInterceptor(nil)
		if detail, _ := got.body["detail"].(string); got.status != c.status || !strings.Contains(detail, c.detail) {
			t.Errorf("%s: %d %v, want %d and %q", c.name, got.status, got.body, c.status, c.detail)
		}
	}
	p.onCommits(emulator.Verdict{After: status.Error(codes.Unavailable, "lost")})
	if got := p.do(t, "PUT", "/a/total/lost", ""); got.status != 200 || got.body["counted"] != true {
		t.Errorf("answers lost: %d %v, want that it is counted", got.status, got.body)
	}
	p.firestore.Server.SetInterceptor(nil)
	if n := p.sum(t, "a"); n != 1 {
		t.Errorf("the shards add up to %d, want 1", n)
	}
}
