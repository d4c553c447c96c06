//go:build all

package scripts

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/firestore-counters/counters/internal/testbed/freeport"
)

// TestCloudShellTutorial types the five steps of docs/cloudshell.md, in a checkout, with the real
// gcloud and a project that runs what is uploaded. Ports are others; and as the project has no
// accounts and no identity tokens, all may call the function.
func TestCloudShellTutorial(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/cloudshell.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	steps := strings.Split(page, "\n## ")
	if len(steps) != 6 {
		t.Fatalf("%d steps, want five", len(steps)-1)
	}
	button := regexp.MustCompile(`https://shell\.cloud\.google\.com/cloudshell/editor\?cloudshell_git_repo=https://github\.com/firestore-counters/counters&cloudshell_tutorial=docs/cloudshell\.md`)
	readme, err := os.ReadFile("../README.md")
	if err != nil || !button.Match(readme) || !button.MatchString(page) {
		t.Errorf("README and page don't open the tutorial: %v", err)
	}
	p := startProject(t, "--run", "--api-delay=1")
	port, err := freeport.Find()
	if err != nil {
		t.Fatal(err)
	}
	replaced := strings.NewReplacer(
		"<walkthrough-project-id/>", "a-project",
		"go build ./cmd/counters", "go build -o \"$TMPDIR/counters\" ./cmd/counters",
		"./counters dev >dev.log", "\"$TMPDIR/counters\" dev --port PORT --firestore-port 0 >\"$TMPDIR/dev.log\"",
		"./counters ", "\"$TMPDIR/counters\" ",
		"ready dev.log", "ready \"$TMPDIR/dev.log\"",
		"--create-database", "--create-database --public", "$(gcloud auth print-identity-token)", "a-token",
		"$(gcloud config get-value account)", "me@example.com",
		"-X POST localhost:8081", "-X POST localhost:PORT",
		// On a busy machine the roll-up takes longer than the page says.
		"sleep 1; curl localhost:8081/increment/post-123", `until curl localhost:PORT/increment/post-123 | grep '"total":6,'; do sleep 1; done`,
		`sleep 10; curl -H "Authorization: Bearer $token" "$url/post-123"`, `until curl "$url/post-123" | grep '"total":1,'; do sleep 1; done`,
	)
	p.command(t, "sleep", `exec /bin/sleep "$1"`)
	script := "set -euo pipefail\n"
	for n, step := range steps[1:] {
		blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(step, -1)
		if len(blocks) == 0 {
			t.Errorf("step %d has no command", n+1)
		}
		for _, block := range blocks {
			script += strings.ReplaceAll(replaced.Replace(block[1]), "PORT", port) + "\n"
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.WaitDelay = time.Second
	cmd.Dir = ".."
	cmd.Env = append(append(os.Environ(), p.env...), "PATH="+p.bin+string(os.PathListSeparator)+os.Getenv("PATH"), "TMPDIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{`"total":6,`, `{"counter":"post-123","by":1,`, `"total":1,`, "all green"} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("doesn't say %s:\n%s", want, out)
		}
	}
	if left := p.state(t).count(); left["cloudfunctions"] != 0 {
		t.Errorf("left are %v", left)
	}
}
