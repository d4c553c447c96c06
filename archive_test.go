package counters

import (
	"archive/zip"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// upload is a copy of what `gcloud functions deploy --source` uploads: what gcloud's own code zips
// where it is installed, and otherwise what the same rules leave.
func upload(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "upload")
	archive := gcloudArchive(t)
	if archive == "" {
		t.Log("gcloud is not installed (google-cloud-cli): its rules are followed, its code is not run")
		for _, name := range zipped(t, ".") {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			save(t, filepath.Join(dir, name), data)
		}
		return dir
	}
	r, err := zip.OpenReader(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, f := range r.File {
		if f.FileInfo().IsDir() {
			continue
		}
		content, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(content)
		if err != nil {
			t.Fatal(err)
		}
		save(t, filepath.Join(dir, f.Name), data)
	}
	return dir
}

func save(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// gcloudArchive is the zip file that gcloud's own code makes; empty where gcloud is not installed.
func gcloudArchive(t *testing.T) string {
	t.Helper()
	gcloud, err := exec.LookPath("gcloud")
	if err != nil {
		return ""
	}
	if gcloud, err = filepath.EvalSymlinks(gcloud); err != nil {
		t.Fatal(err)
	}
	sdk := filepath.Dir(filepath.Dir(gcloud))
	python := filepath.Join(sdk, "platform/bundledpythonunix/bin/python3")
	if _, err := os.Stat(python); err != nil {
		python = "python3"
	}
	const program = `
import sys
sdk, source, folder = sys.argv[1:]
sys.path[:0] = [sdk + "/lib", sdk + "/lib/third_party"]
from googlecloudsdk.command_lib.functions import source_util
print(source_util.CreateSourcesZipFile(folder, source))`
	cmd := exec.CommandContext(t.Context(), python, "-S", "-c", program, sdk, ".", t.TempDir())
	cmd.Env = append(os.Environ(), "CLOUDSDK_CONFIG="+t.TempDir(), "CLOUDSDK_CORE_DISABLE_FILE_LOGGING=true")
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("gcloud's code zips nothing: %v\n%s", err, out)
	}
	return strings.TrimSpace(string(out))
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
func TestGcloudUploadsTheFunctions(t *testing.T) {
	t.Parallel()
	want := zipped(t, ".")
	for _, name := range []string{"function.go", "go.mod", "go.sum", "functions/increment.go", "rollup/flush.go", "shards/client.go"} {
		if !slices.Contains(want, name) {
			t.Errorf("%s is not uploaded", name)
		}
	}
	dir := upload(t)
	var got []string
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dir, name)
			got = append(got, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("uploaded are %q, %v\nwant %q", got, err, want)
	}
}

// What a program carries is uploaded as it is from a checkout, file by file.
func TestSource(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, Source); err != nil {
		t.Fatal(err)
	}
	want, got := zipped(t, "."), zipped(t, dir)
	if !slices.Equal(got, want) {
		t.Fatalf("of what is carried would be uploaded %q\nof the checkout %q", got, want)
	}
	scripts := []string{"scripts/deploy.sh", "scripts/destroy.sh", "scripts/smoke.sh"}
	read, err := filepath.Glob("terraform/monitoring/*/*.json")
	if err != nil || len(read) < 5 {
		t.Fatalf("what metrics and alerts are made of is %q, %v", read, err)
	}
	for _, name := range slices.Concat(want, scripts, read) {
		ours, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if carried, err := fs.ReadFile(Source, filepath.ToSlash(name)); err != nil || string(carried) != string(ours) {
			t.Errorf("%s is carried otherwise: %v", name, err)
		}
	}
}
