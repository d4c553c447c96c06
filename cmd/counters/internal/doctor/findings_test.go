package doctor

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/admin/adminpb"
	"cloud.google.com/go/functions/apiv2/functionspb"
	"google.golang.org/api/cloudscheduler/v1"
	"google.golang.org/api/eventarc/v1"
	"google.golang.org/api/iam/v1"
	"google.golang.org/api/pubsub/v1"
	"google.golang.org/api/run/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	resources "github.com/firestore-counters/counters/cmd/counters/internal/deployment"
	"github.com/firestore-counters/counters/cmd/internal/cost"
	"github.com/firestore-counters/counters/cmd/internal/terminal"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// broken is a way in which a deployment goes wrong, and what doctor says of it.
type broken struct {
	how     string
	do      func(*testing.T, *deployment)
	finding string
	subject string
	fix     string // part of the command
}

func (d *deployment) env(function, name, value string) {
	d.function(function).ServiceConfig.EnvironmentVariables[name] = value
}

// ceiling deploys the functions below a ceiling.
func (d *deployment) ceiling(t *testing.T, most string) {
	t.Helper()
	w := resources.Usual("nam5")
	w.MostPerDay = most
	if err := w.Check(); err != nil {
		t.Fatal(err)
	}
	if err := w.Bound(cost.Standard); err != nil {
		t.Fatal(err)
	}
	for name, share := range map[string]cost.Share{"increment": w.Ceiling.Increment, "rollup": w.Ceiling.Rollup, "reconcile": w.Ceiling.Reconcile} {
		f := d.function("counters-" + name)
		f.Labels, f.ServiceConfig.MaxInstanceCount = map[string]string{resources.LabelOfCeiling: resources.CeilingLabel(w.MostPerDay)}, int32(share.Instances)
		d.env("counters-"+name, "CEILING", share.Units.String())
		if name != "reconcile" {
			d.billed("counters-"+name, share.Billing == cost.ByRequest)
		}
	}
}

// longID is that of a counter whose path is longer than what a query compares with.
var longID = strings.Repeat("x", 1495)

const testKey = "projects/my-project/locations/us-central1/keyRings/r/cryptoKeys/k"

// deploying is what brings a healthy deployment to what it should be.
const deploying = "counters deploy --project my-project --location nam5 --invoker user:web@example.com"

