package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore"

	"github.com/firestore-counters/counters/cmd/internal/cost"
	"github.com/firestore-counters/counters/emulator"
)

func prices(t *testing.T) cost.Prices {
	t.Helper()
	p, err := cost.PricesOf("us-central1")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// An increment is sent with its key until it is acknowledged, and not again once it is refused.
func TestAdd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		statuses []int
		replayed bool
		sent     int32
		fails    bool
	}{
		{"at once", []int{200}, false, 1, false},
		{"nobody knows, and then it is a replay", []int{504, 200}, true, 2, false},
		{"too many", []int{429, 503, 200}, false, 3, false},
		{"refused", []int{403}, false, 1, true},
		{"a bad request", []int{400}, false, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var sent atomic.Int32
			var keys [8]string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				n := sent.Add(1)
				keys[n-1] = r.Header.Get("Idempotency-Key")
				w.WriteHeader(c.statuses[n-1])
				_ = json.NewEncoder(w).Encode(map[string]bool{"replayed": c.replayed})
			}))
			defer server.Close()
			l := newLoad(server.URL, "a-token", &meter{prices: prices(t), most: 1})
			_, replayed, err := l.add(t.Context(), "c", "a-key")
			if (err != nil) != c.fails || replayed != (c.replayed && !c.fails) || sent.Load() != c.sent {
				t.Errorf("add: replayed %v, %v after %d posts; want %+v", replayed, err, sent.Load(), c)
			}
			for i := range sent.Load() {
				if keys[i] != "a-key" {
					t.Errorf("post %d has the key %q", i, keys[i])
				}
			}
		})
	}
}

// A crowd gets each seat once; a server that gives more of them, or refuses while there is one, is found out.
func TestLimited(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		limit   int // of PUT: its status
		sells   int
		result  string
		refused bool
	}{
		{"exact", 200, seats, "50 are taken, 30 requests were refused", false},
		{"one too many", 200, seats + 1, "", true},
		{"one is left", 200, seats - 1, "", true},
		{"no limits here", 409, 0, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			trial := &Trial{Prefix: "v-0a1b2c", Firestore: startFirestore(t), meter: meter{prices: prices(t), most: 1}}
			var sold atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPut {
					w.WriteHeader(c.limit)
					_, _ = w.Write([]byte(`{"detail":"no limits"}`))
					return
				}
				n := int(sold.Add(1))
				if n > c.sells {
					w.WriteHeader(409)
					_, _ = w.Write([]byte(`{"reason":"limit-reached"}`))
					return
				}
				if n == c.sells { // which is rolled up
					if _, err := trial.doc("seats").Set(r.Context(), map[string]any{"seats": c.sells}); err != nil {
						t.Error(err)
					}
				}
				_, _ = w.Write([]byte(`{}`))
			}))
			defer server.Close()
			trial.load = newLoad(server.URL, "a-token", &trial.meter)
			result, err := trial.limited(t.Context(), nil)
			if result != c.result || (err != nil) != c.refused {
				t.Errorf("%q, %v; want %q", result, err, c.result)
			}
		})
	}
}

