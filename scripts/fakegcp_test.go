//go:build all

package scripts

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	psnet "github.com/shirou/gopsutil/v4/net"

	counters "github.com/firestore-counters/counters"
)

// A project is one that fakegcp.py plays, with what points gcloud at it.
type project struct {
	dir, address string
	token        string // of its callers
	pid          int
	firestore    string // host:port of its Firestore, with --run
	env          []string
	bin          string // comes first on the scripts' PATH
}

// startProject starts a project, or skips the test where it or gcloud can't run.
func startProject(t *testing.T, args ...string) project {
	t.Helper()
	for tool, source := range map[string]string{"gcloud": "google-cloud-cli", "python3": "python3"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not on the PATH (Debian package %s): deployments are not tried with the real gcloud", tool, source)
		}
	}
	p := project{dir: t.TempDir()}
	if slices.Contains(args, "--run") {
		if err := built(); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--platform", filepath.Join(programs, "platform"), "--builds", programs)
	}
	cmd := exec.CommandContext(t.Context(), "python3", append([]string{"fakegcp/fakegcp.py", "--dir", p.dir}, args...)...)
	cmd.Stderr = t.Output()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stdin.Close(); _ = cmd.Wait() })
	p.pid = cmd.Process.Pid
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		t.Fatalf("fakegcp.py does not start: %v", err)
	}
	var ready struct {
		Address, Firestore string
		Environment        map[string]string
	}
	if err := json.Unmarshal(line, &ready); err != nil {
		t.Fatalf("fakegcp.py says %s: %v", line, err)
	}
	p.address, p.firestore, p.token = ready.Address, ready.Firestore, ready.Environment["GOOGLE_OAUTH_ACCESS_TOKEN"]
	for name, value := range ready.Environment {
		p.env = append(p.env, name+"="+value)
	}
	p.bin = t.TempDir()
	p.command(t, "sleep", "exec /bin/sleep 1")
	gcloud, err := loadGcloud()
	if err != nil {
		t.Fatal(err)
	}
	p.command(t, "gcloud", gcloud)
	return p
}

// command puts a command on the scripts' PATH.
func (p project) command(t *testing.T, name, script string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(p.bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestMain ends the gcloud that the tests share, and takes away the programs.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "4") // unless -parallel says otherwise: gcloud is waited for most of the time
	code := m.Run()
	endGcloud()
	_ = os.RemoveAll(programs)
	os.Exit(code)
}

// programs is where the programs are that the tests share.
var programs = ""

// built builds the command, and what runs in a project, once.
var built = sync.OnceValue(func() (err error) {
	if programs, err = os.MkdirTemp("", "programs"); err != nil {
		return err
	}
	if out, err := exec.Command("go", "build", "-o", programs, "../cmd/counters", "./fakegcp/platform").CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
})

var endGcloud = func() {}

// loadGcloud loads the real gcloud once, instead of many hundred times, and returns what a command on the PATH runs. A
// project is in the environment of each command.
var loadGcloud = sync.OnceValues(func() (command string, err error) {
	gcloud, err := exec.LookPath("gcloud")
	if err != nil {
		return "", err
	}
	plain := "exec '" + gcloud + `' "$@"`
	if gcloud, err = filepath.EvalSymlinks(gcloud); err != nil {
		return "", err
	}
	sdk := filepath.Dir(filepath.Dir(gcloud))
	if _, err := os.Stat(filepath.Join(sdk, "lib/googlecloudsdk")); err != nil { // it is started anew for each command
		return plain, nil
	}
	python := filepath.Join(sdk, "platform/bundledpythonunix/bin/python3")
	if _, err := os.Stat(python); err != nil {
		python = "python3"
	}
	program, err := filepath.Abs("fakegcp/gcloud.py")
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "gcloud")
	if err != nil {
		return "", err
	}
	socket := filepath.Join(dir, "socket")
	cmd := exec.Command(python, "-S", "-W", "ignore", program, "--serve", sdk)
	cmd.Env = append(os.Environ(), "GCLOUD_SOCKET="+socket, "CLOUDSDK_CONFIG="+dir)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe() // its end, also that of a test that is killed, is the server's
	if err != nil {
		return "", err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	endGcloud = func() { _, _, _ = stdin.Close(), cmd.Wait(), os.RemoveAll(dir) }
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != "ready\n" {
		return "", fmt.Errorf("gcloud.py says %q: %w", line, err)
	}
	return "export GCLOUD_SOCKET='" + socket + "'\nexec '" + python + "' -S -E '" + program + `' "$@"`, nil
})