// Every finding, each in a deployment that is healthy but for it.
var brokenDeployments = []broken{
	{"an API that was turned off", func(t *testing.T, d *deployment) {
		d.disabled["cloudbuild.googleapis.com"] = true
	}, "api-disabled", "cloudbuild.googleapis.com", "gcloud services enable cloudbuild.googleapis.com --project=my-project"},
	{"a builder without roles", func(t *testing.T, d *deployment) {
		d.revoke(member("build"))
		d.images["counters-functions"].Bindings = nil
	}, "build-role-missing", account("build"), "gcloud artifacts repositories add-iam-policy-binding projects/my-project/locations/us-central1/repositories/counters-functions --project=my-project --member=serviceAccount:counters-build@my-project.iam.gserviceaccount.com --role=roles/artifactregistry.writer"},
	{"a builder that may not read the source", func(t *testing.T, d *deployment) {
		d.revoke(member("build"))
		d.grant("roles/logging.logWriter", "", member("build"))
	}, "build-role-missing", account("build"), `--role=roles/storage.objectViewer '--condition=expression=resource.name.startsWith("projects/_/buckets/gcf-v2-sources-"),title=counters-source,description=The functions'\'' sources only'`},
	{"a builder with a custom role", func(t *testing.T, d *deployment) {
		d.revoke(member("build"))
		d.grant("projects/my-project/roles/builds", "", member("build"))
	}, "account-role-unclear", account("build"), "--role=roles/logging.logWriter"},
	{"no repository", func(t *testing.T, d *deployment) {
		d.images = nil
	}, "repository-missing", "counters-functions", "gcloud artifacts repositories create counters-functions --project=my-project --location=us-central1 --repository-format=docker '--description=Images of counters-increment, counters-rollup and counters-reconcile.' --format=none\ngcloud artifacts repositories add-iam-policy-binding"},
	{"Rollup has less time than an event may take", func(t *testing.T, d *deployment) {
		d.function("counters-rollup").ServiceConfig.TimeoutSeconds = 15
	}, "timeout-short", "counters-rollup", deploying},
	{"Rollup has less time than an event of a counted collection may take", func(t *testing.T, d *deployment) {
		d.count(t)
		d.function("counters-rollup").ServiceConfig.TimeoutSeconds = 30
	}, "timeout-short", "counters-rollup", deploying},
	{"Reconcile has less time than its walk", func(t *testing.T, d *deployment) {
		d.env("counters-reconcile", "RECONCILE_DEADLINE", "600s")
		d.env("counters-increment", "RECONCILE_DEADLINE", "600s")
		d.env("counters-rollup", "RECONCILE_DEADLINE", "600s")
	}, "timeout-short", "counters-reconcile", deploying + " --set RECONCILE_DEADLINE=600s"},
	{"an account that was deleted", func(t *testing.T, d *deployment) {
		d.accounts = map[string]*iam.ServiceAccount{account("rollup"): nil}
		d.revoke(member("rollup")) // what it had is a deleted account's
	}, "account-gone", account("rollup"), deploying},
	{"accounts that were deleted, of the trigger and of the build", func(t *testing.T, d *deployment) {
		d.accounts = map[string]*iam.ServiceAccount{account("eventarc"): nil, account("build"): nil}
		d.revoke(member("eventarc"))
		d.revoke(member("build"))
		d.policies["counters-rollup"].Bindings = nil
		d.images["counters-functions"].Bindings = nil
	}, "account-gone", account("eventarc"), "counters deploy"},
	{"an account that was disabled", func(t *testing.T, d *deployment) {
		d.accounts = map[string]*iam.ServiceAccount{account("scheduler"): {Disabled: true}}
	}, "account-gone", account("scheduler"), "gcloud iam service-accounts enable counters-scheduler@my-project.iam.gserviceaccount.com --project=my-project"},
	{"Eventarc's agent without its role", func(t *testing.T, d *deployment) {
		d.revoke(eventarcsAgent)
	}, "agent-role-missing", "Eventarc's service agent", `"--member=serviceAccount:service-$(gcloud projects describe my-project '--format=value(projectNumber)')@gcp-sa-eventarc.iam.gserviceaccount.com" --role=roles/eventarc.serviceAgent --condition=None`},
	{"a subscription that was deleted", func(t *testing.T, d *deployment) {
		delete(d.waiting, "of-counters-rollup")
	}, "subscription-broken", "counters-rollup", "gcloud functions delete counters-rollup"},
	{"a subscription whose topic was deleted", func(t *testing.T, d *deployment) {
		d.waiting["of-counters-rollup"].Topic = "_deleted-topic_"
	}, "subscription-broken", "counters-rollup", "gcloud functions delete counters-rollup"},
	{"a subscription that was detached", func(t *testing.T, d *deployment) {
		d.waiting["of-counters-rollup"].Detached = true
	}, "subscription-broken", "counters-rollup", "gcloud functions delete counters-rollup"},
	{"a counted collection's subscription that somebody pulls from", func(t *testing.T, d *deployment) {
		d.count(t)
		d.waiting["of-counters-watch-ratings"].PushConfig = &pubsub.PushConfig{}
	}, "subscription-broken", "counters-watch-ratings", "gcloud eventarc triggers delete counters-watch-ratings --project=my-project --location=nam5 && gcloud eventarc triggers create"},
	{"a subscription that keeps events for ten minutes", func(t *testing.T, d *deployment) {
		d.waiting["of-counters-rollup"].MessageRetentionDuration = "600s"
	}, "subscription-forgets", "counters-rollup", "subscriptions/of-counters-rollup --project=my-project --message-retention-duration=1d"},
	{"a subscription that waits for ten minutes after a failure", func(t *testing.T, d *deployment) {
		d.waiting["of-counters-rollup"].RetryPolicy.MinimumBackoff = "600s"
	}, "subscription-slow", "counters-rollup", "--min-retry-delay=10s --max-retry-delay=600s"},
	{"a second trigger of the shards", func(t *testing.T, d *deployment) {
		d.count(t)
		d.triggers["second"] = &eventarc.Trigger{
			Name: "projects/my-project/locations/nam5/triggers/second", ServiceAccount: "projects/-/serviceAccounts/" + account("eventarc"),
			Destination:  &eventarc.Destination{CloudRun: &eventarc.CloudRun{Service: "counters-rollup", Region: testRegion}},
			EventFilters: []*eventarc.EventFilter{{Attribute: "document", Value: "counters/{counter}/shards/{n}", Operator: "match-path-pattern"}},
		}
	}, "watch-unneeded", "second", "gcloud eventarc triggers delete second --project=my-project --location=nam5"},
	{"pages that can't come to Increment", func(t *testing.T, d *deployment) {
		d.function("counters-increment").ServiceConfig.IngressSettings = functionspb.ServiceConfig_ALLOW_INTERNAL_ONLY
		for _, f := range d.functions[:3] {
			f.ServiceConfig.EnvironmentVariables["ALLOWED_ORIGINS"] = "https://app.example"
		}
	}, "increment-hidden", "counters-increment", deploying + " --set ALLOWED_ORIGINS=https://app.example"},
	{"an older revision that answers", func(t *testing.T, d *deployment) {
		d.services["counters-rollup"].Traffic = []*run.GoogleCloudRunV2TrafficTarget{{Type: "TRAFFIC_TARGET_ALLOCATION_TYPE_REVISION", Revision: "counters-rollup-00001", Percent: 100}}
	}, "traffic-pinned", "counters-rollup", "gcloud run services update-traffic counters-rollup --project=my-project --region=us-central1 --to-latest"},
	{"a job that sends GET", func(t *testing.T, d *deployment) {
		d.jobs[0].HttpTarget.HttpMethod = "GET"
	}, "scheduler-job-method", "counters-reconcile", "gcloud scheduler jobs update http counters-reconcile"},
	{"a dead-letter policy", func(t *testing.T, d *deployment) {
		d.waiting["of-counters-rollup"].DeadLetterPolicy = &pubsub.DeadLetterPolicy{DeadLetterTopic: "projects/my-project/topics/dead"}
	}, "subscription-dead-letters", "counters-rollup", "gcloud pubsub subscriptions update projects/my-project/subscriptions/of-counters-rollup --project=my-project --clear-dead-letter-policy"},
	{"events that have waited for an hour", func(t *testing.T, d *deployment) {
		d.oldest["of-counters-rollup"] = 3600
	}, "events-waiting", "counters-rollup", "gcloud functions logs read counters-rollup --gen2 --project=my-project --region=us-central1"},
	{"no composite index", func(t *testing.T, d *deployment) {
		d.count(t)
		d.indexes = d.indexes[:1]
		d.aggregation = status.Error(codes.FailedPrecondition, "The query requires an index.")
	}, "composite-missing", "ratings COLLECTION public of.stars", "gcloud firestore indexes composite create --project=my-project '--database=(default)' --collection-group=ratings --query-scope=collection --field-config=field-path=public,order=ascending --field-config=field-path=of.stars,order=ascending"},
	{"a composite index that is broken", func(t *testing.T, d *deployment) {
		d.count(t)
		d.indexes[1].State = adminpb.Index_NEEDS_REPAIR
	}, "composite-missing", "ratings COLLECTION public of.stars", "gcloud firestore indexes composite create"},
	{"a composite index in the making", func(t *testing.T, d *deployment) {
		d.count(t)
		d.indexes[1].State = adminpb.Index_CREATING
	}, "composite-building", "ratings COLLECTION public of.stars", "gcloud firestore indexes composite list"},
	{"rules in test mode", func(t *testing.T, d *deployment) {
		d.ruleset = "rules_version = '2';\nservice cloud.firestore {\n  match /databases/{database}/documents {\n    match /{document=**} {\n      // for now\n      allow read, write: if request.time < timestamp.date(2026, 12, 1);\n    }\n  }\n}\n"
	}, "rules-open", "(default)", "https://firebaserules.googleapis.com/v1/projects/my-project/rulesets/r1"},
	{"rules of an app's", func(t *testing.T, d *deployment) {
		d.ruleset = "rules_version = '2';\nservice cloud.firestore {\n  match /databases/{database}/documents {\n    match /posts/{post} {\n      allow read: if true;\n    }\n  }\n}\n"
	}, "rules-others", "(default)", "https://firebaserules.googleapis.com/v1/projects/my-project/rulesets/r1"},
	{"a metric that was deleted", func(t *testing.T, d *deployment) {
		d.metrics = slices.DeleteFunc(d.metrics, func(name string) bool { return name == "counters_rollup_lag" })
	}, "metric-missing", "log-based metrics", deploying},
	{"an alert that was deleted", func(t *testing.T, d *deployment) {
		delete(d.alerts, "counters: a total had drifted")
	}, "alert-missing", "alert policies", deploying},
	{"an alert that was deleted, of some that are sent to channels", func(t *testing.T, d *deployment) {
		delete(d.alerts, "counters: a total had drifted")
		d.channels = map[string][]string{
			"counters: totals lag behind": {"projects/my-project/notificationChannels/2", "projects/my-project/notificationChannels/1"},
			"counters: roll-ups fail":     {"projects/my-project/notificationChannels/1"},
			"a policy of others":          {"projects/my-project/notificationChannels/3"},
		}
	}, "alert-missing", "alert policies", "--invoker user:web@example.com --notification-channel projects/my-project/notificationChannels/1 --notification-channel projects/my-project/notificationChannels/2"},
	{"an alert that was deleted, where Increment has callers that deploy lets nobody in as", func(t *testing.T, d *deployment) {
		delete(d.alerts, "counters: a total had drifted")
		d.jobs[0].Schedule = "every 10 minutes" // as Scheduler takes it, too
		b := d.policies["counters-increment"].Bindings[0]
		b.Members = append(b.Members, "deleted:user:gone@example.com?uid=1", "projectOwner:my-project")
	}, "alert-missing", "alert policies", "--invoker user:web@example.com"},
	{"no alerts", func(t *testing.T, d *deployment) {
		d.alerts = nil
	}, "alerts-none", "alert policies", deploying},
	{"an alert that was turned off", func(t *testing.T, d *deployment) {
		d.alerts["counters: a total had drifted"] = false
	}, "alert-off", "counters: a total had drifted", "gcloud alpha monitoring policies update projects/my-project/alertPolicies/"},
	{"a project without billing", func(t *testing.T, d *deployment) {
		d.unbilled = true
	}, "billing-off", "my-project", `gcloud billing projects link my-project --billing-account="$(gcloud billing accounts list`},
	{"budgets of others", func(t *testing.T, d *deployment) {
		d.budgets = d.budgets[:1]
	}, "budget-missing", "my-project", "--invoker user:web@example.com --budget 100"},
	{"a deployment that has turned on no API for budgets", func(t *testing.T, d *deployment) {
		d.disabled["cloudbilling.googleapis.com"] = true
	}, "budget-missing", "my-project", "--budget 100"},
	{"a function was never deployed, beside others with a key, labels and a repository", func(t *testing.T, d *deployment) {
		d.functions = d.functions[:2]
		d.images["ours"] = d.images["counters-functions"]
		for _, f := range d.functions {
			f.KmsKeyName, f.BuildConfig.DockerRepository = testKey, "projects/my-project/locations/us-central1/repositories/ours"
			f.ServiceConfig.AvailableMemory = "1Gi"
		}
		d.function("counters-increment").ServiceConfig.MinInstanceCount = 1
		d.function("counters-increment").ServiceConfig.IngressSettings = functionspb.ServiceConfig_ALLOW_INTERNAL_AND_GCLB
		d.jobs[0].Schedule = "*/5 * * * *"
	}, "function-missing", "Rollup", "--memory 1Gi --invoker user:web@example.com --increment-ingress internal-and-gclb --kms-key " + testKey + " --docker-repository projects/my-project/locations/us-central1/repositories/ours --increment-min-instances 1 --reconcile-schedule '*/5 * * * *'"},
	{"a trigger that was deleted, of a function that is billed by the instance", func(t *testing.T, d *deployment) {
		d.triggers = nil
		d.billed("counters-rollup", false)
		d.had["counters-rollup"] = had{requests: 60_480_000, mean: 20, billed: 604_800, counted: 10_080}
	}, "trigger-missing", "counters-rollup", "gcloud functions delete counters-rollup --gen2 --project=my-project --region=us-central1 --quiet && counters deploy --project my-project --location nam5 --invoker user:web@example.com --rollup-billing instance"},
	{"a metric that was deleted, beside a trigger in a region of nam5", func(t *testing.T, d *deployment) {
		d.function("counters-rollup").EventTrigger.TriggerRegion = testRegion
		d.metrics = nil
	}, "metric-missing", "log-based metrics", "counters deploy --project my-project --location nam5 --trigger-location us-central1"},
	{"Rollup was never deployed", func(t *testing.T, d *deployment) {
		d.functions = d.functions[:2]
		for _, name := range []string{"counters-increment", "counters-reconcile"} {
			d.env(name, "NUM_SHARDS", "20")
		}
	}, "function-missing", "Rollup", deploying + " --set NUM_SHARDS=20"},
	{"Rollup was never deployed, and Increment is billed by the instance", func(t *testing.T, d *deployment) {
		d.functions = d.functions[:2]
		d.billed("counters-increment", false)
		d.had["counters-increment"] = had{requests: 60_480_000, mean: 20, billed: 604_800, counted: 10_080}
	}, "function-missing", "Rollup", "--invoker user:web@example.com --increment-billing instance"},
	{"a deployment failed", func(t *testing.T, d *deployment) {
		f := d.function("counters-increment")
		f.State, f.StateMessages = functionspb.Function_FAILED, []*functionspb.StateMessage{{Message: "Build failed"}}
	}, "function-not-active", "counters-increment", deploying},
	{"a deployment is under way", func(t *testing.T, d *deployment) {
		d.function("counters-reconcile").State = functionspb.Function_DEPLOYING
	}, "function-deploying", "counters-reconcile", "gcloud functions describe counters-reconcile"},
	{"a runtime has ended", func(t *testing.T, d *deployment) {
		d.function("counters-rollup").BuildConfig.Runtime = "go121"
	}, "runtime-ended", "counters-rollup", deploying},
	{"a runtime is about to end", func(t *testing.T, d *deployment) {
		d.function("counters-rollup").BuildConfig.Runtime = "go124"
	}, "runtime-deprecated", "counters-rollup", deploying},
	{"the platform's default concurrency", func(t *testing.T, d *deployment) {
		d.function("counters-rollup").ServiceConfig.MaxInstanceRequestConcurrency = 1
	}, "concurrency-one", "counters-rollup", deploying},
	{"no concurrency at all", func(t *testing.T, d *deployment) {
		d.function("counters-increment").ServiceConfig.MaxInstanceRequestConcurrency = 0
	}, "concurrency-one", "counters-increment", deploying},
	{"Cloud Run's default concurrency", func(t *testing.T, d *deployment) {
		d.function("counters-increment").ServiceConfig.MaxInstanceRequestConcurrency = 80
	}, "concurrency-low", "counters-increment", deploying},
	{"Cloud Run's default concurrency, beside a CEILING that somebody has set by hand", func(t *testing.T, d *deployment) {
		for _, f := range d.functions[:3] {
			f.ServiceConfig.EnvironmentVariables["CEILING"] = "writes=1"
		}
		d.function("counters-increment").ServiceConfig.MaxInstanceRequestConcurrency = 80
	}, "concurrency-low", "counters-increment", deploying + " --set CEILING=writes=1 --most-per-day none"},

	// At 100 requests a second, which one instance takes.
	{"a busy week, billed by the request", func(t *testing.T, d *deployment) {
		d.had["counters-increment"] = had{requests: 60_480_000, mean: 20, billed: 604_000, counted: 10_080}
	}, "billing-dearer", "counters-increment", deploying + " --increment-billing instance"},
	{"a busy week on half a CPU", func(t *testing.T, d *deployment) {
		d.had["counters-rollup"] = had{requests: 60_480_000, mean: 900, billed: 604_000, counted: 10_080}
		d.function("counters-rollup").ServiceConfig.AvailableCpu, d.function("counters-rollup").ServiceConfig.AvailableMemory = "0.5", "1Gi"
	}, "billing-dearer", "counters-rollup", deploying + " --rollup-billing instance"},
	// One request a minute keeps the instance.
	{"a quiet week, billed by the instance", func(t *testing.T, d *deployment) {
		d.billed("counters-rollup", false)
		d.had["counters-rollup"] = had{requests: 10_080, mean: 1000, billed: 604_800, counted: 10_080}
	}, "billing-dearer", "counters-rollup", deploying + " --rollup-billing request"},
	{"an instance that is kept warm for nothing, billed by the instance", func(t *testing.T, d *deployment) {
		d.billed("counters-increment", false)
		d.function("counters-increment").ServiceConfig.MinInstanceCount = 1
		d.had["counters-increment"] = had{billed: 604_800, counted: 10_080}
	}, "billing-dearer", "counters-increment", deploying + " --increment-min-instances 1 --increment-billing request"},

	{"open to the internet, without a word of a ceiling", func(_ *testing.T, d *deployment) {
		d.policies["counters-increment"].Bindings[0].Members = []string{"allUsers"}
		for _, f := range d.functions[:3] {
			f.Labels = nil
			f.ServiceConfig.EnvironmentVariables["AUTH"] = "firebase"
		}
	}, "ceiling-missing", "counters-increment", "counters deploy --project my-project --location nam5 --public --set AUTH=firebase --most-per-day 10USD"},
	{"a ceiling whose instances somebody has raised by hand", func(t *testing.T, d *deployment) {
		d.ceiling(t, "12.50USD")
		d.function("counters-increment").ServiceConfig.MaxInstanceCount = 20
	}, "ceiling-exceeded", "counters-increment", deploying + " --most-per-day 12.5USD"},
	{"a ceiling that somebody has taken from Rollup by hand", func(t *testing.T, d *deployment) {
		d.ceiling(t, "50USD")
		d.env("counters-rollup", "CEILING", "writes=1")
	}, "ceiling-exceeded", "counters-increment", "--most-per-day 50USD"},
	{"a ceiling that is paid by the request now", func(t *testing.T, d *deployment) {
		d.ceiling(t, "5.4USD") // by the instance
		d.billed("counters-increment", true)
	}, "ceiling-exceeded", "counters-increment", "--most-per-day 5.4USD"},
	{"a setting that stops the start", func(t *testing.T, d *deployment) {
		d.env("counters-rollup", "ROLLUP_INTERVAL", "1h")
	}, "settings-invalid", "counters-rollup", deploying},
	{"a misspelt AUTH, whose default lets everybody in", func(t *testing.T, d *deployment) {
		d.env("counters-increment", "AUTH", "Firebase")
		d.env("counters-increment", "RATE_LIMIT", "-1")
	}, "settings-invalid", "counters-increment", deploying + " --set AUTH=firebase"},
	{"a cleanup that there is none of", func(t *testing.T, d *deployment) {
		d.env("counters-reconcile", "CLEANUP", "all")
	}, "settings-invalid", "counters-reconcile", deploying},
	{"a cleanup beside another setting that stops the start", func(t *testing.T, d *deployment) {
		d.env("counters-reconcile", "AUTO_CREATE", "true")
		d.env("counters-reconcile", "CLEANUP", "zero")
		d.env("counters-reconcile", "REQUEST_TTL", "never")
	}, "settings-invalid", "counters-reconcile", deploying},
	{"a cleanup of counters that nobody makes again", func(t *testing.T, d *deployment) {
		d.env("counters-reconcile", "CLEANUP", "zero")
	}, "settings-invalid", "counters-reconcile", deploying},
	{"a time after which nothing is cleaned up", func(t *testing.T, d *deployment) {
		for _, f := range []string{"counters-increment", "counters-rollup", "counters-reconcile"} {
			d.env(f, "CLEANUP_AFTER", "48h")
		}
	}, "setting-unused", "CLEANUP_AFTER", deploying},
	{"App Check without the project's number", func(t *testing.T, d *deployment) {
		d.env("counters-increment", "AUTH", "appcheck")
		d.env("counters-increment", "PROJECT_NUMBER", "")
	}, "settings-invalid", "counters-increment", deploying + " --set AUTH=appcheck"},
	{"Increment writes to another collection", func(t *testing.T, d *deployment) {
		d.env("counters-increment", "COUNTERS", "likes/{like}")
	}, "layout-differs", "counters-increment", deploying},
	{"Reconcile works on another database", func(t *testing.T, d *deployment) {
		d.env("counters-reconcile", "DATABASE", "other")
	}, "layout-differs", "counters-reconcile", deploying},
	{"Increment works on another project", func(t *testing.T, d *deployment) {
		d.env("counters-increment", "GOOGLE_CLOUD_PROJECT", "other")
	}, "layout-differs", "counters-increment", deploying},
	{"Increment counts other fields", func(t *testing.T, d *deployment) {
		d.env("counters-increment", "FIELDS", "total=count,likes")
	}, "layout-differs", "counters-increment", deploying + "\ngcloud scheduler jobs run counters-reconcile"},
	{"Increment takes the documents for its own", func(t *testing.T, d *deployment) {
		d.host(t)
		d.env("counters-increment", "HOSTED", "false")
	}, "layout-differs", "counters-increment", deploying + " --set 'COUNTERS=posts/{post}' --set FIELDS=likes,views --set HOSTED=true"},
	{"functions with different settings", func(t *testing.T, d *deployment) {
		d.env("counters-increment", "ROLLUP_INTERVAL", "2s")
		d.env("counters-rollup", "ROLLUP_INTERVAL", "3s")
		d.env("counters-reconcile", "ROLLUP_INTERVAL", "3000ms")
	}, "settings-differ", "ROLLUP_INTERVAL", deploying + " --set ROLLUP_INTERVAL=3s"},

	{"Increment is the odd one out", func(t *testing.T, d *deployment) {
		d.env("counters-increment", "MAX_SHARDS", "100")
	}, "settings-differ", "MAX_SHARDS", deploying + " --set MAX_SHARDS=100"},
	{"Rollup is the odd one out, of a setting of its own", func(t *testing.T, d *deployment) {
		d.env("counters-rollup", "ROLLUP_PENDING", "10")
	}, "settings-differ", "ROLLUP_PENDING", deploying + " --set ROLLUP_PENDING=10"},
	{"all three differ", func(t *testing.T, d *deployment) {
		d.env("counters-increment", "RECONCILE_PARALLEL", "1")
		d.env("counters-rollup", "RECONCILE_PARALLEL", "2")
		d.env("counters-reconcile", "RECONCILE_PARALLEL", "3")
	}, "settings-differ", "RECONCILE_PARALLEL", deploying + " --set RECONCILE_PARALLEL=3"},

	{"a database that was deleted and made again", func(t *testing.T, d *deployment) {
		d.databases[0].CreateTime = timestamppb.New(today.AddDate(0, -1, 0))
	}, "trigger-older", "counters-rollup", "&& counters deploy --project my-project --location nam5 --invoker user:web@example.com"},
	{"a trigger that was deleted behind the function's back", func(t *testing.T, d *deployment) {
		d.triggers = nil
	}, "trigger-missing", "counters-rollup", "gcloud functions delete counters-rollup"},
	{"Rollup is an HTTP function", func(t *testing.T, d *deployment) {
		d.function("counters-rollup").EventTrigger = nil
	}, "trigger-missing", "counters-rollup", deploying},
	{"only updates", func(t *testing.T, d *deployment) {
		d.function("counters-rollup").EventTrigger.EventType = "google.cloud.firestore.document.v1.updated"
	}, "trigger-event-type", "counters-rollup", deploying},
	{"events of another database", func(t *testing.T, d *deployment) {
		d.function("counters-rollup").EventTrigger.EventFilters[0].Value = "other"
	}, "trigger-database", "counters-rollup", deploying},
	{"events of the counters themselves", func(t *testing.T, d *deployment) {
		d.function("counters-rollup").EventTrigger.EventFilters[1].Value = "counters/{counter}"
	}, "trigger-document", "counters-rollup", deploying},
	{"events of everything below a counter", func(t *testing.T, d *deployment) {
		d.function("counters-rollup").EventTrigger.EventFilters[1].Value = "counters/{counter}/{below=**}"
	}, "trigger-document", "counters-rollup", deploying},
	{"events of another collection", func(t *testing.T, d *deployment) {
		d.function("counters-rollup").EventTrigger.EventFilters[1].Value = "likes/{counter}/shards/{shard}"
	}, "trigger-document", "counters-rollup", deploying},
	{"a pattern that is taken literally", func(t *testing.T, d *deployment) {
		d.function("counters-rollup").EventTrigger.EventFilters[1].Operator = ""
	}, "trigger-operator", "counters-rollup", deploying},
	{"no retries", func(t *testing.T, d *deployment) {
		d.function("counters-rollup").EventTrigger.RetryPolicy = functionspb.EventTrigger_RETRY_POLICY_DO_NOT_RETRY
	}, "trigger-retry-off", "counters-rollup", deploying},
	{"a trigger far from nam5", func(t *testing.T, d *deployment) {
		d.function("counters-rollup").EventTrigger.TriggerRegion = "europe-west1"
	}, "trigger-region", "counters-rollup", "&& counters deploy --project my-project --location nam5 --invoker user:web@example.com"},
	{"a trigger far from a plain region", func(t *testing.T, d *deployment) {
		d.databases[0].LocationId = testRegion
		d.function("counters-rollup").EventTrigger.TriggerRegion = "nam5"
	}, "trigger-region", "counters-rollup", "&& counters deploy --project my-project --location us-central1 --invoker user:web@example.com"},
	{"a function far from eur3", func(t *testing.T, d *deployment) {
		d.databases[0].LocationId = "eur3"
		d.function("counters-rollup").EventTrigger.TriggerRegion = "eur3"
	}, "function-region", "counters-rollup", "counters deploy --project my-project --location eur3"},

	{"a counted collection without a trigger", func(t *testing.T, d *deployment) {
		d.count(t)
		delete(d.triggers, "counters-watch-ratings")
	}, "watch-missing", "ratings", "gcloud eventarc triggers create counters-watch-" + hashOf("ratings") + " --project=my-project --location=nam5 --destination-run-service=counters-rollup --destination-run-region=us-central1 --service-account=counters-eventarc@my-project.iam.gserviceaccount.com --event-data-content-type=application/protobuf --event-filters=type=google.cloud.firestore.document.v1.written '--event-filters=database=(default)' '--event-filters-path-pattern=document=counters/{counter}/ratings/{document}' --format=none\ngcloud pubsub subscriptions update \"$(gcloud eventarc triggers describe "},
	{"the extension's shards without a trigger", func(t *testing.T, d *deployment) {
		d.succeed(t)
		delete(d.triggers, "counters-watch-extension")
	}, "watch-missing", "_counter_shards_", "'--event-filters-path-pattern=document=posts/{post}/_counter_shards_/{document}'"},
	{"an extension that still runs", func(t *testing.T, d *deployment) {
		d.succeed(t)
		d.set(t, "_firebase_ext_/sharded_counter", map[string]any{"workers": []any{}})
	}, "extension-runs", "posts/{post}", "firebase ext:uninstall firestore-counter --project=my-project"},
	{"rules that keep the extension's clients out", func(t *testing.T, d *deployment) {
		d.succeed(t)
		d.ruleset = "rules_version = '2';\nservice cloud.firestore {\n  match /databases/{database}/documents {\n    match /posts/{post} {\n      allow read: if true; // _counter_shards_\n    }\n  }\n}\n"
	}, "rules-extension", "(default)", "https://firebaserules.googleapis.com/v1/"},
	{"a trigger of a collection that isn't counted", func(t *testing.T, d *deployment) {
		d.count(t)
		d.triggers["counters-watch-ratings"].EventFilters[2].Value = "counters/{counter}/notes/{note}"
		d.triggers["more"] = d.triggers["counters-watch-ratings"]
		delete(d.triggers, "counters-watch-ratings")
		d.serves("counters/{counter}", "total=count,comments=count(comments)", false)
	}, "watch-unneeded", "counters-watch-ratings", "gcloud eventarc triggers delete counters-watch-ratings --project=my-project --location=nam5"},
	{"a counted collection's trigger of a database that was made again", func(t *testing.T, d *deployment) {
		d.count(t)
		d.triggers["counters-watch-ratings"].CreateTime = today.AddDate(-1, 0, 0).Format(time.RFC3339Nano)
	}, "trigger-older", "counters-watch-ratings", "gcloud eventarc triggers delete counters-watch-ratings --project=my-project --location=nam5 && gcloud eventarc triggers create"},
	{"a counted collection's trigger hears of creations only", func(t *testing.T, d *deployment) {
		d.count(t)
		d.triggers["counters-watch-ratings"].EventFilters[0].Value = "google.cloud.firestore.document.v1.created"
	}, "trigger-event-type", "counters-watch-ratings", "gcloud eventarc triggers create"},
	{"a counted collection's trigger of another database", func(t *testing.T, d *deployment) {
		d.count(t)
		d.triggers["counters-watch-ratings"].EventFilters[1].Value = "other"
	}, "trigger-database", "counters-watch-ratings", "gcloud eventarc triggers create"},
	{"a counted collection's trigger takes its pattern literally", func(t *testing.T, d *deployment) {
		d.count(t)
		d.triggers["counters-watch-ratings"].EventFilters[2].Operator = ""
	}, "trigger-operator", "counters-watch-ratings", "gcloud eventarc triggers create"},
	{"a counted collection's trigger tries once", func(t *testing.T, d *deployment) {
		d.count(t)
		d.triggers["counters-watch-ratings"].RetryPolicy = &eventarc.RetryPolicy{MaxAttempts: 1}
	}, "trigger-retry-off", "counters-watch-ratings", "gcloud eventarc triggers create"},
	{"a counted collection's events can't wait", func(t *testing.T, d *deployment) {
		d.count(t)
		d.waiting["of-counters-watch-ratings"].AckDeadlineSeconds = 10
	}, "watch-ack-deadline", "counters-watch-ratings", "gcloud pubsub subscriptions update projects/my-project/subscriptions/of-counters-watch-ratings --project=my-project --ack-deadline=70"},
	{"a subscription that is deleted after a quiet month", func(t *testing.T, d *deployment) {
		d.waiting["of-counters-rollup"].ExpirationPolicy.Ttl = "2678400s"
	}, "subscription-expires", "counters-rollup", "gcloud pubsub subscriptions update projects/my-project/subscriptions/of-counters-rollup --project=my-project --expiration-period=never"},
	{"a counted collection's subscription is deleted after a quiet month", func(t *testing.T, d *deployment) {
		d.count(t)
		d.waiting["of-counters-watch-ratings"].ExpirationPolicy = &pubsub.ExpirationPolicy{Ttl: "86400s"}
	}, "subscription-expires", "counters-watch-ratings", "subscriptions/of-counters-watch-ratings --project=my-project --expiration-period=never"},
	{"events that come again before Rollup's time is over", func(t *testing.T, d *deployment) {
		d.waiting["of-counters-rollup"].AckDeadlineSeconds = 10
	}, "trigger-ack-deadline", "counters-rollup", "subscriptions/of-counters-rollup --project=my-project --ack-deadline=70"},
	{"a deployment that ended before Rollup", func(t *testing.T, d *deployment) {
		d.function("counters-increment").UpdateTime = timestamppb.New(today)
		d.env("counters-increment", "FIELDS", "total=count,likes")
		d.env("counters-increment", "NUM_SHARDS", "20")
	}, "upgrade-unfinished", "counters-rollup", deploying + " --set FIELDS=total=count,likes --set NUM_SHARDS=20"},
	{"a deployment of another source, with the same settings, that ended before Rollup", func(t *testing.T, d *deployment) {
		for _, f := range d.functions[:3] {
			f.Labels = map[string]string{"counters-source": "aaaa"}
		}
		f := d.function("counters-increment")
		f.UpdateTime, f.Labels = timestamppb.New(today), map[string]string{"counters-source": "bbbb"}
	}, "upgrade-unfinished", "counters-rollup", deploying},
	{"a deployment that ended before Rollup, of a function that nobody checks the callers of", func(t *testing.T, d *deployment) {
		for _, name := range []string{"counters-increment", "counters-reconcile"} {
			d.function(name).UpdateTime = timestamppb.New(today)
			d.env(name, "AUTH", "firebase")
		}
		d.services["counters-increment"].InvokerIamDisabled = true
		d.policies["counters-increment"].Bindings = nil
	}, "upgrade-unfinished", "counters-rollup", "--no-invoker-check --set AUTH=firebase --most-per-day none"},
	{"a project from before Pub/Sub's agent could make tokens", func(t *testing.T, d *deployment) {
		d.since = time.Date(2021, 4, 1, 0, 0, 0, 0, time.UTC)
	}, "pubsub-agent-role-missing", "Pub/Sub's service agent", "\"--member=serviceAccount:service-$(gcloud projects describe my-project '--format=value(projectNumber)')@gcp-sa-pubsub.iam.gserviceaccount.com\" --role=roles/iam.serviceAccountTokenCreator --condition=None"},
	{"a database that was restored lately", func(t *testing.T, d *deployment) {
		db := d.databases[0]
		db.Name, db.CreateTime = "projects/"+testProject+"/databases/restored", timestamppb.New(today.AddDate(0, 0, -2))
		db.SourceInfo = &adminpb.Database_SourceInfo{Source: &adminpb.Database_SourceInfo_Backup{Backup: &adminpb.Database_SourceInfo_BackupSource{Backup: "projects/my-project/locations/nam5/backups/b"}}}
		for _, f := range d.functions[:3] {
			f.ServiceConfig.EnvironmentVariables["DATABASE"] = "restored"
		}
		d.function("counters-rollup").EventTrigger.EventFilters[0].Value = "restored"
		d.triggers["counters-rollup-1"].CreateTime = today.AddDate(0, 0, -1).Format(time.RFC3339Nano)
		d.grant("roles/datastore.user", `resource.name == "projects/my-project/databases/restored"`, member("increment"), member("rollup"), member("reconcile"))
	}, "database-restored", "restored", "counters reconcile --project=my-project --all --database=restored"},
	{"a counted collection's trigger has an account that may not call", func(t *testing.T, d *deployment) {
		d.count(t)
		d.triggers["counters-watch-ratings"].ServiceAccount = "other@my-project.iam.gserviceaccount.com"
		d.grant("roles/eventarc.eventReceiver", "", "serviceAccount:other@my-project.iam.gserviceaccount.com")
	}, "account-role-missing", "other@my-project.iam.gserviceaccount.com", "--member=serviceAccount:other@my-project.iam.gserviceaccount.com --role=roles/run.invoker"},
	{"no index on what is summed up of documents", func(t *testing.T, d *deployment) {
		d.count(t)
		d.fields["ratings.of.stars"] = &adminpb.Field{IndexConfig: &adminpb.Field_IndexConfig{}}
	}, "sum-not-indexed", "ratings.of.stars", "update of.stars --project=my-project '--database=(default)' --collection-group=ratings --clear-exemption"},
	{"no composite index for a condition", func(t *testing.T, d *deployment) {
		d.count(t)
		d.aggregation = status.Error(codes.FailedPrecondition, "The query requires an index.")
	}, "recount-refused", "visits", "gcloud firestore indexes composite create --project=my-project '--database=(default)' --collection-group=ratings --query-scope=collection --field-config=field-path=public,order=ascending --field-config=field-path=of.stars,order=ascending"},
	{"a counter whose path is too long to compare with", func(t *testing.T, d *deployment) {
		const fields = "total=count,replies=count(/replies where on=={counter})"
		d.count(t)
		d.serves("counters/{counter}", fields, false)
		delete(d.triggers, "counters-watch-ratings")
		d.triggers["counters-watch-comments"].EventFilters[2].Value = "replies/{document}"
		d.reconcileOf(t, rollup.Config{Place: rollup.Place{Fields: fields}}, "visits")
		if err := d.counterOf(t, shards.Config{Place: shards.Place{Fields: fields}}, longID).Create(t.Context(), shards.CreateOptions{Shards: 1}); err != nil {
			t.Fatal(err)
		}
		d.reconcileOf(t, rollup.Config{Place: rollup.Place{Fields: fields}}, longID)
	}, "recount-impossible", longID, ""},
	{"a sum with a fraction", func(t *testing.T, d *deployment) {
		d.count(t)
		d.set(t, "counters/visits/ratings/b", map[string]any{"of": map[string]any{"stars": 3.5}})
	}, "recount-not-integer", "visits", "counters reconcile --project=my-project '--fields=" + strings.ReplaceAll(countedFields, "'", "") + "' visits"},
	{"documents that no event told of", func(t *testing.T, d *deployment) {
		d.count(t)
		d.set(t, "counters/visits/comments/c", map[string]any{"text": "third"})
	}, "recount-waiting", "visits", "counters reconcile"},
	{"another program writes the number of documents", func(t *testing.T, d *deployment) {
		d.count(t)
		d.set(t, "counters/visits", map[string]any{"comments": 9})
	}, "total-differs", "visits", "counters reconcile"},
	{"another program writes a sum that takes too long to be taken again", func(t *testing.T, d *deployment) {
		d.count(t)
		d.aggregation = status.Error(codes.DeadlineExceeded, "Aggregation query timed out.")
		d.set(t, "counters/visits", map[string]any{"shown": 9})
	}, "total-differs", "visits", "counters reconcile"},
	{"a counted collection that was added without a reconcile", func(t *testing.T, d *deployment) {
		d.count(t)
		d.serves("counters/{counter}", countedFields+",all=count(ratings)", false)
	}, "field-not-counted", "visits", "counters reconcile"},

	{"a function without documents", func(t *testing.T, d *deployment) {
		d.revoke(member("rollup"))
	}, "account-role-missing", account("rollup"), `--role=roles/datastore.user '--condition=expression=resource.name == "projects/my-project/databases/(default)",title=counters-database,description=The counters'\'' database only'`},
	{"a function with documents of another database", func(t *testing.T, d *deployment) {
		d.revoke(member("rollup"))
		d.grant("roles/datastore.user", `resource.name == "projects/my-project/databases/other"`, member("rollup"))
	}, "account-role-missing", account("rollup"), "--role=roles/datastore.user"},
	{"a trigger that gets no events", func(t *testing.T, d *deployment) {
		d.revoke(member("eventarc"))
	}, "account-role-missing", account("eventarc"), "gcloud projects add-iam-policy-binding my-project --member=serviceAccount:counters-eventarc@my-project.iam.gserviceaccount.com --role=roles/eventarc.eventReceiver --condition=None"},
	{"a trigger that may not call", func(t *testing.T, d *deployment) {
		d.policies["counters-rollup"].Bindings = nil
	}, "account-role-missing", account("eventarc"), "gcloud run services add-iam-policy-binding counters-rollup --project=my-project --region=us-central1"},
	{"a Scheduler that may not call", func(t *testing.T, d *deployment) {
		d.policies["counters-reconcile"].Bindings = nil
	}, "account-role-missing", account("scheduler"), "gcloud run services add-iam-policy-binding counters-reconcile"},
	{"a custom role", func(t *testing.T, d *deployment) {
		d.revoke(member("increment"))
		d.grant("projects/my-project/roles/documents", "", member("increment"))
	}, "account-role-unclear", account("increment"), "--role=roles/datastore.user"},
	{"Increment for everybody", func(t *testing.T, d *deployment) {
		d.policies["counters-increment"].Bindings[0].Members = []string{"allUsers"}
	}, "increment-open", "counters-increment", "gcloud run services remove-iam-policy-binding counters-increment --project=my-project --region=us-central1 --member=allUsers --role=roles/run.invoker"},
	{"Increment for everybody, and as many counters as they like", func(t *testing.T, d *deployment) {
		d.policies["counters-increment"].Bindings[0].Members = []string{"allUsers"}
		for _, f := range d.functions[:3] {
			f.ServiceConfig.EnvironmentVariables["AUTO_CREATE"] = "true"
		}
	}, "auto-create-open", "counters-increment", "counters deploy --project my-project --location nam5 --public --set AUTO_CREATE=60 --most-per-day none"},
	{"everything in the project for everybody", func(t *testing.T, d *deployment) {
		d.grant("roles/run.invoker", "", "allAuthenticatedUsers")
		for _, name := range []string{"counters-rollup", "counters-reconcile"} { // leaves Increment
			d.function(name).ServiceConfig.Service = ""
		}
		d.functions = d.functions[:1]
		d.unreachable = []string{"europe-west9"}
	}, "increment-open", "counters-increment", "gcloud projects remove-iam-policy-binding my-project --member=allAuthenticatedUsers"},
	{"Increment without Cloud Run's check", func(t *testing.T, d *deployment) {
		d.services["counters-increment"].InvokerIamDisabled = true
	}, "increment-open", "counters-increment", "--invoker-iam-check"},
	{"Rollup takes traffic from the internet", func(t *testing.T, d *deployment) {
		d.function("counters-rollup").ServiceConfig.IngressSettings = functionspb.ServiceConfig_ALLOW_ALL
	}, "function-reachable", "counters-rollup", deploying},
	{"Rollup for everybody", func(t *testing.T, d *deployment) {
		p := d.policies["counters-rollup"]
		p.Bindings = append(p.Bindings, &run.GoogleIamV1Binding{Role: "roles/run.invoker", Members: []string{"allAuthenticatedUsers"}})
	}, "function-open", "counters-rollup", "--member=allAuthenticatedUsers"},

	{"no Scheduler job", func(t *testing.T, d *deployment) {
		d.jobs = nil
	}, "scheduler-job-missing", "counters-reconcile", "gcloud scheduler jobs create http counters-reconcile --project=my-project --location=us-central1 '--schedule=7 * * * *' --time-zone=Etc/UTC --uri=https://counters-reconcile-abc.a.run.app"},
	{"a job that rests", func(t *testing.T, d *deployment) {
		d.jobs[0].State = "PAUSED"
	}, "scheduler-job-paused", "counters-reconcile", "gcloud scheduler jobs resume counters-reconcile"},
	{"a job that calls something else", func(t *testing.T, d *deployment) {
		d.jobs[0].HttpTarget.Uri = "https://counters-reconcile-old.a.run.app"
	}, "scheduler-job-target", "counters-reconcile", "gcloud scheduler jobs update http counters-reconcile"},
	{"a job without a token", func(t *testing.T, d *deployment) {
		d.jobs[0].HttpTarget.OidcToken = nil
	}, "scheduler-job-token", "counters-reconcile", "--oidc-service-account-email=counters-scheduler@my-project.iam.gserviceaccount.com"},
	{"a job with another's token", func(t *testing.T, d *deployment) {
		d.jobs[0].HttpTarget.OidcToken.Audience = "https://example.com"
	}, "scheduler-job-token", "counters-reconcile", "--oidc-token-audience=https://counters-reconcile-abc.a.run.app"},
	{"no Scheduler job of a Reconcile that takes long", func(t *testing.T, d *deployment) {
		d.jobs = nil
		d.env("counters-reconcile", "RECONCILE_DEADLINE", "1700s")
		d.env("counters-increment", "RECONCILE_DEADLINE", "1700s")
		d.env("counters-rollup", "RECONCILE_DEADLINE", "1700s")
		d.function("counters-reconcile").ServiceConfig.TimeoutSeconds = 1760
	}, "scheduler-job-missing", "counters-reconcile", "--attempt-deadline=1760s --max-retry-attempts=1"},
	{"a job that failed", func(t *testing.T, d *deployment) {
		d.jobs[0].Status = &cloudscheduler.Status{Code: 7}
	}, "scheduler-job-failed", "counters-reconcile", "gcloud scheduler jobs run counters-reconcile"},

	{"no database", func(t *testing.T, d *deployment) {
		d.databases = nil
	}, "database-missing", "(default)", "gcloud firestore databases create --project=my-project '--database=(default)' --location=nam5"},
	{"a query without an index in Enterprise edition", func(t *testing.T, d *deployment) {
		d.count(t)
		d.databases[0].DatabaseEdition = adminpb.Database_ENTERPRISE
		d.indexes = slices.DeleteFunc(d.indexes, func(i *adminpb.Index) bool { return len(i.GetFields()) == 3 })
	}, "database-enterprise", "(default)", "gcloud firestore indexes composite create --project=my-project '--database=(default)' --collection-group=ratings --query-scope=collection --field-config=field-path=public,order=ascending --field-config=field-path=of.stars,order=ascending"},
	{"seats in Enterprise edition", func(t *testing.T, d *deployment) {
		d.databases[0].DatabaseEdition = adminpb.Database_ENTERPRISE
		group := composite("total_members", "member")
		group.QueryScope = adminpb.Index_COLLECTION_GROUP
		d.indexes = append(d.indexes, composite("counter_requests", "until"), composite("counter_requests", "due"), group)
		for _, name := range []string{"counters-increment", "counters-rollup", "counters-reconcile"} {
			d.env(name, "AUTH", "firebase")
		}
	}, "database-enterprise", "(default)", "--collection-group=total_members --query-scope=collection --field-config=field-path=until,order=ascending --density=sparse-any"},
	{"no TTL policy", func(t *testing.T, d *deployment) {
		d.fields["counter_requests.expire_at"].TtlConfig = nil
	}, "ttl-missing", "counter_requests.expire_at", "gcloud firestore fields ttls update expire_at --project=my-project '--database=(default)' --collection-group=counter_requests --enable-ttl"},
	{"a TTL policy that doesn't work", func(t *testing.T, d *deployment) {
		d.fields["counter_requests.expire_at"].TtlConfig.State = adminpb.Field_TtlConfig_NEEDS_REPAIR
	}, "ttl-missing", "counter_requests.expire_at", "--enable-ttl"},
	{"an index on the markers", func(t *testing.T, d *deployment) {
		d.fields["counter_requests.expire_at"].IndexConfig = indexed()
	}, "index-not-exempt", "counter_requests.expire_at", "gcloud firestore indexes fields update expire_at --project=my-project '--database=(default)' --collection-group=counter_requests --disable-indexes"},
	{"an index on the base", func(t *testing.T, d *deployment) {
		delete(d.fields, "counter_rollup.base")
	}, "index-not-exempt", "counter_rollup.base", "--collection-group=counter_rollup --disable-indexes"},
	{"an index on the base's imports", func(t *testing.T, d *deployment) {
		delete(d.fields, "counter_rollup.imported")
	}, "index-not-exempt", "counter_rollup.imported", "--collection-group=counter_rollup --disable-indexes"},
	{"an index on our map in a counter's document", func(t *testing.T, d *deployment) {
		delete(d.fields, "counters.counter_rollup")
	}, "timestamp-indexed", "counters.counter_rollup", "--collection-group=counters --disable-indexes"},
	{"an index on our map in the app's documents", func(t *testing.T, d *deployment) {
		d.host(t)
		delete(d.fields, "posts.counter_rollup")
	}, "timestamp-indexed", "posts.counter_rollup", "gcloud firestore indexes fields update counter_rollup --project=my-project '--database=(default)' --collection-group=posts --disable-indexes"},
	{"an index on a counter's time", func(t *testing.T, d *deployment) {
		delete(d.fields, "counters.updated_at")
	}, "timestamp-indexed", "counters.updated_at", "--collection-group=counters --disable-indexes"},
	{"no index on the counts", func(t *testing.T, d *deployment) {
		d.fields["shards.count"] = &adminpb.Field{IndexConfig: &adminpb.Field_IndexConfig{}}
	}, "count-not-indexed", "shards.count", "--clear-exemption"},

	{"no index on the members of a further field", func(t *testing.T, d *deployment) {
		d.host(t)
		for _, f := range d.functions[:3] {
			f.ServiceConfig.EnvironmentVariables["MEMBERS"] = "any"
		}
		d.fields["views_members.member"] = &adminpb.Field{IndexConfig: indexed()}
	}, "members-not-indexed", "views_members.member", "/collectionGroups/views_members/fields/member?updateMask=indexConfig"},

	{"no index on a further field", func(t *testing.T, d *deployment) {
		d.host(t)
		d.fields["shards.views"] = &adminpb.Field{IndexConfig: &adminpb.Field_IndexConfig{}}
	}, "count-not-indexed", "shards.views", "update views --project=my-project '--database=(default)' --collection-group=shards --clear-exemption"},

	{"the app writes a stale count back", func(t *testing.T, d *deployment) {
		d.host(t)
		d.set(t, "posts/a", map[string]any{"views": -2})
	}, "total-differs", "a", "counters reconcile --project=my-project '--counter-path=posts/{post}' --fields=likes,views --hosted a"},
	{"the app has deleted its document", func(t *testing.T, d *deployment) {
		d.host(t)
		d.remove(t, "posts/a")
	}, "cleanup-waiting", "a", "--hosted a"},
	{"Reconcile has seen that the app's document is gone", func(t *testing.T, d *deployment) {
		d.host(t)
		d.remove(t, "posts/a")
		d.set(t, "posts/a/counter_rollup/base", map[string]any{"gone_at": time.Now()})
		d.pass(25 * time.Hour)
	}, "cleanup-waiting", "a", "--hosted a"},
	{"nothing cleans up", func(t *testing.T, d *deployment) {
		d.host(t)
		d.remove(t, "posts/a")
		d.set(t, "posts/a/counter_rollup/base", map[string]any{"gone_at": time.Now()})
		d.pass(49 * time.Hour)
	}, "cleanup-overdue", "a", "--hosted a"},
	{"a field that was added, and no event has come since", func(t *testing.T, d *deployment) {
		d.host(t)
		d.serves(hostedConfig.Counters, "likes,views,shares", true)
	}, "field-not-counted", "a", "--fields=likes,views,shares --hosted a"},
	{"events of a further field were lost", func(t *testing.T, d *deployment) {
		d.host(t)
		if _, err := d.db(t).Doc("posts/a/shards/0").Set(t.Context(), map[string]any{"views": 4}, firestore.MergeAll); err != nil {
			t.Fatal(err)
		}
		d.pass(2 * time.Minute)
	}, "total-differs", "a", "--hosted a"},
	{"the one counter of documents alone was never made", func(t *testing.T, d *deployment) {
		d.countUsers(t)
	}, "counter-missing", "site", "counters create --project=my-project --counter-path=stats/site '--fields=users=count(/users)' site"},
	{"the one counter of documents alone was made, and no event has come since", func(t *testing.T, d *deployment) {
		d.countUsers(t)
		if err := d.counterOf(t, usersConfig, "site").Create(t.Context(), shards.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}, "field-not-counted", "site", "counters reconcile --project=my-project"},
	{"a counter that was made again over an earlier one's base", func(t *testing.T, d *deployment) {
		d.remove(t, "counters/visits")
		d.set(t, "counters/visits", map[string]any{"num_shards": 3})
	}, "field-not-counted", "visits", "counters reconcile --project=my-project visits"},
	{"another program writes the total", func(t *testing.T, d *deployment) {
		d.set(t, "counters/visits", map[string]any{"total": 7})
	}, "total-differs", "visits", "counters reconcile --project=my-project visits"},
	{"another program takes the total away", func(t *testing.T, d *deployment) {
		d.set(t, "counters/visits", map[string]any{"total": nil})
	}, "total-differs", "visits", "counters reconcile --project=my-project visits"},
	{"another program makes the total a text", func(t *testing.T, d *deployment) {
		d.set(t, "counters/visits", map[string]any{"total": "many"})
	}, "field-not-a-number", "visits", ""},
	{"the app has a list in a shown field", func(t *testing.T, d *deployment) {
		d.host(t)
		d.set(t, "posts/a", map[string]any{"likes": []string{"uid-1"}})
	}, "field-not-a-number", "a", "counters import members --project=my-project '--path=posts/{post}' --field=likes '--counter-path=posts/{post}' --fields=likes,views --hosted"},
	{"the app has a list where documents are counted", func(t *testing.T, d *deployment) {
		d.count(t)
		d.set(t, "counters/visits", map[string]any{"comments": []string{"first!"}})
	}, "field-not-a-number", "visits", ""},
	{"an event was lost", func(t *testing.T, d *deployment) {
		d.add(t, "visits", 3)
		d.pass(2 * time.Minute)
	}, "total-differs", "visits", "counters reconcile --project=my-project visits"},
	{"a shard was deleted", func(t *testing.T, d *deployment) {
		for _, n := range []string{"0", "1", "2"} {
			d.remove(t, "counters/visits/shards/"+n)
		}
		d.pass(2 * time.Minute)
	}, "total-differs", "visits", "counters reconcile --project=my-project visits"},
	{"a counter of a public snippet", func(t *testing.T, d *deployment) {
		d.set(t, "counters/-snippet", map[string]any{"num_shards": 2})
		d.set(t, "counters/-snippet/shards/0", map[string]any{"count": 4})
	}, "base-missing", "-snippet", "counters reconcile --project=my-project -- -snippet"},
	{"a base that another program wrote", func(t *testing.T, d *deployment) {
		d.set(t, "counters/visits/counter_rollup/base", map[string]any{"base": map[string]any{"count": "five"}})
	}, "base-invalid", "visits", "-X DELETE https://firestore.googleapis.com/v1/projects/my-project/databases/%28default%29/documents/counters/visits/counter_rollup/base\ncounters reconcile --project=my-project visits"},
	{"a base of an earlier format", func(t *testing.T, d *deployment) {
		d.set(t, "counters/visits/counter_rollup/base", map[string]any{"format": 1})
	}, "base-format", "visits", "counters reconcile --project=my-project visits"},
	{"a base of other shards", func(t *testing.T, d *deployment) {
		d.set(t, "counters/visits/counter_rollup/base", map[string]any{"shards": "parts"})
	}, "base-others", "visits", ""},
	{"a document of the app's own, in shards of which something is counted", func(t *testing.T, d *deployment) {
		d.set(t, "counters/post", map[string]any{"title": "Hello"})
		d.set(t, "counters/post/shards/0", map[string]any{"count": 4})
	}, "base-others", "post", ""},
	{"a counter that can't be rolled up", func(t *testing.T, d *deployment) {
		path, err := layout.Place{Project: testProject}.Layout()
		if err != nil {
			t.Fatal(err)
		}
		d.set(t, strings.TrimPrefix(path.Note("gone"), path.Document("")), map[string]any{"counter": "gone", "since": today, "due": today, "tries": 3, "why": "base is damaged"})
	}, "counter-noted", "gone", "counters reconcile --project=my-project gone"},
	{"shards beyond the number", func(t *testing.T, d *deployment) {
		if err := d.counter(t, "large").Create(t.Context(), shards.CreateOptions{Shards: 3}); err != nil {
			t.Fatal(err)
		}
		d.set(t, "counters/large", map[string]any{"num_shards": 2})
		d.set(t, "counters/large/shards/2", map[string]any{"count": 5})
	}, "shards-above-number", "large", "counters resize --project=my-project --shards=3 large"},
	{"members that are no number", func(t *testing.T, d *deployment) {
		const fields = "total=count,seats=limit(100)"
		d.serves("counters/{counter}", fields, false)
		c := d.counterOf(t, shards.Config{Place: shards.Place{Fields: fields}}, "tickets")
		if err := errors.Join(c.Create(t.Context(), shards.CreateOptions{Shards: 3}), c.SetLimit(t.Context(), "seats", 50)); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"visits", "tickets"} {
			d.reconcileOf(t, rollup.Config{Place: rollup.Place{Fields: fields}}, id)
		}
		d.set(t, "counters/tickets/shards/seats~0", map[string]any{"members(seats)": "many"})
	}, "limit-unclear", "tickets", ""},
	{"a large deletion that was interrupted", func(t *testing.T, d *deployment) {
		d.remove(t, "counters/visits")
		d.set(t, "counters/visits/counter_rollup/base", map[string]any{"ending": true})
		d.pass(2 * time.Minute)
	}, "deletion-unfinished", "visits", "counters reconcile --project=my-project visits"},
	{"shards of Google's snippet for Go", func(t *testing.T, d *deployment) {
		for _, n := range []string{"0", "1"} {
			d.set(t, "counters/go/shards/"+n, map[string]any{"Count": 4})
		}
	}, "count-field-differs", "go", deploying + " --set FIELDS=total=Count\ngcloud scheduler jobs run counters-reconcile"},
	{"a shard that holds a word", func(t *testing.T, d *deployment) {
		d.set(t, "counters/odd", map[string]any{"num_shards": 2})
		d.set(t, "counters/odd/shards/0", map[string]any{"count": 4})
		d.reconcile(t, "odd")
		d.set(t, "counters/odd/shards/0", map[string]any{"count": "four"})
	}, "shard-count-not-number", "odd", `{"fields":{"count":{"integerValue":"0"}}}`},
	{"a shard that holds a fraction", func(t *testing.T, d *deployment) {
		d.set(t, "counters/visits/shards/0", map[string]any{"count": 41.6})
	}, "shard-count-not-number", "visits", `{"fields":{"count":{"integerValue":"42"}}}`},
	{"a further field of a shard that holds a word", func(t *testing.T, d *deployment) {
		d.host(t)
		d.set(t, "posts/a/shards/0", map[string]any{"views": "many"})
	}, "shard-count-not-number", "a", `{"fields":{"views":{"integerValue":"0"}}}`},
	{"a shard that became a double", func(t *testing.T, d *deployment) {
		d.set(t, "counters/visits/shards/1", map[string]any{"count": firestore.Increment(0.0)})
	}, "shard-count-double", "visits", "updateMask.fieldPaths=count"},
	{"a shard that holds digits", func(t *testing.T, d *deployment) {
		d.set(t, "counters/visits/shards/0", map[string]any{"count": "17"})
	}, "shard-count-not-number", "visits", `{"fields":{"count":{"integerValue":"0"}}}`},
}

