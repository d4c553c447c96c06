package doctor

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
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
