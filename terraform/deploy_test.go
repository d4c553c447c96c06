//go:build all

package terraform

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestDeployAgainChangesInPlace(t *testing.T) {
	t.Parallel()
	calls, out, err := script(t, []string{"GCLOUD_STATE=deployed"}, "deploy.sh", "--project=a-project", "--location=us-central1", "--create-database")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	updated := map[string]int{}
	for _, c := range changes(calls) {
		switch {
		case slices.Contains(c.words, "create"), slices.Contains(c.words, "add-iam-policy-binding"), strings.HasPrefix(c.name(), "firestore indexes"):
			t.Errorf("made again: %s %v", c.name(), c.flags)
		case slices.Contains(c.words, "delete"), slices.Contains(c.words, "remove-iam-policy-binding"):
			t.Errorf("removed: %s", c.name())
		case slices.Contains(c.words, "update"):
			updated[strings.Join(c.words[:min(3, len(c.words))], " ")]++
		}
		if slices.Contains(c.words, "theirs") {
			t.Errorf("changes what is somebody else's: %s", c.name())
		}
		if strings.HasPrefix(c.name(), "monitoring dashboards update") {
			if decode(t, c.file)["etag"] != "etag-1" {
				t.Errorf("the dashboard is updated without its etag: %.80s", c.file)
			}
		}
	}
	for command, n := range map[string]int{"scheduler jobs update": 1, "logging metrics update": 7, "alpha monitoring policies": 6, "monitoring dashboards update": 1} {
		if updated[command] != n {
			t.Errorf("%d × %s, want %d: %v", updated[command], command, n, updated)
		}
	}
}

// A policy may be made twice, where the answer to the first attempt was lost.
func TestDeployRemovesPoliciesThatWereMadeTwice(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"deploy.sh":  {"--project=a-project", "--location=us-central1"},
		"destroy.sh": {"--project=a-project", "--region=us-central1", "--yes"},
	} {
		calls, out, err := script(t, []string{"GCLOUD_STATE=deployed", "GCLOUD_TWICE=yes"}, name, args...)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if !slices.ContainsFunc(calls, func(c call) bool { return c.name() == "alpha monitoring policies delete errors2" }) {
			t.Errorf("%s leaves the second policy of a name", name)
		}
	}
}

// On a function that is there, gcloud takes allUsers away for --no-allow-unauthenticated, until it
// is given again.
func TestDeployNeverClosesAPublicFunction(t *testing.T) {
	t.Parallel()
	for state, private := range map[string]bool{"": true, "deployed": false} {
		calls, out, err := script(t, []string{"GCLOUD_STATE=" + state, "GCLOUD_CALLERS=allUsers"}, "deploy.sh", "--project=a-project", "--location=us-central1", "--public", "--set=AUTH=firebase")
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, c := range changes(calls) {
			if _, ok := c.flag("no-allow-unauthenticated"); strings.HasPrefix(c.name(), "functions deploy") && ok != private {
				t.Errorf("where all is %q: %s --no-allow-unauthenticated: %v, want %v", state, c.name(), ok, private)
			}
		}
	}
}

// Whoever was let in before and isn't named any more is named as left over, and stays.
func TestDeployNamesCallersThatAreLeftOver(t *testing.T) {
	t.Parallel()
	calls, out, err := script(t, []string{"GCLOUD_STATE=deployed", "GCLOUD_CALLERS=allUsers user:a@example.com user:b@example.com"},
		"deploy.sh", "--project=a-project", "--location=us-central1", "--invoker=user:b@example.com", "--invoker=user:c@example.com")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for member, left := range map[string]bool{"allUsers": true, "user:a@example.com": true, "user:b@example.com": false, "user:c@example.com": false} {
		command := "gcloud run services remove-iam-policy-binding counters-increment --project=a-project --region=us-central1 --member=" + member + " --role=roles/run.invoker"
		if strings.Contains(out, command) != left {
			t.Errorf("%s is named as left over: %v, want %v\n%s", member, !left, left, out)
		}
	}
	for _, c := range changes(calls) {
		if member, _ := c.flag("member"); slices.Contains(c.words, "add-iam-policy-binding") && member != "user:c@example.com" {
			t.Errorf("given again: %v", c.flags)
		}
	}
}

func TestDeployWarnsWhereAnybodyCanCount(t *testing.T) {
	t.Parallel()
	for auth, warns := range map[string]bool{"AUTH=none": true, "AUTH=firebase": false} {
		_, out, err := script(t, nil, "deploy.sh", "--project=a-project", "--location=us-central1", "--dry-run", "--public", "--set="+auth)
		if err != nil || strings.Contains(out, "anybody on the internet can count") != warns {
			t.Errorf("%s: %v: %s", auth, err, out)
		}
	}
}

func TestDeployWarnsWhereAnybodyMakesCounters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args  string
		warns bool
	}{
		{"--public --set=AUTO_CREATE=true", true},
		{"--public --set=AUTO_CREATE=True --set=AUTH=none", true},
		{"--no-invoker-check --set=AUTO_CREATE=true", true},
		{"--public --set=AUTO_CREATE=60", false},
		{"--public", false},
		{"--public --set=AUTO_CREATE=true --set=AUTH=firebase", false},
		{"--set=AUTO_CREATE=true --invoker=user:me@example.com", false},
	} {
		_, out, err := script(t, nil, "deploy.sh", append([]string{"--project=a-project", "--location=us-central1", "--dry-run"}, strings.Fields(c.args)...)...)
		if err != nil || strings.Contains(out, "make counters without bound") != c.warns {
			t.Errorf("%s: %v: %s", c.args, err, out)
		}
	}
}

