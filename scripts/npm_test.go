//go:build all && unix

package scripts

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// npmPackage installs the npm package of the program, as npm would, with a program that is a script; with none if that
// is empty. It returns the file that npm links to.
func npmPackage(t *testing.T, script string) string {
	t.Helper()
	out, err := exec.Command("node", "-p", "process.platform + '-' + process.arch").Output()
	if err != nil {
		t.Skipf("node is not on the PATH: %v", err)
	}
	scope := filepath.Join(t.TempDir(), "node_modules", "@firestore-counters")
	if err := os.CopyFS(filepath.Join(scope, "cli"), os.DirFS("npm")); err != nil {
		t.Fatal(err)
	}
	if script != "" {
		platform := filepath.Join(scope, "cli-"+strings.TrimSpace(string(out)))
		if err := errors.Join(
			os.Mkdir(platform, 0o700),
			os.WriteFile(filepath.Join(platform, "package.json"), []byte(`{"name": "`+filepath.Base(platform)+`"}`), 0o600),
			os.WriteFile(filepath.Join(platform, "counters"), []byte("#!/bin/sh\n"+script), 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(scope, "cli", "counters.js")
}

// The package's command is the program: its arguments, its input and output, its exit code.
func TestNPMRunsTheProgram(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("node", npmPackage(t, `printf '%s|' "$@"; cat; echo wrong >&2; exit 7`), "get", "a b", "--json", "")
	var stderr strings.Builder
	cmd.Stdin, cmd.Stderr = strings.NewReader("in"), &stderr
	out, err := cmd.Output()
	if string(out) != "get|a b|--json||in" || stderr.String() != "wrong\n" || cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("%q, %q, %v", out, stderr.String(), err)
	}
}

// Whoever ends it ends the program, and waits for it.
func TestNPMPassesSignalsOn(t *testing.T) {
	t.Parallel()
	for signal, want := range map[syscall.Signal]int{syscall.SIGTERM: 3, syscall.SIGHUP: 4} {
		cmd := exec.Command("node", npmPackage(t, "trap 'echo ended; exit 3' TERM; trap 'echo ended; exit 4' HUP; echo ready; while :; do sleep 0.1; done"))
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		rest, err := io.ReadAll(out) // until the program is gone
		_ = cmd.Wait()
		if string(rest) != "ended\n" || err != nil || cmd.ProcessState.ExitCode() != want {
			t.Errorf("%v: %q, %v, exit code %d", signal, rest, err, cmd.ProcessState.ExitCode())
		}
	}
	cmd := exec.Command("node", npmPackage(t, "kill -9 $$"))
	if _ = cmd.Run(); cmd.ProcessState.ExitCode() != 128+9 {
		t.Errorf("of a program that was killed the exit code is %d", cmd.ProcessState.ExitCode())
	}
}

// npx tells nobody when it is ended: what it runs notices, and holds no ports for ever.
func TestNPMEndsWithNpx(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sh", "-c", `node "$0"; true`, npmPackage(t, "trap 'echo ended; exit' TERM; echo ready; while :; do sleep 0.1; done"))
	cmd.Env = append(os.Environ(), "npm_lifecycle_event=npx")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.ReadFull(out, make([]byte, len("ready\n")))
	if err := errors.Join(err, cmd.Process.Kill()); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(out); string(rest) != "ended\n" || err != nil { // which comes once all are gone
		t.Errorf("%q, %v", rest, err)
	}
	_ = cmd.Wait()
}

// Where npm left the program out, it is said what to do.
func TestNPMWithoutTheProgram(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("node", npmPackage(t, ""))
	out, _ := cmd.CombinedOutput()
	if !strings.Contains(string(out), "is not installed. Install @firestore-counters/cli again, with optional dependencies") || cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("%q, exit code %d", out, cmd.ProcessState.ExitCode())
	}
}

// The package names all platforms that release.sh makes packages for, and docs/installing.md all packages.
func TestNPMPackagesAgree(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("npm/package.json")
	if err != nil {
		t.Fatal(err)
	}
	var p struct {
		Version              string
		OptionalDependencies map[string]string
	}
	if err := json.Unmarshal(text, &p); err != nil {
		t.Fatal(err)
	}
	goreleaser, err := os.ReadFile("../.goreleaser.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(goreleaser), "goos: [linux, darwin, windows]\n    goarch: [amd64, arm64]\n") {
		t.Error("GoReleaser builds for other platforms")
	}
	var want, got []string
	for _, os := range []string{"darwin", "linux", "win32"} {
		for _, cpu := range []string{"arm64", "x64"} {
			want = append(want, fmt.Sprintf("@firestore-counters/cli-%s-%s@0.0.0", os, cpu))
		}
	}
	for name, version := range p.OptionalDependencies {
		got = append(got, name+"@"+version)
	}
	if slices.Sort(got); !slices.Equal(got, want) || p.Version != "0.0.0" {
		t.Errorf("%q of version %s, want %q", got, p.Version, want)
	}
}
