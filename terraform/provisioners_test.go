//go:build all

package terraform

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// A metric that has another name is another metric: an update in place would leave the old one
// where it is, and nobody would know of it. And whether callers are checked is said again with each
// change of the function.
func TestWhatIsMadeAnew(t *testing.T) {
	t.Parallel()
	triggers := map[string]string{}
	for _, b := range parse(t, ".").resources {
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
	for prefix, of := range planOf(t, map[string]vars{"counters": nil, "likes": {"prefix": "likes"}}) {
		if got := of.one("terraform_data", "prefix").text("input"); got != prefix {
			t.Errorf("terraform_data.prefix is %s with the prefix %s", got, prefix)
		}
	}
}

// What the providers can't do gcloud does, where that is asked for, and nowhere else. Whether callers are checked is said
// again once what has them unchecked ends, also where run_gcloud ends with it: Increment would stay open to the internet,
// and nothing would say so.
func TestGcloudRunsWhereItIsAskedFor(t *testing.T) {
	t.Parallel()
	const counted = "likes,comments=count(comments),stars=sum(ratings.stars)"
	deployments := map[string]vars{
		"without":   {"fields": counted, "increment_billing": "instance", "rollup_billing": "instance"},
		"with":      {"fields": counted, "run_gcloud": true},
		"unchecked": {"run_gcloud": true, "invoker_check": false, "auth": "firebase"},
		"ended":     {"run_gcloud": true, "invoker_check": false, "auth": "firebase"},
		"one":       {"run_gcloud": true, "increment_billing": "instance"},
		"both":      {"run_gcloud": true, "increment_billing": "instance", "rollup_billing": "instance"},
	}
	for name, v := range deployments {
		v["prefix"] = name
	}
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "gcloud"), []byte("#!/bin/sh\necho \"gcloud $*\" >> \"$GCLOUD_CALLS\"\n"+
		`case "$*" in "eventarc triggers describe"*) echo "subscription of $4" ;; esac`+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	calls := filepath.Join(bin, "calls")
	environ := []string{"GCLOUD_CALLS=" + calls, "PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH")}
	after := map[string]vars{"unchecked": {"run_gcloud": true}, "ended": {"run_gcloud": false, "invoker_check": false}}
	for name, v := range deployments {
		p := configure(t, v, nil)
		apply := func() {
			if said, ok := p.terraform(t, environ, "apply", "-auto-approve", "-input=false", "-no-color"); !ok {
				t.Fatal(said)
			}
		}
		apply()
		if then := after[name]; then != nil {
			then["prefix"], then["auth"] = name, "firebase"
			p.write(t, then, nil)
			apply()
		}
	}
	var got []string
	for line := range strings.Lines(mustRead(t, calls)) {
		if !strings.HasPrefix(line, "gcloud eventarc triggers describe ") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	of := func(prefix, function, flag string) string {
		return "gcloud run services update " + prefix + "-" + function + " --project=a-project --region=us-central1 " + flag
	}
	rollup := func(prefix string) string {
		return "gcloud pubsub subscriptions update subscription of projects/a-project/locations/us-central1/triggers/" + prefix + "-rollup-123456 --project=a-project --expiration-period=never"
	}
	want := []string{
		rollup("with"), of("with", "increment", "--invoker-iam-check"),
		rollup("unchecked"), of("unchecked", "increment", "--no-invoker-iam-check"), of("unchecked", "increment", "--invoker-iam-check"),
		rollup("ended"), of("ended", "increment", "--no-invoker-iam-check"), of("ended", "increment", "--invoker-iam-check"),
		rollup("one"), of("one", "increment", "--invoker-iam-check"), of("one", "increment", "--no-cpu-throttling"),
		rollup("both"), of("both", "increment", "--invoker-iam-check"), of("both", "increment", "--no-cpu-throttling"), of("both", "rollup", "--no-cpu-throttling"),
	}
	plans := planOf(t, deployments)
	for _, r := range plans["with"].of("google_eventarc_trigger") {
		want = append(want, "gcloud pubsub subscriptions update projects/a-project/subscriptions/of-"+r.text("name")+" --project=a-project --ack-deadline=70 --expiration-period=never")
	}
	if len(want) != 17 {
		t.Fatalf("%d commands are wanted", len(want))
	}
	same(t, "commands", "terraform", got, "the test", want)

	// Who runs it by hand is told the same.
	subscription := regexp.MustCompile(`"\$\(gcloud eventarc triggers describe (\S+) .*\)"`)
	for _, prefix := range []string{"with", "both"} {
		var said, ran []string
		for _, command := range plans[prefix].outputs["ack_deadline_commands"].([]any) {
			said = append(said, subscription.ReplaceAllString(command.(string), "subscription of $1"))
		}
		for _, command := range want {
			if strings.HasPrefix(command, "gcloud pubsub") && strings.Contains(command, prefix+"-") {
				ran = append(ran, command)
			}
		}
		same(t, "ack_deadline_commands", "the output", said, "what ran", ran)
	}
}
