package repotest

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/firestore-counters/counters"
)

func save(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// zipped are the files that gcloud takes by .gcloudignore. It walks the tree and asks about each
// folder, the root included, as if it were a file (googlecloudsdk/core/util/archive.py): a pattern
// that ends with a slash never matches the folder itself.
func zipped(t *testing.T, root string) (files []string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, ".gcloudignore"))
	if err != nil {
		t.Fatal(err)
	}
	included := func(name string) bool {
		parts := strings.Split(name, "/")
		for i := range parts {
			keep := true
			for line := range strings.Lines(string(content)) {
				pattern, negated := strings.CutPrefix(strings.TrimSpace(line), "!")
				if pattern == "" || pattern[0] == '#' {
					continue
				}
				below, folder := strings.CutSuffix(pattern, "/")
				what := parts[i]
				if strings.HasPrefix(below, "/") {
					what = "/" + strings.Join(parts[:i+1], "/")
				}
				if matched, _ := path.Match(below, what); matched && (!folder || i < len(parts)-1) {
					keep = negated
				}
			}
			if !keep {
				return false
			}
		}
		return true
	}
	err = fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if included(path.Dir(name)) && included(name) {
			files = append(files, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// gcloud uploaded an archive without a file once, by a list that was right for git.
func TestTheFunctionsAreUploaded(t *testing.T) {
	atRoot(t)
	files := zipped(t, ".")
	for _, name := range []string{"function.go", "go.mod", "go.sum", "functions/increment.go", "rollup/refresh.go", "shards/client.go"} {
		if !slices.Contains(files, name) {
			t.Errorf("%s is not uploaded", name)
		}
	}
}

// What a program carries is uploaded as it is from a checkout, file by file, and it carries nothing else: with tests in
// it, each edit of one would have every program linked again.
func TestSource(t *testing.T) {
	atRoot(t)
	dir := t.TempDir()
	if err := os.CopyFS(dir, counters.Source); err != nil {
		t.Fatal(err)
	}
	want, got := zipped(t, "."), zipped(t, dir)
	if !slices.Equal(got, want) {
		t.Fatalf("of what is carried would be uploaded %q\nof the checkout %q: source.go lacks a pattern", got, want)
	}
	err := fs.WalkDir(counters.Source, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".go") && !slices.Contains(want, name) {
			t.Errorf("%s is carried, and not uploaded", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	read, err := filepath.Glob("terraform/monitoring/*/*.json")
	if err != nil || len(read) < 5 {
		t.Fatalf("what metrics and alerts are made of is %q, %v", read, err)
	}
	for _, name := range slices.Concat(want, read) {
		ours, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if carried, err := fs.ReadFile(counters.Source, filepath.ToSlash(name)); err != nil || string(carried) != string(ours) {
			t.Errorf("%s is carried otherwise: %v", name, err)
		}
	}
}
