package terraform

import (
	"fmt"
	"maps"
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
		if strings.HasPrefix(c.name(), "beta services identity create") {
			continue // answers with the identity that is there
		}
		if slices.Contains(c.words, "create") {
			t.Errorf("made again: %s", c.name())
		}
		if slices.Contains(c.words, "update") {
			updated[strings.Join(c.words[:min(3, len(c.words))], " ")]++
		}
		if strings.HasPrefix(c.name(), "monitoring dashboards update") {
			if decode(t, c.file)["etag"] != "etag-1" {
				t.Errorf("the dashboard is updated without its etag: %.80s", c.file)
			}
		}
	}
	for command, n := range map[string]int{"scheduler jobs update": 1, "logging metrics update": 7, "alpha monitoring policies": 5, "monitoring dashboards update": 1} {
		if updated[command] != n {
			t.Errorf("%d × %s, want %d: %v", updated[command], command, n, updated)
		}
	}
}

func TestDeployOrder(t *testing.T) {
	t.Parallel()
	calls := deploy(t)
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
		"^run services add-iam-policy-binding counters-rollup", "^scheduler jobs create",
	}
	for i := 1; i < len(order); i++ {
		if at(order[i-1]) > at(order[i]) {
			t.Errorf("%s comes after %s", order[i-1], order[i])
		}
	}
}

func TestDeployIsPatientWithNewGrants(t *testing.T) {
	t.Parallel()
	for failures, ok := range map[int]bool{5: true, 6: false} {
		calls, out, err := script(t, []string{"GCLOUD_FAIL=functions deploy counters-rollup", fmt.Sprint("GCLOUD_FAILURES=", failures)}, "deploy.sh", "--project=a-project", "--location=eur3")
		if (err == nil) != ok {
			t.Errorf("the trigger is refused %d times: %v\n%s", failures, err, out)
		}
		after := slices.ContainsFunc(calls, func(c call) bool { return strings.HasPrefix(c.name(), "scheduler jobs create") })
		if after != ok {
			t.Errorf("the trigger is refused %d times: went on: %v", failures, after)
		}
	}
}

func TestDeployStopsWithoutTheProject(t *testing.T) {
	t.Parallel()
	calls, out, err := script(t, []string{"GCLOUD_FAIL=projects describe", "GCLOUD_FAILURES=9"}, "deploy.sh", "--project=a-project", "--location=eur3")
	if err == nil || !strings.Contains(out, "gcloud auth login") {
		t.Errorf("%v: %s", err, out)
	}
	if len(changes(calls)) > 1 {
		t.Errorf("changed something in a project that can't be read: %v", changes(calls))
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
		{"deploy.sh", append(ok, "--set=NUM_SHARD=5"), "no such setting"},
		{"deploy.sh", append(ok, "--set=NUM_SHARDS"), "no value"},
		{"deploy.sh", append(ok, "--set=COUNTERS=a|b"), "can't hold |"},
		{"deploy.sh", append(ok, "--set=RECONCILE_DEADLINE=soon"), "RECONCILE_DEADLINE"},
		{"deploy.sh", append(ok, "--increment-concurrency=1"), "undoes group commit"},
		{"deploy.sh", append(ok, "--prefix=Likes"), "--prefix"},
		{"destroy.sh", []string{"--project=p-roject"}, "--region is missing"},
		{"destroy.sh", []string{"--region=eur3"}, "--project is missing"},
		{"destroy.sh", []string{"--project=p-roject", "--region=us-central1"}, "nothing was removed"}, // no answer to its question
	} {
		calls, out, err := script(t, nil, c.script, c.args...)
		if err == nil || !strings.Contains(out, c.says) || len(calls) > 0 {
			t.Errorf("%s %v: %v, %d calls: %s", c.script, c.args, err, len(calls), out)
		}
	}
}

func TestDryRunsRunNothing(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"deploy.sh":  {"--project=a-project", "--location=us-central1", "--create-database", "--dry-run"},
		"destroy.sh": {"--project=a-project", "--region=us-central1", "--dry-run"},
	} {
		calls, out, err := script(t, nil, name, args...)
		if err != nil || len(calls) > 0 {
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
		condition, _ := c.flag("condition")
		if slices.Contains(c.words, "remove-iam-policy-binding") {
			removed[fmt.Sprintf("grant %s %s %s", member, role, condition)]++
		} else {
			name := strings.Split(c.words[len(c.words)-1], "@")[0]
			removed[strings.Join(slices.DeleteFunc(slices.Clone(c.words[:len(c.words)-1]), func(w string) bool { return w == "delete" }), " ")+" "+name]++
		}
	}
	made := map[string]int{}
	for _, c := range deploy(t) {
		member, _ := c.flag("member")
		role, _ := c.flag("role")
		condition, _ := c.flag("condition")
		switch {
		case strings.HasPrefix(c.name(), "projects add-iam-policy-binding") && role != "roles/eventarc.serviceAgent":
			made[fmt.Sprintf("grant %s %s %s", member, role, condition)]++
		case strings.HasPrefix(c.name(), "functions deploy"):
			made["functions "+c.words[2]]++
		case strings.HasPrefix(c.name(), "iam service-accounts create"), strings.HasPrefix(c.name(), "logging metrics create"):
			made[c.words[0]+" "+c.words[1]+" "+c.words[3]]++
		case strings.HasPrefix(c.name(), "scheduler jobs create"):
			made["scheduler jobs "+c.words[4]]++
		case strings.HasPrefix(c.name(), "alpha monitoring policies create"):
			made["alpha monitoring policies there"]++
		case strings.HasPrefix(c.name(), "monitoring dashboards create"):
			made["monitoring dashboards there"]++
		}
	}
	if !maps.Equal(made, removed) {
		t.Errorf("made    %v\nremoved %v", made, removed)
	}
}

func TestDestroyGoesOnAfterAFailure(t *testing.T) {
	t.Parallel()
	calls, out, err := script(t, []string{"GCLOUD_STATE=deployed", "GCLOUD_FAIL=functions delete counters-rollup", "GCLOUD_FAILURES=1"}, "destroy.sh", "--project=a-project", "--region=us-central1", "--yes")
	if err == nil || !strings.Contains(out, "run this again") {
		t.Errorf("a failed removal is not reported: %v: %s", err, out)
	}
	if !slices.ContainsFunc(calls, func(c call) bool { return strings.HasPrefix(c.name(), "logging metrics delete") }) {
		t.Error("one failure keeps the rest from being removed")
	}
	if calls, out, err := script(t, nil, "destroy.sh", "--project=a-project", "--region=us-central1", "--yes"); err != nil || len(changes(calls)) > 0 {
		t.Errorf("where nothing is deployed: %v, %v: %s", err, changes(calls), out)
	}
}
