package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// command runs the program as a process, in a folder where there is nothing.
func command(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("bash is not on the PATH")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Dir = t.TempDir()
	temp := t.TempDir()
	cmd.Env = append(os.Environ(), programVariable+"=1", "TMPDIR="+temp)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	_ = cmd.Run()
	if left, err := filepath.Glob(filepath.Join(temp, "*")); err != nil || len(left) > 0 {
		t.Errorf("%q leaves %q, %v", args, left, err)
	}
	return out.String(), errOut.String(), cmd.ProcessState.ExitCode()
}

// The scripts know each option, and the program is what they name and what checks settings.
func TestDeployAndDestroyWithoutACheckout(t *testing.T) {
	t.Parallel()
	where := []string{"--project", "a-project", "--dry-run"}
	out, errOut, code := command(t, append([]string{"deploy", "--location", "us-central1", "--set", "FIELDS=likes"}, where...)...)
	source := regexp.MustCompile(`gcloud functions deploy counters-rollup .*--source=(\S+) .*FIELDS=likes`).FindStringSubmatch(out)
	if code != 0 || source == nil || !strings.Contains(out, "gcloud logging metrics create counters_rollup_lag") {
		t.Fatalf("exit code %d, %s\n%s", code, errOut, out)
	}
	if _, err := os.Stat(source[1]); err == nil {
		t.Errorf("%s is still there", source[1])
	}
	out, errOut, code = command(t, append([]string{"destroy", "--region", "us-central1"}, where...)...)
	if code != 0 || !strings.Contains(out, "gcloud functions delete counters-rollup") || !strings.Contains(out, "gcloud logging metrics delete counters_rollup_lag") {
		t.Errorf("exit code %d, %s\n%s", code, errOut, out)
	}
}

func TestScriptsSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args, want string
		code       int
	}{
		{"deploy", "counters deploy: --project is missing", exitUsage},
		{"deploy --project a-project --location us-central1 --frob", "counters deploy: --frob: unknown option", exitUsage},
		{"deploy --project a-project --location us-central1 --set NUM_SHARDS=0", "NUM_SHARDS=0: want 1 to 1000", exitUsage},
		{"deploy --project a-project --location us-central1 --source nowhere", "--source nowhere: want a folder with function.go", exitUsage},
		{"destroy", "counters destroy: --project is missing", exitUsage},
		{"destroy --project a-project --region us-central1", "counters destroy: nothing was removed", exitFailed},
		{"smoke", "counters smoke: want the URL of Increment", exitUsage},
		{"smoke http://127.0.0.1:1", "counters smoke: no answer", exitFailed},
	} {
		if out, errOut, code := command(t, strings.Fields(c.args)...); code != c.code || !strings.Contains(errOut, c.want) {
			t.Errorf("counters %s: exit code %d, %s%s\nwant %d, %s", c.args, code, out, errOut, c.code, c.want)
		}
	}
}

// The commands' help is the scripts', under another name, and is there without bash.
func TestScriptsHelp(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]string{"deploy": "--create-database", "destroy": "--region R", "smoke": "--token TOKEN"} {
		for _, args := range [][]string{{name, "--help"}, {"help", name}, {name, "-h"}} {
			out, errOut, code := counters(t, args...)
			if code != 0 || !strings.Contains(out, option) || !strings.Contains(out, "Usage:\n  counters "+name) || strings.Contains(out, ".sh") {
				t.Errorf("%q: exit code %d, %s\n%s", args, code, errOut, out)
			}
		}
		if out, _, _ := counters(t, "__complete", name, "--"); !strings.Contains(out, strings.Fields(option)[0]+"\n") {
			t.Errorf("completion of %s offers %s", name, out)
		}
	}
}

// What is deployed answers the checks; here it is counters dev.
func TestSmokeWithoutACheckout(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not on the PATH")
	}
	p := startProgram(t)
	if out, errOut, code := command(t, "smoke", p.gateway+"/increment"); code != 0 || !strings.Contains(out, "all green") {
		t.Errorf("exit code %d, %s\n%s", code, errOut, out)
	}
}
