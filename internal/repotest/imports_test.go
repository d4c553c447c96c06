package repotest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/firestore-counters/counters/internal/layout"
)

// What is deployed and what programs import stays small, and the rooms apart: no package may lead,
// by however many steps, to one that its room knows nothing of. Tests of a package may.
func TestImports(t *testing.T) {
	atRoot(t)
	const module = "github.com/firestore-counters/counters"
	for room, unknown := range map[string][]string{
		".":                      {module + "/cmd", module + "/emulator", "github.com/spf13", "net/http/pprof", "testing"},
		"./functions":            {module + "/cmd", module + "/emulator"},
		"./shards":               {module + "/cmd", module + "/emulator", module + "/functions", module + "/rollup", module + "/internal/settings"},
		"./rollup":               {module + "/cmd", module + "/emulator", module + "/functions", module + "/shards", module + "/internal/settings"},
		"./internal/book":        {module + "/cmd", module + "/emulator", module + "/functions", module + "/shards", module + "/rollup", module + "/internal/settings"},
		"./internal/hold":        {module + "/cmd", module + "/emulator", module + "/functions", module + "/shards", module + "/rollup", module + "/internal/settings"},
		"./internal/store":       {module + "/internal/book", module + "/cmd", module + "/emulator", module + "/functions", module + "/shards", module + "/rollup"},
		"./internal/groupcommit": {module + "/internal/store", module + "/shards", "google.golang.org/grpc"},
		"./internal/ceiling":     {module + "/internal/settings", module + "/internal/store", module + "/shards", "google.golang.org"},
		"./internal/escrow":      {module + "/internal/layout", module + "/internal/store", module + "/shards", "google.golang.org"},
		"./internal/layout":      {module + "/internal/store", "cloud.google.com/go/firestore", "google.golang.org/grpc", "google.golang.org/protobuf"},
		"./internal/settings":    {module + "/internal/store", "google.golang.org/grpc", module + "/cmd", module + "/emulator", module + "/functions", module + "/shards", module + "/rollup"},
		"./emulator/...":         {module + "/cmd", module + "/functions", module + "/shards", module + "/rollup", module + "/internal/layout", module + "/internal/store"},
		"./counterstest":         {module + "/cmd", module + "/functions", module + "/internal/settings", "testing"},
		"./cmd/internal/...":     {module + "/cmd/counters"},
	} {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", room).Output()
		if err != nil {
			t.Fatalf("go list -deps %s: %v", room, err)
		}
		for pkg := range strings.FieldsSeq(string(out)) {
			// The simulation stands above all that it drives, and counterstest is for tests alone.
			for _, path := range append(unknown, module+"/simulation", module+"/counterstest") {
				if room == "./counterstest" && path == module+"/counterstest" {
					continue
				}
				if pkg == path || strings.HasPrefix(pkg, path+"/") {
					t.Errorf("%s leads to %s", room, pkg)
				}
			}
		}
	}
}

// Only internal/store has a client of Firestore: the library's own sends commits again by itself,
// and an increment that is sent twice counts twice. Everything else that is deployed goes through
// it.
func TestOneWayToFirestore(t *testing.T) {
	atRoot(t)
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`,
		".", "./functions", "./shards", "./rollup", "./internal/book", "./internal/layout", "./internal/ceiling", "./internal/escrow", "./internal/hold", "./internal/groupcommit", "./internal/settings").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		imports := strings.Fields(line)
		for _, client := range []string{"cloud.google.com/go/firestore", "cloud.google.com/go/firestore/apiv1", "google.golang.org/grpc"} {
			if slices.Contains(imports[1:], client) {
				t.Errorf("%s imports %s", imports[0], client)
			}
		}
	}
}

// Few files of the core know what a document is on the wire: the others are handed what it says.
func TestFewFilesKnowTheWire(t *testing.T) {
	atRoot(t)
	if know := filesWith(t, `apiv1/firestorepb"`, "shards", "rollup"); len(know) > 6 {
		t.Errorf("%d files import firestorepb, want 6 at most: %s", len(know), strings.Join(know, ", "))
	}
}

// Limits and holds are a thing of their own: outside of their rooms few files of the core ask about them.
func TestFewFilesKnowLimits(t *testing.T) {
	atRoot(t)
	rooms := []string{"shards/limited.go", "shards/member.go", "shards/plan.go", "shards/reserve.go"}
	know := slices.DeleteFunc(filesWith(t, `internal/(hold|seats|escrow)"|\bLimitOf\b|\bShowsLimit\b|\bLimited\(|\b[fF](ield)?\.Limit\b`,
		"shards", "rollup", "internal/book", "internal/store", "internal/layout"), func(name string) bool { return slices.Contains(rooms, name) })
	if len(know) > 8 {
		t.Errorf("%d files know limits or holds, want 8 at most: %s", len(know), strings.Join(know, ", "))
	}
}

// filesWith are the files of some folders, without tests, in whose code, comments left out, something is.
func filesWith(t *testing.T, what string, dirs ...string) (with []string) {
	t.Helper()
	is, comment := regexp.MustCompile(what), regexp.MustCompile(`(?m)//.*$`)
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("files of %s: %v, %v", dir, files, err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(name, "_test.go") && is.Match(comment.ReplaceAll(text, nil)) {
				with = append(with, name)
			}
		}
	}
	return with
}

// What godoc shows of a public package fits on a screen.
func TestGodocFitsOnAScreen(t *testing.T) {
	atRoot(t)
	const screen = 48 // lines
	for _, pkg := range []string{"./shards", "./rollup", "./functions", "./emulator", "./emulator/eventarc", "./counterstest"} {
		out, err := exec.CommandContext(t.Context(), "go", "doc", pkg).Output()
		if err != nil {
			t.Fatalf("go doc %s: %v", pkg, err)
		}
		if n := strings.Count(string(out), "\n"); n == 0 || n > screen {
			t.Errorf("go doc %s prints %d lines, want 1 to %d", pkg, n, screen)
		}
	}
}

// Godoc shows none of the fields of a type that is internal. So the comment on shards.Place has them, each.
func TestGodocHasTheFieldsOfAPlace(t *testing.T) {
	atRoot(t)
	out, err := exec.CommandContext(t.Context(), "go", "doc", "./shards", "Place").Output()
	if err != nil {
		t.Fatalf("go doc ./shards Place: %v", err)
	}
	said := strings.Join(strings.Fields(string(out)), " ")
	for _, f := range reflect.VisibleFields(reflect.TypeFor[layout.Place]()) {
		if want := fmt.Sprintf("%s %v //", f.Name, f.Type); !strings.Contains(said, want) {
			t.Errorf("go doc ./shards Place lacks %q", want)
		}
	}
}
