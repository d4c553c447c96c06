package functions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/settings"
)

// create makes a counter as a public snippet does.
func (p *process) create(t *testing.T, id string) {
	t.Helper()
	ref := p.fs.Collection("counters").Doc(id)
	if _, err := ref.Set(t.Context(), map[string]any{"num_shards": 2}); err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		if _, err := ref.Collection("shards").Doc(fmt.Sprint(n)).Set(t.Context(), map[string]any{"count": 0}); err != nil {
			t.Fatal(err)
		}
	}
}

// sum adds up a counter's shards.
func (p *process) sum(t *testing.T, id string) int64 {
	t.Helper()
	docs, err := p.fs.Collection("counters").Doc(id).Collection("shards").Documents(t.Context()).GetAll()
	if err != nil {
		t.Fatal(err)
	}
	var sum int64
	for _, doc := range docs {
		sum += doc.Data()["count"].(int64)
	}
	return sum
}

// answer is what a request got.
type answer struct {
	status int
	header http.Header
	body   map[string]any
	text   string // the body as it is
}

func (p *process) do(t *testing.T, method, path, body string, header ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, p.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := p.asks.Do(req)
	// A body that is too large is answered before it has come whole, and half a second later the server closes the
	// connection. A busy machine may still be writing.
	for try := 1; try < 10 && len(body) > maxBody && (errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)); try++ {
		req.Body = io.NopCloser(strings.NewReader(body))
		resp, err = p.asks.Do(req)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := answer{status: resp.StatusCode, header: resp.Header, text: string(data)}
	if err := json.Unmarshal(data, &a.body); (err != nil) != (a.status == http.StatusNoContent) {
		t.Errorf("%s %s: the body is not JSON, or there is one: %d %q", method, path, a.status, data)
	}
	if p.target == "Increment" {
		conforms(t, p.partsOfID, req, body, a, data)
	}
	want := "application/json"
	if a.status == http.StatusNoContent {
		want = ""
	} else if a.status >= 400 {
		want = "application/problem+json"
		if a.body["status"] != float64(a.status) || a.body["title"] != http.StatusText(a.status) {
			t.Errorf("%s %s: answered %d with the problem %v", method, path, a.status, a.body)
		}
	}
	if got := a.header.Get("Content-Type"); got != want {
		t.Errorf("%s %s: content type %q, want %q", method, path, got, want)
	}
	return a
}

