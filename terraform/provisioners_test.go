package terraform

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// A metric that has another name is another metric: an update in place would leave the old one
// where it is, and nobody would know of it. And whether callers are checked is said again with each
// change of the function.
func TestWhatIsMadeAnew(t *testing.T) {
	t.Parallel()
	triggers := map[string]string{}
	for _, b := range load(t, ".", vars()).resources {
		for _, inner := range b.Body.Blocks {
			if trigger := inner.Body.Attributes["replace_triggered_by"]; inner.Type == "lifecycle" && trigger != nil {
				list, ok := trigger.Expr.(*hclsyntax.TupleConsExpr)
				if !ok {
					t.Fatalf("replace_triggered_by of %v is not a list", b.Labels)
				}
				var names []string
				for _, of := range list.Exprs {
					names = append(names, traversal(of.Variables()[0]))
				}
				triggers[strings.Join(b.Labels, ".")] = strings.Join(names, ", ")
			}
		}
	}
	for resource, want := range map[string]string{
		"google_logging_metric.metric": "terraform_data.prefix",
		"terraform_data.invoker_check": "google_cloudfunctions2_function.http",
		// Their addresses, which change with no update: only what is made anew is billed by the request
		// again.
		"terraform_data.billed_by_instance": "google_cloudfunctions2_function.http.url, google_cloudfunctions2_function.rollup.url",
	} {
		if triggers[resource] != want {
			t.Errorf("%s is made anew with %q, want %s", resource, triggers[resource], want)
		}
	}
	for _, prefix := range []string{"counters", "likes"} {
		m := load(t, ".", vars("prefix", cty.StringVal(prefix)))
		if got := text(m.one("terraform_data", "prefix"), "input"); got != prefix {
			t.Errorf("terraform_data.prefix is %s with the prefix %s", got, prefix)
		}
	}
}

// What the providers can't do gcloud does, where that is asked for, and nowhere else.
func TestGcloudRunsWhereItIsAskedFor(t *testing.T) {
	t.Parallel()
	counted := cty.StringVal("likes,comments=count(comments),stars=sum(ratings.stars)")
	byInstance := cty.StringVal("instance")
	for _, c := range []struct {
		vars  map[string]cty.Value
		want  int // resources that run gcloud
		flags string
	}{
		{vars("fields", counted, "increment_billing", byInstance, "rollup_billing", byInstance), 0, ""},
		{vars("fields", counted, "run_gcloud", cty.True), 4, "--invoker-iam-check"},
		{vars("run_gcloud", cty.True, "invoker_check", cty.False, "auth", cty.StringVal("firebase")), 2, "--no-invoker-iam-check"},
		{vars("run_gcloud", cty.True, "increment_billing", byInstance), 3, "--invoker-iam-check --no-cpu-throttling"},
		{vars("run_gcloud", cty.True, "increment_billing", byInstance, "rollup_billing", byInstance), 4, "--invoker-iam-check --no-cpu-throttling"},
	} {
		m := load(t, ".", c.vars)
		n := 0
		var subscriptions []string
		for _, i := range m.instances("terraform_data") {
			command := text(i.args, "provisioner.command")
			if !strings.HasPrefix(command, "gcloud ") {
				continue
			}
			n++
			if strings.HasPrefix(command, "gcloud pubsub ") {
				subscriptions = append(subscriptions, command)
			}
			switch {
			case strings.HasPrefix(command, "gcloud run services update counters-increment --project=a-project --region=us-central1 "),
				command == "gcloud run services update counters-rollup --project=a-project --region=us-central1 --no-cpu-throttling":
				if !slices.Contains(strings.Fields(c.flags), command[strings.LastIndexByte(command, ' ')+1:]) {
					t.Errorf("%s; want %s", command, c.flags)
				}
			case command == `gcloud pubsub subscriptions update "$(gcloud eventarc triggers describe projects/a-project/locations/nam5/triggers/counters-rollup-123456`+
				` --project=a-project --format='value(transport.pubsub.subscription)')" --project=a-project --expiration-period=never`:
			case !strings.HasPrefix(command, "gcloud pubsub subscriptions update ") || !strings.HasSuffix(command, " --project=a-project --ack-deadline=70 --expiration-period=never"):
				t.Errorf("runs %s", command)
			}
		}
		if n != c.want {
			t.Errorf("gcloud is run %d times, want %d", n, c.want)
		}
		var said []string // to who runs it by hand
		for _, command := range m.value(m.outputs["ack_deadline_commands"].Body.Attributes["value"].Expr).AsValueSlice() {
			said = append(said, command.AsString())
		}
		slices.Sort(said)
		if slices.Sort(subscriptions); c.want > 0 && !slices.Equal(said, subscriptions) {
			t.Errorf("ack_deadline_commands are %q, and gcloud is run with %q", said, subscriptions)
		}
	}
}

