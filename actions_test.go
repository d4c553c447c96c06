package counters

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
	t.Parallel()
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