func TestIncrementRequests(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "Increment")
	const oddID = "a b%2F…日本#?" // no slash, when it is decoded only once
	for _, id := range []string{"post-123", "b", oddID, "healthz", "�", "�👍\\ud800"} {
		p.create(t, id)
	}
	many := func(n int) string {
		one := `{"counter":"post-123","by":1}`
		return `{"increments":[` + strings.TrimSuffix(strings.Repeat(one+",", n), ",") + `]}`
	}
	for _, c := range []struct {
		name, method, path, body string
		header                   []string
		status                   int
		want                     string // as JSON: fields that the body must have
		counter                  string // and by how much it grows
		grows                    int64
	}{
		// What is counted.
		{name: "empty body", path: "/post-123", status: 200, want: `{"counter":"post-123","by":1}`, counter: "post-123", grows: 1},
		{name: "empty object", path: "/post-123", body: `{}`, status: 200, want: `{"by":1}`, counter: "post-123", grows: 1},
		{name: "by", path: "/post-123", body: ` {"by": 5} `, status: 200, want: `{"by":5}`, counter: "post-123", grows: 5},
		{name: "negative", path: "/post-123", body: `{"by":-2}`, status: 200, want: `{"by":-2}`, counter: "post-123", grows: -2},
		{name: "whole fraction", path: "/post-123", body: `{"by":-1.0}`, status: 200, want: `{"by":-1}`, counter: "post-123", grows: -1},
		{name: "exponent", path: "/", body: `{"increments":[{"counter":"b","by":1e2},{"counter":"b","by":{"total":-990e-1}}]}`, status: 200, counter: "b", grows: 1},
		{name: "largest", path: "/post-123", body: `{"by":1000000000}`, status: 200, counter: "post-123", grows: 1e9},
		{name: "any Unicode id", path: "/" + url.PathEscape(oddID), status: 200, want: `{"counter":"` + oddID + `"}`, counter: oddID, grows: 1},
		{name: "key", path: "/post-123", body: `{"by":3}`, header: []string{"Idempotency-Key", "K"}, status: 200, want: `{"by":3}`, counter: "post-123", grows: 3},
		{name: "key again", path: "/post-123", body: `{"by":3}`, header: []string{"Idempotency-Key", "K"}, status: 200, want: `{"by":3,"replayed":true}`, counter: "post-123"},
		{name: "key again, as a double", path: "/post-123", body: `{"by":3.0}`, header: []string{"Idempotency-Key", "K"}, status: 200, want: `{"by":3,"replayed":true}`, counter: "post-123"},
		{name: "key with another body", path: "/post-123", body: `{"by":4}`, header: []string{"Idempotency-Key", "K"}, status: 422},
		{name: "key for another counter", path: "/b", body: `{"by":3}`, header: []string{"Idempotency-Key", "K"}, status: 200, counter: "b", grows: 3},
		{name: "byte order mark", path: "/healthz", body: "\uFEFF" + `{"by":2}`, status: 200, want: `{"by":2}`, counter: "healthz", grows: 2},
		{name: "by parameter", path: "/?counter=healthz", body: `{"by":2}`, status: 200, want: `{"counter":"healthz","by":2}`, counter: "healthz", grows: 2},
		{name: "byte order mark alone", path: "/healthz", body: "\uFEFF", status: 200, want: `{"by":1}`, counter: "healthz", grows: 1},
		{name: "byte order mark in the middle", path: "/b", body: `{` + "\uFEFF" + `"by":2}`, status: 400},
		{name: "several", path: "/", body: `{"increments":[{"counter":"b","by":2},{"counter":"post-123"},{"counter":"b","by":5}]}`, status: 200, counter: "b", grows: 7},
		{name: "several with a key", path: "/", body: `{"increments":[{"counter":"b","by":2}]}`, header: []string{"Idempotency-Key", "M"}, status: 200, counter: "b", grows: 2},
		{name: "several with a key again", path: "/", body: `{"increments":[{"counter":"b","by":2}]}`, header: []string{"Idempotency-Key", "M"}, status: 200, want: `{"replayed":true}`},
		{name: "several with a key, another number", path: "/", body: `{"increments":[{"counter":"b","by":3}]}`, header: []string{"Idempotency-Key", "M"}, status: 422},
		{name: "escapes", path: "/", body: `{"increments":[{"counter":"\u0062","by":2},{"counter":"\ufffd\uD83d\uDc4D\\ud800"}]}`, status: 200, counter: "b", grows: 2},
		{name: "several that take away", path: "/", body: `{"increments":[{"counter":"b","by":-2},{"counter":"b","by":-3}]}`, status: 200, counter: "b", grows: -5},
		{name: "several that cancel out", path: "/", body: `{"increments":[{"counter":"b","by":1000000000},{"counter":"b","by":-1000000000},{"counter":"b"}]}`, status: 200, counter: "b", grows: 1},
		{name: "500 at once", path: "/", body: many(500), status: 200, counter: "post-123", grows: 500},

		// What is read.
		{name: "get", method: "GET", path: "/b", status: 200, want: `{"counter":"b","total":0,"num_shards":2}`},
		{name: "get exact", method: "GET", path: "/b?exact=true", status: 200, want: `{"counter":"b","total":11,"num_shards":2}`},
		{name: "get by parameter", method: "GET", path: "/?counter=healthz", status: 200, want: `{"counter":"healthz"}`},
		{name: "get any Unicode id", method: "GET", path: "/?counter=" + url.QueryEscape(oddID) + "&exact=true", status: 200, want: `{"counter":"` + oddID + `","total":1}`},
		{name: "get unknown", method: "GET", path: "/unknown", status: 404, want: `{"detail":"read counter \"unknown\": counter not found"}`},
		{name: "get exact unknown", method: "GET", path: "/unknown?exact=true", status: 404, want: `{"detail":"sum counter \"unknown\": counter not found"}`},
		{name: "get nothing", method: "GET", path: "/", status: 400},
		{name: "get exact maybe", method: "GET", path: "/b?exact=maybe", status: 400},
		{name: "get exakt", method: "GET", path: "/b?exakt=true", status: 400, want: `{"detail":"unknown parameter \"exakt\"; want exact"}`},
		{name: "get Exact", method: "GET", path: "/?counter=b&Exact=true", status: 400, want: `{"detail":"unknown parameter \"Exact\"; want counter, exact, field"}`},
		{name: "get exact twice", method: "GET", path: "/b?exact=false&exact=true", status: 400, want: `{"detail":"the parameter \"exact\" comes twice"}`},
		{name: "get two counters", method: "GET", path: "/b?counter=healthz", status: 400},
		{name: "get a field by path", method: "GET", path: "/b?field=total", status: 400},
		{name: "get nothing much", method: "GET", path: "/b?", status: 200},
		{name: "increment with a query", path: "/b?by=5", status: 400, want: `{"detail":"unknown parameter \"by\"; want none"}`},
		{name: "two counters", path: "/b?counter=healthz", status: 400, want: `{"detail":"the path and the parameter counter both name a counter: want one of them"}`},
		{name: "several with a query", path: "/?by=5", body: `{"increments":[{"counter":"b"}]}`, status: 400, want: `{"detail":"unknown parameter \"by\"; want none"}`},
		{name: "query that can't be read", path: "/b?a;b", status: 400, want: `{"detail":"the query can't be read: invalid semicolon separator in query"}`},
		{name: "get bad id", method: "GET", path: "/?counter=a%2Fb", status: 400},

		// What is refused.
		{name: "unknown", path: "/unknown", status: 404, want: `{"detail":"add to counter \"unknown\": counter not found: AUTO_CREATE is off, so counters create makes it"}`},
		{name: "several, one unknown", path: "/", body: `{"increments":[{"counter":"b"},{"counter":"unknown"}]}`, status: 404},
		{name: "slash", path: "/a/b", status: 400},
		{name: "slash, encoded", path: "/a%2Fb", status: 400},
		{name: "slash at the end", path: "/b/", status: 400, want: `{"detail":"invalid counter id: \"b/\" ends with a slash: leave it out"}`},
		{name: "reserved", path: "/__x__", status: 400},
		{name: "long", path: "/" + strings.Repeat("x", 1501), status: 400},
		{name: "not UTF-8", path: "/%ff", status: 400},
		{name: "not JSON", path: "/b", body: `by=5`, status: 400},
		{name: "half of it", path: "/b", body: `{"by":5`, status: 400},
		{name: "no object", path: "/b", body: `[5]`, status: 400},
		{name: "a number", path: "/b", body: `5`, status: 400},
		{name: "body null", path: "/b", body: `null`, status: 400},
		{name: "trailing data", path: "/b", body: `{"by":5}{}`, status: 400},
		{name: "trailing bracket", path: "/b", body: `{"by":5}}`, status: 400},
		{name: "unknown field", path: "/b", body: `{"by":5,"at":1}`, status: 400},
		{name: "other case", path: "/b", body: `{"By":5}`, status: 400},
		{name: "field twice", path: "/b", body: `{"by":5,"by":6}`, status: 400},
		{name: "null", path: "/b", body: `{"by":null}`, status: 400},
		{name: "zero", path: "/b", body: `{"by":0}`, status: 400},
		{name: "minus zero", path: "/b", body: `{"by":-0}`, status: 400},
		{name: "fraction", path: "/b", body: `{"by":1.5}`, status: 400},
		{name: "exponent that leaves a fraction", path: "/b", body: `{"by":15e-1}`, status: 400},
		{name: "hardly anything", path: "/b", body: `{"by":1e-999}`, status: 400},
		{name: "string", path: "/b", body: `{"by":"5"}`, status: 400},
		{name: "list", path: "/b", body: `{"by":[5]}`, status: 400},
		{name: "too much", path: "/b", body: `{"by":1000000001}`, status: 400},
		{name: "too much down", path: "/b", body: `{"by":-1000000001}`, status: 400},
		{name: "beyond int64", path: "/b", body: `{"by":9223372036854775808}`, status: 400},
		{name: "body not UTF-8", path: "/", body: "{\"increments\":[{\"counter\":\"\xff\"}]}", status: 400},
		{name: "half a surrogate pair", path: "/", body: `{"increments":[{"counter":"\ud800"}]}`, status: 400},
		{name: "the other half", path: "/", body: `{"increments":[{"counter":"\udc00"}]}`, status: 400},
		{name: "half a pair beside what replaces it", path: "/", body: `{"increments":[{"counter":"�"},{"counter":"\ud800"}]}`, status: 400},
		{name: "empty key", path: "/b", header: []string{"Idempotency-Key", ""}, status: 400},
		{name: "two keys", path: "/b", header: []string{"Idempotency-Key", "1", "Idempotency-Key", "2"}, status: 400},
		{name: "long key", path: "/b", header: []string{"Idempotency-Key", strings.Repeat("k", 256)}, status: 400},
		{name: "key beyond ASCII", path: "/b", header: []string{"Idempotency-Key", "ü"}, status: 400},
		{name: "several, empty body", path: "/", status: 400},
		{name: "several, none", path: "/", body: `{"increments":[]}`, status: 400},
		{name: "several, nothing", path: "/", body: `{}`, status: 400},
		{name: "several, no counter", path: "/", body: `{"increments":[{"by":1}]}`, status: 400},
		{name: "several, bad id", path: "/", body: `{"increments":[{"counter":"b"},{"counter":".."}]}`, status: 400},
		{name: "several, zero", path: "/", body: `{"increments":[{"counter":"b"},{"counter":"b","by":0}]}`, status: 400},
		{name: "several, unknown field", path: "/", body: `{"increments":[{"counter":"b","to":1}]}`, status: 400},
		{name: "several, too many", path: "/", body: many(501), status: 400},
		{name: "several, too much together", path: "/", body: `{"increments":[{"counter":"b","by":600000000},{"counter":"b","by":600000000}]}`, status: 400},
		{name: "several, too much together down", path: "/", body: `{"increments":[{"counter":"b","by":-1},{"counter":"b","by":-1000000000}]}`, status: 400},
		{name: "several, one too much", path: "/", body: `{"increments":[{"counter":"b","by":1000000001},{"counter":"b","by":-2}]}`, status: 400},
		{name: "PUT", method: "PUT", path: "/b", status: 405},
		{name: "DELETE", method: "DELETE", path: "/b", status: 405},
		{name: "PATCH of many", method: "PATCH", path: "/", status: 405},
		{name: "large body", path: "/b", body: `{"by":` + strings.Repeat(" ", 64<<10) + `5}`, status: 413},
		{name: "large body of many", path: "/", body: many(500) + strings.Repeat(" ", 1<<20), status: 413},
	} {
		if c.method == "" {
			c.method = "POST"
		}
		before, sum := p.dump(t), int64(0)
		if c.counter != "" {
			sum = p.sum(t, c.counter)
		}
		got := p.do(t, c.method, c.path, c.body, c.header...)
		if got.status != c.status {
			t.Errorf("%s: answered %d %v, want %d", c.name, got.status, got.body, c.status)
		}
		if c.want != "" {
			var want map[string]any
			if err := json.Unmarshal([]byte(c.want), &want); err != nil {
				t.Fatal(err)
			}
			for field, value := range want {
				if got.body[field] != value {
					t.Errorf("%s: answered %v, want %s: %v", c.name, got.body, field, value)
				}
			}
		}
		if c.counter != "" {
			if grown := p.sum(t, c.counter) - sum; grown != c.grows {
				t.Errorf("%s: the counter grew by %d, want %d", c.name, grown, c.grows)
			}
		}
		if c.status >= 400 || c.method == "GET" {
			if after := p.dump(t); after != before {
				t.Errorf("%s: something was written:\n%s\nwas\n%s", c.name, after, before)
			}
		}
		if c.status == 405 && got.header.Get("Allow") == "" {
			t.Errorf("%s: no Allow", c.name)
		}
		if c.method == "GET" && c.status == 200 {
			if at, err := time.Parse(time.RFC3339, fmt.Sprint(got.body["updated_at"])); err != nil || at.IsZero() {
				t.Errorf("%s: updated_at is %v", c.name, got.body["updated_at"])
			}
		}
	}
	// What the framework redirects never reaches the function.
	for _, path := range []string{"/a//b", "/x/../b"} {
		before := p.dump(t)
		if code := p.send(t, "POST "+path+" HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"); code/100 != 3 {
			t.Errorf("%s: answered %d, want a redirection", path, code)
		}
		if p.dump(t) != before {
			t.Errorf("%s: something was written", path)
		}
	}
}

