//go:build all

package repotest

import (
	"archive/zip"
	"io"
	"io/fs"
	"os"
	"os/exec"
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

// gcloud's own code takes what we believe it takes.
func TestGcloudUploadsTheFunctions(t *testing.T) {
	atRoot(t)
	want := zipped(t, ".")
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
