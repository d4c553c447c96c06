package exact

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The edits are of the Go that runs the tests: each text is in its file exactly once, and what is
// made of them is laid over files that are there, but for two that are added.
func TestOverlay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name, err := Overlay(dir, "..", map[string]string{"/a.go": "/b.go"})
	if errors.Is(err, ErrRuntime) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var overlay struct{ Replace map[string]string }
	if err := json.Unmarshal(b, &overlay); err != nil {
		t.Fatal(err)
	}
	if overlay.Replace["/a.go"] != "/b.go" {
		t.Errorf("%v has no /a.go", overlay.Replace)
	}
	delete(overlay.Replace, "/a.go")
	var missing []string
	for file, by := range overlay.Replace {
		if _, err := os.Stat(by); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(file); err != nil {
			missing = append(missing, filepath.Base(file))
		}
	}
	if len(missing) != 2 {
		t.Errorf("%v are not there; want exact.go and seeding.go", missing)
	}
}

// Another runtime is refused, and it is said which text it lacks.
func TestAnotherRuntime(t *testing.T) {
	was := edits
	defer func() { edits = was }()
	edits = append([]edit{{"runtime/proc.go", "func thereIsNoSuch()", ""}}, edits...)
	_, err := Overlay(t.TempDir(), "..", nil)
	if !errors.Is(err, ErrRuntime) || !strings.Contains(err.Error(), "thereIsNoSuch") {
		t.Errorf("%v; want it to name what is missing", err)
	}
}