// A killed test cleans up nothing, and its gcloud is to end all the same.
func TestLoadedGcloudEndsWithItsInput(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not on the PATH (Debian package python3)")
	}
	sdk := t.TempDir()
	for name, code := range map[string]string{
		"__init__.py": "", "core/__init__.py": "",
		"core/properties.py": "class VALUES:\n  class api_endpoint_overrides:\n    _Add = print",
		"gcloud_main.py":     "import sys, time\ndef main():\n  print(*sys.argv, flush=True)\n  time.sleep(60 * ('wait' in sys.argv))",
	} {
		file := filepath.Join(sdk, "lib/googlecloudsdk", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(code), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	environ := append(os.Environ(), "GCLOUD_SOCKET="+filepath.Join(sdk, "socket"))
	server := exec.CommandContext(t.Context(), python, "fakegcp/gcloud.py", "--serve", sdk)
	server.Env, server.Stderr = environ, t.Output()
	stdin, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stdout)
	for line := ""; line != "ready\n"; {
		if line, err = lines.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := stdin.Write([]byte("not the end")); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), python, "fakegcp/gcloud.py", "version")
	command.Env = environ
	if out, err := command.CombinedOutput(); err != nil || string(out) != "gcloud version\n" {
		t.Errorf("a command says %q: %v", out, err)
	}
	waits := exec.CommandContext(t.Context(), python, "fakegcp/gcloud.py", "wait")
	waits.Env = environ
	said, err := waits.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := waits.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(said).ReadString('\n'); err != nil || line != "gcloud wait\n" {
		t.Fatalf("a command that waits says %q: %v", line, err)
	}
	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if err := server.Wait(); err != nil {
		t.Error(err)
	}
	if err := waits.Wait(); err == nil {
		t.Error("a command outlives the server")
	}
}

// run runs one of the scripts, or the command that carries it, such as "counters deploy". Its
// pauses are a second.
func (p project) run(t *testing.T, script string, args ...string) string {
	t.Helper()
	out, err := p.try(t, script, args...)
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", script, args, err, out)
	}
	return out
}

// program is the program that carries the scripts, alone in a folder.
func (p project) program(t *testing.T) string {
	t.Helper()
	if err := built(); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(p.bin, "counters")
	if err := os.Link(filepath.Join(programs, "counters"), program); err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
	return program
}

// try is run for a script that may fail.
func (p project) try(t *testing.T, script string, args ...string) (string, error) {
	t.Helper()
	start := time.Now()
	command := []string{"bash", script} // of another version
	if name, ok := strings.CutPrefix(script, "counters "); ok {
		command = []string{p.program(t), name}
	}
	cmd := exec.CommandContext(t.Context(), command[0], append(append(command[1:], "--project", "a-project"), args...)...)
	cmd.Env = append(append(os.Environ(), p.env...), "PATH="+p.bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	t.Logf("%s %s took %s", script, strings.Join(args, " "), time.Since(start).Round(time.Second))
	if bytes.Contains(out, []byte("(y/N)")) || bytes.Contains(out, []byte("(Y/n)")) {
		t.Errorf("%s %q asks something where nobody may see it:\n%s", script, args, out)
	}
	return string(out), err
}

// post makes something that is not ours.
func (p project) post(t *testing.T, path, body string) {
	t.Helper()
	p.send(t, http.MethodPost, path, body)
}

func (p project) send(t *testing.T, method, path, body string) {
	t.Helper()
	resp, err := p.ask(t.Context(), method, path, body)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", path, resp.Status)
	}
}

// ask sends a request, as gcloud would.
func (p project) ask(ctx context.Context, method, path, body string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, p.address+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+p.token)
	request.Header.Set("Content-Type", "application/json")
	return http.DefaultClient.Do(request)
}

