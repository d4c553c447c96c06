package doctor

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/api/eventarc/v1"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/internal/layout"
)

// What may not be read is listed with what would let it, and the rest is checked: in each
// deployment something else is wrong as well, and is found.
func TestNotChecked(t *testing.T) {
	t.Parallel()
	noTTL := func(d *deployment) string {
		d.fields["counter_requests.expire_at"].TtlConfig = nil
		return "ttl-missing"
	}
	oneAtATime := func(d *deployment) string {
		d.function("counters-rollup").ServiceConfig.MaxInstanceRequestConcurrency = 1
		return "concurrency-one"
	}
	for _, c := range []struct {
		name   string
		refuse func(*deployment)
		wrong  func(*deployment) string
		part   string
		why    string
		fix    string
	}{
		{"functions", func(d *deployment) { d.refused["cloudfunctions.functions.list"] = codes.PermissionDenied }, noTTL,
			"functions", "cloudfunctions.functions.list, which roles/cloudfunctions.viewer has", "--role=roles/cloudfunctions.viewer"},
		{"functions' API", func(d *deployment) { d.disabled["cloudfunctions.googleapis.com"] = true }, noTTL,
			"functions", "cloudfunctions.googleapis.com is turned off", "gcloud services enable cloudfunctions.googleapis.com --project=my-project"},
		{"some regions", func(d *deployment) { d.unreachable = []string{"projects/my-project/locations/us-west4"} }, oneAtATime,
			"functions in projects/my-project/locations/us-west4", "again later", ""},
		{"the triggers", func(d *deployment) { d.refused["eventarc.triggers.list"] = codes.PermissionDenied }, oneAtATime,
			"the triggers", "eventarc.triggers.list, which roles/eventarc.viewer has", "--role=roles/eventarc.viewer"},
		{"how long events may wait", func(d *deployment) {
			d.triggers["counters-watch-notes"] = &eventarc.Trigger{
				Name:        "projects/my-project/locations/nam5/triggers/counters-watch-notes",
				Destination: &eventarc.Destination{CloudRun: &eventarc.CloudRun{Service: "counters-rollup", Region: testRegion}},
				Transport:   &eventarc.Transport{Pubsub: &eventarc.Pubsub{Subscription: "projects/my-project/subscriptions/notes"}},
			}
			d.refused["pubsub.subscriptions.get"] = codes.PermissionDenied
		}, func(*deployment) string { return "watch-unneeded" },
			"how long events may wait", "pubsub.subscriptions.get, which roles/pubsub.viewer has", "--role=roles/pubsub.viewer"},
		{"runtimes", func(d *deployment) { d.refused["cloudfunctions.runtimes.list"] = codes.PermissionDenied }, oneAtATime,
			"when the runtimes end", "cloudfunctions.runtimes.list", "--role=roles/cloudfunctions.viewer"},
		{"Cloud Run's policies", func(d *deployment) { d.refused["run.services.getIamPolicy"] = codes.PermissionDenied }, oneAtATime,
			"who may call the functions", "run.services.getIamPolicy, which roles/run.viewer has", "--role=roles/run.viewer"},
		{"Cloud Run's services", func(d *deployment) { d.refused["run.services.get"] = codes.PermissionDenied }, oneAtATime,
			"who may call the functions", "run.services.get, which roles/run.viewer has", "--role=roles/run.viewer"},
		{"Cloud Run is gone", func(d *deployment) { d.refused["run.services.getIamPolicy"] = codes.NotFound }, oneAtATime,
			"who may call the functions", "it is not there", ""},
		{"Cloud Run's API", func(d *deployment) { d.disabled["run.googleapis.com"] = true }, oneAtATime,
			"who may call the functions", "run.googleapis.com is turned off", "gcloud services enable run.googleapis.com"},
		{"Cloud Monitoring", func(d *deployment) { d.refused["monitoring.timeSeries.list"] = codes.PermissionDenied }, oneAtATime,
			"how long events have been waiting, what the functions have had in the last week", "monitoring.timeSeries.list, which roles/monitoring.viewer has", "--role=roles/monitoring.viewer"},
		{"Cloud Monitoring's API", func(d *deployment) { d.disabled["monitoring.googleapis.com"] = true }, oneAtATime,
			"how long events have been waiting, what the functions have had in the last week, alert policies", "monitoring.googleapis.com is turned off", "gcloud services enable monitoring.googleapis.com"},
		{"project", func(d *deployment) { d.refused["resourcemanager.projects.getIamPolicy"] = codes.PermissionDenied }, oneAtATime,
			"who may do what in the project", "resourcemanager.projects.getIamPolicy, which roles/iam.securityReviewer has", "--role=roles/iam.securityReviewer"},
		{"project, and no role on the function", func(d *deployment) {
			d.refused["resourcemanager.projects.getIamPolicy"] = codes.PermissionDenied
		}, func(d *deployment) string {
			d.policies["counters-rollup"].Bindings = nil
			return "account-role-unclear"
		},
			"who may do what in the project", "resourcemanager.projects.getIamPolicy", "--role=roles/iam.securityReviewer"},
		{"credentials have expired", func(d *deployment) { d.refused["resourcemanager.projects.getIamPolicy"] = codes.Unauthenticated }, oneAtATime,
			"who may do what in the project", "expired", "gcloud auth application-default login"},
		{"database", func(d *deployment) { d.refused["datastore.databases.getMetadata"] = codes.PermissionDenied }, noTTL,
			"database", "datastore.databases.getMetadata, which roles/datastore.viewer has", "--role=roles/datastore.viewer"},
		{"fields", func(d *deployment) { d.refused["datastore.indexes.get"] = codes.PermissionDenied }, oneAtATime,
			"TTL policy and indexes", "datastore.indexes.get, which roles/datastore.viewer has", "--role=roles/datastore.viewer"},
		{"Firestore's API", func(d *deployment) { d.disabled["firestore.googleapis.com"] = true }, oneAtATime,
			"database, TTL policy and indexes", "firestore.googleapis.com is turned off", "gcloud services enable firestore.googleapis.com"},
		{"Scheduler", func(d *deployment) { d.refused["cloudscheduler.jobs.list"] = codes.PermissionDenied }, oneAtATime,
			"Scheduler jobs", "cloudscheduler.jobs.list, which roles/cloudscheduler.viewer has", "--role=roles/cloudscheduler.viewer"},
		{"Scheduler's API", func(d *deployment) { d.disabled["cloudscheduler.googleapis.com"] = true }, oneAtATime,
			"Scheduler jobs", "cloudscheduler.googleapis.com is turned off", "gcloud services enable cloudscheduler.googleapis.com"},
		{"APIs", func(d *deployment) { d.refused["serviceusage.services.list"] = codes.PermissionDenied }, oneAtATime,
			"APIs", "serviceusage.services.list, which roles/serviceusage.serviceUsageViewer has", "--role=roles/serviceusage.serviceUsageViewer"},
		{"the images", func(d *deployment) { d.refused["artifactregistry.repositories.getIamPolicy"] = codes.PermissionDenied }, oneAtATime,
			"who may write the functions' images", "artifactregistry.repositories.getIamPolicy, which roles/iam.securityReviewer has", "--role=roles/iam.securityReviewer"},
		{"accounts", func(d *deployment) { d.refused["iam.serviceAccounts.get"] = codes.PermissionDenied }, oneAtATime,
			"accounts", "iam.serviceAccounts.get, which roles/iam.serviceAccountViewer has", "--role=roles/iam.serviceAccountViewer"},
		{"rules", func(d *deployment) { d.refused["firebaserules.releases.get"] = codes.PermissionDenied }, oneAtATime,
			"security rules", "firebaserules.releases.get, which roles/firebaserules.viewer has", "--role=roles/firebaserules.viewer"},
		{"metrics", func(d *deployment) { d.refused["logging.logMetrics.get"] = codes.PermissionDenied }, oneAtATime,
			"log-based metrics", "logging.logMetrics.get, which roles/logging.viewer has", "--role=roles/logging.viewer"},
		{"alert policies", func(d *deployment) { d.refused["monitoring.alertPolicies.list"] = codes.PermissionDenied }, oneAtATime,
			"alert policies", "monitoring.alertPolicies.list, which roles/monitoring.viewer has", "--role=roles/monitoring.viewer"},
		{"budgets", func(d *deployment) { d.refused["billing.budgets.list"] = codes.PermissionDenied }, oneAtATime,
			"budget", "billing.budgets.list, which roles/billing.viewer has", "gcloud billing accounts add-iam-policy-binding 0-1-2 --role=roles/billing.viewer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := newDeployment(t)
			c.refuse(d)
			wrong := c.wrong(d)
			read, found := d.read(t, Target{Location: "nam5"})
			if len(read.NotChecked) != 1 {
				t.Fatalf("not checked: %+v, want one part", read.NotChecked)
			}
			got := read.NotChecked[0]
			if got.Part != c.part || !strings.Contains(got.Why, c.why) || !strings.Contains(got.Fix, c.fix) || (c.fix == "") != (got.Fix == "") {
				t.Errorf("not checked: %+v, want %s: %s, and: %s", got, c.part, c.why, c.fix)
			}
			off := slices.DeleteFunc(slices.Clone(found), func(f Finding) bool { return f.Name != "api-disabled" })
			if len(off) != len(d.disabled) || len(off) > 0 && (off[0].Severity != Error || off[0].Fix != got.Fix) {
				t.Errorf("of %v that is turned off it says %+v", d.disabled, off)
			}
			others := 0
			for _, f := range found {
				if f.Name == wrong {
					others++
				} else if f.Name != "api-disabled" {
					t.Errorf("found %s, of what was not read: %s: %s", f.Name, f.Subject, f.Seen)
				}
			}
			if others == 0 {
				t.Errorf("found nothing of %s", wrong)
			}
		})
	}
}