// On a database without automatic indexes every field of the shards needs one.
func TestDeployNamesTheIndexesOfAnEnterpriseDatabase(t *testing.T) {
	t.Parallel()
	_, out, err := script(t, []string{"GCLOUD_DATABASE=(default)|us-central1|FIRESTORE_NATIVE|ENTERPRISE"}, "deploy.sh", "--project=a-project", "--location=us-central1",
		"--set=FIELDS=likes, total=count,n=count(notes)", "--set=SHARDS=parts")
	if err != nil || !strings.Contains(out, "Enterprise edition") || !strings.Contains(out, "each of parts.likes parts.count and") {
		t.Errorf("%v: %s", err, out)
	}
}

// Each collection whose documents are counted has a trigger. One that is there stays as it is, and
// one that nothing needs any more goes, after those that take its place.
func TestDeployKeepsATriggerForEachCountedCollection(t *testing.T) {
	t.Parallel()
	comments, ratings, notes := watch("counters", "comments"), watch("counters", "ratings"), watch("counters", "notes")
	calls, out, err := script(t, []string{"GCLOUD_STATE=deployed", "GCLOUD_TRIGGERS=" + comments + " " + notes + " counters-watch-" + comments}, "deploy.sh",
		"--project=a-project", "--location=us-central1", "--set=FIELDS=likes, comments=count(comments),stars=sum(ratings.stars),all=count(comments where x==\"sum(a.b)\")")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var got []string
	for _, c := range changes(calls) {
		switch {
		case strings.HasPrefix(c.name(), "eventarc"), c.name() == "functions deploy counters-rollup":
			got = append(got, c.name())
		case strings.HasPrefix(c.name(), "pubsub"):
			deadline, _ := c.flag("ack-deadline")
			expires, _ := c.flag("expiration-period")
			got = append(got, strings.TrimSuffix(c.name()+" "+expires+" "+deadline, " "))
		}
	}
	subscription := "pubsub subscriptions update projects/a-project/subscriptions/eventarc-of-"
	if want := []string{
		"functions deploy counters-rollup", subscription + "counters-rollup-123456 never",
		subscription + comments + " never 70", "eventarc triggers create " + ratings, subscription + ratings + " never 70",
		"eventarc triggers delete " + notes,
	}; !slices.Equal(got, want) {
		t.Errorf("the triggers are changed by\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestDestroyRemovesTheTriggersOfCountedCollections(t *testing.T) {
	t.Parallel()
	comments := watch("counters", "comments")
	calls, out, err := script(t, []string{"GCLOUD_STATE=deployed", "GCLOUD_TRIGGERS=" + comments + " other-" + comments + " counters-watch-" + comments}, "destroy.sh",
		"--project=a-project", "--region=us-central1", "--yes")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var got []string
	for _, c := range changes(calls) {
		if location, _ := c.flag("location"); c.words[0] == "eventarc" {
			got = append(got, c.name()+" in "+location)
		}
	}
	if want := []string{"eventarc triggers delete " + comments + " in nam5"}; !slices.Equal(got, want) {
		t.Errorf("removes %v, want %v", got, want)
	}
}

// What a function is billed by is set behind its deployment, and taken back before it: what is billed
// by the instance may not have less than 512 MiB. Where it is so already nothing is changed, and where
// it is refused all else is there, and it is said what to do.
func TestDeploySetsTheBilling(t *testing.T) {
	t.Parallel()
	args := []string{"--project=a-project", "--location=us-central1"}
	for name, c := range map[string]struct {
		env, args []string
		want      string // the deployments of functions, and the changes of their services, in order
		fails     string
	}{
		"new":        {nil, []string{"--increment-billing=instance", "--rollup-billing=instance"}, "counters-increment no-cpu-throttling counters-reconcile counters-rollup no-cpu-throttling", ""},
		"one of two": {nil, []string{"--rollup-billing=instance"}, "counters-increment counters-reconcile counters-rollup no-cpu-throttling", ""},
		"again":      {[]string{"GCLOUD_STATE=deployed", "GCLOUD_THROTTLED=False"}, []string{"--increment-billing=instance", "--rollup-billing=instance"}, "counters-increment counters-reconcile counters-rollup", ""},
		"back":       {[]string{"GCLOUD_STATE=deployed", "GCLOUD_THROTTLED=false"}, []string{"--memory=256Mi"}, "cpu-throttling counters-increment counters-reconcile cpu-throttling counters-rollup", ""},
		"as always":  {[]string{"GCLOUD_STATE=deployed"}, nil, "counters-increment counters-reconcile counters-rollup", ""},
		"refused": {[]string{"GCLOUD_FAIL=counters-increment --project=a-project --region=us-central1 --no-cpu-throttling", "GCLOUD_FAILURES=1"}, []string{"--increment-billing=instance"},
			"counters-increment no-cpu-throttling counters-reconcile counters-rollup", "all is deployed, but counters-increment is still billed by the request: see above. That takes roles/run.admin"},
		"back, refused": {[]string{"GCLOUD_STATE=deployed", "GCLOUD_THROTTLED=false", "GCLOUD_FAIL=--cpu-throttling", "GCLOUD_FAILURES=9"}, nil,
			"cpu-throttling", "counters-increment is billed by the instance, and that can't be taken back: see above"},
	} {
		calls, out, err := script(t, c.env, "deploy.sh", append(args, c.args...)...)
		if (err != nil) != (c.fails != "") || !strings.Contains(out, c.fails) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		var got []string
		for _, call := range changes(calls) {
			switch {
			case strings.HasPrefix(call.name(), "functions deploy "):
				got = append(got, call.words[2])
			case strings.HasPrefix(call.name(), "run services update "):
				got = append(got, strings.TrimPrefix(call.flags[len(call.flags)-2], "--"))
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// It says first what it makes, who may call that, what it costs a month and at worst; where no price
// is known, it says that, and goes on.
func TestDeployPrintsAPlan(t *testing.T) {
	t.Parallel()
	for args, want := range map[string][]string{
		"--location=us-central1 --rate=1000 --increment-billing=instance --increment-max-instances=4": {
			"In project a-project this makes, or brings up to date:", "(default) in us-central1, which is there, and stays as it is", "counters-increment (at most 4 instances)",
			"may call   nobody new: --invoker", "At 1000 increments a second", "Increment $49.25 by the instance, Rollup $169.13 by the request",
			"busy, 4 of Increment and 2 of Rollup", ", alerts\n",
		},
		"--location=us-central1 --invoker=user:a@example.com --invoker=user:b@example.com --budget=100USD --no-alerts": {
			"may call   user:a@example.com, user:b@example.com\n", "a dashboard, a budget of 100USD a month\n", "At 1 increment a second",
		},
		"--location=us-central1 --no-invoker-check --set=AUTH=firebase --set=COUNTERS=posts/{post}": {
			"counters   posts/{post}\n", "may call   the whole internet (AUTH=firebase)\n",
		},
		"--location=us-central1 --web-app=https://app.example --web-app=https://www.app.example --set=HOSTED=true --set=COUNTERS=posts/{post}": {
			"may call   the whole internet (AUTH=firebase); web pages: https://app.example,https://www.app.example (--web-app)\n",
		},
		"--location=asia-east1": {`no source for the prices of "asia-east1"`, "So there is no estimate."},
	} {
		args := strings.Fields(args)
		location := strings.TrimPrefix(args[0], "--location=")
		_, out, err := script(t, []string{"GCLOUD_DATABASE=(default)|" + location + "|FIRESTORE_NATIVE|STANDARD"}, "deploy.sh", append([]string{"--project=a-project"}, args...)...)
		for _, w := range append(want, "Deployed in 0:") {
			if err != nil || !strings.Contains(out, w) {
				t.Errorf("%s: %v, no %q in\n%s", args, err, w, out)
			}
		}
		if strings.Contains(out, "Go on?") {
			t.Errorf("%s: asks where nobody can answer\n%s", args, out)
		}
	}
	_, out, err := script(t, []string{"GCLOUD_DATABASE="}, "deploy.sh", "--project=a-project", "--location=us-central1", "--create-database")
	if err != nil || !strings.Contains(out, "which is made, protected against deletion") {
		t.Errorf("a database that is to be made: %v\n%s", err, out)
	}
}

// On a terminal it asks before anything is made, unless it is told not to.
func TestDeployAsks(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("script"); err != nil {
		t.Skip("script, which gives a command a terminal, is not on the PATH")
	}
	for _, c := range []struct {
		answer, flags string
		asks, made    bool
	}{{"y", "", true, true}, {"n", "", true, false}, {"", "", true, false}, {"n", "--yes", false, true}, {"n", "--dry-run", false, false}} {
		dir := standIn(t)
		cmd := exec.Command("script", "--quiet", "--return", "--command", "bash ../scripts/deploy.sh --project=a-project --location=us-central1 "+c.flags, filepath.Join(dir, "typescript"))
		cmd.Env = standInEnv(t, dir)
		cmd.Stdin = strings.NewReader(c.answer + "\n")
		out, err := cmd.CombinedOutput()
		calls, _ := os.ReadFile(filepath.Join(dir, "calls"))
		if made := strings.Contains(string(calls), "functions\ndeploy"); made != c.made || strings.Contains(string(out), "Go on? [y/N]") != c.asks || (err == nil) != (c.made || c.flags != "") {
			t.Errorf("%q %s: %v, made %v\n%s", c.answer, c.flags, err, made, out)
		}
	}
}

// Its steps are numbered up to the last, with the time that has gone by.
func TestDeployNumbersItsSteps(t *testing.T) {
	t.Parallel()
	_, out, err := script(t, nil, "deploy.sh", "--project=a-project", "--location=us-central1")
	if err != nil {
		t.Fatal(err, out)
	}
	steps := regexp.MustCompile(`(?m)^\[(\d+)/(\d+), \d+:\d\d\] \S`).FindAllStringSubmatch(out, -1)
	for i, step := range steps {
		if want := []string{fmt.Sprint(i + 1), fmt.Sprint(len(steps))}; !slices.Equal(step[1:], want) {
			t.Errorf("step %d is called %s, want %v", i+1, step[0], want)
		}
	}
	if len(steps) < 8 {
		t.Errorf("%d steps in\n%s", len(steps), out)
	}
}

func TestDeployTakesTheNewestRuntime(t *testing.T) {
	t.Parallel()
	for _, c := range deploy(t, aDatabase) {
		if runtime, _ := c.flag("runtime"); strings.HasPrefix(c.name(), "functions deploy") && runtime != "go127" {
			t.Errorf("%s has the runtime %s, and the platform has go127", c.name(), runtime)
		}
	}
}

func TestDeployOrder(t *testing.T) {
	t.Parallel()
	calls := deploy(t, aDatabase, "--invoker=user:a@example.com")
	at := func(pattern string) int {
		re := regexp.MustCompile(pattern)
		i := slices.IndexFunc(calls, func(c call) bool { return re.MatchString(c.name() + " " + strings.Join(c.flags, " ")) })
		if i < 0 {
			t.Errorf("no call matches %s", pattern)
		}
		return i
	}
	order := []string{
		"^services enable", "^beta services identity create", "roles/eventarc.serviceAgent", "^iam service-accounts create counters-rollup",
		"roles/eventarc.eventReceiver", "^functions deploy counters-increment", "^functions deploy counters-rollup",
		"^run services add-iam-policy-binding counters-rollup", "^scheduler jobs create", "^logging metrics create", "^alpha monitoring policies create",
		"^monitoring dashboards create", "^run services add-iam-policy-binding counters-increment",
	}
	for i := 1; i < len(order); i++ {
		if at(order[i-1]) > at(order[i]) {
			t.Errorf("%s comes after %s", order[i-1], order[i])
		}
	}
}

// What goes away by itself is tried again, for as long as five minutes and with words on what is
// waited for; what doesn't is not.
func TestDeployIsPatientWithWhatPasses(t *testing.T) {
	t.Parallel()
	const agent = "Permission denied while using the Eventarc Service Agent."
	for _, c := range []struct {
		fails, says string
		failures    int
		ok          bool
		words       string
	}{
		{"functions deploy counters-rollup", agent, 29, true, "waiting for the role of Eventarc's agent"},
		{"functions deploy counters-rollup", agent, 30, false, "waiting for the role of Eventarc's agent"},
		{"functions deploy counters-rollup", "Build failed with status: FAILURE. undefined: x", 1, false, "undefined: x"},
		{"functions deploy counters-increment", "Build failed with status: FAILURE. Could not build the function due to a missing permission on the build service account.", 2, true, "the roles of the build's account"},
		{"projects add-iam-policy-binding", "INVALID_ARGUMENT: Service account counters-build@a-project.iam.gserviceaccount.com does not exist.", 3, true, "waiting for a new service account"},
		{"iam service-accounts list", "PERMISSION_DENIED: iam.googleapis.com API has not been used in project 1 before or it is disabled.", 6, true, "waiting for an API"},
		{"iam service-accounts list", "PERMISSION_DENIED: Permission iam.serviceAccounts.list is required.", 1, false, "iam.serviceAccounts.list is required"},
		{"firestore databases list", "UNAVAILABLE: The service is currently unavailable.", 1, true, "waiting for the platform"},
	} {
		calls, out, err := script(t, []string{"GCLOUD_FAIL=" + c.fails, fmt.Sprint("GCLOUD_FAILURES=", c.failures), "GCLOUD_ERROR=" + c.says}, "deploy.sh", "--project=a-project", "--location=us-central1")
		if (err == nil) != c.ok || !strings.Contains(out, c.words) {
			t.Errorf("%s fails %d times, %q: %v\n%s", c.fails, c.failures, c.says, err, out)
		}
		tries := 0
		for _, call := range calls {
			if strings.HasPrefix(strings.Join(append(call.words, call.flags...), " "), c.fails) {
				tries++
			}
		}
		if !c.ok && tries != c.failures {
			t.Errorf("%s fails with %q: tried %d times", c.fails, c.says, tries)
		}
		after := slices.ContainsFunc(calls, func(c call) bool { return strings.HasPrefix(c.name(), "scheduler jobs create") })
		if after != c.ok {
			t.Errorf("%s fails %d times: went on: %v", c.fails, c.failures, after)
		}
	}
}

func TestDeployStopsWithoutTheProject(t *testing.T) {
	t.Parallel()
	for question, most := range map[string]int{"services list": 0, "projects describe": 1} { // APIs, which the second needs
		calls, out, err := script(t, []string{"GCLOUD_FAIL=" + question, "GCLOUD_FAILURES=9"}, "deploy.sh", "--project=a-project", "--location=us-central1")
		if err == nil || !strings.Contains(out, "can't read") {
			t.Errorf("%s: %v: %s", question, err, out)
		}
		if n := len(changes(calls)); n > most {
			t.Errorf("%s: changed something in a project that can't be read: %v", question, changes(calls))
		}
	}
}

func TestScriptsRefuse(t *testing.T) {
	t.Parallel()
	ok := []string{"--project=p-roject", "--location=eur3"}
	for _, c := range []struct {
		script string
		args   []string
		says   string
	}{
		{"deploy.sh", nil, "--project is missing"},
		{"deploy.sh", []string{"--project=p-roject"}, "--location is missing"},
		{"deploy.sh", append(ok, "--frobnicate"), "--frobnicate"},
		{"deploy.sh", append(ok, "--frobnicate=1"), "--frobnicate: unknown option"},
		{"deploy.sh", append(ok, "--set"), "no value"},
		{"deploy.sh", append(ok, "--web-app=app.example"), "--web-app app.example: want an origin such as https://app.example"},
		{"deploy.sh", append(ok, "--web-app=https://app.example/"), "without a path"},
		{"deploy.sh", append(ok, "--set=NUM_SHARD=5"), "NUM_SHARD=5: there is no such setting"},
		{"deploy.sh", append(ok, "--set=NUM_SHARDS"), "NUM_SHARDS: want a value"},
		{"deploy.sh", append(ok, "--set=--shell"), "--shell: there is no such setting"},
		{"deploy.sh", append(ok, "--set=COUNTERS=a|b"), "without |"},
		{"deploy.sh", append(ok, "--set=RECONCILE_DEADLINE=soon"), "RECONCILE_DEADLINE=soon: want a duration"},
		{"deploy.sh", append(ok, "--set=RECONCILE_DEADLINE=99h"), "RECONCILE_DEADLINE=99h0m0s: want 1s to 1700s"},
		{"deploy.sh", append(ok, "--set=NUM_SHARDS=0", "--set=MAX_BATCH=0"), "NUM_SHARDS=0: want 1 to 1000"},
		{"deploy.sh", append(ok, "--set=COUNTERS=counters"), "COUNTERS=counters: want collections and wildcards in turn"},
		{"deploy.sh", append(ok, "--set=FIELDS=a.b"), "FIELDS=a.b: want names"},
		{"deploy.sh", append(ok, "--set=NUM_SHARDS=0"), "nothing was made"},
		{"deploy.sh", append(ok, "--lag-alert-seconds=abc"), "--lag-alert-seconds abc: want a whole number from 5 to 3600"},
		{"deploy.sh", append(ok, "--lag-alert-seconds=4"), "want a whole number from 5 to 3600"},
		{"deploy.sh", append(ok, "--reconcile-missing-after=90"), "want whole minutes"},
		{"deploy.sh", append(ok, "--rollup-max-instances=2", "--rollup-min-instances=3"), "want a whole number from 0 to 2"},
		{"deploy.sh", append(ok, "--memory=512MB"), "--memory 512MB: want"},
		{"deploy.sh", append(ok, "--memory=511Mi", "--rollup-billing=instance"), "--memory 511Mi: want 512Mi at least with --increment-billing or --rollup-billing instance"},
		{"deploy.sh", append(ok, "--memory=128Mi"), "--memory 128Mi: want 256Mi at least: an instance takes 500 requests at a time"},
		{"deploy.sh", append(ok, "--rollup-max-instances=1001"), "want a whole number from 1 to 1000"},
		{"deploy.sh", append(ok, "--trigger-location=us-central1"), "--trigger-location us-central1: want eur3, the database's"},
		{"deploy.sh", append(ok, "--rate=many"), "--rate many: want increments a second"},
		{"deploy.sh", append(ok, "--increment-billing=hour"), "--increment-billing hour: want request or instance"},
		{"deploy.sh", append(ok, "--rollup-billing="), "--rollup-billing : want request or instance"},
		{"deploy.sh", append(ok, "--runtime=go124"), "go126 or later"},
		{"deploy.sh", append(ok, "--reconcile-schedule=hourly"), "a cron expression of five fields"},
		{"deploy.sh", append(ok, "--increment-ingress=ALLOW_ALL"), "want all, internal-and-gclb"},
		{"deploy.sh", append(ok, "--kms-key=k"), "cryptoKeys/K"},
		{"deploy.sh", append(ok, "--kms-key="+aKey), "want --docker-repository too"},
		{"deploy.sh", append(ok, "--invoker=allUsers"), "let in by --public"},
		{"deploy.sh", append(ok, "--notification-channel=5"), "projects/P/notificationChannels/N"},
		{"deploy.sh", append(ok, "--project=My Project"), "a project's id"},
		{"deploy.sh", append(ok, "--location=Frankfurt"), "a location of Firestore"},
		{"deploy.sh", append(ok, "--region=eur3"), "a region"},
		{"deploy.sh", append(ok, "--public", "--set=AUTH="), "want none, firebase or appcheck"},
		{"deploy.sh", append(ok, "--set=AUTH=iap"), "want none, firebase or appcheck"},
		{"deploy.sh", append(ok, "--increment-concurrency=1"), "undoes group commit"},
		{"deploy.sh", append(ok, "--prefix=Likes"), "--prefix"},
		{"destroy.sh", []string{"--project=p-roject"}, "--region is missing"},
		{"destroy.sh", []string{"--region=eur3"}, "--project is missing"},
		{"destroy.sh", []string{"--project=123456789", "--region=us-central1", "--yes"}, "a project's id, which is not its name or number"},
		{"destroy.sh", []string{"--project=p-roject", "--region=us-central1", "--yes", "--prefix=.*"}, "--prefix .*: want 1 to 20"},
		{"destroy.sh", []string{"--project=p-roject", "--region=us-central1"}, "nothing was removed"}, // no answer to its question
	} {
		calls, out, err := script(t, nil, c.script, c.args...)
		if err == nil || !strings.Contains(out, c.says) || len(calls) > 0 {
			t.Errorf("%s %v: %v, %d calls: %s", c.script, c.args, err, len(calls), out)
		}
	}
}

// The functions take Go's booleans, and a shell that compared words turned off the indexes of the
// app's own collection.
func TestDeployTakesTheFunctionsBooleans(t *testing.T) {
	t.Parallel()
	for _, hosted := range []string{"true", "1", "True", "t"} {
		var exempted []string
		for _, c := range deploy(t, aDatabase, "--set=COUNTERS=posts/{post}", "--set=HOSTED="+hosted) {
			if group, _ := c.flag("collection-group"); strings.HasPrefix(c.name(), "firestore indexes fields update") && group == "posts" {
				exempted = append(exempted, c.words[4])
			}
			if env, _ := c.flag("set-env-vars"); strings.HasPrefix(c.name(), "functions deploy") && !strings.Contains(env, "|HOSTED=true|") {
				t.Errorf("HOSTED=%s: %s is told %s", hosted, c.name(), env)
			}
		}
		if !slices.Equal(exempted, []string{"counter_rollup"}) {
			t.Errorf("HOSTED=%s: of the app's own collection the indexes of %q are turned off", hosted, exempted)
		}
	}
}

// What a deployment turned off while it took the documents for its own is given back, and nothing
// that may be the app's.
func TestDeployGivesIndexesBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		state, before, counters string
		want, says              string
	}{
		{"deployed", "false", "posts/{post}", "updated_at created_at", "has the index of posts.updated_at back"},
		{"deployed", "1", "posts/{post}", "updated_at created_at", "has the index of posts.created_at back"},
		{"deployed", "true", "posts/{post}", "", ""},  // the app turned them off
		{"deployed", "false", "pages/{page}", "", ""}, // nobody did
	} {
		calls, out, err := script(t, []string{"GCLOUD_STATE=" + c.state, "GCLOUD_HOSTED=" + c.before}, "deploy.sh", "--project=a-project", "--location=us-central1",
			"--set=COUNTERS="+c.counters, "--set=HOSTED=true")
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		var given []string
		for _, call := range calls {
			if _, back := call.flag("clear-exemption"); back {
				given = append(given, call.words[4])
			}
		}
		if got := strings.Join(given, " "); got != c.want || !strings.Contains(out, c.says) {
			t.Errorf("%+v: given back are %q\n%s", c, got, out)
		}
	}
}

// An index that was turned off and is to be there, or may be, is named with the command that turns it on, as a shell takes it.
func TestDeployNamesIndexesThatAreOff(t *testing.T) {
	t.Parallel()
	const turnOn = "gcloud firestore indexes fields update %s --project=a-project --database=(default) --collection-group=%s --clear-exemption"
	for _, c := range []struct {
		env, args []string
		want      []string // group and field
	}{
		{nil, []string{"--no-exempt-updated-at", "--no-exempt-created-at"}, []string{"counters updated_at", "counters created_at"}},
		{nil, []string{"--no-exempt-created-at"}, []string{"counters created_at"}},
		{nil, nil, nil},
		{[]string{"GCLOUD_GONE=yes"}, []string{"--set=COUNTERS=posts/{post}", "--set=HOSTED=true"}, []string{"posts updated_at", "posts created_at"}},
	} {
		calls, out, err := script(t, append(c.env, "GCLOUD_STATE=deployed"), "deploy.sh", append([]string{"--project=a-project", "--location=us-central1"}, c.args...)...)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		var want, said []string
		for _, of := range c.want {
			group, field, _ := strings.Cut(of, " ")
			want = append(want, fmt.Sprintf(turnOn, field, group))
		}
		for _, command := range regexp.MustCompile(`gcloud firestore indexes fields update .*--clear-exemption`).FindAllString(out, -1) {
			words, err := exec.CommandContext(t.Context(), "bash", "-c", "echo "+command).Output()
			if err != nil {
				t.Errorf("no shell takes %s", command)
			}
			said = append(said, strings.TrimSpace(string(words)))
		}
		if !slices.Equal(said, want) {
			t.Errorf("%v %v: says\n%s\nwant\n%s", c.env, c.args, strings.Join(said, "\n"), strings.Join(want, "\n"))
		}
		for _, call := range calls {
			if _, back := call.flag("clear-exemption"); back {
				t.Errorf("%v: turns %s on by itself", c.args, call.name())
			}
		}
	}
}

// What is to be tried at the end can be, with the token and the counter that it takes.
func TestDeploySaysHowToTryIt(t *testing.T) {
	t.Parallel()
	const here = "Try it:  scripts/smoke.sh https://counters-increment.a.run.app "
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--set=AUTO_CREATE=true"}, `--token "$(gcloud auth print-identity-token)"` + "\n"},
		{[]string{"--set=AUTO_CREATE=60"}, `--token "$(gcloud auth print-identity-token)"` + "\n"},
		{nil, `--token "$(gcloud auth print-identity-token)" --counter ID   (ID is that of a counter that is there)`},
		{[]string{"--set=AUTO_CREATE=true", "--set=COUNTERS=teams/{team}/posts/{post}"}, `--token "$(gcloud auth print-identity-token)" --counter ID`},
		{[]string{"--set=AUTH=firebase", "--set=AUTO_CREATE=true"}, "--token TOKEN   (TOKEN is the ID token of a user who signed in with Firebase)\n"},
		{[]string{"--web-app=https://app.example", "--set=HOSTED=true", "--set=COUNTERS=posts/{post}"}, "--token TOKEN --counter ID   (TOKEN is the ID token of a user who signed in with Firebase, and ID is"},
		{[]string{"--set=AUTH=appcheck", "--set=AUTO_CREATE=true"}, "--header 'X-Firebase-AppCheck: TOKEN'   (TOKEN is an App Check token of your app)\n"},
	} {
		_, out, err := script(t, nil, "deploy.sh", append([]string{"--project=a-project", "--location=us-central1"}, c.args...)...)
		if err != nil || !strings.Contains(out, here+c.want) {
			t.Errorf("%v: %v, want %s%s in\n%s", c.args, err, here, c.want, out)
		}
	}
}

// Nothing is made before what is there is known to do.
func TestDeployMakesNothingWithoutADatabase(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		database, says string
		args           []string
	}{
		{"", "Firestore is turned off in a-project", nil},
		{"", "Add --create-database", nil},
		{"other|us-central1|FIRESTORE_NATIVE|STANDARD", "there is no database (default)", nil},
		{"x(default)|us-central1|FIRESTORE_NATIVE|STANDARD", "there is no database (default)", nil},
		{"(default)|nam5|FIRESTORE_NATIVE|STANDARD", "say --location nam5", nil},
		{"(default)|nam5|FIRESTORE_NATIVE|STANDARD", "say --location nam5", []string{"--create-database"}},
		{"(default)|us-central1|DATASTORE_MODE|STANDARD", "Datastore mode", nil},
	} {
		calls, out, err := script(t, []string{"GCLOUD_DATABASE=" + c.database}, "deploy.sh", append([]string{"--project=a-project", "--location=us-central1"}, c.args...)...)
		if err == nil || !strings.Contains(out, c.says) || len(changes(calls)) > 0 {
			t.Errorf("%q %v: %v, %v\n%s", c.database, c.args, err, changes(calls), out)
		}
	}
}

func TestDeployNeedsGo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, tool := range []string{"bash", "dirname", "cat"} {
		path, err := exec.LookPath(tool)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(dir, tool)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("bash", "../scripts/deploy.sh", "--project=a-project", "--location=us-central1")
	cmd.Env = []string{"PATH=" + dir}
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "Go is not installed") {
		t.Errorf("%v: %s", err, out)
	}
}

// Organisations that share with their own domains only refuse allUsers: everything else is there by
// then, and what else there is to do is said.
func TestARefusedGrantEndsNothing(t *testing.T) {
	t.Parallel()
	refused := []string{"GCLOUD_FAIL=add-iam-policy-binding counters-increment", "GCLOUD_FAILURES=9", "GCLOUD_ERROR=FAILED_PRECONDITION: One or more users named in the policy do not belong to a permitted customer, perhaps due to an organization policy."}
	calls, out, err := script(t, refused, "deploy.sh", "--project=a-project", "--location=us-central1", "--public", "--invoker=user:a@example.com", "--set=AUTH=firebase")
	if err == nil || !strings.Contains(out, "all is deployed, but user:a@example.com allUsers was refused") || !strings.Contains(out, "--no-invoker-check") || !strings.Contains(out, "Increment is at") {
		t.Errorf("%v\n%s", err, out)
	}
	for _, made := range []string{"scheduler jobs create", "logging metrics create", "alpha monitoring policies create", "monitoring dashboards create"} {
		if !slices.ContainsFunc(calls, func(c call) bool { return strings.HasPrefix(c.name(), made) }) {
			t.Errorf("%s doesn't come to be", made)
		}
	}
	// The other way, which those organisations allow.
	for unchecked, want := range map[string]int{"": 1, "true": 0} {
		calls, out, err := script(t, append(refused, "GCLOUD_UNCHECKED="+unchecked), "deploy.sh", "--project=a-project", "--location=us-central1", "--no-invoker-check", "--set=AUTH=firebase")
		n := 0
		for _, c := range changes(calls) {
			if _, off := c.flag("no-invoker-iam-check"); off && c.name() == "run services update counters-increment" {
				n++
			}
		}
		if err != nil || n != want {
			t.Errorf("the check is turned off %d times where it is %q: %v\n%s", n, unchecked, err, out)
		}
	}
	_, out, err = script(t, []string{"GCLOUD_UNCHECKED=true"}, "deploy.sh", "--project=a-project", "--location=us-central1")
	if err != nil || !strings.Contains(out, "gcloud run services update counters-increment --project=a-project --region=us-central1 --invoker-iam-check") {
		t.Errorf("what lets everybody in is not named: %v\n%s", err, out)
	}
}

func TestDryRunsChangeNothing(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"deploy.sh":  {"--project=a-project", "--location=us-central1", "--create-database", "--dry-run"},
		"destroy.sh": {"--project=a-project", "--region=us-central1", "--dry-run"},
	} {
		calls, out, err := script(t, []string{"GCLOUD_STATE=deployed"}, name, args...)
		if err != nil || len(changes(calls)) > 0 || name == "deploy.sh" && len(calls) > 0 {
			t.Errorf("%s --dry-run: %v, ran %v", name, err, calls)
		}
		if n := strings.Count(out, "gcloud "); n < 20 {
			t.Errorf("%s --dry-run prints %d commands:\n%s", name, n, out)
		}
	}
}

