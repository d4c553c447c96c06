//go:build all

package terraform

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// uploaded are the files that terraform puts into the archive, relative to the root of the
// repository.
func uploaded(t *testing.T) (files []string) {
	t.Helper()
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	if here, err = filepath.Rel(t.TempDir(), here); err != nil { // an absolute path is one of a package, which is copied
		t.Fatal(err)
	}
	for _, f := range objects(planOne(t, vars{"source": filepath.ToSlash(here)}).one("archive_file", "source").Values["source"]) {
		files = append(files, f["filename"].(string))
	}
	return files
}

// gcloud reads .gcloudignore by the rules of .gitignore. git has the best implementation of those
// at hand.
func TestArchiveHoldsWhatGcloudUploads(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not on the PATH")
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	empty := t.TempDir()
	if out, err := exec.Command("git", "init", "--quiet", empty).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v: %s", err, out)
	}
	git := exec.Command("git", "--work-tree="+root, "ls-files", "--others", "--exclude-from="+filepath.Join(root, ".gcloudignore"))
	git.Env = append(os.Environ(), "GIT_DIR="+filepath.Join(empty, ".git"))
	git.Dir = root
	out, err := git.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	want := strings.Fields(string(out))
	slices.Sort(want)
	if got := uploaded(t); !slices.Equal(got, want) {
		t.Errorf("terraform's archive holds %q\ngcloud uploads %q", got, want)
	}
}

func TestArchiveHoldsTheFunctionsAndNoTests(t *testing.T) {
	t.Parallel()
	files := uploaded(t)
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") || !regexp.MustCompile(`\.go$|^go\.(mod|sum)$`).MatchString(f) {
			t.Errorf("%s is uploaded: the buildpack needs Go source, and no tests", f)
		}
	}
	list := exec.Command("go", "list", "-deps", "-f", `{{$d := .Dir}}{{with .Module}}{{if .Main}}{{range $.GoFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}{{range $.EmbedFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}{{end}}{{end}}`, "./functions")
	list.Dir = ".."
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	root, _ := filepath.Abs("..")
	needed := strings.Fields(string(out))
	if len(needed) < 5 {
		t.Fatalf("go list names only %q", needed)
	}
	for _, path := range append(needed, root+"/function.go", root+"/go.mod", root+"/go.sum") {
		if rel, _ := filepath.Rel(root, path); !slices.Contains(files, filepath.ToSlash(rel)) {
			t.Errorf("%s is needed by the functions, but not uploaded: see .gcloudignore", rel)
		}
	}
}
