package functions

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/firestore-counters/counters/internal/settings"
	"github.com/firestore-counters/counters/rollup"
)

// What Reconcile takes, and what it answers to anything else, which changes nothing.
func TestReconcileRequests(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "Reconcile")
	p.create(t, "a")
	for _, c := range []struct {
		name, method, body string
		status             int
	}{
		{"GET", "GET", "", 405},
		{"not JSON", "POST", "a", 400},
		{"half of it", "POST", `{"counters":["a"`, 400},
		{"trailing data", "POST", `{"counters":["a"]}{}`, 400},
		{"unknown field", "POST", `{"counter":"a"}`, 400},
		{"not a list", "POST", `{"counters":"a"}`, 400},
		{"null", "POST", `null`, 400}, // which is not: all of them
		{"no counters but null", "POST", `{"counters":null}`, 400},
		{"a list", "POST", `[]`, 400},
		{"none", "POST", `{"counters":[]}`, 400},
		{"no id", "POST", `{"counters":["a",1]}`, 400},
		{"not true", "POST", `{"dry_run":1}`, 400},
		{"twice", "POST", `{"counters":["a"],"counters":[]}`, 400},
		{"one that isn't there", "POST", `{"counters":["a","nobody"],"dry_run":true}`, 404},
		{"bad id", "POST", `{"counters":["a","__x__"]}`, 400},
		{"large body", "POST", `{"counters":["` + strings.Repeat("x", maxBody) + `"]}`, 413},
		{"dry run", "POST", `{"counters":["a"],"dry_run":true}`, 200},
	} {
		before := p.dump(t)
		if got := p.do(t, c.method, "/", c.body); got.status != c.status {
			t.Errorf("%s: answered %d %v, want %d", c.name, got.status, got.body, c.status)
		}
		if after := p.dump(t); after != before {
			t.Errorf("%s: something was written:\n%s\nwas\n%s", c.name, after, before)
		}
	}
	before := p.dump(t)
	if got := p.do(t, "POST", "/?dry_run=true", ""); got.status != 400 || got.body["detail"] != `unknown parameter "dry_run"; want none` || p.dump(t) != before {
		t.Errorf("a dry run by a parameter: answered %d %v", got.status, got.body)
	}
	for body, what := range map[string]string{`null`: "null where an object", `{"counters":1}`: "a number where a list", `{"dry_run":null}`: "null where true or false"} {
		if got := p.do(t, "POST", "/", body); got.body["detail"] != "the body has "+what+` belongs; want {"counters": ["id", …], "dry_run": false}, or nothing` {
			t.Errorf("%s: answered %v", body, got.body)
		}
	}
	for _, body := range []string{`{"counters":["a"]}`, ""} {
		if got := p.do(t, "POST", "/", body); got.status != 200 || got.body["seen"] != 1.0 || got.body["done"] != true {
			t.Errorf("%s: answered %d %v, want one counter seen", body, got.status, got.body)
		}
	}
}

// Whoever calls on a schedule sees that a counter could not be reconciled, and what became of the
// others.
func TestReconcileAnswersThatItFailed(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "Reconcile")
	p.create(t, "a")
	p.create(t, "damaged")
	if _, err := p.fs.Doc("counters/damaged/counter_rollup/base").Set(t.Context(), map[string]any{"base": 1}); err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{`{"counters":["damaged","a"]}`, ""} {
		resp, err := p.asks.Post(p.url+"/", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		var answer rollup.Summary
		err = json.NewDecoder(resp.Body).Decode(&answer)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusInternalServerError || answer.Failed != 1 || answer.Seen != 2 || !answer.Done {
			t.Errorf("%s: answered %d %+v, %v, want 500, and that one of two failed", body, resp.StatusCode, answer, err)
		}
	}
}

// The settings of Reconcile arrive. RECOUNT_READS=0 means none, where 0 would be the package's
// default.
func TestReconcileSettings(t *testing.T) {
	t.Parallel()
	s, err := settings.Parse([]string{"RECONCILE_PARALLEL=3", "CLEANUP_AFTER=5m", "RECOUNT_AGE=3h", "RECOUNT_READS=0"})
	if err != nil {
		t.Fatal(err)
	}
	o := reconcileOptions(s)
	if o.Parallel != 3 || o.CleanupAfter != 5*time.Minute || o.RecountAge != 3*time.Hour || o.RecountReads != -1 || !o.Resume {
		t.Errorf("%+v", o)
	}
	if s.RecountReads = 7; reconcileOptions(s).RecountReads != 7 {
		t.Errorf("%+v", reconcileOptions(s))
	}
}

// Who names a counter that isn't there hears that, and what became of the others.
func TestReconcileOfNoCounter(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "Reconcile")
	p.create(t, "a")
	for body, detail := range map[string]string{
		`{"counters":["nobody"]}`:     `there is no counter "nobody"`,
		`{"counters":["a","nobody"]}`: `there is no counter "nobody"`,
		`{"counters":["a"]}`:          "",
	} {
		got := p.do(t, "POST", "/", body)
		list, _ := got.body["counters"].([]any)
		if said, _ := got.body["detail"].(string); said != detail || (got.status == 404) != (detail != "") {
			t.Errorf("%s: answered %d %v, want %q", body, got.status, got.body, detail)
		}
		seen := 0.0
		for _, entry := range list {
			switch entry := entry.(map[string]any); {
			case (entry["gone"] == true) != (entry["counter"] == "nobody"):
				t.Errorf("%s: answered %v", body, entry)
			case entry["gone"] == nil:
				seen++
			}
		}
		if got.body["seen"] != seen || got.body["done"] != true || len(list) != strings.Count(body, ",")+1 {
			t.Errorf("%s: answered %v", body, got.body)
		}
	}
}