// What deploy.sh makes, destroy.sh removes; data stays.
func TestDestroyRemovesWhatDeployMade(t *testing.T) {
	t.Parallel()
	calls, out, err := script(t, []string{"GCLOUD_STATE=deployed"}, "destroy.sh", "--project=a-project", "--region=us-central1", "--yes")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	removed := map[string]int{}
	for _, c := range changes(calls) {
		if c.words[0] == "firestore" || c.words[0] == "services" {
			t.Errorf("touches data or APIs: %s", c.name())
		}
		member, _ := c.flag("member")
		role, _ := c.flag("role")
		if slices.Contains(c.words, "remove-iam-policy-binding") {
			removed[fmt.Sprintf("grant %s %s", member, role)]++
		} else {
			name, _, _ := strings.Cut(c.words[len(c.words)-1], "@")
			removed[strings.Join(slices.DeleteFunc(slices.Clone(c.words[:len(c.words)-1]), func(w string) bool { return w == "delete" }), " ")+" "+name]++
		}
	}
	made := map[string]int{}
	for _, c := range deploy(t, aDatabase) {
		member, _ := c.flag("member")
		role, _ := c.flag("role")
		switch {
		case strings.HasPrefix(c.name(), "projects add-iam-policy-binding") && role != "roles/eventarc.serviceAgent":
			made[fmt.Sprintf("grant %s %s", member, role)]++
		case strings.HasPrefix(c.name(), "functions deploy"):
			made["functions "+c.words[2]]++
		case strings.HasPrefix(c.name(), "iam service-accounts create"), strings.HasPrefix(c.name(), "logging metrics create"):
			made[c.words[0]+" "+c.words[1]+" "+c.words[3]]++
		case strings.HasPrefix(c.name(), "artifacts repositories create"):
			made["artifacts repositories "+c.words[3]]++
		case strings.HasPrefix(c.name(), "logging sinks update"):
			made["logging sinks update _Default"]++
		case strings.HasPrefix(c.name(), "scheduler jobs create"):
			made["scheduler jobs "+c.words[4]]++
		case strings.HasPrefix(c.name(), "alpha monitoring policies create"):
			made["alpha monitoring policies "+strings.NewReplacer("counters: totals lag behind", "lag", "counters: a total had drifted", "drift",
				"counters: an event can never succeed", "poison", "counters: a counter can't be rolled up", "noted", "counters: Reconcile does not run", "reconcile", "counters: roll-ups fail", "errors").
				Replace(fmt.Sprint(decode(t, c.file)["displayName"]))]++
		case strings.HasPrefix(c.name(), "monitoring dashboards create"):
			made["monitoring dashboards ours"]++
		}
	}
	if !maps.Equal(made, removed) {
		t.Errorf("made    %v\nremoved %v", made, removed)
	}
}