// From --most on nothing more is sent.
func TestMostIsAsked(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{}`)) }))
	defer server.Close()
	m := &meter{prices: prices(t), most: prices(t).Bill(perIncrement.Times(3.5), cost.ByRequest).Total()}
	l := newLoad(server.URL, "a-token", m)
	for i := range 3 {
		if _, _, err := l.add(t.Context(), "c", key()); err != nil {
			t.Errorf("increment %d: %v", i, err)
		}
	}
	before := m.dollars()
	if _, _, err := l.add(t.Context(), "c", key()); err == nil || !strings.Contains(err.Error(), "--most") {
		t.Errorf("beyond --most: %v", err)
	}
	if m.dollars() != before || before > m.most {
		t.Errorf("$%v are spent of $%v, after $%v", m.dollars(), m.most, before)
	}
}

// The default of --most is enough for a trial, wherever it is.
func TestBound(t *testing.T) {
	t.Parallel()
	for _, p := range append(cost.List(), cost.Dearest("moon-base1")) {
		if b := Bound(p, time.Minute); b < 0.01 || b > 0.12 {
			t.Errorf("%s: a trial costs up to $%.4f", p.Location, b)
		}
	}
}

// One document is written at each rate, and what is ABORTED is counted; sums are held to what was written.
func TestHot(t *testing.T) {
	t.Parallel()
	server := emulator.Start(t)
	trial := &Trial{Prefix: "v-0a1b2c", Hot: 200 * time.Millisecond, Firestore: server.Client(t, "a-project"), Out: t.Output()}
	trial.meter = meter{prices: prices(t), most: 1}
	var r Report
	for _, step := range []func(context.Context, *Report) (string, error){trial.hot, trial.sums} {
		if said, err := step(t.Context(), &r); err != nil {
			t.Errorf("%s, %v", said, err)
		}
	}
	said := fmt.Sprint(r.Measured)
	for _, want := range []string{"{one document, 1 writes a second for 200ms 1 a second, sustained ", "0 of 2 ABORTED}", "{sum of 100 documents after 0 rewrites 40 ms each sum() ", "after 100 rewrites", ", bounded ", ", list "} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in %s", want, said)
		}
	}
	if len(r.Measured) != 8 || trial.meter.used.Writes != 1+1+1+2+200 {
		t.Errorf("%d writes, %s", int(trial.meter.used.Writes), said)
	}
	server.SetFaults(emulator.Faults{Abort: 1})
	if said, err := trial.hot(t.Context(), &r); err == nil {
		t.Errorf("a document that can't be made is hot: %s", said)
	}
	server.SetFaults(emulator.Faults{})
	trial.meter.most = trial.meter.dollars()
	if said, err := trial.hot(t.Context(), &r); err == nil || !strings.Contains(err.Error(), "--most") {
		t.Errorf("beyond --most: %s, %v", said, err)
	}
}

// A page of Google's is no answer of the function's.
func TestPaths(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, "<html>Error 404 (Not Found)!!1")
			return
		}
		fmt.Fprint(w, `{"title":"Not Found","status":404}`)
	}))
	defer server.Close()
	trial := &Trial{Out: t.Output()}
	trial.load = newLoad(server.URL, "", &trial.meter)
	var r Report
	if said, err := trial.paths(t.Context(), &r); err != nil || said != "it keeps /healthz" || !strings.Contains(fmt.Sprint(r.Measured), "/healthz, /eventlog /healthz}") {
		t.Errorf("%q, %v, %v", said, err, r.Measured)
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	r := &Report{Prefix: "v-0123ab", Version: "v1", Location: "nam5", Rows: []Row{
		{Step: "deploy", OK: true, Took: time.Minute, Retries: 3, Result: "fine"},
		{Step: "doctor", Took: time.Second, Result: "project secret-project | says\nno"},
	}}
	r.measured("lag", "1 s", "2 s")
	r.measured("window", "5", "not known: Cloud Logging API has not been used in project 1234567890 before")
	r.Deployment = []Row{{Step: "Service accounts", Took: 12 * time.Second, Retries: 2}, {Step: "caller user:secret@example.com", Took: time.Second}}
	r.Stays = []string{"the role of Eventarc's agent", "secret-project's database"}
	r.Figures = Figures{Commit: 0.012, Delivery: 0.04, Window: 7}
	r.Hide("secret-project", "secret@example.com", "1234567890", "")
	var b strings.Builder
	if err := r.Markdown(&b); err != nil {
		t.Fatal(err)
	}
	asJSON, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# counters verify: **failed**", "| deploy | ok | 1m0s | fine; 3 calls were too early, and came again |", `| doctor | **FAILED** | 1s | project … \| says no |`, "| lag | 1 s | 2 s |", "| Service accounts | 12s | 2 |", "- the role of Eventarc's agent\n", "```json\n{\"commit_seconds\":0.012,\"delivery_seconds\":0.04,\"push_window\":7}\n```"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, &b)
		}
	}
	if regexp.MustCompile("secret|1234567890").MatchString(b.String()+string(asJSON)) || r.OK() {
		t.Errorf("the report names the project, or is ok:\n%s%s", &b, asJSON)
	}
}