// hashOf is what the name of a counted collection's trigger ends with.
func hashOf(collection string) string {
	hash := sha256.Sum256([]byte(testRegion + "/(default)/counters/{counter}/" + collection))
	return hex.EncodeToString(hash[:4])
}

// unfilled is a flag without its value.
var unfilled = regexp.MustCompile(`--[a-z-]+=( |''|$)`)

// One document with a fraction freezes a sum for everybody: it is named, and no other.
func TestFractionsAreNamed(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	d.count(t)
	for name, data := range map[string]map[string]any{
		"a-hidden": {"of": map[string]any{"stars": 2.5}, "public": false},
		"alice":    {"of": map[string]any{"stars": 0.5}, "public": true},
		"bob":      {"of": map[string]any{"stars": 4.0}, "public": true},
		"carol":    {"of": map[string]any{"stars": "many"}, "public": true},
		"dave":     {"of": "nothing", "public": true},
	} {
		d.set(t, "counters/visits/ratings/"+name, data)
	}
	for i := range 400 { // more than are read at a time
		d.set(t, fmt.Sprintf("counters/visits/ratings/b-%03d", i), map[string]any{"of": map[string]any{"stars": 1}, "public": true})
	}
	d.set(t, "counters/visits/ratings/z", map[string]any{"of": map[string]any{"stars": 1e300}, "public": true})
	_, found := d.read(t, Target{})
	seen := map[string]string{}
	for _, f := range found {
		if f.Name == "recount-not-integer" {
			name, _, _ := strings.Cut(f.Seen, "=")
			seen[name] = f.Seen
		}
	}
	for name, want := range map[string]string{
		"stars": ": ratings/a-hidden holds 2.5, ratings/alice holds 0.5, ratings/z holds 1e+300",
		"shown": ": ratings/alice holds 0.5, ratings/z holds 1e+300",
	} {
		if !strings.HasSuffix(seen[name], want) {
			t.Errorf("%s: %q, want %q", name, seen[name], want)
		}
	}
}