func TestDestroyGoesOnAfterAFailure(t *testing.T) {
	t.Parallel()
	calls, out, err := script(t, []string{"GCLOUD_STATE=deployed", "GCLOUD_FAIL=functions delete counters-rollup", "GCLOUD_FAILURES=1"}, "destroy.sh", "--project=a-project", "--region=us-central1", "--yes")
	if err == nil || !strings.Contains(out, `run this again, with --set DATABASE=\(default\)`) {
		t.Errorf("a failed removal is not reported: %v: %s", err, out)
	}
	if !slices.ContainsFunc(calls, func(c call) bool { return strings.HasPrefix(c.name(), "logging metrics delete") }) {
		t.Error("one failure keeps the rest from being removed")
	}
	if _, out, err := script(t, []string{"GCLOUD_STATE=deployed"}, "destroy.sh", "--project=a-project", "--region=europe-west1", "--yes"); err == nil || !strings.Contains(out, "counters-rollup is in us-central1") {
		t.Errorf("where the functions are in another region: %v: %s", err, out)
	}
	if calls, out, err := script(t, nil, "destroy.sh", "--project=a-project", "--region=us-central1", "--yes"); err != nil || len(changes(calls)) > 0 {
		t.Errorf("where nothing is deployed: %v, %v: %s", err, changes(calls), out)
	}
}