// What a deployment and a removal say is understood, in whatever pieces it comes.
func TestProgress(t *testing.T) {
	t.Parallel()
	var trial Trial
	var said strings.Builder
	w := trial.Watching(&said)
	const text = `deploy: account a: waiting for an API; again in 2 s
[1/9, 0:02] account a (2 s)
deploy: function b: waiting for a role; again in 2 s
[2/9, 0:03] account c (1 s)
[3/9, 0:04] role 1 (3 s)
[4/9, 0:04] role 2 (3 s)
[5/9, 0:04] role 3 (3 s)
[6/9, 0:05] role 4 (3 s)
deploy: function b: waiting for a role; again in 4 s
[7/9, 0:12] function b (9 s)
[8/9, 0:12] role 5 (3 s)
[9/9, 0:12] role 6 (3 s)
  a line of gcloud's
destroy: what stays, and the command that removes it:
  the TTL policy
    gcloud firestore fields ttls update
  the database
    gcloud firestore databases delete
destroy: the APIs stay
  nothing of this
deploy: d: waiting for`
	for i := range text {
		if _, err := w.Write([]byte(text[i : i+1])); err != nil {
			t.Fatal(err)
		}
	}
	var steps []string
	for _, row := range trial.said.deployed() {
		steps = append(steps, fmt.Sprintf("%s %d", row.Step, row.Retries))
	}
	const wantSteps, wantStays = "account a 1, role 1 0, role 2 0, role 3 0, role 4 0, function b 2, role 5 0", "the TTL policy, the database"
	if got := strings.Join(steps, ", "); got != wantSteps || said.String() != text || trial.said.tooEarly() != 3 {
		t.Errorf("heard %q, %d calls too early, want %q\n%s", got, trial.said.tooEarly(), wantSteps, said.String())
	}
	if got := strings.Join(trial.said.left(), ", "); got != wantStays {
		t.Errorf("%q stay, want %q", got, wantStays)
	}
}

// Which roles are lacking is found by a permission of each; that it isn't known is no role lacking.
func TestLacking(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, answer string
		status       int
		want         string
		fails        bool
	}{
		{"owner", "", 200, "", false},
		{"not of Scheduler and Firestore", "cloudscheduler. datastore.", 200, "roles/datastore.owner roles/cloudscheduler.admin", false},
		{"the API is off", "", 403, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var asked struct{ Permissions []string }
				if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || r.URL.Path != "/v1/projects/a-project:testIamPermissions" || r.Header.Get("Authorization") != "Bearer a-token" {
					t.Errorf("%s %v %v", r.URL, r.Header, err)
				}
				asked.Permissions = slices.DeleteFunc(asked.Permissions, func(p string) bool {
					return slices.ContainsFunc(strings.Fields(c.answer), func(of string) bool { return strings.HasPrefix(p, of) })
				})
				w.WriteHeader(c.status)
				_ = json.NewEncoder(w).Encode(map[string]any{"permissions": asked.Permissions})
			}))
			defer server.Close()
			trial := &Trial{Project: "a-project", Resources: server.URL + "/"}
			trial.Gcloud = func(context.Context, ...string) (string, error) { return "a-token", nil }
			roles, err := Lacking(t.Context(), trial)
			if got := strings.Join(roles, " "); got != c.want || (err != nil) != c.fails {
				t.Errorf("lacking are %q, %v; want %q", got, err, c.want)
			}
		})
	}
}

func startFirestore(t *testing.T) *firestore.Client { return emulator.Start(t).Client(t, "a-project") }

