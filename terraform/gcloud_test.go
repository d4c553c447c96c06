//go:build all

package terraform

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A stand-in for gcloud: it records its arguments, keeps a copy of every file that it is given, and
// answers questions as a project would in which there is nothing but a database (GCLOUD_DATABASE),
// or where all was deployed before (GCLOUD_STATE=deployed, with the prefix counters).
const gcloudStandIn = `#!/usr/bin/env bash
printf '%s\n' "$@" >> "$GCLOUD_DIR/calls"
for arg in "$@"; do
  case $arg in --*-from-file=*)
    copy=$GCLOUD_DIR/file-$$${arg%%=*}
    cp "${arg#*=}" "$copy"
    echo "--copy=$copy" >> "$GCLOUD_DIR/calls" ;;
  esac
done
echo '--END--' >> "$GCLOUD_DIR/calls"
[[ "$1 $2" != "functions deploy" ]] || echo "$3" >> "$GCLOUD_DIR/functions"
if [[ -n ${GCLOUD_FAIL:-} && "$*" == *$GCLOUD_FAIL* ]]; then
  tries=$(cat "$GCLOUD_DIR/failures" 2>/dev/null || echo 0)
  if ((tries < GCLOUD_FAILURES)); then
    echo $((tries + 1)) > "$GCLOUD_DIR/failures"
    echo "ERROR: ${GCLOUD_ERROR:-not now}" >&2
    exit 1
  fi
fi
case "$*" in
  "projects describe"*) echo 123456789 ;;
  "services list"*) [[ -z ${GCLOUD_DATABASE:-} ]] || echo firestore.googleapis.com ;;
  "run services describe"*cpu-throttling*) echo ${GCLOUD_THROTTLED:-True} ;;
  "run services describe"*) echo ${GCLOUD_UNCHECKED:-} ;;
  "firestore databases list"*) [[ -z ${GCLOUD_DATABASE:-} ]] || echo "$GCLOUD_DATABASE" ;;
  "eventarc triggers describe"*) echo projects/a-project/subscriptions/eventarc-of-${4##*/} ;;
  "functions runtimes list"*) printf '%s\n' go125 nodejs99 go127 go126 ;;
  "functions describe"*environmentVariables*) echo "${GCLOUD_SETTINGS-||||}" ;;
  "functions list"*serviceConfig.uri*)
    sed 's#.*#&|https://&.a.run.app|#; s#^\(.*-rollup\)|.*#&projects/a-project/locations/nam5/triggers/\1-123456#' "$GCLOUD_DIR/functions" ;;
  *" list "* | *" get-iam-policy "* | "logging sinks describe"*)
    [[ ${GCLOUD_STATE:-} == deployed ]] || exit 0
    at=a-project.iam.gserviceaccount.com
    case "$*" in
      "functions list"*) [[ -z ${GCLOUD_GONE:-} ]] || exit 0 ;;&
      "functions list"*segment*) printf 'counters-%s|us-central1\n' increment rollup reconcile ;;
      "functions list"*HOSTED*) printf "counters-%s|${GCLOUD_HOSTED-false}\n" increment rollup reconcile && echo 'theirs|true' ;;
      "functions list"*) printf 'counters-%s\n' increment rollup reconcile ;;
      "run services get-iam-policy counters-increment"*) printf 'roles/run.invoker|%s\n' ${GCLOUD_CALLERS:-} ;;
      "run services get-iam-policy counters-rollup"*) echo "roles/run.invoker|serviceAccount:counters-eventarc@$at" ;;
      "run services get-iam-policy"*) echo "roles/run.invoker|serviceAccount:counters-scheduler@$at" ;;
      "artifacts repositories list"*) printf '%s\n' theirs counters-functions ;;
      "artifacts repositories get-iam-policy"*) echo "roles/artifactregistry.writer|serviceAccount:counters-build@$at" ;;
      "scheduler jobs list"*) echo counters-reconcile ;;
      "eventarc triggers list"*segment*) printf '%s|nam5\n' counters-rollup-123456 theirs ${GCLOUD_TRIGGERS:-} ;;
      "eventarc triggers list"*) printf '%s\n' counters-rollup-123456 theirs ${GCLOUD_TRIGGERS:-} ;;
      "iam service-accounts list"*) printf "counters-%s@$at\n" increment rollup reconcile eventarc scheduler build ;;
      "firestore indexes fields list"*) printf '%s.0\n' counter_requests.expire_at counter_rollup.{states,answers,ops} {counters,posts}.{updated,created}_at ;;
      "logging sinks describe"*) echo theirs && echo counters-requests ;;
      "logging metrics list"*) printf 'counters_%s\n' ambiguous_commits contention drift poison_events rollup_delta rollup_events rollup_lag ;;
      "alpha monitoring policies list"*) printf '%s\n' \
        'theirs|somebody else: totals lag behind' 'lag|counters: totals lag behind' 'drift|counters: a total had drifted' \
        'poison|counters: an event can never succeed' "noted|counters: a counter can't be rolled up" 'reconcile|counters: Reconcile does not run' \
        'errors|counters: roll-ups fail' ${GCLOUD_TWICE:+'errors2|counters: roll-ups fail'} ;;
      "monitoring dashboards list"*) printf '%s\n' 'theirs|somebody else|etag-0' 'ours|counters|etag-1' ;;
      "projects get-iam-policy"*)
        condition='resource.name == "projects/a-project/databases/(default)"'
        [[ "$*" == *expression* ]] || condition=
        printf '%s\n' "roles/owner|user:me@example.com${condition:+|}" \
          "roles/eventarc.serviceAgent|serviceAccount:service-123456789@gcp-sa-eventarc.iam.gserviceaccount.com${condition:+|}" \
          "roles/eventarc.eventReceiver|serviceAccount:counters-eventarc@$at${condition:+|}"
        echo "roles/logging.logWriter|serviceAccount:counters-build@$at${condition:+|}"
        echo "roles/storage.objectViewer|serviceAccount:counters-build@$at${condition:+|resource.name.startsWith(\"projects/_/buckets/gcf-v2-sources-\")}"
        for name in increment rollup reconcile; do echo "roles/datastore.user|serviceAccount:counters-$name@$at${condition:+|$condition}"; done ;;
    esac ;;
esac
`

