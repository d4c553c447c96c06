//go:build all

package scripts

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// terraform is the real one, with the real providers, in a folder that uses the module.
type terraform struct {
	dir string
	env []string
}

// newTerraform skips the test where terraform or its providers can't be had.
func newTerraform(t *testing.T) terraform {
	t.Helper()
	if _, err := exec.LookPath("terraform"); err != nil {
		t.Skip("terraform is not on the PATH: the module is not tried with the real providers")
	}
	tf := terraform{dir: t.TempDir(), env: append(os.Environ(), "TF_IN_AUTOMATION=1")}
	module, err := filepath.Abs("../terraform")
	if err != nil {
		t.Fatal(err)
	}
	if module, err = filepath.Rel(tf.dir, module); err != nil { // an absolute path is one of a package, which is copied
		t.Fatal(err)
	}
	var names, arguments strings.Builder
	for name, byDefault := range map[string]string{
		"prefix": `"counters"`, "fields": `"` + everywhere + `"`, "public": "false", "run_gcloud": "false",
		"invoker_check": "true", "memory": `"512Mi"`, "request_logs": "false", "kms_key": `""`, "docker_repository": `""`, "increment_ingress": `"ALLOW_ALL"`, "budget": `""`,
		"increment_billing": `"request"`, "rollup_billing": `"request"`, "create_database": "true", "release_rules": "true", "alerts": "true",
		"patience": `{ apis = "1s", accounts = "1s", agent = "1s" }`, "invokers": "[]",
		"owns": `["project", "database"]`, "counters": `"counters/{counter}"`,
	} {
		kind := map[string]string{"invokers": "set(string)", "owns": "set(string)", "patience": "map(string)"}[name]
		fmt.Fprintf(&names, "variable %q {\n  type    = %s\n  default = %s\n}\n", name, cmp.Or(kind, "string"), byDefault)
		fmt.Fprintf(&arguments, "  %s = var.%[1]s\n", name)
	}
	config := names.String() + `
provider "google" {
  project = "a-project"
}
provider "google-beta" {
  project = "a-project"
}
module "counters" {
  source     = "` + filepath.ToSlash(module) + `"
  project_id = "a-project"
  location   = "us-central1"
  auth       = "firebase"
` + arguments.String() + "}\n"
	if err := os.WriteFile(filepath.Join(tf.dir, "main.tf"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, code := tf.run(t, "init", "-backend=false"); code != 0 {
		t.Skipf("terraform's providers can't be had: the module is not tried with them\n%s", out)
	}
	return tf
}

// run runs one of terraform's commands, and returns what it printed and its exit code.
func (tf terraform) run(t *testing.T, command string, args ...string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "terraform", append([]string{command, "-input=false", "-no-color"}, args...)...)
	cmd.Dir, cmd.Env = tf.dir, tf.env
	out, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// apply applies with variables, and finds that there is nothing left to do then.
func (tf terraform) apply(t *testing.T, vars ...string) {
	t.Helper()
	if out, code := tf.run(t, "apply", append([]string{"-auto-approve"}, vars...)...); code != 0 {
		t.Fatalf("apply %v: exit code %d\n%s", vars, code, out)
	}
	if out, code := tf.run(t, "plan", append([]string{"-detailed-exitcode"}, vars...)...); code != 0 {
		t.Errorf("after apply %v terraform would change something again:\n%s", vars, out)
	}
}

// The module with the real providers: applied, changed, and destroyed.
func TestTerraform(t *testing.T) {
	t.Parallel()
	tf := newTerraform(t)
	p := startProject(t, "--active=cloudresourcemanager", "--own-domain")
	tf.env = append(append(tf.env, p.env...), "PATH="+p.bin+string(os.PathListSeparator)+os.Getenv("PATH"))

	// Where an organisation refuses allUsers, all else is there.
	if out, code := tf.run(t, "apply", "-auto-approve", "-var=public=true"); code == 0 || strings.Count(out, "Error: ") != 1 {
		t.Fatalf("allUsers: exit code %d\n%s", code, out)
	}
	made := p.state(t).count()
	for name, n := range map[string]int{"cloudfunctions": 3, "run": 3, "iam": 6, "cloudscheduler": 1, "eventarc": 4, "pubsub": 4, "logging": 9, "firestore": 10, "exclusion": 1} {
		if made[name] != n {
			t.Errorf("%d × %s, want %d", made[name], name, n)
		}
	}

	// What the providers have no argument for.
	unchecked := []string{"-var=run_gcloud=true", "-var=invoker_check=false"}
	tf.apply(t, unchecked...)
	const increment = "run projects/a-project/locations/us-central1/services/counters-increment"
	s := p.state(t)
	kept := 0 // where nothing comes through them
	if !s.Resources[increment].InvokerIamDisabled {
		t.Error("Cloud Run still checks who calls")
	}
	for name, r := range s.Resources {
		if strings.HasPrefix(name, "pubsub ") && r.ExpirationPolicy.TTL == "" {
			kept++
		}
		if strings.HasPrefix(name, "pubsub ") && !strings.Contains(name, "-rollup-") && r.AckDeadlineSeconds != 70 {
			t.Errorf("%s: events are sent again after %d s", name, r.AckDeadlineSeconds)
		}
	}
	if kept != 4 {
		t.Errorf("%d subscriptions never expire, want 4", kept)
	}
	tf.apply(t, append(unchecked, "-var=memory=1Gi", "-var=budget=100")...)
	for name, r := range p.state(t).Resources {
		if strings.HasPrefix(name, "billingbudgets ") && (r.Amount.SpecifiedAmount.Units != "100" || !slices.Equal(r.BudgetFilter.Projects, []string{"projects/123456789012"})) {
			t.Errorf("the budget is %+v", r)
		}
	}
	if n := p.state(t).count()["billingbudgets"]; n != 1 {
		t.Errorf("%d budgets", n)
	}
	if p.updates(t) == 0 {
		t.Error("the check was never turned off by gcloud")
	}
	tf.billing(t, p, unchecked)

	// Who opens it by the one and the other shuts it without them, too.
	for range 2 {
		tf.apply(t)
		if p.state(t).Resources[increment].InvokerIamDisabled {
			t.Error("without both variables Cloud Run still lets everybody in")
		}
		tf.apply(t, unchecked...)
		if !p.state(t).Resources[increment].InvokerIamDisabled {
			t.Error("Cloud Run checks who calls")
		}
	}
	tf.apply(t, "-var=run_gcloud=true")
	if p.state(t).Resources[increment].InvokerIamDisabled {
		t.Error("with gcloud alone Cloud Run still lets everybody in")
	}

	// A metric that has another name is another metric.
	key := "projects/p/locations/us-central1/keyRings/r/cryptoKeys/k"
	vars := append(unchecked, "-var=prefix=likes", "-var=kms_key="+key, "-var=docker_repository=projects/p/locations/us-central1/repositories/r",
		"-var=increment_ingress=ALLOW_INTERNAL_AND_GCLB", "-var=request_logs=true", "-var=budget=250USD", "-var=rollup_billing=instance")
	tf.apply(t, vars...)
	// And a function that is made anew is billed as is said.
	if got := p.state(t).byInstance(); !slices.Equal(got, []string{"likes-rollup"}) {
		t.Errorf("%v are billed by the instance, want likes-rollup", got)
	}
	var metrics []string
	for name := range p.state(t).Resources {
		if metric, is := strings.CutPrefix(name, "logging projects/a-project/metrics/"); is {
			metrics = append(metrics, metric)
		}
	}
	if slices.ContainsFunc(metrics, func(m string) bool { return !strings.HasPrefix(m, "likes_") }) || len(metrics) != 7 {
		t.Errorf("after a change of prefix there are the metrics %v, want seven of likes", metrics)
	}

	out, code := tf.run(t, "destroy", append([]string{"-auto-approve"}, vars...)...)
	if code != 0 || !strings.Contains(out, "The database (default) stays") {
		t.Fatalf("destroy: exit code %d\n%s", code, out)
	}
	left := p.state(t).count()
	if left["firestore"] != 1 { // what was said of fields is undone
		t.Errorf("of Firestore %d are left, want the database", left["firestore"])
	}
	delete(left, "firestore")
	if len(left) > 0 {
		t.Errorf("left are %v", left)
	}
	p.checkViolations(t)
}

// billing has the functions billed by the instance, with a change of a setting, and by the request
// again. Nothing is left to do after any of it.
func (tf terraform) billing(t *testing.T, p project, vars []string) {
	t.Helper()
	both := append(slices.Clone(vars), "-var=increment_billing=instance", "-var=rollup_billing=instance")
	for _, c := range []struct {
		what    string
		vars    []string
		want    []string // that are billed by the instance then
		updates int      // by gcloud, of services, for that
	}{
		{"set", append(slices.Clone(both), "-var=memory=1Gi"), []string{"counters-increment", "counters-rollup"}, 2},
		// Whether callers are checked is said again, and nothing else.
		{"another setting", append(slices.Clone(both), "-var=memory=2Gi"), []string{"counters-increment", "counters-rollup"}, 1},
		// At once with less memory than is billed by the instance.
		{"taken back", append(slices.Clone(vars), "-var=memory=256Mi"), nil, 3},
	} {
		before := p.updates(t)
		tf.apply(t, c.vars...)
		if got := p.state(t).byInstance(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v are billed by the instance, want %v", c.what, got, c.want)
		}
		if n := p.updates(t) - before; n != c.updates {
			t.Errorf("%s: gcloud has updated services %d times, want %d", c.what, n, c.updates)
		}
	}
	// What Cloud Run would refuse is refused before anything is made, and without gcloud the command is
	// said.
	for _, c := range []struct {
		vars []string
		code int
		says string
	}{
		{append(both, "-var=memory=256Mi"), 1, "memory must be 512Mi at least where increment_billing or rollup_billing is instance"},
		{[]string{"-var=rollup_billing=instance"}, 0, "gcloud run services update counters-rollup --project=a-project --region=us-central1 --no-cpu-throttling"},
	} {
		out, code := tf.run(t, "plan", c.vars...)
		if code != c.code || !strings.Contains(strings.Join(strings.Fields(out), " "), c.says) {
			t.Errorf("plan %v: exit code %d, want %d and %q\n%s", c.vars, code, c.code, c.says, out)
		}
	}
}

// in is a terraform for a project.
func (tf terraform) in(p project) terraform {
	tf.env = append(append(slices.Clone(tf.env), p.env...), "PATH="+p.bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	return tf
}

// A new project, where nothing is there at once: one apply makes everything.
func TestTerraformInANewProject(t *testing.T) {
	t.Parallel()
	tf := newTerraform(t)
	p := startProject(t, "--active=cloudresourcemanager", "--api-delay=3", "--account-delay=1", "--agent-delay=8")
	tf.in(p).apply(t, `-var=patience={"apis":"5s","accounts":"3s","agent":"10s"}`, "-var=public=true")
	p.checkViolations(t)
}

// Two deployments in one project and one database: neither takes anything from the other, and the one
// that is left has all it needs.
func TestTerraformTwice(t *testing.T) {
	t.Parallel()
	one := newTerraform(t)
	p := startProject(t, "--active=cloudresourcemanager")
	one = one.in(p)
	one.apply(t)
	made := p.state(t).count()
	other := newTerraform(t).in(p)
	others := []string{"-var=prefix=likes", "-var=fields=likes", "-var=counters=posts/{post}", "-var=owns=[]", "-var=create_database=false", "-var=release_rules=false"}
	other.apply(t, others...)
	if n := p.state(t).count()["cloudfunctions"]; n != 6 {
		t.Errorf("two deployments have %d functions", n)
	}
	one.apply(t) // finds nothing to do
	if out, code := other.run(t, "destroy", append([]string{"-auto-approve"}, others...)...); code != 0 {
		t.Fatalf("destroy: exit code %d\n%s", code, out)
	}
	if out, code := one.run(t, "plan", "-detailed-exitcode"); code != 0 {
		t.Errorf("without the other, terraform would change something:\n%s", out)
	}
	if left := p.state(t).count(); !maps.Equal(left, made) {
		t.Errorf("left are %v\nmade were %v", left, made)
	}
	p.checkViolations(t)
}

// A deployment that was made with the provider's version 7 is 8's, with nothing to change.
func TestTerraformUpgradesItsProvider(t *testing.T) {
	t.Parallel()
	tf := newTerraform(t)
	pin := filepath.Join(tf.dir, "versions.tf")
	if err := os.WriteFile(pin, []byte(`terraform {
  required_providers {
    google = { source = "hashicorp/google", version = "~> 7.0" }
  }
}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := tf.run(t, "init", "-backend=false", "-upgrade"); code != 0 {
		t.Skipf("version 7 of the provider can't be had: no upgrade is tried\n%s", out)
	}
	p := startProject(t, "--active=cloudresourcemanager")
	tf = tf.in(p)
	tf.apply(t)
	if err := os.Remove(pin); err != nil {
		t.Fatal(err)
	}
	if out, code := tf.run(t, "init", "-backend=false", "-upgrade"); code != 0 || !strings.Contains(out, "hashicorp/google v8.") {
		t.Fatalf("init -upgrade: exit code %d\n%s", code, out)
	}
	if out, code := tf.run(t, "plan", "-detailed-exitcode"); code != 0 {
		t.Errorf("version 8 would change something:\n%s", out)
	}
	if out, code := tf.run(t, "destroy", "-auto-approve"); code != 0 {
		t.Fatalf("destroy: exit code %d\n%s", code, out)
	}
	p.checkViolations(t)
}

// What gcloud has deployed terraform takes over, by the addresses of terraform/README.md: it replaces nothing
// and deletes nothing, has nothing left to do then, and destroys it in the end.
func TestTerraformTakesOver(t *testing.T) {
	t.Parallel()
	tf := newTerraform(t)
	p := startProject(t, "--active=firestore", "--active=cloudresourcemanager", "--database=us-central1")
	tf = tf.in(p)
	const fields = "total=count,rating=avg(comments.stars where public==true)"
	p.run(t, "counters deploy", "--location", "us-central1", "--set", "AUTH=firebase", "--set", "FIELDS="+fields, "--invoker", "user:me@example.com")
	before := p.state(t)
	if err := os.WriteFile(filepath.Join(tf.dir, "imports.tf"), []byte(imports(t, before)), 0o600); err != nil {
		t.Fatal(err)
	}
	vars := []string{"-var=fields=" + fields, "-var=create_database=false", "-var=release_rules=false", `-var=invokers=["user:me@example.com"]`}
	// By the project's number, which the functions are told, terraform plans what is left.
	out, code := tf.run(t, "apply", append([]string{"-auto-approve", "-target=module.counters.time_sleep.until_apis_are_active"}, vars...)...)
	if code != 0 {
		t.Fatalf("apply of the APIs: exit code %d\n%s", code, out)
	}
	out, code = tf.run(t, "plan", append([]string{"-detailed-exitcode"}, vars...)...)
	if code != 2 || strings.Contains(out, "must be replaced") || !strings.Contains(out, " 0 to destroy.") {
		t.Fatalf("plan: exit code %d\n%s", code, out)
	}
	tf.apply(t, vars...)
	made := before.count()
	for api, n := range p.state(t).count() {
		if slices.Contains([]string{"cloudfunctions", "run", "cloudscheduler", "logging", "iam"}, api) && n != made[api] {
			t.Errorf("%d × %s, want the %d that gcloud has made", n, api, made[api])
		}
	}
	if out, code := tf.run(t, "destroy", append([]string{"-auto-approve"}, vars...)...); code != 0 {
		t.Fatalf("destroy: exit code %d\n%s", code, out)
	}
	if left := p.state(t).count(); left["cloudfunctions"]+left["run"]+left["cloudscheduler"] > 0 {
		t.Errorf("left are %v", left)
	}
	p.checkViolations(t)
}

// imports are the blocks that have terraform take over what is there and can't be there twice.
func imports(t *testing.T, s state) string {
	t.Helper()
	var b strings.Builder
	add := func(address, id string) {
		fmt.Fprintf(&b, "import {\n  to = module.counters.%s\n  id = %q\n}\n", address, id)
	}
	alerts, err := filepath.Glob("../terraform/monitoring/alerts/*.json")
	if err != nil || len(alerts) == 0 {
		t.Fatalf("alerts: %v", err)
	}
	for _, key := range slices.Sorted(maps.Keys(s.Resources)) {
		api, name, _ := strings.Cut(key, " ")
		last := path.Base(name)
		switch {
		case api == "iam":
			short, _, _ := strings.Cut(strings.TrimPrefix(last, "counters-"), "@")
			add(fmt.Sprintf("google_service_account.account[%q]", short), name)
		case last == "counters-rollup" && api == "cloudfunctions":
			add("google_cloudfunctions2_function.rollup", name)
		case api == "cloudfunctions":
			add(fmt.Sprintf("google_cloudfunctions2_function.http[%q]", strings.TrimPrefix(last, "counters-")), name)
		case api == "eventarc" && strings.Contains(last, "-watch-"):
			add(`google_eventarc_trigger.watch["comments"]`, name)
		case api == "firestore" && strings.Contains(name, "/indexes/"):
			add(`google_firestore_index.query["comments public stars"]`, name)
		case strings.Contains(name, "/exclusions/"):
			add("google_logging_project_exclusion.request_logs[0]", name)
		case api == "cloudscheduler":
			add("google_cloud_scheduler_job.reconcile", name)
		case api == "artifactregistry":
			add("google_artifact_registry_repository.images[0]", name)
		case api == "logging":
			add(fmt.Sprintf("google_logging_metric.metric[%q]", strings.TrimPrefix(last, "counters_")), last)
		case api == "monitoring" && strings.Contains(name, "/dashboards/"):
			add("google_monitoring_dashboard.dashboard", "projects/a-project/dashboards/"+last) // whose name has the project's number
		case api == "monitoring":
			for _, file := range alerts {
				if strings.Contains(readFile(t, file), `"${prefix}`+strings.TrimPrefix(s.Resources[key].DisplayName, "counters")+`"`) {
					add(fmt.Sprintf("google_monitoring_alert_policy.alert[%q]", strings.TrimSuffix(filepath.Base(file), ".json")), name)
				}
			}
		}
	}
	return b.String()
}