// A second run finds no functions that say what database is theirs, and a first one may fail to ask. By the defaults
// destroy.sh would take what another application has in (default).
func TestDestroyTouchesNoDatabaseThatIsNotKnown(t *testing.T) {
	t.Parallel()
	social := []string{"GCLOUD_STATE=deployed", "GCLOUD_DATABASE=social", "GCLOUD_SETTINGS=social||||"}
	for name, c := range map[string]struct {
		environ, args []string
		says          string // "" where it ends well
		databases     string // that commands name
	}{
		"it is known":                  {social, []string{"--everything", "--delete-database=social"}, "", "social"},
		"it is known better":           {social, []string{"--everything", "--set=DATABASE=theirs"}, "", "social"},
		"a second run":                 {append([]string{"GCLOUD_GONE=yes"}, social...), nil, "", ""},
		"a second run, of everything":  {append([]string{"GCLOUD_GONE=yes"}, social...), []string{"--everything"}, "say --set DATABASE=", ""},
		"a second run that knows it":   {append([]string{"GCLOUD_GONE=yes"}, social...), []string{"--everything", "--set=DATABASE=social"}, "", "social"},
		"a second run that knows less": {append([]string{"GCLOUD_GONE=yes"}, social...), []string{"--everything", "--set=COUNTERS=posts/{post}"}, "say --set DATABASE=", ""},
		"another is to be deleted":     {social, []string{"--everything", "--delete-database=theirs"}, "the counters are in social; nothing was removed", ""},
		"no list of functions":         {append([]string{"GCLOUD_FAIL=functions list", "GCLOUD_FAILURES=1"}, social...), []string{"--everything"}, "nothing was removed", ""},
		"no settings of a function":    {append([]string{"GCLOUD_FAIL=functions describe", "GCLOUD_FAILURES=1"}, social...), []string{"--everything"}, "nothing was removed", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calls, out, err := script(t, c.environ, "destroy.sh", append([]string{"--project=a-project", "--region=us-central1", "--yes"}, c.args...)...)
			if (err == nil) != (c.says == "") || !strings.Contains(out, c.says) {
				t.Errorf("%v, want %q: %s", err, c.says, out)
			}
			if c.says != "" && len(changes(calls)) > 0 {
				t.Errorf("removed: %v", changes(calls))
			}
			for _, call := range calls {
				if of, is := call.flag("database"); is && of != c.databases {
					t.Errorf("%s in the database %s, want %q alone", call.name(), of, c.databases)
				}
			}
			if strings.Contains(out, "(default)") || c.databases == "" && strings.Contains(out, "databases delete") {
				t.Errorf("names another database: %s", out)
			}
		})
	}
}