// Of indexes that may not be listed nothing is said, and a query that is refused is said by itself.
func TestIndexesNotChecked(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	d.count(t)
	d.refused["datastore.indexes.list"] = codes.PermissionDenied
	d.aggregation = status.Error(codes.FailedPrecondition, "The query requires an index.")
	read, found := d.read(t, Target{})
	if len(read.NotChecked) != 1 || read.NotChecked[0].Part != "composite indexes" || !strings.Contains(read.NotChecked[0].Why, "datastore.indexes.list, which roles/datastore.viewer has") {
		t.Errorf("not checked: %+v", read.NotChecked)
	}
	if len(found) != 1 || found[0].Name != "recount-refused" {
		t.Errorf("found %+v", found)
	}
}

// Of counters that may not be read nothing is said.
func TestCountersNotChecked(t *testing.T) {
	t.Parallel()
	c := healthyCloud()
	c.refused["datastore.entities.list"] = codes.PermissionDenied
	reader := c.serve(t)
	read, err := reader.Read(t.Context(), Target{Place: layout.Place{Project: testProject}, Most: 10})
	if err != nil {
		t.Fatal(err)
	}
	if found := Check(read, today); len(found) > 0 {
		t.Errorf("found %v", found)
	}
	if len(read.NotChecked) != 1 || read.NotChecked[0].Part != "counters" ||
		!strings.Contains(read.NotChecked[0].Why, "datastore.entities.list, which roles/datastore.viewer has") {
		t.Errorf("not checked: %+v", read.NotChecked)
	}
}

