package main

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	worlds "github.com/firestore-counters/counters/simulation"
)

// Each rule that is left out is still where the list says, and so is each test that is to catch it, and each part of
// plans: otherwise the list is to follow the sources.
func TestMutantsApply(t *testing.T) {
	t.Chdir("../..")
	names := map[string]bool{}
	tests := map[string]string{} // :: package → its tests' sources
	for _, m := range mutants {
		if names[m.name] {
			t.Errorf("%s: there are two of that name", m.name)
		}
		names[m.name] = true
		if _, err := m.overlay(t.TempDir()); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
		pkg := cmp.Or(m.by.pkg, m.dir)
		if tests[pkg] == "" {
			tests[pkg] = sources(t, filepath.Join(pkg, "*_test.go"))
		}
		for test := range strings.SplitSeq(strings.Trim(m.by.run, "^$()"), "|") {
			if test != "" && !strings.Contains(tests[pkg], "func "+test+"(") {
				t.Errorf("%s: there is no %s in %s", m.name, test, pkg)
			}
		}
		for _, arg := range m.by.args {
			parts, of := strings.CutPrefix(arg, withParts)
			for part := range strings.SplitSeq(parts, ",") {
				if of && !slices.Contains(worlds.Parts(), part) {
					t.Errorf("%s: a plan has no part %q", m.name, part)
				}
			}
		}
	}
}

func sources(t *testing.T, pattern string) string {
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(b)
	}
	return all.String()
}