// A page that is open beside a project that runs what it is given can have its browser send requests to all of the
// project's ports. None of them is answered.
func TestPagesGetNowhereInAProject(t *testing.T) {
	t.Parallel()
	p := startProject(t, "--run")
	out, err := exec.Command("ps", "-A", "-o", "pid=,ppid=").Output()
	if err != nil {
		t.Skip("this system doesn't tell whose process is whose:", err)
	}
	pids := []int{p.pid}
	for line := range strings.Lines(string(out)) {
		var pid, parent int
		if _, err := fmt.Sscan(line, &pid, &parent); err == nil && parent == p.pid {
			pids = append(pids, pid)
		}
	}
	ports := 0
	for _, pid := range pids {
		sockets, err := psnet.ConnectionsPid("tcp", int32(pid))
		if err != nil {
			t.Skip("this system doesn't tell who listens where:", err)
		}
		for _, s := range sockets {
			addr := fmt.Sprintf("%s:%d", s.Laddr.IP, s.Laddr.Port)
			if s.Status != "LISTEN" || addr == p.firestore { // which goes by Host and Origin
				continue
			}
			ports++
			for _, path := range []string{"/_state", "/_upload/source.zip", "/serviceusage/v1/projects/a-project/services:batchEnable", "/call", "/services/counters-increment"} {
				for _, token := range []string{"", "fake"} {
					page := project{address: "http://" + addr, token: token}
					resp, err := page.ask(t.Context(), http.MethodPost, path, `{"serviceIds": ["firestore.googleapis.com"]}`)
					if err != nil {
						t.Fatal(err)
					}
					resp.Body.Close()
					if !slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound}, resp.StatusCode) {
						t.Errorf("POST %s: %s", path, resp.Status)
					}
				}
			}
		}
	}
	if ports != 2 {
		t.Errorf("%d ports, want the project's and the platform's", ports)
	}
	if state := p.state(t); len(state.Active) == 0 || slices.Contains(state.Active, "firestore.googleapis.com") {
		t.Errorf("active are %q", state.Active)
	}
}

// A policy says who has which role.
type policy struct {
	Bindings []struct {
		Role    string
		Members []string
	}
}

func (p policy) has(role, member string) bool {
	for _, b := range p.Bindings {
		if b.Role == role && slices.Contains(b.Members, member) {
			return true
		}
	}
	return false
}

type state struct {
	Resources map[string]struct {
		Name, DisplayName string
		Amount            struct {
			SpecifiedAmount struct{ Units string }
		}
		BudgetFilter       struct{ Projects []string }
		Labels             map[string]string
		AckDeadlineSeconds int
		ExpirationPolicy   struct{ TTL string }
		InvokerIamDisabled bool
		Template           struct { // of a Cloud Run service
			Containers []struct{ Resources struct{ CPUIdle bool } }
		}
		ServiceConfig struct {
			URI                  string
			EnvironmentVariables map[string]string
		}
		RulesetName string // of a release of rules
		Source      struct {
			Files []struct{ Name, Content string }
		} // of a ruleset
		IndexConfig struct{ UsesAncestorConfig bool } // of a field of documents
		Filter      string                            // of a log that is left out
		Answer      string                            // to the last call of a job
	}
	Policies map[string]policy
	Active   []string
}

