//go:build all && unix

package repotest

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"
)

const modulePath = "github.com/firestore-counters/counters"

// moduleFile is a file of the checkout, as what makes a module's zip wants it.
type moduleFile string

func (f moduleFile) Path() string                 { return string(f) }
func (f moduleFile) Lstat() (os.FileInfo, error)  { return os.Lstat(string(f)) }
func (f moduleFile) Open() (io.ReadCloser, error) { return os.Open(string(f)) }

// proxy is a module proxy, in a directory, that has one version of this module: the files that a commit of this
// checkout would have. It returns the environment in which go takes the module from there and everything else from
// where it otherwise does, and the version. That is named by what the files hold: what go has once, it doesn't ask for
// again, and needn't compile again either.
func proxy(t *testing.T) (environ []string, version string) {
	t.Helper()
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	out, err := list.Output()
	if err != nil {
		t.Skipf("this is no checkout, or git is not installed: %v", err)
	}
	var files []modzip.File
	hash := sha256.New()
	for name := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		text, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) { // removed since the last commit
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > 1<<20 { // whoever installs this downloads it
			t.Errorf("%s has %d bytes: is it a program that somebody has built?", name, len(text))
		}
		fmt.Fprintf(hash, "%s %d ", name, len(text))
		hash.Write(text)
		files = append(files, moduleFile(name))
	}
	version = fmt.Sprintf("v0.0.0-install.%x", hash.Sum(nil)[:12])
	dir := t.TempDir()
	versions := filepath.Join(dir, filepath.FromSlash(modulePath), "@v")
	save(t, filepath.Join(versions, "list"), []byte(version+"\n"))
	info, err := json.Marshal(map[string]any{"Version": version, "Time": time.Now().UTC()})
	if err != nil {
		t.Fatal(err)
	}
	save(t, filepath.Join(versions, version+".info"), info)
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	save(t, filepath.Join(versions, version+".mod"), mod)
	archive, err := os.Create(filepath.Join(versions, version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	if err := modzip.Create(archive, module.Version{Path: modulePath, Version: version}, files); err != nil {
		t.Fatalf("this can't be a module: %v", err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}

	// The module cache is everybody's: with one of its own, go would compile all that this module needs again.
	cache := strings.TrimSpace(goEnv(t, "GOMODCACHE"))
	t.Cleanup(func() {
		of := filepath.Join(cache, filepath.FromSlash(modulePath)+"@"+version)
		_ = os.RemoveAll(of) // writable, by -modcacherw
		kept, _ := filepath.Glob(filepath.Join(cache, "cache", "download", filepath.FromSlash(modulePath), "@v", version+".*"))
		for _, name := range kept {
			_ = os.Remove(name)
		}
	})
	return append(os.Environ(),
		"GOPROXY=file://"+dir+","+strings.TrimSpace(goEnv(t, "GOPROXY")),
		"GONOSUMDB="+modulePath, "GOPRIVATE=", "GONOPROXY=", "GOFLAGS="+strings.TrimSpace(goEnv(t, "GOFLAGS"))+" -modcacherw", "GOWORK=off",
	), version
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// What docs/installing.md tells people to type installs the program, which runs the whole system, from a folder that
// has nothing to do with this one.
func TestInstall(t *testing.T) {
	atRoot(t)
	environ, version := proxy(t)
	bin, elsewhere := t.TempDir(), t.TempDir()
	install := exec.CommandContext(t.Context(), "go", "install", modulePath+"/cmd/counters@latest")
	install.Dir, install.Env = elsewhere, append(environ, "GOBIN="+bin)
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	program := filepath.Join(bin, "counters")
	said := exec.CommandContext(t.Context(), program, "version")
	said.Dir = elsewhere
	if out, err := said.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "counters "+version+",") {
		t.Errorf("counters version says %q, %v; want version %s", out, err, version)
	}

	t.Run("go run", func(t *testing.T) {
		run := exec.CommandContext(t.Context(), "go", "run", modulePath+"/cmd/counters@latest", "dev", "--port", "0", "--firestore-port", "0")
		run.Dir = elsewhere
		run.Env = append(environ, "FIRESTORE_EMULATOR_HOST=", "GOOGLE_CLOUD_PROJECT=")
		run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C reaches go, and what it runs.
		run.Cancel = func() error { return syscall.Kill(-run.Process.Pid, syscall.SIGINT) }
		run.WaitDelay = 30 * time.Second
		var logs strings.Builder
		run.Stderr = &logs
		stdout, err := run.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := run.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Kill(-run.Process.Pid, syscall.SIGKILL) })
		var gateway string
		lines := bufio.NewScanner(stdout)
		for lines.Scan() && lines.Text() != "ready" {
			if at := strings.Index(lines.Text(), "http://127.0.0.1:"); at >= 0 && gateway == "" {
				gateway, _, _ = strings.Cut(lines.Text()[at:], " ")
				gateway = strings.TrimRight(gateway, "/")
			}
		}
		if lines.Text() != "ready" {
			_ = run.Wait()
			t.Fatalf("it ended before it was ready:\n%s", logs.String())
		}
		resp, err := http.Post(gateway+"/increment/post-123", "application/json", nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK || !strings.Contains(string(body), `"by":1`) {
			t.Errorf("POST %s/increment/post-123: %s %s", gateway, resp.Status, body)
		}
		total, deadline := "", time.Now().Add(time.Minute)
		for ; !strings.Contains(total, `"total":1,`) && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
			total = get(t, gateway+"/increment/post-123")
		}
		if !strings.Contains(total, `"total":1,`) {
			t.Errorf("after a minute the total is %s", total)
		}
		if err := syscall.Kill(-run.Process.Pid, syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, stdout) // until everything that holds it is gone
		_ = run.Wait()                     // go itself says 1 after a Ctrl-C, whatever the program says
	})
}

// A Go program beside a clone uses its packages by the lines that docs/installing.md shows.
func TestProgramBesideAClone(t *testing.T) {
	atRoot(t)
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("docs/installing.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile(`(?m)^go mod edit .*\ngo mod tidy$`).FindString(string(text))
	if shown == "" {
		t.Fatal("docs/installing.md shows no such lines")
	}
	dir := t.TempDir()
	save(t, filepath.Join(dir, "go.mod"), []byte("module example.com/app\n\ngo 1.26\n"))
	save(t, filepath.Join(dir, "main.go"), []byte("package main\n\nimport _ \""+modulePath+"/shards\"\n\nfunc main() {}\n"))
	typed := exec.CommandContext(t.Context(), "bash", "-ec", strings.ReplaceAll(shown, "../counters", root)+"\ngo build -o app .")
	typed.Dir, typed.Env = dir, append(os.Environ(), "GOWORK=off")
	if out, err := typed.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return string(body)
}
