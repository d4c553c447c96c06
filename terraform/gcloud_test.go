package terraform

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A stand-in for gcloud: it records its arguments, keeps a copy of every file that it is given, and answers questions
// as a project would in which nothing is deployed yet (GCLOUD_STATE=new), or everything (GCLOUD_STATE=deployed).
const gcloudStandIn = `#!/usr/bin/env bash
printf '%s\n' "$@" >> "$GCLOUD_DIR/calls"
for arg in "$@"; do
  case $arg in --*-from-file=*)
    copy=$(mktemp "$GCLOUD_DIR/file-XXXXXX")
    cp "${arg#*=}" "$copy"
    echo "--copy=$copy" >> "$GCLOUD_DIR/calls" ;;
  esac
done
echo '--END--' >> "$GCLOUD_DIR/calls"
if [[ -n ${GCLOUD_FAIL:-} && "$*" == *$GCLOUD_FAIL* ]]; then
  tries=$(cat "$GCLOUD_DIR/failures" 2>/dev/null || echo 0)
  if ((tries < GCLOUD_FAILURES)); then
    echo $((tries + 1)) > "$GCLOUD_DIR/failures"
    echo "ERROR: not now" >&2
    exit 1
  fi
fi
case "$*" in
  "projects describe"*) echo 123456789 ;;
  "functions describe"*serviceConfig.uri*) echo "https://$3.a.run.app" ;;
  *" describe "* | *" list "*)
    [[ $GCLOUD_STATE == deployed ]] || exit 1
    case "$*" in *etag*) echo "there etag-1" ;; *) echo there ;; esac ;;
esac
`

// A call is one command: its words up to the first flag, and its flags.
type call struct {
	words []string
	flags []string
	file  string // what the file that it was given holds
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

// script runs one of the scripts with the stand-in on its PATH, and returns the calls and the script's output.
func script(t *testing.T, env []string, name string, args ...string) ([]call, string, error) {
	t.Helper()
	dir := t.TempDir()
	for command, text := range map[string]string{"gcloud": gcloudStandIn, "sleep": "#!/bin/sh\n"} {
		if err := os.WriteFile(filepath.Join(dir, command), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("bash", append([]string{filepath.Join("../scripts", name)}, args...)...)
	cmd.Env = append(os.Environ(), append([]string{"PATH=" + dir + string(os.PathListSeparator) + os.Getenv("PATH"), "GCLOUD_DIR=" + dir, "GCLOUD_STATE=new"}, env...)...)
	out, err := cmd.CombinedOutput()

	recorded, _ := os.ReadFile(filepath.Join(dir, "calls"))
	var calls []call
	for _, text := range strings.Split(strings.TrimSuffix(string(recorded), "--END--\n"), "--END--\n") {
		var c call
		for _, arg := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
			if copied, ok := strings.CutPrefix(arg, "--copy="); ok {
				content, err := os.ReadFile(copied)
				if err != nil {
					t.Fatal(err)
				}
				c.file = string(content)
			} else if strings.HasPrefix(arg, "--") {
				c.flags = append(c.flags, arg)
			} else if arg != "" {
				c.words = append(c.words, arg)
			}
		}
		if len(c.words) > 0 {
			calls = append(calls, c)
		}
	}
	return calls, string(out), err
}

// changes leaves the questions out.
func changes(calls []call) []call {
	return slices.DeleteFunc(slices.Clone(calls), func(c call) bool {
		return slices.Contains(c.words, "describe") || slices.Contains(c.words, "list")
	})
}

func deploy(t *testing.T, args ...string) []call {
	t.Helper()
	calls, out, err := script(t, nil, "deploy.sh", append([]string{"--project=a-project", "--location=us-central1"}, args...)...)
	if err != nil {
		t.Fatalf("deploy.sh: %v\n%s", err, out)
	}
	return changes(calls)
}
