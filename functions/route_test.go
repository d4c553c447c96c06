package functions

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/firestore-counters/counters/internal/layout"
)

// Method, path and query say what a request is about. The parameter counter takes the counter's place in any path.
func TestReadRequest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		parts        int
		method, path string
		want         request
	}{
		{1, "POST", "/a", request{kind: addOne, counter: "a"}},
		{1, "POST", "/", request{kind: addMany}},
		{1, "POST", "/?counter=healthz", request{kind: addOne, counter: "healthz"}},
		{1, "POST", "/a%20b%2Fc", request{kind: addOne, counter: "a b/c"}}, // which is no id
		{1, "POST", "/counters/a", request{kind: addOne, counter: "counters/a"}},
		{1, "POST", "/a/likes/u", request{kind: addOne, counter: "a/likes/u"}},
		{2, "POST", "/red/a", request{kind: addOne, counter: "red/a"}},
		{2, "POST", "/red%2Fa", request{kind: addOne, counter: "red/a"}},
		{2, "POST", "/red/reset", request{kind: addOne, counter: "red/reset"}},
		{2, "POST", "/?counter=red/a", request{kind: addOne, counter: "red/a"}},

		{1, "GET", "/a", request{kind: read, counter: "a"}},
		{1, "GET", "/a?exact=true", request{kind: read, counter: "a", exact: true}},
		{1, "GET", "/", request{kind: read}},
		{1, "GET", "/?counter=a&exact=false&field=likes", request{kind: read, counter: "a", field: "likes"}},

		{1, "POST", "/a/reset", request{kind: reset, counter: "a"}},
		{2, "POST", "/red/%61/reset", request{kind: reset, counter: "red/a"}},
		{1, "POST", "/reset?counter=healthz", request{kind: reset, counter: "healthz"}},
		{1, "POST", "/reset", request{kind: addOne, counter: "reset"}},
		{1, "PUT", "/a/limit", request{kind: setLimit, counter: "a"}},
		{1, "PUT", "/limit?counter=a", request{kind: setLimit, counter: "a"}},

		{1, "PUT", "/a%20b/l%69kes/u%2Fv", request{kind: join, counter: "a b", field: "likes", member: "u/v"}},
		{1, "PUT", "/a/likes/u?hold=10m", request{kind: join, counter: "a", field: "likes", member: "u", hold: 10 * time.Minute}},
		{2, "PUT", "/red/a/likes/u", request{kind: join, counter: "red/a", field: "likes", member: "u"}},
		{2, "PUT", "/likes/u?counter=red/a", request{kind: join, counter: "red/a", field: "likes", member: "u"}},
		{1, "PUT", "/a/likes/confirm", request{kind: join, counter: "a", field: "likes", member: "confirm"}},
		{1, "DELETE", "/a/likes/u", request{kind: leave, counter: "a", field: "likes", member: "u"}},
		{1, "GET", "/likes/u?counter=a", request{kind: joined, counter: "a", field: "likes", member: "u"}},
		{1, "POST", "/a/likes/u/confirm", request{kind: confirm, counter: "a", field: "likes", member: "u"}},
		{1, "POST", "/likes/u/confirm?counter=a", request{kind: confirm, counter: "a", field: "likes", member: "u"}},

		{1, "POST", "/a/used/holds", request{kind: reserve, counter: "a", field: "used"}},
		{2, "POST", "/alice/2026-11-28/used/holds", request{kind: reserve, counter: "alice/2026-11-28", field: "used"}},
		{1, "POST", "/used/holds?counter=a", request{kind: reserve, counter: "a", field: "used"}},
		{1, "PUT", "/a/used/holds/x%2Fy", request{kind: reserve, counter: "a", field: "used", holdID: "x/y"}},
		{1, "PUT", "/a/used/holds/confirm", request{kind: reserve, counter: "a", field: "used", holdID: "confirm"}},
		{1, "GET", "/a/used/holds/x", request{kind: held, counter: "a", field: "used", holdID: "x"}},
		{1, "DELETE", "/used/holds/x?counter=a", request{kind: giveBack, counter: "a", field: "used", holdID: "x"}},
		{2, "POST", "/alice/2026-11-28/used/holds/x/settle", request{kind: settle, counter: "alice/2026-11-28", field: "used", holdID: "x"}},
	} {
		got, err := readRequest(httptest.NewRequest(c.method, c.path, nil), c.parts)
		if err != nil {
			t.Errorf("%s %s of %d parts: %v", c.method, c.path, c.parts, err)
		} else if diff := cmp.Diff(c.want, *got, cmp.AllowUnexported(request{}), cmpopts.IgnoreFields(request{}, "Request")); diff != "" {
			t.Errorf("%s %s of %d parts: (-want +got)\n%s", c.method, c.path, c.parts, diff)
		}
	}
}

