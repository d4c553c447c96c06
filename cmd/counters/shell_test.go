//go:build all

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	client "cloud.google.com/go/firestore"

	"github.com/firestore-counters/counters/cmd/counters/internal/doctor"
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
func TestDeployWithoutACheckout(t *testing.T) {
	t.Parallel()
	dry := []string{"deploy", "--location", "us-central1", "--set", "FIELDS=likes", "--project", "a-project", "--dry-run"}
	files := filepath.Join(t.TempDir(), "files")
	out, errOut, code := command(t, append(dry, "--files", files)...)
	source := regexp.MustCompile(`gcloud functions deploy counters-rollup .*--source=(\S+) .*FIELDS=likes`).FindStringSubmatch(out)
	if code != 0 || source == nil || !strings.Contains(out, "gcloud logging metrics create counters_rollup_lag") {
		t.Fatalf("exit code %d, %s\n%s", code, errOut, out)
	}
	if _, err := os.Stat(filepath.Join(source[1], "function.go")); err != nil || filepath.Dir(source[1]) != files {
		t.Errorf("what the commands read is not in %s: %v, %s", files, err, errOut)
	}
	if _, errOut, code := command(t, append(dry, "--files", files)...); code != exitFailed || !strings.Contains(errOut, "want a folder that is empty") {
		t.Errorf("over other files: exit code %d, %s", code, errOut)
	}
	// Without it, nothing is left that they could read.
	out, errOut, code = command(t, dry...)
	if code != 0 || !strings.Contains(out, "--source=DIR/source ") || !strings.Contains(out, "=DIR/dashboard.json") || !strings.Contains(errOut, "say --files DIR") {
		t.Errorf("exit code %d, %s\n%s", code, errOut, out)
	}
}

func TestCommandsSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args, want string
		code       int
	}{
		{"deploy", "counters: --project is missing", exitUsage},
		{"deploy --project a-project --location us-central1 --files there", "--files: want --dry-run with it", exitUsage},
		{"deploy --project a-project --location us-central1 --frob", "counters: no flag --frob", exitUsage},
		{"deploy --project a-project --location us-central1 --set NUM_SHARDS=0", "NUM_SHARDS=0: want 1 to 1000", exitUsage},
		{"deploy --project a-project --location us-central1 --source nowhere", "--source nowhere: want a folder with function.go", exitFailed},
		{"destroy", "counters: --project is missing", exitUsage},
		{"destroy --project a-project --region us-central1", "counters: nothing was removed", exitUsage},
		{"smoke", "want: counters smoke URL", exitUsage},
		{"smoke http://127.0.0.1:1", "no answer: Post", exitFailed},
	} {
		if out, errOut, code := command(t, strings.Fields(c.args)...); code != c.code || !strings.Contains(out+errOut, c.want) {
			t.Errorf("counters %s: exit code %d, %s%s\nwant %d, %s", c.args, code, out, errOut, c.code, c.want)
		}
	}
}

func TestInterruptedDeployment(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	var out, errOut bytes.Buffer
	if code := run(ctx, []string{"deploy", "--project", "a-project", "--location", "nam5", "--dry-run"}, &out, &errOut); code != exitInterrupted || !strings.Contains(errOut.String(), "nothing was made") {
		t.Errorf("exit code %d, %s%s", code, &out, &errOut)
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

// Without the package bash-completion, the script says so once, and no Tab fails for want of it.
func TestBashCompletionSaysWhatItNeeds(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	script, _, code := counters(t, "completion", "bash")
	if code != 0 || !strings.Contains(script, "complete -o default -F __start_counters counters") {
		t.Fatal(script)
	}
	none := filepath.Join(t.TempDir(), "none")
	script = strings.NewReplacer("/usr/", none+"/", "/opt/", none+"/").Replace(script)
	cmd := exec.Command(bash, "--norc", "-c", script)
	if out, err := cmd.CombinedOutput(); err != nil || strings.Count(string(out), "needs the package bash-completion") != 1 {
		t.Errorf("without it: %v\n%s", err, out)
	}
	cmd = exec.Command(bash, "--norc", "-c", "_init_completion() { :; }\n"+script)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("with it: %v\n%s", err, out)
	}
}

// What doctor proposes names the deployment, and mends it: fields and shards of documents of the
// app's own.
func TestDoctorOfHostedCounters(t *testing.T) {
	firestore := startFirestore(t)
	fs := firestore.Client(t, "demo-counters")
	where := []string{"--counter-path=teams/{team}/posts/{post}", "--shards-name=parts", "--fields=likes,views", "--hosted"}
	run := func(args ...string) (string, int) {
		out, errOut, code := counters(t, append(args, where...)...)
		return out + errOut, code
	}
	set := func(path string, data map[string]any) {
		t.Helper()
		if _, err := fs.Doc(path).Set(t.Context(), data, client.MergeAll); err != nil {
			t.Fatal(err)
		}
	}
	set("teams/red/posts/a", map[string]any{"title": "A"})
	for _, command := range []string{"inc red/a --by likes=7,views=2", "reconcile red/a", "doctor"} {
		if out, code := run(strings.Fields(command)...); code != 0 {
			t.Fatalf("%s: %s", command, out)
		}
	}
	set("teams/red/posts/a", map[string]any{"likes": 5})
	set("teams/red/posts/a/parts/0", map[string]any{"views": client.Increment(1.0)})
	out, code := run("doctor", "--json")
	if code != 1 {
		t.Errorf("exit code %d: %s", code, out)
	}
	var report doctor.Report
	if err := json.NewDecoder(strings.NewReader(out)).Decode(&report); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var found []string
	for _, f := range report.Findings {
		found = append(found, f.Name)
		if args, ok := strings.CutPrefix(f.Fix, "counters "); ok {
			words, err := exec.Command("sh", "-c", "printf '%s\n' "+args).Output()
			if err != nil {
				t.Fatal(err)
			}
			if _, errOut, code := counters(t, strings.Split(strings.TrimSpace(string(words)), "\n")...); code != 0 {
				t.Errorf("%s: %s", f.Fix, errOut)
			}
		} else if out, err := exec.Command("sh", "-c", f.Fix).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", f.Fix, err, out)
		}
	}
	if want := []string{"total-differs", "shard-count-double"}; !slices.Equal(found, want) {
		t.Errorf("found %v, want %v: %s", found, want, out)
	}
	if out, code := run("doctor"); code != 0 || !strings.Contains(out, " 0 errors, 0 other findings") {
		t.Errorf("mended: exit code %d: %s", code, out)
	}
}