func TestIncrementCreatesCounters(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "Increment", "AUTO_CREATE=true", "NUM_SHARDS=3", "FIELDS=total=Count")
	if got := p.do(t, "GET", "/new", ""); got.status != 404 {
		t.Errorf("GET of a counter that nobody made: %d, want 404", got.status)
	}
	if got := p.do(t, "POST", "/new", `{"by":4}`); got.status != 200 {
		t.Fatalf("POST: %d %v", got.status, got.body)
	}
	got := p.do(t, "GET", "/new?exact=true", "")
	if got.status != 200 || got.body["total"] != 4.0 || got.body["num_shards"] != 3.0 {
		t.Errorf("GET: %d %v, want 4 in 3 shards", got.status, got.body)
	}
}

// onCommits has every commit of increments meet a verdict.
func (p *process) onCommits(v emulator.Verdict) {
	p.firestore.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict { return v })
}

func TestIncrementUnderFaults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, incrementUnderFaults)
}

func incrementUnderFaults(t *testing.T) {
	busy := emulator.Verdict{Before: status.Error(codes.Aborted, "contention")}
	quota := emulator.Verdict{Before: status.Error(codes.ResourceExhausted, "quota")}
	lost := emulator.Verdict{After: status.Error(codes.Unavailable, "lost")}
	denied := emulator.Verdict{Before: status.Error(codes.PermissionDenied, "a secret")}
	p := startInBubble(t, func(s *settings.Settings) { s.ExactWrites, s.RequestTimeout = false, 5*time.Second })
	p.create(t, "a")
	for _, c := range []struct {
		name       string
		verdict    emulator.Verdict
		status     int
		retryAfter bool
		counted    int64
	}{
		{"contention", busy, 503, true, 0},
		{"quota without marker", quota, 504, false, 0}, // gRPC says the same of a torn stream, after which it may have been counted
		{"answer lost", lost, 504, false, 1},
		{"denied", denied, 500, false, 0},
	} {
		before := p.sum(t, "a")
		p.onCommits(c.verdict)
		got := p.do(t, "POST", "/a", "")
		p.firestore.Server.SetInterceptor(nil)
		if got.status != c.status || (got.header.Get("Retry-After") != "") != c.retryAfter {
			t.Errorf("%s: answered %d, Retry-After %q; want %d, %v", c.name, got.status, got.header.Get("Retry-After"), c.status, c.retryAfter)
		}
		if strings.Contains(fmt.Sprint(got.body), "secret") {
			t.Errorf("%s: the answer tells what is for the log: %v", c.name, got.body)
		}
		if counted := p.sum(t, "a") - before; counted != c.counted {
			t.Errorf("%s: %d counted, want %d", c.name, counted, c.counted)
		}
	}
	// With a key there is a marker, and the answer can be had after all.
	var once sync.Once
	p.firestore.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) (v emulator.Verdict) {
		once.Do(func() { v = lost })
		return v
	})
	before := p.sum(t, "a")
	if got := p.do(t, "POST", "/a", "", "Idempotency-Key", "k"); got.status != 200 {
		t.Errorf("answer lost, with a key: %d %v, want 200", got.status, got.body)
	}
	if counted := p.sum(t, "a") - before; counted != 1 {
		t.Errorf("answer lost, with a key: %d counted, want 1", counted)
	}
}

