//go:build all

package scripts

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/firestore-counters/counters/internal/testbed/chance"
)

// What is uploaded runs: deployed with the real gcloud and the script of the version before, built
// as the buildpack does, with the environment that the API was sent. Under load it is upgraded,
// given one more field, rolled back, and upgraded again, and every total is what was acknowledged,
// without a reconcile.
func TestUpgradeUnderLoadAndBack(t *testing.T) {
	t.Parallel()
	before := versionBefore(t)
	p := startProject(t, "--run", "--active=firestore", "--database=us-central1")
	db := p.client(t)
	args := []string{"--location", "us-central1", "--public", "--most-per-day", "none", "--set", "AUTO_CREATE=true", "--set", "RECOUNT_AGE=1h"} // the load is beyond $10 a day
	now := "counters deploy"

	p.run(t, before, args...)
	url := p.uri(t, "increment")
	if out, err := exec.Command(p.program(t), "smoke", url).CombinedOutput(); err != nil {
		t.Fatalf("smoke on what the version before deployed: %v\n%s", err, out)
	}
	for _, hidden := range []string{"rollup", "reconcile"} { // whose callers are within the project
		if status, text := post(t, p.uri(t, hidden), ""); status != http.StatusNotFound {
			t.Errorf("the internet reaches %s: %d %s", hidden, status, text)
		}
	}

	load := startLoad(t, url)
	p.run(t, now, args...)
	p.run(t, now, append(args, "--set", "FIELDS=total=count,likes")...)
	load.likes(true)
	time.Sleep(time.Second) // of increments of the new field
	load.likes(false)
	totals, likes := load.stop()
	p.wait(t, db, "total", totals)
	p.wait(t, db, "likes", likes)

	load = startLoad(t, url)
	p.run(t, before, args...)
	more, _ := load.stop()
	for id, n := range more {
		totals[id] += n
	}
	p.wait(t, db, "total", totals)
	if report := p.reconcile(t); report.Drift != 0 || report.Failed != 0 || !report.Done {
		t.Errorf("after the roll-back a reconcile finds %+v", report)
	}
	p.wait(t, db, "total", totals)

	load = startLoad(t, url)
	p.run(t, now, args...)
	more, _ = load.stop()
	for id, n := range more {
		totals[id] += n
	}
	p.wait(t, db, "total", totals)
	p.checkLogs(t)
	p.refusesWhatDoesNotStart(t, url)
	p.checkViolations(t)
}

// refusesWhatDoesNotStart deploys a setting that Increment does not start with: that fails, and the
// revision before answers on.
func (p project) refusesWhatDoesNotStart(t *testing.T, url string) {
	t.Helper()
	const patch = "/cloudfunctions/v2/projects/a-project/locations/us-central1/functions/counters-increment?updateMask=serviceConfig.environmentVariables"
	answer, err := p.ask(t.Context(), http.MethodPatch, patch, `{"serviceConfig":{"environmentVariables":{"NUM_SHARDS":"0"}}}`)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusBadRequest || !bytes.Contains(text, []byte("failed to start")) || !bytes.Contains(text, []byte("NUM_SHARDS=0: want 1 to 1000")) {
		t.Errorf("NUM_SHARDS=0 is deployed: %s %s", answer.Status, text)
	}
	if status, text := post(t, url+"/upgraded-0", ""); status != http.StatusOK {
		t.Errorf("after a deployment that failed: %d %s", status, text)
	}
}

// versionBefore is the deploy.sh of the last release, with its sources. Where there is none yet, or CHANGELOG.md says
// that what runs doesn't survive this version, it is this version itself.
func versionBefore(t *testing.T) string {
	t.Helper()
	git := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), "git", args...).Output()
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(out))
	}
	revision := git("describe", "--tags", "--abbrev=0", "HEAD~1")
	if revision == "" {
		t.Log("there is no release yet: this version is deployed over itself")
		return "counters deploy"
	}
	if was, is := breaking(git("show", revision+":CHANGELOG.md")), breaking(readFile(t, "../CHANGELOG.md")); is > was {
		t.Logf("CHANGELOG.md has %d more breaking changes than %s: this version is deployed over itself", is-was, revision)
		return "counters deploy"
	}
	dir := t.TempDir()
	archive := exec.CommandContext(t.Context(), "git", "archive", "--format=tar", revision)
	archive.Dir = ".."
	source, err := archive.Output()
	if err != nil {
		t.Fatalf("git archive %s: %v", revision, err)
	}
	tar := exec.CommandContext(t.Context(), "tar", "-x", "-C", dir)
	tar.Stdin = bytes.NewReader(source)
	if out, err := tar.CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	t.Logf("the version before is %s", revision)
	return filepath.Join(dir, "scripts", "deploy.sh")
}