// trial returns what tries a command that mends a deployment: nothing where there is Go alone.
var trial = func(*testing.T) func(t *testing.T, command string) { return func(*testing.T, string) {} }

func TestFindings(t *testing.T) {
	t.Parallel()
	try := trial(t)
	for _, b := range brokenDeployments {
		t.Run(b.finding+"/"+b.how, func(t *testing.T) {
			t.Parallel()
			d := newDeployment(t)
			b.do(t, d)
			_, found := d.read(t, Target{})
			if len(found) == 0 {
				t.Fatal("nothing was found")
			}
			var subjects, fixes []string
			for _, f := range found {
				if f.Name != b.finding {
					t.Errorf("found %s as well: %s: %s", f.Name, f.Subject, f.Seen)
				}
				if f.Seen == "" || f.Means == "" || f.Severity == "" {
					t.Errorf("says too little: %+v", f)
				}
				for l := range strings.SplitSeq(f.Fix, "\n") {
					if unfilled.MatchString(l) || strings.Contains(l, "LOCATION") {
						t.Errorf("not complete: %s", l)
					}
					try(t, l)
				}
				subjects, fixes = append(subjects, f.Subject), append(fixes, f.Fix)
			}
			if !strings.Contains(strings.Join(subjects, "\n"), b.subject) {
				t.Errorf("found it of %v, want of %s", subjects, b.subject)
			}
			if !strings.Contains(strings.Join(fixes, "\n"), b.fix) {
				t.Errorf("mends it by:\n%s\nwant:\n%s", strings.Join(fixes, "\n"), b.fix)
			}
		})
	}
}

