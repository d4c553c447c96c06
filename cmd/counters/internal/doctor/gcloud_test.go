//go:build all

package doctor

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/pflag"

	resources "github.com/firestore-counters/counters/cmd/counters/internal/deployment"
)

// parseAll reads command lines and lets gcloud's own parser take each, which runs nothing.
const parseAll = `
import shlex, sys
sdk = sys.argv[1]
sys.path[:0] = [sdk + "/lib", sdk + "/lib/third_party"]
from googlecloudsdk import gcloud_main
from googlecloudsdk.calliope import backend
from googlecloudsdk.core.updater import update_manager
update_manager.UpdateManager.EnsureInstalledAndRestart = lambda *_, **__: False
ran = []
backend.Command.Run = lambda self, cli, args: ran.append(self)
cli = gcloud_main.CreateCLI([])
for line in sys.stdin:
    words = shlex.split(line)[1:]
    before = len(ran)
    try:
        cli.Execute(words)
    except BaseException as e:
        print(f"{line.strip()}\n  {type(e).__name__}: {e}")
    else:
        if len(ran) == before:
            print(f"{line.strip()}\n  is not run")
`

// A shell and our program take each command that is proposed, and gcloud's parser takes all of them, once they have
// been found.
func init() {
	trial = func(all *testing.T) func(*testing.T, string) {
		var mu sync.Mutex
		var commands []string
		all.Cleanup(func() { parsedByGcloud(all, commands) })
		return func(t *testing.T, command string) {
			t.Helper()
			for part := range strings.SplitSeq(command, " && ") {
				if strings.HasPrefix(part, "counters deploy ") {
					takes(t, part)
				}
				if strings.HasPrefix(part, "gcloud ") {
					mu.Lock()
					commands = append(commands, part)
					mu.Unlock()
				}
			}
			if out, err := exec.CommandContext(t.Context(), "sh", "-n", "-c", command).CombinedOutput(); err != nil {
				t.Errorf("no command line: %s\n%s", command, out)
			}
		}
	}
}

// parsedByGcloud holds command lines against gcloud's own parser, where gcloud is installed.
func parsedByGcloud(t *testing.T, commands []string) {
	t.Helper()
	gcloud, err := exec.LookPath("gcloud")
	if err != nil {
		t.Log("gcloud is not installed (google-cloud-cli): the commands are not held against its parser")
		return
	}
	if gcloud, err = filepath.EvalSymlinks(gcloud); err != nil {
		t.Fatal(err)
	}
	sdk := filepath.Dir(filepath.Dir(gcloud))
	python := filepath.Join(sdk, "platform/bundledpythonunix/bin/python3")
	if _, err := os.Stat(python); err != nil {
		python = "python3"
	}
	cmd := exec.CommandContext(context.Background(), python, "-S", "-W", "ignore", "-c", parseAll, sdk)
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	cmd.Env = append(os.Environ(), "CLOUDSDK_CONFIG="+t.TempDir(), "CLOUDSDK_CORE_DISABLE_FILE_LOGGING=true", "CLOUDSDK_CORE_DISABLE_PROMPTS=true")
	out, err := cmd.Output()
	if err != nil || len(out) > 0 {
		t.Errorf("gcloud doesn't take, of %d commands, %v:\n%s", len(commands), err, out)
	}
}

// What the pages on running it have readers type is what gcloud takes.
func TestCommandsOfTheDocs(t *testing.T) {
	t.Parallel()
	var commands []string
	for _, page := range []string{"deploying.md", "operations.md", "backup.md", "counted.md", "at-large.md"} {
		text, err := os.ReadFile(filepath.Join("../../../../docs", page))
		if err != nil {
			t.Fatal(err)
		}
		joined := strings.ReplaceAll(string(text), "\\\n", " ")
		for _, found := range regexp.MustCompile("(?m)(?:^|`| )(gcloud [a-z-]+ [^`|;#\n]*)").FindAllStringSubmatch(joined, -1) {
			if command := strings.TrimSpace(found[1]); strings.Contains(command, " --") {
				commands = append(commands, command)
			}
		}
	}
	if len(commands) < 10 {
		t.Fatalf("found only %q", commands)
	}
	parsedByGcloud(t, commands)
}

// takes has the program read the options of a deployment, as a shell hands them on.
func takes(t *testing.T, command string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf '%s\\0' "+strings.TrimPrefix(command, "counters deploy ")).Output()
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	var w resources.Wanted
	flags := pflag.NewFlagSet("deploy", pflag.ContinueOnError)
	w.Flags(flags)
	if err := errors.Join(flags.Parse(strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")), w.Check()); err != nil {
		t.Errorf("%s: %v", command, err)
	}
}

// Whatever is in an id, a command that is proposed means just that id to a shell.
func TestCommandsMeanTheirIDs(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash to take a command apart")
	}
	if out, err := exec.CommandContext(t.Context(), bash, "-c", "printf %s "+line(unprintable)).Output(); err != nil || string(out) != unprintable {
		t.Errorf("%s means %q to bash, %v; want %q", line(unprintable), out, err, unprintable)
	}
}