// Doubt that lasts until the deadline.
func TestIncrementInDoubt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := startInBubble(t, func(s *settings.Settings) { s.RequestTimeout = time.Second })
		p.create(t, "a")
		p.onCommits(emulator.Verdict{Before: status.Error(codes.Unavailable, "down")})
		if got := p.do(t, "POST", "/a", ""); got.status != 504 || got.header.Get("Retry-After") != "" {
			t.Errorf("answered %d, Retry-After %q; want 504 without", got.status, got.header.Get("Retry-After"))
		}
	})
}

func TestBadSettingStopsTheStart(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{serveAt + "=0", "FUNCTION_TARGET=Increment", "NUM_SHARDS=2000"}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "NUM_SHARDS=2000: want 1 to 1000") {
		t.Errorf("%v, %s; want an error that names the variable, its value and what is allowed", err, out)
	}
}

// What a body is instead of what it should be is said, and what it should be.
func TestWhatIsSaidOfAWrongBody(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "Increment")
	p.create(t, "a")
	for body, what := range map[string]string{"null": "null", "[]": "a list", `"x"`: "a string", "1": "a number", "true": "true"} {
		for path, want := range map[string]string{"/a": `want {"by": 5}, or nothing`, "/": `want {"increments": [{"counter": "a", "by": 1}]}`} {
			if got := p.do(t, "POST", path, body); got.status != 400 || got.body["detail"] != "the body has "+what+" where an object belongs; "+want {
				t.Errorf("POST %s %s: answered %d %v", path, body, got.status, got.body)
			}
		}
	}
	for body, detail := range map[string]string{
		`{"increments":null}`:                                `the body has null where a list belongs; want {"increments": [{"counter": "a", "by": 1}]}`,
		`{"increments":[7]}`:                                 `the body has a number where an object belongs; want {"increments": [{"counter": "a", "by": 1}]}`,
		`{"increments":[{"counter":null}]}`:                  "the body has null where a string belongs",
		`{"increments":[{"counter":"a","by":[]}]}`:           "by is a list; want an integer other than 0",
		`{"increments":[{"counter":"a","by":1.5}]}`:          "by is 1.5; want an integer other than 0",
		`{"increments":[{"counter":"a","by":-1e999}]}`:       "by is -1e999; at most 1000000000 is allowed, up or down",
		`{"increments":[{"counter":"a","by":{"likes":{}}}]}`: "by.likes is an object; want an integer other than 0",
	} {
		if got := p.do(t, "POST", "/", body); got.status != 400 || got.body["detail"] != detail {
			t.Errorf("POST / %s: answered %d %v, want %s", body, got.status, got.body, detail)
		}
	}
}
