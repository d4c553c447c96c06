package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// A miniature is an Increment in small: what smoke expects, and nothing else. It is here so
// that it can be made wrong in every way that smoke should notice.
type miniature struct {
	wrong string // what it does wrong

	mu       sync.Mutex
	counts   map[string]int64
	replays  map[string]string // :: idempotency key → body
	requests int
}

var incremented = regexp.MustCompile(`^\{"by":(-?[1-9]\d{0,17})\}$`)

func (c *miniature) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	id := strings.TrimPrefix(r.URL.Path, "/increment/")
	body, _ := io.ReadAll(r.Body)
	problem := func(status int) {
		if status == 400 && c.wrong == "takes anything" {
			status = 200
		}
		if c.wrong != "plain errors" {
			w.Header().Set("Content-Type", "application/problem+json")
		}
		if status == 405 && c.wrong != "no Allow" {
			w.Header().Set("Allow", "GET, POST")
		}
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"status":%d}`, status)
	}
	limit := 64 << 10
	if id == "" {
		limit = 1 << 20
	}
	switch {
	case c.wrong == "private":
		problem(403)
	case r.Method != "GET" && r.Method != "POST":
		problem(405)
	case len(body) > limit && c.wrong != "takes any size":
		problem(413)
	case len(id) > 1500 || strings.Contains(id, "/") || strings.HasPrefix(id, "__") || strings.ToValidUTF8(id, "") != id:
		problem(400)
	case r.Method == "GET":
		n, ok := c.counts[id]
		if !ok {
			problem(404)
			return
		}
		if c.wrong == "total stands still" && r.URL.Query().Get("exact") == "" {
			n = 0
		}
		fmt.Fprintf(w, `{"counter": %q, "total": %d, "num_shards": 10}`, id, n)
	case c.wrong == "creates none" && c.counts[id] == 0:
		problem(404)
	case id == "":
		c.batch(w, body, problem)
	default:
		if len(body) == 0 {
			body = []byte(`{"by":1}`)
		}
		m := incremented.FindSubmatch(body)
		if m == nil {
			problem(400)
			return
		}
		key := r.Header.Get("Idempotency-Key")
		before, replay := c.replays[key]
		if replay && before != string(body) && c.wrong != "any body" {
			problem(422)
			return
		}
		if replay && c.wrong != "no replays" {
			fmt.Fprintf(w, `{"counter":%q,"by":%s,"replayed":true}`, id, m[1])
			return
		}
		if key != "" {
			c.replays[key] = string(body)
		}
		if c.wrong != "loses increments" {
			c.counts[id] += number(m[1])
		}
		fmt.Fprintf(w, `{"counter":%q,"by":%s}`, id, m[1])
	}
}

func (c *miniature) batch(w http.ResponseWriter, body []byte, problem func(int)) {
	var b struct {
		Increments []struct {
			Counter string
			By      int64
		}
	}
	if err := json.Unmarshal(body, &b); err != nil {
		problem(400)
		return
	}
	for _, i := range b.Increments {
		if i.By == 0 {
			problem(400)
			return
		}
	}
	for _, i := range b.Increments {
		c.counts[i.Counter] += i.By
	}
	fmt.Fprint(w, `{}`)
}

func number(text []byte) (n int64) {
	fmt.Sscan(string(text), &n)
	return n
}

// smokes runs the command against a counter that is wrong in one way, or in none.
func smokes(t *testing.T, c *miniature, args ...string) (out string, code int) {
	t.Helper()
	c.replays = map[string]string{}
	if c.counts == nil {
		c.counts = map[string]int64{}
	}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	out, said, code := counters(t, append([]string{"smoke", server.URL + "/increment/", "--timeout=1"}, args...)...)
	return out + said, code
}

func TestSmokeIsGreenWhereAllIsWell(t *testing.T) {
	t.Parallel()
	out, code := smokes(t, &miniature{})
	if code != 0 || strings.Contains(out, "FAIL") || !strings.Contains(out, "all green") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if n := strings.Count(out, "\nok "); n < 22 {
		t.Errorf("only %d checks:\n%s", n, out)
	}

	c := &miniature{counts: map[string]int64{"likes": 41}}
	if out, code := smokes(t, c, "--counter", "likes"); code != 0 || c.counts["likes"] != 52 || !strings.Contains(out, "total 52") {
		t.Errorf("on a counter of 41, now %d: exit code %d\n%s", c.counts["likes"], code, out)
	}
}

func TestSmokeFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	for wrong, row := range map[string]string{
		"loses increments":   "GET, exact",
		"total stands still": "GET, after",
		"no replays":         "the same again",
		"any body":           "the same key, another body",
		"takes anything":     "by a fraction",
		"takes any size":     "a body over 64 KiB",
		"plain errors":       "bad JSON",
		"no Allow":           "and its Allow header",
	} {
		t.Run(wrong, func(t *testing.T) {
			t.Parallel()
			out, code := smokes(t, &miniature{wrong: wrong})
			if code != exitFailed || !regexp.MustCompile(`(?m)^FAIL +`+regexp.QuoteMeta(row)).MatchString(out) {
				t.Errorf("exit code %d: no FAIL at %q\n%s", code, row, out)
			}
		})
	}
}

func TestSmokeSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	for wrong, says := range map[string]string{"private": "--token", "creates none": "AUTO_CREATE"} {
		if out, code := smokes(t, &miniature{wrong: wrong}); code != exitFailed || !strings.Contains(out, says) {
			t.Errorf("%s: exit code %d: doesn't say %s\n%s", wrong, code, says, out)
		}
	}
	out, code := smokes(t, &miniature{}, "--counter=not-there")
	if code != exitFailed || !strings.Contains(out, "Is that counter there") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	for _, args := range [][]string{{}, {"localhost:8081"}, {"http://a", "http://b"}, {"http://a", "--frob"}, {"http://a", "--frob=1"}, {"http://a", "--timeout=soon"}, {"http://a", "--header=x"}} {
		if out, _, code := counters(t, append([]string{"smoke"}, args...)...); code != exitUsage {
			t.Errorf("smoke %q is taken: exit code %d, %s", args, code, out)
		}
	}
	if _, said, code := counters(t, "smoke", "http://127.0.0.1:1"); code != exitFailed || !strings.Contains(said, "no answer") {
		t.Errorf("nobody there: exit code %d, %s", code, said)
	}
}

// Ctrl-C ends it as it ends any command: what wasn't checked has not failed.
func TestSmokeIsInterrupted(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	c := &miniature{counts: map[string]int64{}, replays: map[string]string{}}
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 5 {
			_, _ = io.Copy(io.Discard, r.Body) // or the server doesn't notice who goes away
			interrupt()
			<-r.Context().Done()
			return
		}
		c.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	var out, errOut bytes.Buffer
	code := run(ctx, []string{"smoke", server.URL + "/increment"}, &out, &errOut)
	if code != exitInterrupted || !strings.HasPrefix(errOut.String(), "counters: interrupted: ") || strings.Contains(out.String(), "FAIL") || strings.Count(out.String(), "\nok ") != 4 {
		t.Errorf("exit code %d, %q\n%s", code, errOut.String(), out.String())
	}
}

func TestSmokeSendsItsHeaders(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	missing := 0
	c := &miniature{counts: map[string]int64{}, replays: map[string]string{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		if r.Header.Get("Authorization") != "Bearer t0ken" || r.Header.Get("X-Firebase-AppCheck") != "a b" {
			missing++
		}
		mu.Unlock()
		c.ServeHTTP(w, r)
	}))
	defer server.Close()
	out, _, code := counters(t, "smoke", server.URL+"/increment", "--token", "t0ken", "--header", "X-Firebase-AppCheck: a b")
	if code != 0 || missing > 0 || c.requests < 22 {
		t.Errorf("exit code %d: %d of %d requests without the headers\n%s", code, missing, c.requests, out)
	}
}

func TestSmokeDryRunSendsNothing(t *testing.T) {
	t.Parallel()
	c := &miniature{}
	out, code := smokes(t, c, "--dry-run")
	if code != 0 || c.requests > 0 || strings.Count(out, "curl ") < 20 {
		t.Errorf("exit code %d, %d requests:\n%s", code, c.requests, out)
	}
}