// What can't be read is refused with a sentence, before anything is asked of anybody.
func TestRequestsThatCantBeRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, path string
		status       int
		want         string
	}{
		{"PUT", "/a", 405, "want GET, POST"},
		{"DELETE", "/", 405, "want POST"},
		{"GET", "/a/reset", 405, "want POST"},
		{"POST", "/a/limit", 405, "want PUT"},
		{"PATCH", "/a/likes/u", 405, "want DELETE, GET, PUT"},
		{"GET", "/a/likes/u/confirm", 405, "want POST"},
		{"GET", "/a/likes/holds", 405, "want POST"},
		{"POST", "/a/likes/holds/u", 405, "want DELETE, GET, PUT"},
		{"POST", "/a/likes/holds/confirm", 405, "want DELETE, GET, PUT"},
		{"PUT", "/a/likes/holds/u/settle", 405, "want POST"},
		{"PUT", "/a/likes/hold%73", 400, `"holds" is no member's name here: holds of amounts have its place`},
		{"PUT", "/a/likes/holds/u?hold=10m", 400, `unknown parameter "hold"; want none`},
		{"PUT", "/a/likes/u/x", 405, "want GET, POST"},
		{"PUT", "/" + strings.Repeat("/", 100_000), 405, "want GET, POST"},
		{"POST", "/a?counter=b", 400, "the path and the parameter counter both name a counter: want one of them"},
		{"POST", "/a/reset?counter=b&by=1", 400, `unknown parameter "by"; want counter`},
		{"POST", "/a?by=5", 400, `unknown parameter "by"; want none`},
		{"POST", "/a?field=likes", 400, `unknown parameter "field"; want none`},
		{"GET", "/?counter=a&field=", 400, `field is empty; leave it out for the whole counter`},
		{"GET", "/a?field=likes", 400, `unknown parameter "field"; want exact`},
		{"GET", "/?counter=a&Exact=true", 400, `unknown parameter "Exact"; want counter, exact, field`},
		{"GET", "/a?exact=true&exact=false", 400, `the parameter "exact" comes twice`},
		{"GET", "/?counter=a&counter=b", 400, `the parameter "counter" comes twice`},
		{"GET", "/a?exact=yes", 400, `exact is "yes"; want true or false`},
		{"PUT", "/a/likes/u?hold=10m;x", 400, "the query can't be read: invalid semicolon separator in query"},
		{"PUT", "/a/likes/u?hold=10", 400, `hold is "10"; want a time from 1s to 720h, such as 10m`},
		{"PUT", "/a/likes/u?hold=", 400, `hold is ""; want a time from 1s to 720h, such as 10m`},
		{"DELETE", "/a/likes/u?hold=10m", 400, `unknown parameter "hold"; want none`},
	} {
		_, err := readRequest(httptest.NewRequest(c.method, c.path, nil), 1)
		if err == nil || problemOf(err).Status != c.status || err.Error() != c.want {
			t.Errorf("%s %.40s: %v, want %d %s", c.method, c.path, err, c.status, c.want)
		}
	}
}

// Whatever comes as method and path: it is read or refused with 400 or 405, and the names that are read lead back to
// the same request, in the path and by the parameter.
func FuzzReadRequest(f *testing.F) {
	for _, path := range []string{"/", "/a", "/a/b", "/a%2Fb", "/%252F", "/a%20b", "/日本", "//", "/../a", "/a?counter=b", "/?counter=a%2Fb", "/?a=%zz", "/?a;b",
		"/a/likes/u", "/a%2Fb/likes/u", "/%ff/likes/u", "/a/likes/", "///", "/red/a/likes/u", "/a%3Fb/likes/u%23", "/a/reset", "/a/likes/u/confirm", "/likes/u?counter=a",
		"/a/used/holds", "/a/used/holds/x", "/a/used/holds/x/settle", "/used/holds/x?counter=a", "/a/used/hold%73"} {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
			f.Add(method, path, 1)
			f.Add(method, path, 2)
		}
	}
	f.Fuzz(func(t *testing.T, method, target string, parts int) {
		u, err := url.ParseRequestURI(target)
		if err != nil || u.Host != "" || parts < 1 || parts > 5 {
			return
		}
		q, err := readRequest(&http.Request{Method: method, URL: u}, parts)
		if err != nil {
			if status := problemOf(err).Status; status != 400 && status != 405 {
				t.Errorf("%s %q: %v is answered %d, want 400 or 405", method, target, err, status)
			}
			return
		}
		var ids []string
		for id := range strings.SplitSeq(q.counter, "/") {
			if layout.ValidateID(id) != nil {
				return // no counter's id
			}
			ids = append(ids, url.PathEscape(id))
		}
		if len(ids) != parts || q.kind == addMany {
			return
		}
		end := map[kind]string{reset: "/reset", setLimit: "/limit"}[q.kind]
		if q.member != "" || q.kind == join || q.kind == leave || q.kind == joined || q.kind == confirm {
			end = "/" + url.PathEscape(q.field) + "/" + url.PathEscape(q.member)
		}
		switch q.kind {
		case reserve, held, giveBack, settle:
			if end = "/" + url.PathEscape(q.field) + "/holds"; method != "POST" || q.kind == settle {
				end += "/" + url.PathEscape(q.holdID)
			}
		}
		switch q.kind {
		case settle:
			end += "/settle"
		case confirm:
			end += "/confirm"
		}
		for _, again := range []string{"/" + strings.Join(ids, "/") + end, "/" + strings.TrimPrefix(end, "/") + "?counter=" + url.QueryEscape(q.counter)} {
			u, err := url.ParseRequestURI(again)
			if err != nil {
				t.Fatal(err)
			}
			second, err := readRequest(&http.Request{Method: method, URL: u}, parts)
			if err != nil || second.kind != q.kind || second.counter != q.counter || second.member != q.member || second.holdID != q.holdID || q.kind != read && second.field != q.field {
				t.Errorf("%s %q: %+v, and from %s: %+v, %v", method, target, q, again, second, err)
			}
		}
	})
}
