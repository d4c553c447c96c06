package terraform

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// rules reads firestore.rules, and the same with the variant for clients that increment shards themselves.
func rules(t *testing.T) (plain, variant string) {
	t.Helper()
	content, err := os.ReadFile("../firestore.rules")
	if err != nil {
		t.Fatal(err)
	}
	variant = regexp.MustCompile(`(?m)^(\s*)//\+ `).ReplaceAllString(string(content), "$1")
	if variant == string(content) {
		t.Fatal("firestore.rules has no lines that begin with //+")
	}
	return string(content), variant
}

// Without the emulator this much is sure: one allow is not `if false`, and that one is a get of a counter.
func TestRulesAllowOneThing(t *testing.T) {
	t.Parallel()
	plain, variant := rules(t)
	allow := regexp.MustCompile(`(?m)^\s*allow ([a-z, ]+): if ([^;]+);`)
	for name, c := range map[string]struct {
		rules string
		want  []string
	}{
		"plain":   {plain, []string{"get"}},
		"variant": {variant, []string{"get", "update"}},
	} {
		var got []string
		for _, m := range allow.FindAllStringSubmatch(c.rules, -1) {
			if m[2] != "false" {
				got = append(got, m[1])
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: the rules allow %q, want %q", name, got, c.want)
		}
		if strings.Count(c.rules, "{") != strings.Count(c.rules, "}") {
			t.Errorf("%s: unbalanced braces", name)
		}
	}
}

// The rules are tried on Google's own evaluator, which is part of the official emulator.
func TestRulesOnTheOfficialEmulator(t *testing.T) {
	t.Parallel()
	host := startEmulator(t)
	plain, variant := rules(t)
	const (
		nobody = ""
		alice  = "alice"
	)
	increment := func(shard string, by any) []any { return []any{transform(shard, "increment", by)} }
	all := []struct {
		name         string
		user         string
		method, path string // of a read; a write otherwise
		writes       []any
		plain        bool // allowed by the rules as they are
		variant      bool // allowed by the variant
	}{
		{"get a counter", nobody, "GET", "counters/c", nil, true, true},
		{"get a counter, signed in", alice, "GET", "counters/c", nil, true, true},
		{"list counters", alice, "GET", "counters", nil, false, false},
		{"get a shard", alice, "GET", "counters/c/shards/0", nil, false, false},
		{"list shards", alice, "GET", "counters/c/shards", nil, false, false},
		{"get the ledger", alice, "GET", "counters/c/counter_rollup/ledger", nil, false, false},
		{"get a request", alice, "GET", "counter_requests/r", nil, false, false},
		{"get where Reconcile stopped", alice, "GET", "counter_rollup/reconcile", nil, false, false},
		{"get something else", alice, "GET", "users/u", nil, false, false},

		{"set a total", alice, "", "", []any{set("counters/c", map[string]any{"total": 9}, "total")}, false, false},
		{"create a counter", alice, "", "", []any{set("counters/new", map[string]any{"total": 0, "num_shards": 1})}, false, false},
		{"delete a counter", alice, "", "", []any{map[string]any{"delete": name("counters/c")}}, false, false},
		{"write the ledger", alice, "", "", []any{set("counters/c/counter_rollup/ledger", map[string]any{"base": 9}, "base")}, false, false},
		{"write a request", alice, "", "", []any{set("counter_requests/r", map[string]any{"x": 1})}, false, false},
		{"write where Reconcile stopped", alice, "", "", []any{set("counter_rollup/reconcile", map[string]any{"x": 1})}, false, false},

		{"+1", alice, "", "", increment("0", 1), false, true},
		{"-1", alice, "", "", increment("0", -1), false, true},
		{"+1, not signed in", nobody, "", "", increment("0", 1), false, false},
		{"+2", alice, "", "", increment("0", 2), false, false},
		{"-2", alice, "", "", increment("0", -2), false, false},
		{"+0", alice, "", "", increment("0", 0), false, false},
		{"+1.0, which makes the count a double", alice, "", "", increment("0", 1.0), false, false},
		{"twice +1 in one commit, which is +2", alice, "", "", append(increment("0", 1), increment("0", 1)...), false, false},
		{"+1 on a shard that is not there", alice, "", "", increment("9", 1), false, false},
		{"+1 on a shard without a count", alice, "", "", increment("empty", 1), false, false},
		{"set the count", alice, "", "", []any{set("counters/c/shards/0", map[string]any{"count": 1000}, "count")}, false, false},
		{"set the count to a string", alice, "", "", []any{set("counters/c/shards/0", map[string]any{"count": "6"}, "count")}, false, false},
		{"another field besides", alice, "", "", []any{withTransform(set("counters/c/shards/0", map[string]any{"by": "me"}, "by"), 1)}, false, false},
		{"replace the shard", alice, "", "", []any{set("counters/c/shards/0", map[string]any{"count": 6, "by": "me"})}, false, false},
		{"delete a shard", alice, "", "", []any{map[string]any{"delete": name("counters/c/shards/0")}}, false, false},
		{"create a shard", alice, "", "", []any{set("counters/c/shards/10", map[string]any{"count": 1})}, false, false},
		{"+1 below another collection", alice, "", "", []any{transform("../counter_rollup/ledger", "increment", 1)}, false, false},
	}
	for ruleset, text := range map[string]string{"plain": plain, "variant": variant} {
		for i, c := range all {
			// Each has a project of its own, and with it documents and rules.
			e := emulator{host: host, project: fmt.Sprintf("rules-%s-%d", ruleset, i)}
			e.load(t, text)
			var status int
			if c.method != "" {
				status = e.do(t, c.user, c.method, "/v1/"+e.root()+"/"+c.path, nil)
			} else {
				status = e.commit(t, c.user, c.writes)
			}
			want := c.plain
			if ruleset == "variant" {
				want = c.variant
			}
			if wantStatus := map[bool]int{true: http.StatusOK, false: http.StatusForbidden}[want]; status != wantStatus {
				t.Errorf("%s: %s: status %d, want %d", ruleset, c.name, status, wantStatus)
			}
		}
	}
}

// PROJECT stands for the project in documents' names, until the commit is sent.
func name(path string) string { return "projects/PROJECT/databases/(default)/documents/" + path }

func set(path string, fields map[string]any, mask ...string) map[string]any {
	values := map[string]any{}
	for k, v := range fields {
		values[k] = value(v)
	}
	write := map[string]any{"update": map[string]any{"name": name(path), "fields": values}}
	if len(mask) > 0 {
		write["updateMask"] = map[string]any{"fieldPaths": mask}
	}
	return write
}

func transform(shard, kind string, by any) map[string]any {
	return withField(map[string]any{
		"update":     map[string]any{"name": name(filepath.ToSlash(filepath.Join("counters/c/shards", shard)))},
		"updateMask": map[string]any{"fieldPaths": []string{}},
	}, kind, by)
}

func withTransform(write map[string]any, by any) map[string]any {
	return withField(write, "increment", by)
}

func withField(write map[string]any, kind string, by any) map[string]any {
	write["updateTransforms"] = []any{map[string]any{"fieldPath": "count", kind: value(by)}}
	return write
}

func value(v any) map[string]any {
	switch v := v.(type) {
	case int:
		return map[string]any{"integerValue": fmt.Sprint(v)}
	case float64:
		return map[string]any{"doubleValue": v}
	}
	return map[string]any{"stringValue": v}
}

type emulator struct{ host, project string }

func (e emulator) root() string {
	return "projects/" + e.project + "/databases/(default)/documents"
}

// load puts the rules and some documents in place; the latter as the owner, whom rules don't bind.
func (e emulator) load(t *testing.T, text string) {
	t.Helper()
	file := map[string]any{"name": "firestore.rules", "content": text}
	if status := e.do(t, "", "PUT", "/emulator/v1/projects/"+e.project+":securityRules", map[string]any{"rules": map[string]any{"files": []any{file}}}); status != http.StatusOK {
		t.Fatalf("the emulator refuses the rules: status %d", status)
	}
	if status := e.commit(t, "owner", []any{
		set("counters/c", map[string]any{"total": 5, "num_shards": 1}),
		set("counters/c/shards/0", map[string]any{"count": 5}),
		set("counters/c/shards/empty", map[string]any{"other": 5}),
		set("counters/c/counter_rollup/ledger", map[string]any{"base": 0, "count": 5}),
		set("counter_requests/r", map[string]any{"count": 5}),
		set("counter_rollup/reconcile", map[string]any{"count": 5}),
		set("users/u", map[string]any{"count": 5}),
	}); status != http.StatusOK {
		t.Fatalf("can't write the documents: status %d", status)
	}
}

func (e emulator) commit(t *testing.T, user string, writes []any) int {
	t.Helper()
	return e.do(t, user, "POST", "/v1/"+e.root()+":commit", map[string]any{"writes": writes})
}

func (e emulator) do(t *testing.T, user, method, path string, body any) int {
	t.Helper()
	sent, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	sent = bytes.ReplaceAll(sent, []byte("projects/PROJECT/"), []byte("projects/"+e.project+"/"))
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+e.host+path, bytes.NewReader(sent))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	switch user {
	case "":
	case "owner":
		req.Header.Set("Authorization", "Bearer owner")
	default: // the emulator takes tokens that nobody has signed
		part := func(v any) string { text, _ := json.Marshal(v); return base64.RawURLEncoding.EncodeToString(text) }
		claims := map[string]any{"sub": user, "user_id": user, "aud": e.project, "iss": "https://securetoken.google.com/" + e.project, "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()}
		req.Header.Set("Authorization", "Bearer "+part(map[string]any{"alg": "none", "typ": "JWT"})+"."+part(claims)+".")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusForbidden {
		t.Logf("%s %s: %s", method, path, answer)
	}
	return resp.StatusCode
}

// startEmulator runs the official emulator, which comes with gcloud (the component cloud-firestore-emulator) and with
// the Firebase CLI, and needs java.
func startEmulator(t *testing.T) (host string) {
	t.Helper()
	java, err := exec.LookPath("java")
	if err != nil {
		t.Skip("java is not on the PATH, so the official Firestore emulator can't run: the rules are not evaluated")
	}
	var jars []string
	if gcloud, err := exec.LookPath("gcloud"); err == nil {
		gcloud, _ = filepath.EvalSymlinks(gcloud)
		jars, _ = filepath.Glob(filepath.Join(filepath.Dir(gcloud), "../platform/cloud-firestore-emulator/cloud-firestore-emulator.jar"))
	}
	if home, err := os.UserHomeDir(); err == nil {
		cached, _ := filepath.Glob(filepath.Join(home, ".cache/firebase/emulators/cloud-firestore-emulator-*.jar"))
		jars = append(jars, cached...)
	}
	if len(jars) == 0 {
		t.Skip("the official Firestore emulator is not installed (gcloud components install cloud-firestore-emulator, or firebase setup:emulators:firestore): the rules are not evaluated")
	}
	// The emulator can't be told to take any free port and say which.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host = l.Addr().String()
	_, port, _ := net.SplitHostPort(host)
	l.Close()

	ctx, cancel := context.WithCancel(context.Background())
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, java, "-Duser.language=en", "-cp", jars[0], "com.google.cloud.datastore.emulator.firestore.CloudFirestore", "--host=127.0.0.1", "--port="+port)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { cmd.Wait(); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	giveUp := time.After(time.Minute)
	for {
		resp, err := http.Get("http://" + host + "/")
		if err == nil {
			resp.Body.Close()
			return host
		}
		select {
		case <-done:
			t.Skipf("the official Firestore emulator does not run here, so the rules are not evaluated: %s", out.String())
		case <-giveUp:
			t.Fatalf("the emulator does not answer: %s", out.String())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func TestIndexesFileIsTheModules(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../firestore.indexes.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Indexes        []any
		FieldOverrides []struct {
			CollectionGroup, FieldPath string
			TTL                        bool
			Indexes                    []any
		}
	}
	if err := json.Unmarshal(content, &file); err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, f := range file.FieldOverrides {
		if f.Indexes == nil || len(f.Indexes) > 0 {
			t.Errorf("%s.%s should have an empty list of indexes", f.CollectionGroup, f.FieldPath)
		}
		got = append(got, fmt.Sprintf("%s.%s TTL: %v", f.CollectionGroup, f.FieldPath, f.TTL))
	}
	for _, i := range load(t, ".", vars()).instances("google_firestore_field") {
		_, ttl := i.args["ttl_config"]
		want = append(want, fmt.Sprintf("%s.%s TTL: %v", text(i.args, "collection"), text(i.args, "field"), ttl))
	}
	same(t, "firestore.indexes.json", got, want)

	var firebase struct {
		Firestore struct{ Rules, Indexes string }
	}
	content, err = os.ReadFile("../firebase.json")
	if err == nil {
		err = json.Unmarshal(content, &firebase)
	}
	if err != nil || firebase.Firestore.Rules != "firestore.rules" || firebase.Firestore.Indexes != "firestore.indexes.json" {
		t.Errorf("firebase.json: %v, %+v", err, firebase)
	}
}
