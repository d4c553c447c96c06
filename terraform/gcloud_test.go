//go:build all

package terraform

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A stand-in for gcloud, and for curl: it records its arguments, keeps a copy of every file that it is given, and
// answers what a new deployment asks on its way.
const gcloudStandIn = `#!/usr/bin/env bash
printf '%s\n' "$@" >> "$GCLOUD_DIR/calls"
for arg in "$@"; do
  case $arg in --*-from-file=*) copy=$(mktemp "$GCLOUD_DIR/file-XXXXXX") && cp "${arg#*=}" "$copy" && echo "--copy=$copy" >> "$GCLOUD_DIR/calls" ;; esac
done
echo '--END--' >> "$GCLOUD_DIR/calls"
case "$*" in
  "projects describe"*) echo 123456789 ;;
  "functions describe"*) echo "https://$3.a.run.app" ;;
  "functions runtimes list"*) echo go127 ;;
  "eventarc triggers list"*) echo "$*" | sed -E 's#.*name~/([a-z-]+-rollup).*#projects/a-project/subscriptions/eventarc-of-\1-123456#' ;;
  "eventarc triggers describe"*) echo "projects/a-project/subscriptions/eventarc-of-$4" ;;
esac
`

// build builds what deploys.
func build(t *testing.T) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "counters")
	if out, err := exec.Command("go", "build", "-o", program, "../cmd/counters").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return program
}

// A call is one command: its words up to the first flag, and its flags.
type call struct {
	words []string
	flags []string
	file  string // what the file that it was given holds
}

// callOf is a command of these words and flags.
func callOf(args []string) (c call) {
	for _, arg := range args {
		if strings.HasPrefix(arg, "--") {
			c.flags = append(c.flags, arg)
		} else if arg != "" {
			c.words = append(c.words, arg)
		}
	}
	return c
}

// commandOf is a command as a shell has it.
func commandOf(line string) call {
	return callOf(strings.Fields(strings.ReplaceAll(line, "'", ""))[1:])
}

func (c call) name() string { return strings.Join(c.words, " ") }

// flag is the value of --name=value, and whether it is there.
func (c call) flag(name string) (string, bool) {
	for _, f := range c.flags {
		if v, ok := strings.CutPrefix(f, "--"+name+"="); ok {
			return v, true
		}
		if f == "--"+name {
			return "", true
		}
	}
	return "", false
}

// deploy deploys where nothing can be read, so that all is new: what a dry run prints is pasted into bash, with the
// stand-in on its PATH. It returns the calls that make something.
func deploy(t *testing.T, program string, args ...string) (calls []call) {
	t.Helper()
	dir := t.TempDir()
	environ := append(os.Environ(), "GCLOUD_DIR="+dir, "TMPDIR="+dir, "CLOUDSDK_CONFIG="+dir)
	dry := exec.CommandContext(t.Context(), program, append([]string{"deploy", "--dry-run", "--files=" + filepath.Join(dir, "files"), "--project=a-project", "--location=us-central1"}, args...)...)
	dry.Env = append(environ, "PATH="+dir) // without gcloud
	dry.Stderr = t.Output()
	script, err := dry.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"gcloud", "curl"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(gcloudStandIn), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	paste := exec.CommandContext(t.Context(), "bash", "-ec", string(script))
	paste.Env = append(environ, "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	if out, err := paste.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	recorded, _ := os.ReadFile(filepath.Join(dir, "calls"))
	for text := range strings.SplitSeq(strings.TrimSuffix(string(recorded), "--END--\n"), "--END--\n") {
		c := callOf(strings.Split(strings.TrimSuffix(text, "\n"), "\n"))
		if copied, ok := c.flag("copy"); ok {
			content, err := os.ReadFile(copied)
			if err != nil {
				t.Fatal(err)
			}
			c.file = string(content)
		}
		if len(c.words) > 0 && !slices.Contains(c.words, "print-access-token") && !slices.Contains(c.words, "describe") && !slices.Contains(c.words, "list") {
			calls = append(calls, c)
		}
	}
	return calls
}