// A stand-in for go, which would look through all sources each time before it runs what it has built.
const goStandIn = `#!/bin/sh
[ "$1 $2" = "run ./cmd/counters" ] || { echo "go $*: not expected" >&2; exit 1; }
shift 2
exec "$GCLOUD_PROGRAM" "$@"
`

// program is what the scripts ask about settings and prices, built once.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "counters")
	if err != nil {
		return "", err
	}
	removeProgram = func() { _ = os.RemoveAll(dir) }
	program := filepath.Join(dir, "counters")
	if out, err := exec.Command("go", "build", "-o", program, "../cmd/counters").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return program, nil
})

var removeProgram = func() {}

func TestMain(m *testing.M) {
	code := m.Run()
	removeProgram()
	os.Exit(code)
}

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

// standIn is a folder with the stand-ins in it.
func standIn(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for command, text := range map[string]string{"gcloud": gcloudStandIn, "go": goStandIn, "sleep": "#!/bin/sh\n"} {
		if err := os.WriteFile(filepath.Join(dir, command), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// standInEnv is the environment of a script that is to find the stand-ins.
func standInEnv(t *testing.T, dir string, env ...string) []string {
	t.Helper()
	program, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return append(os.Environ(), append([]string{"PATH=" + dir + string(os.PathListSeparator) + os.Getenv("PATH"), "GCLOUD_DIR=" + dir, "GCLOUD_PROGRAM=" + program,
		"GCLOUD_DATABASE=(default)|us-central1|FIRESTORE_NATIVE|STANDARD"}, env...)...)
}

// script runs one of the scripts with the stand-in on its PATH, and returns the calls and the
// script's output.
func script(t *testing.T, env []string, name string, args ...string) ([]call, string, error) {
	t.Helper()
	dir := standIn(t)
	cmd := exec.Command("bash", append([]string{filepath.Join("../scripts", name)}, args...)...)
	cmd.Env = append(standInEnv(t, dir, env...), "TMPDIR="+t.TempDir())
	out, err := cmd.CombinedOutput()

	recorded, _ := os.ReadFile(filepath.Join(dir, "calls"))
	var calls []call
	for text := range strings.SplitSeq(strings.TrimSuffix(string(recorded), "--END--\n"), "--END--\n") {
		var c call
		for arg := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
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

// watch is what the trigger of a collection below counters/{counter} is called, in us-central1.
func watch(prefix, collection string) string {
	hash := sha256.Sum256([]byte("us-central1/(default)/counters/{counter}/" + collection))
	return fmt.Sprintf("%s-watch-%x", prefix, hash[:4])
}

// changes leaves the questions out.
func changes(calls []call) []call {
	return slices.DeleteFunc(slices.Clone(calls), func(c call) bool {
		return slices.Contains(c.words, "describe") || slices.Contains(c.words, "list") || slices.Contains(c.words, "get-iam-policy") || slices.Contains(c.words, "ls")
	})
}

// deploy deploys where there is nothing but a database, as described by deploy.sh's --location and
// DATABASE.
func deploy(t *testing.T, database string, args ...string) []call {
	t.Helper()
	calls, out, err := script(t, []string{"GCLOUD_DATABASE=" + database}, "deploy.sh", append([]string{"--project=a-project", "--location=us-central1"}, args...)...)
	if err != nil {
		t.Fatalf("deploy.sh: %v\n%s", err, out)
	}
	return changes(calls)
}

// aDatabase is what gcloud lists of the database that deploy.sh looks for by default.
const aDatabase = "(default)|us-central1|FIRESTORE_NATIVE|STANDARD"
