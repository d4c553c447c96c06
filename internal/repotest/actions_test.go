package repotest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A tag of an action can be moved to other code, which would run with what the workflow may do. A
// commit can't.
func TestActionsArePinnedByCommit(t *testing.T) {
	atRoot(t)
	workflows, err := filepath.Glob(".github/workflows/*.y*ml")
	if err != nil || len(workflows) == 0 {
		t.Fatalf("no workflows: %v", err)
	}
	pinned := regexp.MustCompile(`^[\w./-]+@[0-9a-f]{40} # v\d+(\.\d+)*$`)
	for _, name := range workflows {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			_, action, uses := strings.Cut(line, "uses:")
			if action = strings.TrimSpace(action); uses && !strings.HasPrefix(action, "./") && !pinned.MatchString(action) {
				t.Errorf("%s: %s; want a commit, and its version behind it: owner/action@commit # v1.2.3", name, action)
			}
		}
	}
}

// What a workflow runs finds no credentials: neither those of the checkout, which anything later in
// the job could read, nor a token that outlives the run.
func TestWorkflowsKeepNoCredentials(t *testing.T) {
	atRoot(t)
	workflows, err := filepath.Glob(".github/workflows/*.y*ml")
	if err != nil || len(workflows) == 0 {
		t.Fatalf("no workflows: %v", err)
	}
	lasting := regexp.MustCompile(`secrets\.(\w+)|NODE_AUTH_TOKEN|registry-url`) // the latter has setup-node write a token for npm
	for _, name := range workflows {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range strings.Split(string(text), "\n      - ") {
			if strings.Contains(step, "actions/checkout@") && !strings.Contains(step, "\n          persist-credentials: false") {
				t.Errorf("%s: a checkout leaves its credentials to whatever runs after it; want persist-credentials: false", name)
			}
			for _, found := range lasting.FindAllStringSubmatch(step, -1) {
				if found[1] != "GITHUB_TOKEN" {
					t.Errorf("%s has %s: npm takes the workflow's own identity, and all else GITHUB_TOKEN", name, found[0])
				}
			}
		}
	}
	release, err := os.ReadFile(".github/workflows/release.yml")
	if err != nil {
		t.Fatal(err)
	}
	publish := release[strings.Index(string(release), "\n  publish:"):]
	if node := regexp.MustCompile(`node-version: (\d+)`).FindSubmatch(publish); node == nil || string(node[1]) < "24" || !strings.Contains(string(publish), "id-token: write") {
		t.Errorf("npm is published by Node.js %s; want 24, whose npm knows trusted publishing, and id-token: write", node)
	}
}