func (p project) state(t *testing.T) (s state) {
	t.Helper()
	resp, err := p.ask(t.Context(), http.MethodGet, "/_state", "")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

// byInstance are the services that are billed by the instance, by their last names, sorted.
func (s state) byInstance() (names []string) {
	for key, r := range s.Resources {
		if len(r.Template.Containers) > 0 && !r.Template.Containers[0].Resources.CPUIdle {
			names = append(names, path.Base(key))
		}
	}
	slices.Sort(names)
	return names
}

// updates is how often gcloud has changed a Cloud Run service.
func (p project) updates(t *testing.T) int {
	t.Helper()
	return strings.Count(p.requests(t), `"id": "run.namespaces.services.replaceService"`)
}

// count counts what there is by API, and policies and dashboards by their displayed names.
func (s state) count() map[string]int {
	n := map[string]int{}
	for key, r := range s.Resources {
		api, _, _ := strings.Cut(key, " ")
		switch {
		case api == "monitoring":
			api = r.DisplayName
		case strings.Contains(key, "/exclusions/"):
			api = "exclusion"
		}
		n[api]++
	}
	delete(n, "storage") // uploads, which the platform keeps
	return n
}

// The real gcloud, and a project as the platform would have it: new, with APIs, accounts and roles
// that are not there at once, and with policies and dashboards of others. Deployed, deployed again,
// changed, and removed.
func TestDeployAgainAndDestroy(t *testing.T) {
	t.Parallel()
	p := startProject(t, "--api-delay=3", "--account-delay=1", "--agent-delay=8")
	// Others' policies, one of which would come first in a list.
	for _, name := range []string{"a policy of others", "others: totals lag behind"} {
		p.post(t, "/monitoring/v3/projects/a-project/alertPolicies", `{"displayName":"`+name+`","combiner":"OR"}`)
	}
	p.post(t, "/monitoring/v1/projects/a-project/dashboards", `{"displayName":"a dashboard of others","gridLayout":{}}`)
	others := p.state(t).count()

	// deployed deploys, and all is as it is wanted then: the same again does nothing.
	deployed := func(args ...string) string {
		t.Helper()
		out := p.run(t, "counters deploy", args...)
		if again := p.run(t, "counters deploy", args...); !strings.Contains(again, "no command runs") {
			t.Errorf("%q: deployed again, it says\n%s", args, again)
		}
		return out
	}
	args := []string{"--location", "us-central1", "--public", "--set", "AUTH=firebase"}
	byInstance := append(slices.Clone(args), "--increment-billing=instance", "--rollup-billing=instance")
	const channel = "projects/a-project/notificationChannels/1"
	if out := deployed(append(byInstance, "--create-database", "--notification-channel", channel)...); !strings.Contains(out, "waiting for an API that was just turned on") {
		t.Errorf("doesn't say what it waits for:\n%s", out)
	}
	made := p.state(t).count()
	const builder, writer = "serviceAccount:counters-build@a-project.iam.gserviceaccount.com", "roles/artifactregistry.writer"
	policies := p.state(t).Policies
	if policies["project a-project"].has(writer, builder) || !policies["artifactregistry projects/a-project/locations/us-central1/repositories/counters-functions"].has(writer, builder) {
		t.Errorf("the build writes other images than those of the functions: %v", policies)
	}
	for name, n := range map[string]int{"artifactregistry": 1, "cloudfunctions": 3, "run": 3, "iam": 6, "cloudscheduler": 1, "logging": 9, "firestore": 9, "counters": 1, "counters: roll-ups fail": 1} {
		if made[name] != n {
			t.Errorf("%d × %s, want %d", made[name], name, n)
		}
	}
	if out := deployed(append(byInstance, "--create-database")...); !strings.Contains(out, "alerts were sent to "+channel+", which was not named") {
		t.Errorf("doesn't say that nobody is told any more:\n%s", out)
	}
	more := []string{"--set", "AUTO_CREATE=true", "--set", "FIELDS=" + everywhere, "--invoker", "user:me@example.com", "--no-alerts"}
	out := deployed(slices.Concat(byInstance, more, []string{"--budget", "100USD",
		"--kms-key=projects/a-project/locations/us-central1/keyRings/r/cryptoKeys/k", "--docker-repository=projects/others/locations/us-central1/repositories/encrypted"})...)
	if strings.Contains(out, "was not named") {
		t.Errorf("names a caller as left over:\n%s", out)
	}
	// Taken back, at once with less memory than is billed by the instance.
	deployed(slices.Concat(args, more, []string{"--budget=250", "--memory=256Mi"})...)
	changed := p.state(t)
	made["eventarc"], made["pubsub"] = 4, 4 // Rollup's own, those of comments wherever they are, and their subscriptions
	made["billingbudgets"] = 1
	made["firestore"] += 4 // indexes: of conditions, an average, and the members of likes
	if got := changed.count(); !maps.Equal(got, made) {
		t.Errorf("deployed with other settings: %v\nbefore %v", got, made)
	}
	const requests = "logging projects/a-project/exclusions/counters-requests"
	if e := changed.Resources[requests]; !strings.Contains(e.Filter, `service_name=("counters-increment" OR "counters-rollup")`) || changed.count()["exclusion"] != 1 {
		t.Errorf("of the logs %+v is left out", e)
	}
	out = p.run(t, "counters destroy", "--region", "us-central1", "--yes")
	for _, stays := range []string{
		"the TTL policy of counter_requests.expire_at", "the exemption of counter_rollup.imported from indexes", "the exemption of counters.updated_at from indexes",
		"the composite index of comments COLLECTION public stars", "the index of comments.about in the collection group", "the role of Eventarc's agent", "the database (default), with its documents", "the APIs stay",
	} {
		if !strings.Contains(out, stays) {
			t.Errorf("doesn't say that %s stays:\n%s", stays, out)
		}
	}
	left := p.state(t)
	if e, is := left.Resources[requests]; is {
		t.Errorf("%+v is still left out of the logs", e)
	}
	others["firestore"] = 13 // data stays: the database, TTL policy, exemptions and indexes
	if got := left.count(); !maps.Equal(got, others) {
		t.Errorf("left are %v\nwant %v", got, others)
	}
	access := left.Policies["project a-project"]
	for _, b := range access.Bindings {
		for _, member := range b.Members {
			if strings.Contains(member, "counters-") {
				t.Errorf("%s still has %s", member, b.Role)
			}
		}
	}
	if !access.has("roles/eventarc.serviceAgent", "serviceAccount:service-123456789012@gcp-sa-eventarc.iam.gserviceaccount.com") {
		t.Error("the role of Eventarc's agent is gone, which others need")
	}

	// The rest, whose settings nothing says any more; and at last the data.
	everything := []string{"--region", "us-central1", "--yes", "--everything", "--set", "DATABASE=(default)", "--set", "AUTH=firebase", "--set", "FIELDS=" + everywhere}
	p.run(t, "counters destroy", everything...)
	others["firestore"] = 1
	if got := p.state(t).count(); !maps.Equal(got, others) {
		t.Errorf("of everything %v is left\nwant %v", got, others)
	}
	if out, err := p.try(t, "counters destroy", append(everything, "--delete-database", "other")...); err == nil || !strings.Contains(out, "the counters are in (default); nothing was removed") {
		t.Errorf("%v\n%s", err, out)
	}
	p.run(t, "counters destroy", append(everything, "--delete-database", "(default)")...)
	delete(others, "firestore")
	gone := p.state(t)
	if got := gone.count(); !maps.Equal(got, others) {
		t.Errorf("of everything and the database %v is left\nwant %v", got, others)
	}
	for name := range gone.Resources {
		// An upload whose function was refused at first, since Eventarc's agent wasn't ready, stays where the
		// platform's signed URLs lead: that is for the platform to empty.
		if strings.Contains(name, "/o/") && !strings.Contains(name, "b/gcf-v2-uploads/") {
			t.Errorf("what was uploaded is left: %s", name)
		}
	}
	for _, b := range gone.Policies["project a-project"].Bindings {
		if b.Role != "roles/owner" {
			t.Errorf("%s is left to %v", b.Role, b.Members)
		}
	}

	p.checkViolations(t)
	p.checkOpen(t)
}

// everywhere counts documents below the counters, at the root and in a group, with indexes.
const everywhere = "total=count,likes,comments=count(comments),mine=count(/comments where about=={counter} and n>=1),all=count(**/comments where about=={counter})," +
	"rating=avg(comments.stars where public==true)"

// In a database of the Enterprise edition, which Firestore lets nobody configure a field of but for TTL: made, and
// again, which runs no command; and removed with all that it needed.
func TestDeployInEnterpriseEdition(t *testing.T) {
	t.Parallel()
	p := startProject(t, "--active=firestore")
	args := []string{"--location", "us-central1", "--set", "AUTH=firebase", "--set", "FIELDS=likes,shown=count(comments where public==true)"}
	out := p.run(t, "counters deploy", append(args, "--create-database", "--edition", "enterprise")...)
	if !strings.Contains(out, "is made, of the enterprise edition") || !strings.Contains(out, "firebase.google.com/docs/firestore/enterprise/pricing") {
		t.Errorf("the plan doesn't say the edition:\n%s", out)
	}
	made := p.state(t)
	if made.count()["firestore"] != 7 { // the database, the TTL policy, and an index of a query, two of members and two of holds
		t.Errorf("made are %v", made.count())
	}
	if out := p.run(t, "counters deploy", args...); !strings.Contains(out, "no command runs") || !strings.Contains(out, "is there, of the enterprise edition") {
		t.Errorf("deployed again, it says\n%s", out)
	}
	p.run(t, "counters destroy", "--region", "us-central1", "--yes", "--everything")
	if left := p.state(t).count(); left["firestore"] != 1 {
		t.Errorf("left are %v", left)
	}
	p.checkViolations(t)
}

// One command for a web app: callers, origins, sign-in and rules, and afterwards it says who may
// call what. Rules that are there are never replaced.
func TestDeployForAWebApp(t *testing.T) {
	t.Parallel()
	p := startProject(t, "--active=firestore", "--database=us-central1")
	args := []string{"--location", "us-central1", "--web-app", "https://app.example", "--web-app=http://localhost:5173", "--set", "FIELDS=likes"}
	says := func(out string, all ...string) {
		t.Helper()
		for _, want := range all {
			if !strings.Contains(out, want) {
				t.Errorf("doesn't say %q:\n%s", want, out)
			}
		}
	}
	const open = "anybody on the internet"
	says(p.run(t, "counters deploy", args...), "to count:       "+open+", with the ID token of a user who signed in with Firebase\n",
		"to read totals: "+open+"\n", "web pages:      https://app.example,http://localhost:5173\n")
	s := p.state(t)
	if !s.Policies["run projects/a-project/locations/us-central1/services/counters-increment"].has("roles/run.invoker", "allUsers") {
		t.Error("Cloud Run lets nobody in")
	}
	for name, want := range map[string]string{"AUTH": "firebase", "ALLOWED_ORIGINS": "https://app.example,http://localhost:5173", "AUTO_CREATE": "true", "FIELDS": "likes"} {
		if got := s.Resources["cloudfunctions projects/a-project/locations/us-central1/functions/counters-increment"].ServiceConfig.EnvironmentVariables[name]; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	const release = "firebaserules projects/a-project/releases/cloud.firestore"
	rules, err := os.ReadFile("../firestore/firestore.rules")
	if err != nil {
		t.Fatal(err)
	}
	files := s.Resources["firebaserules "+s.Resources[release].RulesetName].Source.Files
	if len(files) != 1 || files[0].Content != string(rules) {
		t.Errorf("the rules that are released are %v", files)
	}

	p.run(t, "counters deploy", args...)
	if again := p.state(t).count(); !maps.Equal(again, s.count()) {
		t.Errorf("deployed again: %v\nbefore %v", again, s.count())
	}
	// What is ours follows our file.
	p.run(t, "counters deploy", append(args, "--set", "SHARDS=parts")...)
	files = p.state(t).Resources["firebaserules "+p.state(t).Resources[release].RulesetName].Source.Files
	if len(files) != 1 || !strings.Contains(files[0].Content, "match /parts/{n}") {
		t.Errorf("with other settings the rules are %v", files)
	}
	install(t, p).tryFaults(t, shortFaults())
	p.checkViolations(t)
}

// A project with rules of its own, whose organisation refuses allUsers: the one command ends with a
// function that pages can call all the same, and the rules are as they were.
func TestDeployForAWebAppOfAnApp(t *testing.T) {
	t.Parallel()
	p := startProject(t, "--own-domain", "--active=firestore", "--active=firebaserules", "--database=us-central1")
	p.post(t, "/firebaserules/v1/projects/a-project/rulesets", `{"source":{"files":[{"name":"firestore.rules","content":"service cloud.firestore {}"}]}}`)
	var ruleset string
	for key := range p.state(t).Resources {
		if name, is := strings.CutPrefix(key, "firebaserules "); is {
			ruleset = name
		}
	}
	p.post(t, "/firebaserules/v1/projects/a-project/releases", `{"name":"projects/a-project/releases/cloud.firestore","rulesetName":"`+ruleset+`"}`)

	// Without pages nothing lets everybody in the other way: all else is made, and it is said.
	out, err := p.try(t, "counters deploy", "--location", "us-central1", "--public", "--set", "AUTH=firebase")
	if made := p.state(t).count(); err == nil || !strings.Contains(out, "allUsers was refused") || made["cloudscheduler"] != 1 || made["logging"] != 9 || made["counters: roll-ups fail"] != 1 {
		t.Fatalf("%v, made are %v\n%s", err, made, out)
	}
	for i, want := range []string{"Cloud Run doesn't check who calls", ""} {
		out := p.run(t, "counters deploy", "--location", "us-central1", "--web-app", "https://app.example")
		if !strings.Contains(out, want) || !strings.Contains(out, "security rules of its own") || !strings.Contains(out, "to read totals: anybody on the internet") ||
			i == 1 && strings.Contains(out, "was refused") || strings.Contains(out, "nobody checks who calls") {
			t.Errorf("time %d:\n%s", i+1, out)
		}
	}
	s := p.state(t)
	if n := s.count()["firebaserules"]; n != 2 || s.Resources["firebaserules projects/a-project/releases/cloud.firestore"].RulesetName != ruleset {
		t.Errorf("the app's rules were replaced: %d of them", n)
	}
	if !s.Resources["run projects/a-project/locations/us-central1/services/counters-increment"].InvokerIamDisabled {
		t.Error("Cloud Run still checks who calls")
	}
	if n := p.updates(t); n != 1 {
		t.Errorf("the check was turned off %d times", n)
	}
	p.checkViolations(t)
}

// Two deployments of a project, in a multi-region: what one makes, changes or removes leaves the other as it was.
func TestTwoDeploymentsOfAProject(t *testing.T) {
	t.Parallel()
	p := startProject(t, "--active=firestore", "--database=eur3")
	likes := []string{"--location", "eur3", "--set", "FIELDS=likes", "--set", "HOSTED=true", "--set", "COUNTERS=posts/{post}"}
	p.run(t, "counters deploy", likes...)
	alone := p.state(t).count()
	p.run(t, "counters deploy", "--prefix", "views", "--location", "eur3", "--set", "FIELDS=views")
	var functions []string
	for name := range p.state(t).Resources {
		if function, is := strings.CutPrefix(name, "cloudfunctions projects/a-project/locations/europe-west4/functions/"); is {
			functions = append(functions, function)
		}
	}
	slices.Sort(functions)
	if want := []string{"counters-increment", "counters-reconcile", "counters-rollup", "views-increment", "views-reconcile", "views-rollup"}; !slices.Equal(functions, want) {
		t.Errorf("next to eur3 there are %q, want %q", functions, want)
	}
	again := func(when string) {
		t.Helper()
		if out := p.run(t, "counters deploy", likes...); !strings.Contains(out, "no command runs") {
			t.Errorf("%s the first one isn't as it was:\n%s", when, out)
		}
	}
	again("beside the second")
	p.run(t, "counters destroy", "--prefix", "views", "--region", "europe-west4", "--yes")
	again("without the second")
	left := p.state(t).count()
	alone["firestore"] = left["firestore"] // exemptions stay, which others may need
	if !maps.Equal(left, alone) {
		t.Errorf("left are %v, want %v", left, alone)
	}
	p.checkViolations(t)
}

// An upgrade that changes the source alone, and ends before Rollup, leaves another label on what it
// came to than on Rollup: counters doctor goes by that. Once it has been finished, all have one.
func TestUpgradeCutShort(t *testing.T) {
	t.Parallel()
	p := startProject(t, "--active=firestore", "--database=us-central1")
	source := t.TempDir()
	if err := os.CopyFS(source, counters.Source); err != nil {
		t.Fatal(err)
	}
	args := []string{"--location", "us-central1", "--no-alerts", "--source", source}
	versions := func() map[string]string {
		t.Helper()
		labels := map[string]string{}
		for name, r := range p.state(t).Resources {
			if strings.Contains(name, "/functions/") {
				labels[path.Base(name)] = r.Labels["counters-source"]
			}
		}
		return labels
	}
	same := func(version string) map[string]string {
		return map[string]string{"counters-increment": version, "counters-reconcile": version, "counters-rollup": version}
	}
	p.run(t, "counters deploy", args...)
	first := versions()["counters-rollup"]
	if got := versions(); len(first) != 16 || !maps.Equal(got, same(first)) {
		t.Fatalf("the functions are of the sources %v", got)
	}
	p.run(t, "counters deploy", args...)
	if got := versions(); !maps.Equal(got, same(first)) {
		t.Errorf("of the same source deployed again they are %v, and were %s", got, first)
	}

	if err := os.WriteFile(filepath.Join(source, "function.go"), append([]byte(readFile(t, "../function.go")), "// Another one.\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	gcloud, err := os.ReadFile(filepath.Join(p.bin, "gcloud"))
	if err != nil {
		t.Fatal(err)
	}
	p.command(t, "gcloud", `case "$*" in *"functions deploy counters-rollup "*) echo cut short >&2; exit 1;; esac`+"\n"+strings.TrimPrefix(string(gcloud), "#!/bin/sh\n"))
	if out, err := p.try(t, "counters deploy", args...); err == nil {
		t.Fatalf("it was not cut short:\n%s", out)
	}
	half := versions()
	second := half["counters-increment"]
	if len(second) != 16 || second == first || half["counters-rollup"] != first {
		t.Errorf("cut short, the functions are of the sources %v, and were of %s", half, first)
	}
	if err := os.WriteFile(filepath.Join(p.bin, "gcloud"), gcloud, 0o755); err != nil {
		t.Fatal(err)
	}
	p.run(t, "counters deploy", args...)
	if got := versions(); !maps.Equal(got, same(second)) {
		t.Errorf("finished, the functions are of the sources %v, want %s", got, second)
	}
	p.checkViolations(t)
}

// What a dry run prints does, pasted into bash, what the command does: of a deployment nothing is left for the command
// to do, and of one that is taken away with everything nothing is left.
func TestDryRunCanBePasted(t *testing.T) {
	t.Parallel()
	args := []string{"--location", "us-central1", "--create-database", "--web-app", "https://app.example", "--set", "FIELDS=" + everywhere,
		"--increment-billing", "instance", "--budget", "100USD", "--invoker", "user:me@example.com"}
	p := startProject(t)
	before := p.state(t)
	i := install(t, p)
	paste := func(command string, args ...string) {
		t.Helper()
		printed := exec.CommandContext(t.Context(), p.program(t), append([]string{command, "--dry-run", "--project", "a-project"}, args...)...)
		printed.Env, printed.Stderr = append(os.Environ(), "TMPDIR="+t.TempDir()), t.Output()
		if command == "destroy" { // it asks what is there
			printed.Env = slices.Concat(printed.Env, p.env, []string{"PATH=" + p.bin + string(os.PathListSeparator) + os.Getenv("PATH")})
		}
		script, err := printed.Output()
		if err != nil {
			t.Fatal(err)
		}
		i.must(t, "set -e\n"+string(script))
	}
	// A folder of the same files, which gcloud lists, is the same version as what the program carries.
	source := t.TempDir()
	if err := os.CopyFS(source, counters.Source); err != nil {
		t.Fatal(err)
	}
	paste("deploy", append(args, "--files", t.TempDir(), "--source", source)...)
	if out := p.run(t, "counters deploy", args...); !strings.Contains(out, "no command runs") {
		t.Errorf("once all is pasted, the command still does\n%s", out)
	}

	paste("destroy", "--region", "us-central1", "--everything", "--delete-database", "(default)")
	s := p.state(t)
	if got := s.count(); len(got) > 0 {
		t.Errorf("of everything %v is left", got)
	}
	if got, want := fmt.Sprint(s.Policies["project a-project"].Bindings), fmt.Sprint(before.Policies["project a-project"].Bindings); got != want {
		t.Errorf("the project's policy is %s, and was %s", got, want)
	}
	p.checkViolations(t)
}

// checkViolations looks for requests that Google's discovery documents don't allow.
func (p project) checkViolations(t *testing.T) {
	t.Helper()
	violations, err := os.ReadFile(filepath.Join(p.dir, "violations.txt"))
	if err != nil || len(violations) > 0 {
		t.Errorf("requests that no discovery document allows: %v\n%s", err, violations)
	}
}

// requests are all that were made, one on a line.
func (p project) requests(t *testing.T) string {
	t.Helper()
	requests, err := os.ReadFile(filepath.Join(p.dir, "requests.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return string(requests)
}

// checkOpen looks through all that was asked: once everybody may call Increment, no request takes
// that away.
func (p project) checkOpen(t *testing.T) {
	t.Helper()
	open, written := false, 0
	for line := range bytes.Lines([]byte(p.requests(t))) {
		var r struct {
			Path string
			Body struct{ Policy policy }
		}
		if err := json.Unmarshal(line, &r); err != nil || !strings.HasSuffix(r.Path, "counters-increment:setIamPolicy") {
			continue
		}
		written++
		public := r.Body.Policy.has("roles/run.invoker", "allUsers")
		if open && !public {
			t.Errorf("allUsers is taken away from Increment: %s", line)
		}
		open = open || public
	}
	if !open || written != 2 { // allUsers, and user:me
		t.Errorf("Increment's policy was written %d times, public: %v", written, open)
	}
}