// What a week has cost, and would have cost, by hand.
func TestBillingSaysWhatItCosts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		byRequest bool
		had       had
		want      string
	}{
		// 60.48 × $0.40 + 604,000 × $0.00002525; 10,080 × 60 × $0.000019
		{true, had{requests: 60_480_000, mean: 20, billed: 604_000, counted: 10_080}, "the last seven days, with 60480000 requests, cost $39.44 by the request, and $11.49 by the instance"},
		// 604,800 × $0.000019; 0.01008 × $0.40 + 10,080 × 1.1 × $0.00002525
		{false, had{requests: 10_080, mean: 1000, billed: 604_800, counted: 10_080}, "the last seven days, with 10080 requests, cost $11.49 by the instance, and $0.28 by the request"},
	} {
		d := newDeployment(t)
		d.billed("counters-rollup", c.byRequest)
		d.had["counters-rollup"] = c.had
		if _, found := d.read(t, Target{}); len(found) != 1 || found[0].Seen != c.want {
			t.Errorf("found %+v, want %s", found, c.want)
		}
	}
}

// Nothing is in the catalogue that no broken deployment shows.
func TestEveryFindingIsShown(t *testing.T) {
	t.Parallel()
	shown := map[string]bool{}
	for _, b := range brokenDeployments {
		shown[b.finding] = true
	}
	for name, e := range catalogue {
		if !shown[name] {
			t.Errorf("no broken deployment shows %s", name)
		}
		if e.means == "" || e.severity == "" {
			t.Errorf("%s says nothing", name)
		}
	}
}

// Two queries may add the same doubles up in another order.
func TestNearly(t *testing.T) {
	t.Parallel()
	tenth, fifth, third, zero, nan := 0.1, 0.2, 0.3, 0.0, math.NaN()
	sum := tenth + fifth
	if sum == third {
		t.Fatal("0.1 + 0.2 is 0.3 to the last digit here: this test shows nothing")
	}
	for _, c := range []struct {
		a, b *float64
		want bool
	}{{&sum, &third, true}, {&fifth, &third, false}, {nil, nil, true}, {nil, &zero, false}, {&zero, nil, false}, {&zero, &zero, true}, {&zero, &tenth, false}, {&nan, &tenth, false}} {
		if got := nearly(c.a, c.b); got != c.want {
			t.Errorf("%s and %s: %t, want %t", terminal.Number(c.a), terminal.Number(c.b), got, c.want)
		}
	}
}
