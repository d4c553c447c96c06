//go:build all

package doctor

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
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

// A shell and our script take each command that is proposed, and gcloud's parser takes all of them, once they have been found.
func init() {
	trial = func(all *testing.T) func(*testing.T, string) {
		var mu sync.Mutex
		var commands []string
		all.Cleanup(func() { parsedByGcloud(all, commands) })
		return func(t *testing.T, command string) {
			t.Helper()
			for part := range strings.SplitSeq(command, " && ") {
				if strings.HasPrefix(part, "counters deploy ") {
					dryRun(t, part)
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

// dryRun lets the deployment script say what it would do.
func dryRun(t *testing.T, command string) string {
	t.Helper()
	cmd := exec.Command("bash", "-c", strings.Replace(command, "counters deploy", "scripts/deploy.sh", 1)+" --dry-run")
	cmd.Dir = "../../../.."
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", command, err, out)
	}
	return string(out)
}

// The functions go where doctor expects them, by default.
func TestRegionsAreThoseOfTheScript(t *testing.T) {
	t.Parallel()
	for _, location := range []string{"nam5", "nam7", "eur3", "europe-west1"} {
		out := dryRun(t, "counters deploy --project my-project --location "+location)
		if want := "gcloud functions deploy counters-increment --gen2 --project=my-project --region=" + regionsNear(location)[0] + " "; !strings.Contains(out, want) {
			t.Errorf("%s: no %q in:\n%s", location, want, out)
		}
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
