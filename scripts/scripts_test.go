//go:build all

// Package scripts holds nothing but tests of the shell scripts. What deploy.sh and destroy.sh tell
// gcloud to do is held against terraform's module in ../terraform.
package scripts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

func scripts(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("*.sh")
	if err != nil || len(files) < 3 {
		t.Fatalf("found %v: %v", files, err)
	}
	return append(files, "../terraform/check.sh")
}

func TestShellcheck(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("shellcheck"); err != nil {
		t.Skip("shellcheck is not on the PATH (apt-get install shellcheck)")
	}
	if out, err := exec.Command("shellcheck", scripts(t)...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestScriptsHelp(t *testing.T) {
	t.Parallel()
	for _, script := range scripts(t) {
		out, err := exec.Command("bash", script, "--help").Output()
		if err != nil || !strings.HasPrefix(string(out), "Usage: ") {
			t.Errorf("%s --help: %v: %s", script, err, out)
		}
		// Every option that the script knows is in its help.
		source, err := exec.Command("sed", "-n", "s/^ *\\(--[a-z-]*\\)\\( | -[a-z]\\)*).*/\\1/p", script).Output()
		if err != nil {
			t.Fatal(err)
		}
		for option := range strings.FieldsSeq(string(source)) {
			if option != "--" && !bytes.Contains(out, []byte(option)) {
				t.Errorf("%s --help doesn't say what %s is", script, option)
			}
		}
	}
}

// A wrong line is refused before anything is done, with the exit code of wrong lines.
func TestScriptsRefuseUnknownOptions(t *testing.T) {
	t.Parallel()
	for _, script := range scripts(t) {
		cmd := exec.CommandContext(t.Context(), "bash", script, "--nope")
		cmd.Env = append(os.Environ(), "TERRAFORM=false", "TMPDIR="+t.TempDir())
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != 2 || !strings.Contains(string(out), "--help") {
			t.Errorf("%s --nope: exit code %d: %s", script, code, out)
		}
	}
}

// A counter is an Increment in miniature: what smoke.sh expects, and nothing else. It is here so
// that it can be made wrong in every way that smoke.sh should notice.
type counter struct {
	wrong string // what it does wrong

	mu       sync.Mutex
	counts   map[string]int64
	replays  map[string]string // :: idempotency key → body
	requests int
}

var increment = regexp.MustCompile(`^\{"by":(-?[1-9]\d{0,17})\}$`)

func (c *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
		m := increment.FindSubmatch(body)
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

func (c *counter) batch(w http.ResponseWriter, body []byte, problem func(int)) {
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

// smoke runs smoke.sh against a counter that is wrong in one way, or in none.
func smoke(t *testing.T, c *counter, args ...string) (string, error) {
	t.Helper()
	for _, tool := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not on the PATH", tool)
		}
	}
	c.replays = map[string]string{}
	if c.counts == nil {
		c.counts = map[string]int64{}
	}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	out, err := exec.Command("bash", append([]string{"smoke.sh", server.URL + "/increment/", "--timeout=1"}, args...)...).CombinedOutput()
	return string(out), err
}

func TestSmokeIsGreenWhereAllIsWell(t *testing.T) {
	t.Parallel()
	out, err := smoke(t, &counter{})
	if err != nil || strings.Contains(out, "FAIL") || !strings.Contains(out, "all green") {
		t.Errorf("%v\n%s", err, out)
	}
	if n := strings.Count(out, "\nok "); n < 22 {
		t.Errorf("only %d checks:\n%s", n, out)
	}

	c := &counter{counts: map[string]int64{"likes": 41}}
	if out, err := smoke(t, c, "--counter", "likes"); err != nil || c.counts["likes"] != 52 || !strings.Contains(out, "total 52") {
		t.Errorf("on a counter of 41, now %d: %v\n%s", c.counts["likes"], err, out)
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
			out, err := smoke(t, &counter{wrong: wrong})
			if err == nil || !regexp.MustCompile(`(?m)^FAIL +`+regexp.QuoteMeta(row)).MatchString(out) {
				t.Errorf("%v: no FAIL at %q\n%s", err, row, out)
			}
		})
	}
}

func TestSmokeSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	for wrong, says := range map[string]string{"private": "--token", "creates none": "AUTO_CREATE"} {
		if out, err := smoke(t, &counter{wrong: wrong}); err == nil || !strings.Contains(out, says) {
			t.Errorf("%s: %v: doesn't say %s\n%s", wrong, err, says, out)
		}
	}
	out, err := smoke(t, &counter{}, "--counter=not-there")
	if err == nil || !strings.Contains(out, "Is that counter there") {
		t.Errorf("%v\n%s", err, out)
	}
	for _, args := range [][]string{{}, {"localhost:8081"}, {"http://a", "http://b"}, {"http://a", "--frob"}, {"http://a", "--frob=1"}, {"http://a", "--timeout=soon"}} {
		if out, err := exec.Command("bash", append([]string{"smoke.sh"}, args...)...).CombinedOutput(); err == nil {
			t.Errorf("smoke.sh %q is taken: %s", args, out)
		}
	}
	if out, err := exec.Command("bash", "smoke.sh", "http://127.0.0.1:1").CombinedOutput(); err == nil || !bytes.Contains(out, []byte("no answer")) {
		t.Errorf("nobody there: %v\n%s", err, out)
	}
}

func TestSmokeSendsItsHeaders(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	missing := 0
	c := &counter{counts: map[string]int64{}, replays: map[string]string{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		if r.Header.Get("Authorization") != "Bearer t0ken" || r.Header.Get("X-Firebase-AppCheck") != "a b" {
			missing++
		}
		mu.Unlock()
		c.ServeHTTP(w, r)
	}))
	defer server.Close()
	out, err := exec.Command("bash", "smoke.sh", server.URL+"/increment", "--token", "t0ken", "--header", "X-Firebase-AppCheck: a b").CombinedOutput()
	if err != nil || missing > 0 || c.requests < 22 {
		t.Errorf("%v: %d of %d requests without the headers\n%s", err, missing, c.requests, out)
	}
}

func TestSmokeDryRunSendsNothing(t *testing.T) {
	t.Parallel()
	c := &counter{}
	out, err := smoke(t, c, "--dry-run")
	if err != nil || c.requests > 0 || strings.Count(out, "curl ") < 20 {
		t.Errorf("%v, %d requests:\n%s", err, c.requests, out)
	}
}
