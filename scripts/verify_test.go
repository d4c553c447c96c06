//go:build all

package scripts

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"
)

// verifier is the command in a project where it can run, with a caller that functions know.
func verifier(t *testing.T) (p project, command func(args ...string) *exec.Cmd) {
	t.Helper()
	p = startProject(t, "--run", "--active=firestore", "--active=cloudresourcemanager", "--database=us-central1")
	front := startFront(t, p, p.firestore)
	program := p.program(t)
	// There is nobody to log in as: a token of the platform's is its caller's name.
	real := readFile(t, filepath.Join(p.bin, "gcloud"))
	p.command(t, "gcloud", `case "$*" in
"config get-value account") echo me@example.com ;;
"auth print-identity-token"*) echo user:me@example.com ;;
*) `+strings.TrimPrefix(strings.TrimSpace(real), "#!/bin/sh\n")+` ;;
esac`)
	return p, func(args ...string) *exec.Cmd {
		c := exec.CommandContext(t.Context(), program, append([]string{"verify", "--project", "a-project", "--location", "us-central1", "--hot", "1s"}, args...)...)
		c.Env = slices.Concat(os.Environ(), p.env, front, []string{"PATH=" + p.bin + ":" + os.Getenv("PATH")})
		return c
	}
}

// left is what of a trial is there, by name.
func (p project) left(t *testing.T) (names []string) {
	t.Helper()
	for name, resource := range p.state(t).Resources {
		if resource.IndexConfig.UsesAncestorConfig { // a field that has no exemption any more
			continue
		}
		if regexp.MustCompile(`v-[0-9a-f]{6}|verify_`).MatchString(name) {
			names = append(names, name)
		}
	}
	asOwner := metadata.AppendToOutgoingContext(context.Background(), "authorization", "Bearer owner")
	collections, err := p.client(t).Collections(asOwner).GetAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range collections {
		if strings.HasPrefix(c.ID, "verify_") {
			names = append(names, c.ID)
		}
	}
	return names
}