// breaking is how many changes a changelog says a running deployment doesn't survive.
func breaking(changelog string) int { return strings.Count(changelog, "\n- **Breaking**") }

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// client is the official client of the project's Firestore.
func (p project) client(t *testing.T) *firestore.Client {
	t.Helper()
	conn, err := grpc.NewClient(p.firestore, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	client, err := firestore.NewClient(context.Background(), "a-project", option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// uri is where a function answers.
func (p project) uri(t *testing.T, function string) string {
	t.Helper()
	uri := p.state(t).Resources["cloudfunctions projects/a-project/locations/us-central1/functions/counters-"+function].ServiceConfig.URI
	if uri == "" {
		t.Fatalf("%s is not deployed", function)
	}
	return uri
}

// wait waits until a field of all counters is what it should be.
func (p project) wait(t *testing.T, db *firestore.Client, field string, want map[string]int64) {
	t.Helper()
	var wrong []string
	for range 600 { // a minute
		wrong = nil
		for id, n := range want {
			doc, err := db.Doc("counters/" + id).Get(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := doc.Data()[field].(int64); got != n {
				wrong = append(wrong, fmt.Sprintf("%s of %s is %d, and %d is acknowledged", field, id, got, n))
			}
		}
		if len(wrong) == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("after a minute\n%s", strings.Join(wrong, "\n"))
}

// report is what Reconcile answers.
type report struct {
	Seen, Repaired, Drift, Failed int
	Done                          bool
}

// reconcile runs Scheduler's job, with gcloud.
func (p project) reconcile(t *testing.T) (r report) {
	t.Helper()
	gcloud := exec.CommandContext(t.Context(), "gcloud", "scheduler", "jobs", "run", "counters-reconcile", "--project=a-project", "--location=us-central1")
	gcloud.Env = append(os.Environ(), p.env...)
	if out, err := gcloud.CombinedOutput(); err != nil {
		t.Fatalf("gcloud scheduler jobs run: %v\n%s", err, out)
	}
	answer := p.state(t).Resources["cloudscheduler projects/a-project/locations/us-central1/jobs/counters-reconcile"].Answer
	if err := json.Unmarshal([]byte(answer), &r); err != nil || r.Seen == 0 {
		t.Errorf("Reconcile answers %s: %v", answer, err)
	}
	return r
}

// checkLogs looks for what the functions call an error.
func (p project) checkLogs(t *testing.T) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(p.dir, "logs", "*.log"))
	if err != nil || len(logs) < 12 {
		t.Fatalf("logs: %q, %v", logs, err)
	}
	for _, name := range logs {
		for line := range strings.Lines(readFile(t, name)) {
			if strings.Contains(line, `"severity":"ERROR"`) || strings.Contains(line, "panic") {
				t.Errorf("%s: %s", filepath.Base(name), line)
			}
		}
	}
}

// post counts, and returns the status and the answer; status 0 is none.
func post(t *testing.T, url, key string, body ...byte) (int, string) {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	request.Header.Set("Content-Type", "application/json")
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text)
}

// load are clients that count, each request under a key of its own until it is acknowledged.
type load struct {
	t       *testing.T
	dice    *rand.Rand
	url     string
	ending  chan struct{}
	clients sync.WaitGroup

	mu          sync.Mutex
	both        bool             // the second field, too
	acked, also map[string]int64 // :: counter → what was acknowledged, of its first and its second field
	posts       map[int]int      // :: status → posts
}

const clients = 8

func startLoad(t *testing.T, url string) *load {
	l := &load{t: t, dice: chance.Of(t), url: url, ending: make(chan struct{}), acked: map[string]int64{}, also: map[string]int64{}, posts: map[int]int{}}
	for client := range clients {
		l.clients.Go(func() { l.count(client) })
	}
	return l
}

// likes has the clients count a second field, or not.
func (l *load) likes(both bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.both = both
}

func (l *load) count(client int) {
	for i := 0; ; i++ {
		select {
		case <-l.ending:
			return
		case <-time.After(20 * time.Millisecond):
		}
		id, by := fmt.Sprintf("upgraded-%d", l.dice.IntN(5)), 1+l.dice.Int64N(9)
		l.mu.Lock()
		both := l.both
		l.mu.Unlock()
		body := fmt.Appendf(nil, `{"by":%d}`, by)
		if both {
			body = fmt.Appendf(nil, `{"by":{"total":%d,"likes":2}}`, by)
		}
		key := fmt.Sprintf("%d-%d-%016x", client, i, l.dice.Uint64())
		for try := 0; ; try++ {
			status, text := post(l.t, l.url+"/"+id, key, body...)
			l.mu.Lock()
			l.posts[status]++
			if status == http.StatusOK {
				l.acked[id] += by
				if both {
					l.also[id] += 2
				}
			}
			l.mu.Unlock()
			if status == http.StatusOK {
				break
			}
			if status >= 400 && status < 500 && status != http.StatusConflict && status != http.StatusTooManyRequests || try > 200 {
				l.t.Errorf("POST %s %s: %d %s", id, body, status, text)
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
}

// stop ends the load, and returns what was acknowledged.
func (l *load) stop() (first, second map[string]int64) {
	l.t.Helper()
	close(l.ending)
	l.clients.Wait()
	l.t.Logf("posts by status: %v", l.posts)
	if l.posts[http.StatusOK] == 0 {
		l.t.Errorf("a load of %v is none", l.posts)
	}
	return l.acked, l.also
}
