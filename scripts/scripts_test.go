//go:build all

// Package scripts holds nothing but tests: of the shell scripts, and of a whole deployment with the real gcloud against
// a fake of Google's APIs.
package scripts

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func scripts(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("*.sh")
	if err != nil || len(files) < 3 {
		t.Fatalf("found %v: %v", files, err)
	}
	return append(files, "../terraform/check.sh")
}

// own are the scripts with options of their own: the others are commands of the program.
func own(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(scripts(t), func(script string) bool {
		return slices.Contains([]string{"deploy.sh", "destroy.sh", "smoke.sh"}, script)
	})
}

func TestShellcheck(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("shellcheck"); err != nil {
		t.Skip("shellcheck is not on the PATH (apt-get install shellcheck)")
	}
	if out, err := exec.Command("shellcheck", scripts(t)...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestScriptsHelp(t *testing.T) {
	t.Parallel()
	for _, script := range own(t) {
		out, err := exec.Command("bash", script, "--help").Output()
		if err != nil || !strings.HasPrefix(string(out), "Usage: ") {
			t.Errorf("%s --help: %v: %s", script, err, out)
		}
		// Every option that the script knows is in its help.
		source, err := exec.Command("sed", "-n", "s/^ *\\(--[a-z-]*\\)\\( | -[a-z]\\)*).*/\\1/p", script).Output()
		if err != nil {
			t.Fatal(err)
		}
		for option := range strings.FieldsSeq(string(source)) {
			if option != "--" && !bytes.Contains(out, []byte(option)) {
				t.Errorf("%s --help doesn't say what %s is", script, option)
			}
		}
	}
}

// A wrong line is refused before anything is done, with the exit code of wrong lines.
func TestScriptsRefuseUnknownOptions(t *testing.T) {
	t.Parallel()
	for _, script := range own(t) {
		cmd := exec.CommandContext(t.Context(), "bash", script, "--nope")
		cmd.Env = append(os.Environ(), "TERRAFORM=false", "TMPDIR="+t.TempDir())
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != 2 || !strings.Contains(string(out), "--help") {
			t.Errorf("%s --nope: exit code %d: %s", script, code, out)
		}
	}
}

// The scripts of a checkout call the program, and hand on what they are given.
func TestScriptsCallTheProgram(t *testing.T) {
	t.Parallel()
	for name, says := range map[string]string{"deploy": "--location L", "destroy": "--region R", "smoke": "--token TOKEN"} {
		if out, err := exec.CommandContext(t.Context(), "bash", name+".sh", "--help").CombinedOutput(); err != nil || !strings.Contains(string(out), says) {
			t.Errorf("%s.sh --help: %v: %s", name, err, out)
		}
	}
}