// All that a trial may have left is found by its name, and what isn't a trial's is not.
func TestCleanTakesAwayWhatATrialLeft(t *testing.T) {
	t.Parallel()
	db := startFirestore(t)
	accounts := "v-0a1b2c-increment@p.iam.gserviceaccount.com\ncounters-rollup@p.iam.gserviceaccount.com\nv-xyz-rollup@p.iam.gserviceaccount.com"
	trial := &Trial{Project: "a-project", Database: defaultDatabase, Firestore: db, Out: t.Output(), Prices: prices(t)}
	var destroyed [][]string
	trial.Program = func(_ context.Context, args ...string) error {
		destroyed = append(destroyed, args)
		accounts = ""
		return nil
	}
	trial.Gcloud = func(_ context.Context, args ...string) (string, error) {
		switch args[0] {
		case "iam":
			return accounts, nil
		case "functions":
			return "counters-increment", nil
		}
		return "", nil
	}
	for _, path := range []string{
		"verify_0a1b2c/one", "verify_0a1b2c/one/shards/0", "verify_0a1b2c/gone/comments/1", "verify_0a1b2c/gone/counter_rollup/base",
		"verify_ffffff/two", "verify_mine/three", "counters/four",
	} {
		if _, err := db.Doc(path).Set(t.Context(), map[string]any{"count": 1}); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := Left(t.Context(), trial); err != nil || strings.Join(left, " ") != "v-0a1b2c v-ffffff" {
		t.Errorf("left are %q, %v", left, err)
	}
	if left, err := Clean(t.Context(), trial, "v-0a1b2c"); err != nil || len(left) > 0 {
		t.Errorf("clean leaves %q, %v", left, err)
	}
	if len(destroyed) != 1 || !strings.Contains(strings.Join(destroyed[0], " "), "--region us-central1 --prefix v-0a1b2c --yes") {
		t.Errorf("destroyed: %q", destroyed)
	}
	var there []string
	collections, err := db.Collections(t.Context()).GetAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range collections {
		there = append(there, c.ID)
	}
	if got := strings.Join(there, " "); got != "counters verify_ffffff verify_mine" {
		t.Errorf("afterwards there are %s", got)
	}
}

// Who is told how to take away what is left is told where it is: of another region or database nothing would be found.
func TestWhatIsLeftIsFoundByTheCommand(t *testing.T) {
	t.Parallel()
	trial := &Trial{Project: "a-project", Location: "nam7", Region: "us-east4", Database: "other", Prefix: NewPrefix(), Prices: prices(t), Firestore: startFirestore(t), Out: t.Output()}
	trial.Program = func(context.Context, ...string) error { return errors.New("no") }
	trial.Gcloud = func(context.Context, ...string) (string, error) { return "", nil }
	_, err := trial.Run(t.Context())
	if want := ": counters verify --clean --project a-project --location nam7 --region us-east4 --database other"; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v, want it to end in %s", err, want)
	}
}

// Of the collection that is counted there are never more documents than in the end: a total that is just what there
// was a moment ago is not said to have counted twice.
func TestNoMoreDocumentsThanAreCountedInTheEnd(t *testing.T) {
	t.Parallel()
	server := emulator.Start(t)
	trial := &Trial{Prefix: "v-0a1b2c", Firestore: server.Client(t, "a-project")}
	there, most, seen := 0, 0, 0
	var rolledUp sync.WaitGroup
	stop := server.OnChange(func(c emulator.Change) {
		switch {
		case path.Base(path.Dir(c.Name)) != "comments":
			return
		case c.New == nil:
			there--
		default:
			there++
		}
		most = max(most, there)
		if seen++; seen == comments+1 {
			total := map[string]any{"comments": there}
			rolledUp.Go(func() {
				if _, err := trial.doc("commented").Set(t.Context(), total); err != nil {
					t.Error(err)
				}
			})
		}
	})
	defer stop()
	if _, err := trial.counted(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if rolledUp.Wait(); most != comments-1 {
		t.Errorf("there were %d documents at a time, and %d are counted", most, comments-1)
	}
}

// A total that is too high ends the wait at once: nothing makes it right again.
func TestWatchFindsWhatCountedTwice(t *testing.T) {
	t.Parallel()
	trial := &Trial{Prefix: "v-0a1b2c", Firestore: startFirestore(t)}
	if err := trial.make(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
	seen := trial.watch(t.Context(), "c", "total")
	defer seen.stop()
	for _, c := range []struct {
		shows, want int64
		fails       bool
	}{{3, 3, false}, {3, 3, false}, {5, 4, true}} {
		if _, err := trial.doc("c").Set(t.Context(), map[string]any{"total": c.shows}); err != nil {
			t.Fatal(err)
		}
		if _, err := seen.until(t.Context(), c.want); (err != nil) != c.fails {
			t.Errorf("until %d where it shows %d: %v", c.want, c.shows, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	other := trial.watch(ctx, "c", "total")
	defer other.stop()
	if _, err := other.until(ctx, 9); !errors.Is(err, context.Canceled) && err == nil {
		t.Errorf("after Ctrl-C: %v", err)
	}
}
