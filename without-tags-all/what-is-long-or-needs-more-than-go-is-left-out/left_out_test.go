//go:build !all

// Package leftout has one test, and its path is what that has to say: go test prints nothing of a package that passes but its
// path, and prints packages in the order of their paths, so this is the last line of `go test ./...`.
package leftout

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// With -v it says how many there are.
func TestAll(t *testing.T) {
	t.Parallel()
	tagged, test := regexp.MustCompile(`\A//go:build all\b`), regexp.MustCompile(`(?m)^func Test[A-Z]\w*\(t `)
	tests, packages := 0, map[string]bool{}
	root := os.DirFS("../..")
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == "node_modules" || d.Name() == ".git") {
			return fs.SkipDir
		}
		if err != nil || d.IsDir() || filepath.Ext(name) != ".go" {
			return err
		}
		source, err := fs.ReadFile(root, name)
		if err == nil && tagged.Match(source) {
			tests += len(test.FindAll(source, -1))
			packages[filepath.Dir(name)] = true
		}
		return err
	})
	if err != nil || tests == 0 {
		t.Fatalf("%d tests are left out, %v", tests, err)
	}
	t.Skipf("%d tests of %d packages are left out: go test -tags all ./... (CONTRIBUTING.md#tests)", tests, len(packages))
}