// A trial deploys with the real gcloud, counts, and leaves a report and nothing else; one that is cut
// short leaves nothing either, and what a crash leaves is found.
func TestVerify(t *testing.T) {
	t.Parallel()
	p, command := verifier(t)
	report := filepath.Join(t.TempDir(), "report.md")

	// Somebody without the roles is told which, before anything is made.
	d := p.damage(t)
	d.change(t, ofProject, func(role string, members []any) []any {
		if role == "roles/owner" {
			return []any{"user:other@example.com"}
		}
		return members
	})
	before := p.damage(t)
	p.put(t, d)
	if out, err := command("--yes").CombinedOutput(); exitCode(err) != 1 || !strings.Contains(string(out), "roles/eventarc.admin, roles/cloudscheduler.admin") || len(p.left(t)) > 0 {
		t.Errorf("without roles: %v\n%s", err, out)
	}
	p.put(t, before)

	// A report that can't be written is no news after a quarter of an hour.
	if out, err := command("--yes", "--report", filepath.Join(t.TempDir(), "nowhere", "report.md")).CombinedOutput(); exitCode(err) != 2 || len(p.left(t)) > 0 {
		t.Errorf("without a folder for the report: %v\n%s", err, out)
	}

	trial := command("--yes", "--json", "--report", report)
	var out, said bytes.Buffer
	trial.Stdout, trial.Stderr = &out, &said
	if err := trial.Run(); err != nil {
		t.Fatalf("verify: %v\n%s", err, said.String())
	}
	var found struct {
		Spent float64 `json:"spent_usd_at_most"`
		Steps []struct {
			OK bool `json:"ok"`
		} `json:"steps"`
	}
	if err := json.Unmarshal(out.Bytes(), &found); err != nil || len(found.Steps) != 14 || found.Spent <= 0 || found.Spent > 0.05 {
		t.Errorf("the report is %s, %v", out.String(), err)
	}
	text := readFile(t, report)
	for _, want := range []string{"# counters verify: passed", "each total is 400, what was acknowledged", "24 are counted", "edition standard", "| one document, 10 writes a second for 1s | 1 a second, sustained |", "| sum of 100 documents after 500 rewrites |", "| a limit: 80 want 50 seats | ok |", "/first/total/liz Cloud Run keeps | /healthz, /eventlog | none |", "50 are taken, 30 requests were refused", "nothing is left", "Google Cloud a fake", "no error, nothing unchecked; noted: alerts-none, budget-missing", "Pub/Sub's window | 5 |", `"push_window":`,
		"\nThe deployment's own steps:\n", "- the TTL policy of counter_requests.expire_at\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	rates := regexp.MustCompile(`\| one document, (\d+) writes a second for 1s \|[^|]*\| ([\d.]+) a second`).FindAllStringSubmatch(text, -1)
	for _, m := range rates {
		asked, _ := strconv.ParseFloat(m[1], 64)
		if taken, err := strconv.ParseFloat(m[2], 64); err != nil || taken > asked {
			t.Errorf("of %s writes a second %s are taken", m[1], m[2])
		}
	}
	if len(rates) != 4 {
		t.Errorf("the report has %q", rates)
	}
	if strings.Contains(text, "a-project") || strings.Contains(text, "me@example.com") {
		t.Error("the report says whose project it was")
	}
	t.Logf("%s", text)
	if names := p.left(t); len(names) > 0 {
		t.Errorf("left are %q", names)
	}

	cut := command("--yes", "--report", report)
	reader, err := cut.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cut.Start(); err != nil {
		t.Fatal(err)
	}
	wait := newWaiter(reader)
	wait.forText(t, "v-") // what it makes
	wait.forText(t, "] account v-")
	if err := cut.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	wait.toEnd()
	if code := exitCode(cut.Wait()); code != 130 && code != 1 {
		t.Errorf("cut short: exit code %d\n%s", code, wait.text())
	}
	if names := p.left(t); len(names) > 0 {
		t.Errorf("after Ctrl-C, left are %q\n%s", names, wait.text())
	}

	crash := command("--yes", "--report", report)
	if reader, err = crash.StderrPipe(); err != nil {
		t.Fatal(err)
	}
	if err := crash.Start(); err != nil {
		t.Fatal(err)
	}
	wait = newWaiter(reader)
	wait.forText(t, "== 4 of")
	_ = crash.Process.Kill()
	wait.toEnd()
	_ = crash.Wait()
	if names := p.left(t); len(names) == 0 {
		t.Error("a crash leaves nothing: it was none")
	}
	if out, err := command("--clean", "--yes").CombinedOutput(); err != nil || !strings.Contains(string(out), "is taken away") {
		t.Errorf("verify --clean: %v\n%s", err, out)
	}
	if names := p.left(t); len(names) > 0 {
		t.Errorf("after --clean, left are %q", names)
	}
	p.checkViolations(t)
}

func exitCode(err error) int {
	if exit, ok := err.(*exec.ExitError); ok {
		return exit.ExitCode()
	}
	return 0
}

// waiter reads what a program says.
type waiter struct {
	said chan []byte
	all  bytes.Buffer
}

func newWaiter(r interface{ Read([]byte) (int, error) }) *waiter {
	w := &waiter{said: make(chan []byte, 1024)}
	go func() {
		defer close(w.said)
		for {
			b := make([]byte, 4096)
			n, err := r.Read(b)
			if n > 0 {
				w.said <- b[:n]
			}
			if err != nil {
				return
			}
		}
	}()
	return w
}

func (w *waiter) text() string { return w.all.String() }

func (w *waiter) forText(t *testing.T, want string) {
	t.Helper()
	late := time.After(3 * time.Minute)
	for !strings.Contains(w.all.String(), want) {
		select {
		case b, ok := <-w.said:
			if !ok {
				t.Fatalf("ended without %q:\n%s", want, w.text())
			}
			w.all.Write(b)
		case <-late:
			t.Fatalf("no %q within three minutes:\n%s", want, w.text())
		}
	}
}

func (w *waiter) toEnd() {
	for b := range w.said {
		w.all.Write(b)
	}
}