// A reader that may read nothing says so, instead of finding nothing.
func TestNothingCanBeRead(t *testing.T) {
	t.Parallel()
	c := healthyCloud()
	for _, permission := range []string{
		"cloudfunctions.functions.list", "resourcemanager.projects.getIamPolicy", "datastore.databases.getMetadata",
		"datastore.indexes.get", "cloudscheduler.jobs.list", "datastore.entities.list",
	} {
		c.refused[permission] = codes.PermissionDenied
	}
	reader := c.serve(t)
	_, err := reader.Read(t.Context(), Target{Place: layout.Place{Project: testProject}, Location: "nam5", Most: 10})
	if err == nil || !strings.Contains(err.Error(), "roles/cloudfunctions.viewer") || !strings.Contains(err.Error(), "roles/datastore.viewer") {
		t.Errorf("error %v, want one that says what is missing", err)
	}
}

// What keeps everything from being read is said once, with the one command that helps.
func TestMissingCredentialsAreSaidOnce(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	for _, permission := range []string{"resourcemanager.projects.getIamPolicy", "run.services.getIamPolicy", "eventarc.triggers.list"} {
		d.refused[permission] = codes.Unauthenticated
	}
	read, _ := d.read(t, Target{})
	if len(read.NotChecked) != 1 {
		t.Fatalf("not checked: %+v", read.NotChecked)
	}
	got := read.NotChecked[0]
	if got.Part != "the triggers, who may call the functions, who may do what in the project" || got.Fix != "gcloud auth application-default login" {
		t.Errorf("not checked: %+v", got)
	}
}

// Of an emulator nothing is said that only a deployment has, and its documents are mended where
// they are.
func TestEmulator(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	d.set(t, "counters/visits/counter_rollup/base", map[string]any{"base": map[string]any{"count": "five"}})
	d.set(t, "counters/visits/shards/0", map[string]any{"count": 4.0})
	d.set(t, "counters/go/shards/0", map[string]any{"Count": 4})
	reader := Reader{Firestore: []option.ClientOption{option.WithGRPCConn(d.store.Conn(t))}}
	read, err := reader.Read(t.Context(), Target{Place: layout.Place{Project: testProject}, Emulator: "127.0.0.1:8080", Most: 10})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if _, err := NewReport(read, Check(read, today)).WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"on the emulator at 127.0.0.1:8080.\nAn emulator has counters only",
		`"Authorization: Bearer owner" -X PATCH`, "http://127.0.0.1:8080/v1/projects/my-project/",
		`"Authorization: Bearer owner" -X DELETE http://127.0.0.1:8080/v1/projects/my-project/`,
		"counters reconcile --project=my-project visits",
		`shards hold no integer "count", but "Count": set FIELDS=total=Count`,
		"counters reconcile --project=my-project --fields=total=Count go",
		"Checked 2 counters: 2 errors, 1 other finding.\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in:\n%s", want, text.String())
		}
	}
	for _, not := range []string{"NOT CHECKED", "terraform", "gcloud"} {
		if strings.Contains(text.String(), not) {
			t.Errorf("%q in:\n%s", not, text.String())
		}
	}
}
