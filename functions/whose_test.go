package functions

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/firestore-counters/counters/rollup"
)

// Functions to which nobody has said that the documents are the app's own change none of them: Increment
// answers which setting is missing, Reconcile that it failed, and Rollup logs it.
func TestFunctionsSpareTheAppsDocuments(t *testing.T) {
	t.Parallel()
	post := map[string]any{"title": "Hello", "deleting": true, "updated_at": "yesterday"}
	increment := startProcess(t, "Increment", "MEMBERS=any", "RESET=any", "LIMIT=any", "AUTO_CREATE=true", "FIELDS=total,seats=limit(9)")
	reconcile := startProcess(t, "Reconcile")
	for _, p := range []*process{increment, reconcile} {
		for path, data := range map[string]map[string]any{"counters/post": post, "counters/post/shards/0": {"count": 5}} {
			if _, err := p.fs.Doc(path).Set(t.Context(), data); err != nil {
				t.Fatal(err)
			}
		}
	}
	before := increment.dump(t)
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/post", ""},
		{"POST", "/", `{"increments":[{"counter":"post"}]}`},
		{"POST", "/post/reset", ""},
		{"PUT", "/post/limit", `{"field":"seats","limit":5}`},
		{"POST", "/post/total/holds", `{"by":1,"for":"1m"}`},
		{"PUT", "/post/seats/holds/h", `{"by":1,"for":"1m"}`},
		{"PUT", "/post/total/ann", ""},
		{"PUT", "/post/total/ann?hold=1m", ""},
		{"DELETE", "/post/total/ann", ""},
	} {
		a := increment.do(t, c.method, c.path, c.body)
		if a.status != http.StatusConflict || !strings.Contains(a.text, "set HOSTED=true: the document is the app's own") || !strings.Contains(a.text, "nothing was changed") {
			t.Errorf("%s %s %s: %d %s", c.method, c.path, c.body, a.status, a.text)
		}
		if after := increment.dump(t); after != before {
			t.Errorf("%s %s %s has changed\n%sto\n%s", c.method, c.path, c.body, before, after)
		}
	}

	if a := reconcile.do(t, "POST", "/", `{"counters":["post"],"dry_run":true}`); a.status == http.StatusOK {
		t.Errorf("dry run: %d %s", a.status, a.text)
	}
	for _, body := range []string{`{"counters":["post"]}`, ""} {
		resp, err := http.Post(reconcile.url, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		after, err := reconcile.fs.Doc("counters/post").Get(t.Context())
		if err != nil || fmt.Sprint(after.Data()) != fmt.Sprint(post) || resp.StatusCode != http.StatusInternalServerError {
			t.Errorf("reconcile %s: %d, and there is %v, %v", body, resp.StatusCode, after.Data(), err)
		}
	}

	f := startRollup(t, rollup.RollerOptions{Interval: 10 * time.Millisecond}, time.Minute)
	for path, data := range map[string]map[string]any{"counters/c": post, "counters/c/shards/0": {"count": 5}} {
		if _, err := f.fs.Doc(path).Set(t.Context(), data); err != nil {
			t.Fatal(err)
		}
	}
	if code := f.post(t, shardEvent(t, "1", shard0, number(5), f.now(t))); code != http.StatusNoContent { // it is noted
		t.Errorf("event: %d", code)
	}
	if after, err := f.fs.Doc("counters/c").Get(t.Context()); err != nil || fmt.Sprint(after.Data()) != fmt.Sprint(post) || !strings.Contains(f.log.String(), "set HOSTED=true") {
		t.Errorf("there is %v, %v, and the log says\n%s", after.Data(), err, f.log.String())
	}
}