// Whether callers are checked is said again once what has them unchecked ends, also where run_gcloud ends with it:
// Increment would stay open to the internet, and nothing would say so.
func TestCallersAreCheckedAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		gcloud, check cty.Value
		want          int
	}{{cty.True, cty.False, 1}, {cty.True, cty.True, 0}, {cty.False, cty.False, 0}, {cty.False, cty.True, 0}} {
		m := load(t, ".", vars("run_gcloud", c.gcloud, "invoker_check", c.check, "auth", cty.StringVal("firebase")))
		n := 0
		for _, i := range m.instances("terraform_data") {
			if text(i.args, "input") == "run services update counters-increment --project=a-project --region=us-central1" {
				n++
			}
		}
		if n != c.want {
			t.Errorf("with run_gcloud %#v and invoker_check %#v, %d resources have callers checked when they end, want %d", c.gcloud, c.check, n, c.want)
		}
	}
	for _, b := range load(t, ".", vars()).resources {
		if strings.Join(b.Labels, ".") == "terraform_data.unchecked" {
			if p := b.Body.Blocks[0]; p.Type != "provisioner" || p.Body.Attributes["when"] == nil {
				t.Errorf("its end does not run gcloud, but has %s", p.Type)
			}
			return
		}
	}
	t.Error("nothing has callers checked again")
}

// The build's account reads the sources of functions, and no other bucket.
func TestTheBuildReadsSourcesAlone(t *testing.T) {
	t.Parallel()
	for _, i := range load(t, ".", vars()).instances("google_project_iam_member") {
		if text(i.args, "role") == "roles/storage.objectViewer" {
			if got := text(i.args, "condition.expression"); got != `resource.name.startsWith("projects/_/buckets/gcf-v2-sources-")` {
				t.Errorf("it reads objects on condition that %s", got)
			}
			return
		}
	}
	t.Error("nobody may read the source")
}

// The build's account writes images of these functions, and no other image of the project, which
// something else may run.
func TestTheBuildWritesItsOwnImagesAlone(t *testing.T) {
	t.Parallel()
	const theirs = "projects/a-project/locations/us-central1/repositories/theirs"
	for want, m := range map[string]*module{
		"projects/a-project/locations/us-central1/repositories/counters-functions": load(t, ".", vars()),
		theirs: load(t, ".", vars("docker_repository", cty.StringVal(theirs))),
	} {
		for _, i := range m.instances("google_project_iam_member") {
			if strings.Contains(text(i.args, "role"), "artifactregistry") {
				t.Errorf("%s has %s on the project", text(i.args, "member"), text(i.args, "role"))
			}
		}
		var writes []string
		for _, i := range m.instances("google_artifact_registry_repository_iam_member") {
			writes = append(writes, fmt.Sprintf("projects/%s/locations/%s/repositories/%s", text(i.args, "project"), text(i.args, "location"), text(i.args, "repository")))
		}
		for _, i := range m.instances("google_cloudfunctions2_function") {
			if got := text(i.args, "build_config.docker_repository"); got != want || !slices.Equal(writes, []string{want}) {
				t.Errorf("images of %s are in %s, and its build writes %v; want %s", text(i.args, "name"), got, writes, want)
			}
		}
		if made := len(m.instances("google_artifact_registry_repository")); made == 1 == (want == theirs) {
			t.Errorf("images are in %s, and %d repositories are made", want, made)
		}
	}
}
