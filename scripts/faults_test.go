//go:build all

package scripts

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/layout"
)

var allFaults = flag.Bool("faults.all", false, "put all faults into a deployment, and mend them: a quarter of an hour")

// damage is a project as fakegcp.py has it, to be changed by somebody who didn't mean to.
type damage struct {
	Resources map[string]map[string]any `json:"resources"`
	Policies  map[string]map[string]any `json:"policies"`
	Active    []string                  `json:"active"`

	documents *firestore.Client
}

const (
	inProject = "projects/a-project/"
	inRegion  = inProject + "locations/us-central1/"
	inGroups  = "firestore " + inProject + "databases/(default)/collectionGroups/"
)

// at is what is in a resource, or in a part of one.
func (d *damage) at(t *testing.T, key string, way ...string) map[string]any {
	t.Helper()
	at := d.Resources[key]
	if at == nil {
		t.Fatalf("there is no %s, of %q", key, slices.Sorted(maps.Keys(d.Resources)))
	}
	for _, step := range way {
		next, ok := at[step].(map[string]any)
		if !ok {
			next = map[string]any{}
			at[step] = next
		}
		at = next
	}
	return at
}

func (d *damage) function(t *testing.T, name string, way ...string) map[string]any {
	t.Helper()
	return d.at(t, "cloudfunctions "+inRegion+"functions/counters-"+name, way...)
}

func (d *damage) env(t *testing.T, name string) map[string]any {
	t.Helper()
	return d.function(t, name, "serviceConfig", "environmentVariables")
}

func (d *damage) job(t *testing.T, way ...string) map[string]any {
	t.Helper()
	return d.at(t, "cloudscheduler "+inRegion+"jobs/counters-reconcile", way...)
}

// key is that of the one resource whose key contains all of these.
func (d *damage) key(t *testing.T, parts ...string) string {
	t.Helper()
	var found []string
	for key := range d.Resources {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(key, part) }) {
			found = append(found, key)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%q is of %q", parts, found)
	}
	return found[0]
}

// subscription is that of Rollup's own trigger.
func (d *damage) subscription(t *testing.T) (key string) {
	t.Helper()
	return d.key(t, "pubsub ", "-counters-rollup-")
}

func (d *damage) filter(t *testing.T, attribute string) map[string]any {
	t.Helper()
	for _, f := range d.function(t, "rollup", "eventTrigger")["eventFilters"].([]any) {
		if f := f.(map[string]any); f["attribute"] == attribute {
			return f
		}
	}
	t.Fatalf("the trigger has no filter for %s", attribute)
	return nil
}

// change changes the members of all bindings of a policy.
func (d *damage) change(t *testing.T, policy string, change func(role string, members []any) []any) {
	t.Helper()
	bindings, ok := d.Policies[policy]["bindings"].([]any)
	if !ok {
		t.Fatalf("there is no policy %s of %q", policy, slices.Sorted(maps.Keys(d.Policies)))
	}
	for _, b := range bindings {
		binding := b.(map[string]any)
		binding["members"] = change(binding["role"].(string), binding["members"].([]any))
	}
}

// revoke takes a role from an account of the deployment.
func (d *damage) revoke(t *testing.T, policy, role, account string) {
	t.Helper()
	d.change(t, policy, func(of string, members []any) []any {
		return slices.DeleteFunc(members, func(m any) bool { return of == role && strings.Contains(m.(string), account+"@") })
	})
}

// withoutAccount deletes an account, as IAM does: what it had is a deleted account's.
func (d *damage) withoutAccount(t *testing.T, name string) {
	t.Helper()
	email := name + "@a-project.iam.gserviceaccount.com"
	delete(d.Resources, d.key(t, "iam ", "/"+email))
	for policy := range d.Policies {
		d.change(t, policy, func(_ string, members []any) []any {
			for i, m := range members {
				if m == "serviceAccount:"+email {
					members[i] = "deleted:" + m.(string) + "?uid=1"
				}
			}
			return members
		})
	}
}

func (d *damage) index(t *testing.T, group, field string, indexes ...any) {
	t.Helper()
	name := strings.TrimPrefix(inGroups, "firestore ") + group + "/fields/" + field
	d.Resources["firestore "+name] = map[string]any{"name": name, "indexConfig": map[string]any{"indexes": append([]any{}, indexes...)}}
}

// rules has rules released that aren't the deployment's.
func (d *damage) rules(text string) {
	d.Resources["firebaserules "+inProject+"rulesets/r1"] = map[string]any{"name": inProject + "rulesets/r1",
		"source": map[string]any{"files": []any{map[string]any{"name": "firestore.rules", "content": text}}}}
	d.Resources["firebaserules "+inProject+"releases/cloud.firestore"] = map[string]any{"name": inProject + "releases/cloud.firestore",
		"rulesetName": inProject + "rulesets/r1", "updateTime": time.Now().UTC().Format(time.RFC3339Nano)}
	if !slices.Contains(d.Active, "firebaserules.googleapis.com") {
		d.Active = append(d.Active, "firebaserules.googleapis.com")
	}
}

func (d *damage) set(t *testing.T, path string, data map[string]any) {
	t.Helper()
	if _, err := d.documents.Doc(path).Set(t.Context(), data, firestore.MergeAll); err != nil {
		t.Fatal(err)
	}
}

const (
	ofProject   = "project a-project"
	ofRollup    = "run " + inRegion + "services/counters-rollup"
	ofReconcile = "run " + inRegion + "services/counters-reconcile"
	ofIncrement = "run " + inRegion + "services/counters-increment"
)

// fault is a way in which a deployment goes wrong. Where doctor's command only shows the cause, somebody
// mends it.
type fault struct {
	how     string
	put     func(*testing.T, *damage)
	finding string
	shows   bool // what the command shows is mended by hand
	once    bool // the first command mends it, and leaves nothing to be found
	short   bool // put in without -faults.all, too
}

// The faults that doctor has been tried with from the beginning, and those that came after: the
// latter begin at "later".
var faults = []fault{
	{how: "an API is turned off", finding: "api-disabled", short: true, put: func(t *testing.T, d *damage) {
		d.Active = slices.DeleteFunc(d.Active, func(api string) bool { return api == "cloudbuild.googleapis.com" })
	}},
	{how: "the builder has lost its roles", finding: "build-role-missing", put: func(t *testing.T, d *damage) {
		d.revoke(t, ofProject, "roles/logging.logWriter", "counters-build")
		d.revoke(t, ofProject, "roles/storage.objectViewer", "counters-build")
		d.revoke(t, "artifactregistry "+inRegion+"repositories/counters-functions", "roles/artifactregistry.writer", "counters-build")
	}},
	{how: "the repository of images is gone", finding: "repository-missing", put: func(t *testing.T, d *damage) {
		delete(d.Resources, "artifactregistry "+inRegion+"repositories/counters-functions")
		delete(d.Policies, "artifactregistry "+inRegion+"repositories/counters-functions")
	}},
	{how: "a function is gone", finding: "function-missing", put: func(t *testing.T, d *damage) {
		delete(d.Resources, "cloudfunctions "+inRegion+"functions/counters-reconcile")
		delete(d.Resources, ofReconcile)
		delete(d.Policies, ofReconcile)
	}},
	{how: "a deployment failed", finding: "function-not-active", put: func(t *testing.T, d *damage) {
		d.function(t, "increment")["state"] = "FAILED"
	}},
	{how: "a runtime without support", finding: "runtime-deprecated", put: func(t *testing.T, d *damage) {
		d.function(t, "rollup", "buildConfig")["runtime"] = "go124"
	}},
	{how: "one request at a time", finding: "concurrency-one", put: func(t *testing.T, d *damage) {
		d.function(t, "rollup", "serviceConfig")["maxInstanceRequestConcurrency"] = 1
	}},
	{how: "Cloud Run's concurrency", finding: "concurrency-low", put: func(t *testing.T, d *damage) {
		d.function(t, "increment", "serviceConfig")["maxInstanceRequestConcurrency"] = 80
	}},
	{how: "Rollup has 15 s", finding: "timeout-short", put: func(t *testing.T, d *damage) {
		d.function(t, "rollup", "serviceConfig")["timeoutSeconds"] = 15
	}},
	{how: "Rollup is open to the internet", finding: "function-reachable", put: func(t *testing.T, d *damage) {
		d.function(t, "rollup", "serviceConfig")["ingressSettings"] = "ALLOW_ALL"
	}},
	{how: "a setting that stops the start", finding: "settings-invalid", put: func(t *testing.T, d *damage) {
		d.env(t, "rollup")["ROLLUP_INTERVAL"] = "1h"
	}},
	{how: "Increment writes elsewhere", finding: "layout-differs", put: func(t *testing.T, d *damage) {
		d.env(t, "increment")["COUNTERS"] = "likes/{like}"
	}},
	{how: "one function has another setting", finding: "settings-differ", short: true, put: func(t *testing.T, d *damage) {
		d.env(t, "reconcile")["NUM_SHARDS"] = "50"
	}},
	{how: "an upgrade ended before Rollup", finding: "upgrade-unfinished", put: func(t *testing.T, d *damage) {
		later := time.Now().Add(time.Minute).UTC().Format(time.RFC3339Nano)
		for _, name := range []string{"increment", "reconcile"} {
			d.function(t, name)["updateTime"] = later
			d.env(t, name)["NUM_SHARDS"] = "20"
		}
	}},
	{how: "the database was deleted and made again", finding: "trigger-older", put: func(t *testing.T, d *damage) {
		d.at(t, "firestore "+inProject+"databases/(default)")["createTime"] = time.Now().UTC().Format(time.RFC3339Nano)
	}},
	{how: "the trigger is gone", finding: "trigger-missing", once: true, put: func(t *testing.T, d *damage) {
		delete(d.Resources, d.key(t, "eventarc ", "/counters-rollup-"))
	}},
	{how: "the trigger hears of updates alone", finding: "trigger-event-type", once: true, put: func(t *testing.T, d *damage) {
		d.function(t, "rollup", "eventTrigger")["eventType"] = "google.cloud.firestore.document.v1.updated"
	}},
	{how: "the trigger is of other documents", finding: "trigger-document", put: func(t *testing.T, d *damage) {
		d.filter(t, "document")["value"] = "likes/{counter}/shards/{shard}"
	}},
	{how: "the trigger takes its pattern literally", finding: "trigger-operator", put: func(t *testing.T, d *damage) {
		delete(d.filter(t, "document"), "operator")
	}},
	{how: "the trigger tries once", finding: "trigger-retry-off", short: true, put: func(t *testing.T, d *damage) {
		d.function(t, "rollup", "eventTrigger")["retryPolicy"] = "RETRY_POLICY_DO_NOT_RETRY"
	}},
	{how: "the trigger is elsewhere", finding: "trigger-region", once: true, put: func(t *testing.T, d *damage) {
		d.function(t, "rollup", "eventTrigger")["triggerRegion"] = "europe-west1"
	}},
	{how: "a counted collection has no trigger", finding: "watch-missing", put: func(t *testing.T, d *damage) {
		delete(d.Resources, d.key(t, "eventarc ", "/counters-watch-"))
		delete(d.Resources, d.key(t, "pubsub ", "-counters-watch-"))
	}},
	{how: "events of a counted collection can't wait", finding: "watch-ack-deadline", put: func(t *testing.T, d *damage) {
		d.at(t, d.key(t, "pubsub ", "-counters-watch-"))["ackDeadlineSeconds"] = 10
	}},
	{how: "the subscription ends after a quiet month", finding: "subscription-expires", put: func(t *testing.T, d *damage) {
		d.at(t, d.subscription(t), "expirationPolicy")["ttl"] = "2678400s"
	}},
	{how: "Rollup may not read documents", finding: "account-role-missing", put: func(t *testing.T, d *damage) {
		d.revoke(t, ofProject, "roles/datastore.user", "counters-rollup")
	}},
	{how: "the trigger may not take events", finding: "account-role-missing", put: func(t *testing.T, d *damage) {
		d.revoke(t, ofProject, "roles/eventarc.eventReceiver", "counters-eventarc")
	}},
	{how: "the trigger may not call Rollup", finding: "account-role-missing", short: true, put: func(t *testing.T, d *damage) {
		d.revoke(t, ofRollup, "roles/run.invoker", "counters-eventarc")
	}},
	{how: "Rollup is for everybody", finding: "function-open", put: func(t *testing.T, d *damage) {
		d.change(t, ofRollup, func(_ string, members []any) []any { return append(members, "allUsers") })
	}},
	{how: "nobody checks who calls Increment", finding: "increment-open", put: func(t *testing.T, d *damage) {
		d.at(t, ofIncrement)["invokerIamDisabled"] = true
	}},
	{how: "the job is gone", finding: "scheduler-job-missing", put: func(t *testing.T, d *damage) {
		delete(d.Resources, "cloudscheduler "+inRegion+"jobs/counters-reconcile")
	}},
	{how: "the job rests", finding: "scheduler-job-paused", short: true, put: func(t *testing.T, d *damage) {
		d.job(t)["state"] = "PAUSED"
	}},
	{how: "the job calls something else", finding: "scheduler-job-target", put: func(t *testing.T, d *damage) {
		d.job(t, "httpTarget")["uri"] = "https://counters-reconcile-old.a.run.app"
	}},
	{how: "the job's token is for another", finding: "scheduler-job-token", put: func(t *testing.T, d *damage) {
		d.job(t, "httpTarget", "oidcToken")["audience"] = "https://example.com"
	}},
	{how: "the database is gone", finding: "database-missing", put: func(t *testing.T, d *damage) {
		for key := range d.Resources {
			if strings.HasPrefix(key, "firestore ") {
				delete(d.Resources, key)
			}
		}
	}},
	{how: "the TTL policy is gone", finding: "ttl-missing", put: func(t *testing.T, d *damage) {
		delete(d.at(t, inGroups+"counter_requests/fields/expire_at"), "ttlConfig")
	}},
	{how: "an index on the base", finding: "index-not-exempt", put: func(t *testing.T, d *damage) {
		delete(d.Resources, inGroups+"counter_rollup/fields/base")
	}},
	{how: "an index on a counter's time", finding: "timestamp-indexed", put: func(t *testing.T, d *damage) {
		delete(d.Resources, inGroups+"counters/fields/updated_at")
	}},
	{how: "no index on the counts", finding: "count-not-indexed", put: func(t *testing.T, d *damage) {
		d.index(t, "shards", "count")
	}},
	{how: "no composite index", finding: "composite-missing", put: func(t *testing.T, d *damage) {
		delete(d.Resources, d.key(t, "firestore ", "/comments/indexes/"))
	}},
	{how: "rules in test mode", finding: "rules-open", shows: true, put: func(t *testing.T, d *damage) {
		d.rules("service cloud.firestore { match /databases/{d}/documents { match /{document=**} { allow read, write: if true; } } }")
	}},
	{how: "rules that aren't ours", finding: "rules-others", shows: true, put: func(t *testing.T, d *damage) {
		d.rules("service cloud.firestore { match /databases/{d}/documents { match /posts/{post} { allow read: if true; } } }")
	}},
	{how: "a metric was deleted", finding: "metric-missing", put: func(t *testing.T, d *damage) {
		delete(d.Resources, "logging "+inProject+"metrics/counters_rollup_lag")
	}},
	{how: "an alert was deleted", finding: "alert-missing", put: func(t *testing.T, d *damage) {
		for key, r := range d.Resources {
			if r["displayName"] == "counters: a total had drifted" {
				delete(d.Resources, key)
			}
		}
	}},
	{how: "an alert is off", finding: "alert-off", put: func(t *testing.T, d *damage) {
		for _, r := range d.Resources {
			if r["displayName"] == "counters: a total had drifted" {
				r["enabled"] = false
			}
		}
	}},
	{how: "no billing", finding: "billing-off", put: func(t *testing.T, d *damage) {
		d.Resources["cloudbilling "+inProject+"billingInfo"] = map[string]any{"name": inProject + "billingInfo", "projectId": "a-project", "billingEnabled": false}
	}},
	{how: "no budget", finding: "budget-missing", put: func(t *testing.T, d *damage) {
		delete(d.Resources, d.key(t, "billingbudgets "))
	}},
	{how: "events have waited for an hour", finding: "events-waiting", shows: true, put: func(t *testing.T, d *damage) {
		id := filepath.Base(d.subscription(t))
		for metric, n := range map[string]string{"oldest_unacked_message_age": "3600", "num_undelivered_messages": "12"} {
			name := "pubsub.googleapis.com/subscription/" + metric
			d.Resources["timeSeries "+metric] = map[string]any{"metric": map[string]any{"type": name}, "resource": map[string]any{"type": "pubsub_subscription",
				"labels": map[string]any{"subscription_id": id}}, "points": []any{map[string]any{"value": map[string]any{"int64Value": n}}}}
		}
	}},
	{how: "another program writes a total", finding: "total-differs", put: func(t *testing.T, d *damage) {
		d.set(t, "counters/visits", map[string]any{"total": 7})
	}},
	{how: "another program writes a base", finding: "base-invalid", put: func(t *testing.T, d *damage) {
		d.set(t, "counters/visits/counter_rollup/base", map[string]any{"base": map[string]any{"count": "five"}})
	}},
	{how: "a base of another format", finding: "base-format", put: func(t *testing.T, d *damage) {
		d.set(t, "counters/visits/counter_rollup/base", map[string]any{"format": 99})
	}},
	{how: "a counter is noted for a reconcile", finding: "counter-noted", put: func(t *testing.T, d *damage) {
		names, err := layout.Place{Project: "a-project"}.Layout()
		if err != nil {
			t.Fatal(err)
		}
		d.set(t, strings.TrimPrefix(names.Note("visits"), names.Document("")),
			map[string]any{"counter": "visits", "why": "it refused every commit", "since": time.Now(), "due": time.Now(), "tries": 3})
	}},
	{how: "a shard holds a word", finding: "shard-count-not-number", put: func(t *testing.T, d *damage) {
		d.set(t, "counters/visits/shards/0", map[string]any{"count": "four"})
	}},
	{how: "a shard holds a double", finding: "shard-count-double", put: func(t *testing.T, d *damage) {
		d.set(t, "counters/visits/shards/1", map[string]any{"count": firestore.Increment(0.0)})
	}},

	{how: "later: a function's account was deleted", finding: "account-gone", put: func(t *testing.T, d *damage) {
		d.withoutAccount(t, "counters-rollup")
	}},
	{how: "later: the job's account was disabled", finding: "account-gone", short: true, put: func(t *testing.T, d *damage) {
		d.at(t, d.key(t, "iam ", "/counters-scheduler@"))["disabled"] = true
	}},
	{how: "later: Eventarc's agent has lost its role", finding: "agent-role-missing", put: func(t *testing.T, d *damage) {
		d.change(t, ofProject, func(role string, members []any) []any {
			if role == "roles/eventarc.serviceAgent" {
				return []any{}
			}
			return members
		})
	}},
	{how: "later: the subscription was deleted", finding: "subscription-broken", put: func(t *testing.T, d *damage) {
		delete(d.Resources, d.subscription(t))
	}},
	{how: "later: the subscription's topic was deleted", finding: "subscription-broken", put: func(t *testing.T, d *damage) {
		d.at(t, d.subscription(t))["topic"] = "_deleted-topic_"
	}},
	{how: "later: somebody pulls from a counted collection's subscription", finding: "subscription-broken", put: func(t *testing.T, d *damage) {
		d.at(t, d.key(t, "pubsub ", "-counters-watch-"))["pushConfig"] = map[string]any{}
	}},
	{how: "later: the subscription forgets after ten minutes", finding: "subscription-forgets", put: func(t *testing.T, d *damage) {
		d.at(t, d.subscription(t))["messageRetentionDuration"] = "600s"
	}},
	{how: "later: the subscription waits ten minutes after a failure", finding: "subscription-slow", put: func(t *testing.T, d *damage) {
		d.at(t, d.subscription(t), "retryPolicy")["minimumBackoff"] = "600s"
	}},
	{how: "later: dead letters go to a topic that Pub/Sub may not publish to", finding: "subscription-dead-letters", short: true, put: func(t *testing.T, d *damage) {
		d.at(t, d.subscription(t))["deadLetterPolicy"] = map[string]any{"deadLetterTopic": inProject + "topics/dead", "maxDeliveryAttempts": 5}
	}},
	{how: "later: two triggers bring the shards' events", finding: "watch-unneeded", put: func(t *testing.T, d *damage) {
		second := map[string]any{}
		for key, value := range d.at(t, d.key(t, "eventarc ", "/counters-rollup-")) {
			second[key] = value
		}
		second["name"] = inRegion + "triggers/second"
		second["transport"] = map[string]any{"pubsub": map[string]any{"topic": inProject + "topics/x", "subscription": inProject + "subscriptions/second"}}
		d.Resources["eventarc "+inRegion+"triggers/second"] = second
		d.Resources["pubsub "+inProject+"subscriptions/second"] = map[string]any{"ackDeadlineSeconds": 70, "pushConfig": map[string]any{"pushEndpoint": "https://x"}}
	}},
	{how: "later: pages can't come to Increment", finding: "increment-hidden", put: func(t *testing.T, d *damage) {
		d.function(t, "increment", "serviceConfig")["ingressSettings"] = "ALLOW_INTERNAL_ONLY"
	}},
	{how: "later: an older revision answers", finding: "traffic-pinned", put: func(t *testing.T, d *damage) {
		d.at(t, ofIncrement)["traffic"] = []any{map[string]any{"type": "TRAFFIC_TARGET_ALLOCATION_TYPE_REVISION", "revision": "counters-increment-00001", "percent": 100}}
	}},
	{how: "later: the job sends GET", finding: "scheduler-job-method", put: func(t *testing.T, d *damage) {
		d.job(t, "httpTarget")["httpMethod"] = "GET"
	}},
	{how: "later: the index of what is averaged is off", finding: "sum-not-indexed", put: func(t *testing.T, d *damage) {
		d.index(t, "comments", "stars")
	}},
}

// The faults of a web app's deployment that takes the extension's place.
var faultsOfASuccessor = []fault{
	{how: "somebody has taken the ceiling away", finding: "ceiling-missing", put: func(t *testing.T, d *damage) {
		for _, name := range []string{"increment", "rollup", "reconcile"} {
			delete(d.function(t, name, "labels"), "counters-most-per-day")
			delete(d.env(t, name), "CEILING")
		}
	}},
	{how: "somebody has raised the instances by hand", finding: "ceiling-exceeded", put: func(t *testing.T, d *damage) {
		d.function(t, "increment", "serviceConfig")["maxInstanceCount"] = 900
	}},
	{how: "no index finds a member", finding: "members-not-indexed", put: func(t *testing.T, d *damage) {
		d.index(t, "likes_members", "member", map[string]any{"queryScope": "COLLECTION", "state": "READY", "fields": []any{map[string]any{"fieldPath": "member", "order": "ASCENDING"}}})
	}},
	{how: "nobody hears what the extension's clients count", finding: "watch-missing", put: func(t *testing.T, d *damage) {
		delete(d.Resources, d.key(t, "eventarc ", "/counters-watch-"))
		delete(d.Resources, d.key(t, "pubsub ", "-counters-watch-"))
	}},
	{how: "rules keep the extension's clients out", finding: "rules-extension", shows: true, put: func(t *testing.T, d *damage) {
		d.rules("service cloud.firestore { match /databases/{d}/documents { match /posts/{post} { allow read: if true; } } }")
	}},
	// Its document stays when this was shown: it is the last.
	{how: "the extension still runs", finding: "extension-runs", shows: true, put: func(t *testing.T, d *damage) {
		d.set(t, "_firebase_ext_/sharded_counter", map[string]any{"workers": []any{}})
	}},
}

// The same of a deployment for a web app that takes the extension's place.
func TestFaultsOfASuccessorAreNamedAndMended(t *testing.T) {
	if !*allFaults {
		t.Skip("all faults take a quarter of an hour: -faults.all")
	}
	t.Parallel()
	p := startProject(t, "--active=firestore", "--database=us-central1")
	i := install(t, p)
	i.must(t, "counters deploy --project a-project --location us-central1 --web-app https://app.example --extension --budget 100 --set 'COUNTERS=posts/{post}' --set FIELDS=likes")
	if text, code := i.doctor(t); code != 0 || len(findings(text)) > 0 || strings.Contains(text, "NOT CHECKED") {
		t.Fatalf("of a deployment in which nothing is wrong doctor says, with exit code %d:\n%s", code, text)
	}
	i.tryFaults(t, faultsOfASuccessor)
	p.checkViolations(t)
}

// An installed program, alone in an empty folder, names each fault of a deployment, and its commands, as
// they are printed, mend it. The deployment is one that the real gcloud has made. A few of the faults are
// put into TestDeployForAWebApp's deployment, too.
func TestFaultsAreNamedAndMended(t *testing.T) {
	if !*allFaults {
		t.Skip("all faults take a quarter of an hour: -faults.all")
	}
	t.Parallel()
	p := startProject(t, "--active=firestore", "--database=us-central1")
	i := install(t, p)
	const fields = "total=count,comments=count(comments),rating=avg(comments.stars where public==true)"
	i.must(t, "counters deploy --project a-project --location us-central1 --invoker user:me@example.com --budget 100 --set FIELDS='"+fields+"' --set ALLOWED_ORIGINS=https://app.example")
	on := " --project a-project --fields '" + fields + "' visits"
	i.must(t, "counters create --shards 3"+on+" && counters inc --by 5"+on+" && counters reconcile"+on)
	if text, code := i.doctor(t); code != 0 || len(findings(text)) > 0 || strings.Contains(text, "NOT CHECKED") {
		t.Fatalf("of a deployment in which nothing is wrong doctor says, with exit code %d:\n%s", code, text)
	}
	i.tryFaults(t, faults)
	p.checkViolations(t)
}

// tryFaults puts faults into a deployment, one after the other. What doctor says of it without them it
// says once each is mended.
func (i *installed) tryFaults(t *testing.T, faults []fault) {
	t.Helper()
	text, _ := i.doctor(t)
	was, before := findings(text), i.project.get(t)
	table := &strings.Builder{}
	for _, f := range faults {
		t.Run(f.how, func(t *testing.T) {
			d := damage{documents: i.documents}
			if err := json.Unmarshal(before, &d); err != nil {
				t.Fatal(err)
			}
			f.put(t, &d)
			i.project.put(t, d)
			text, code := i.doctor(t)
			named := findings(text)
			if !slices.Contains(named, f.finding) || slices.Contains(was, f.finding) {
				t.Fatalf("it is not named %s, with exit code %d:\n%s", f.finding, code, text)
			}
			if errors := strings.Contains(text, "\nERROR  "); (code == 1) != errors || code > 1 {
				t.Errorf("exit code %d of\n%s", code, text)
			}
			typed, said := 0, ""
			for round := 0; !slices.Equal(findings(text), was); round++ {
				if round == rounds || f.once && round == 1 {
					t.Fatalf("after\n%s\nit says, with exit code %d:\n%s", said, code, text)
				}
				commands := commandsOf(text, was)
				if len(commands) == 0 {
					t.Fatalf("no command in\n%s", text)
				}
				for _, command := range commands {
					typed++
					// One may end with an error and be needed all the same: a reconcile keeps what was counted, and
					// says that the next command is still to come.
					out, err := i.run(t, command)
					if said += "$ " + command + "\n" + out; err != nil {
						said += err.Error() + "\n"
					}
				}
				if f.shows {
					break
				}
				text, code = i.doctor(t)
				said += text
			}
			mended := "mended"
			if f.shows {
				mended = "shown"
			}
			fmt.Fprintf(table, "%-72s %-40s %s, %d commands\n", f.how, strings.Join(named, ", "), mended, typed)
		})
	}
	t.Logf("\n%s", table)
}

// rounds are how often doctor is asked again: in a database that is made anew it finds more.
const rounds = 3

// installed is the program as somebody has it who has no checkout: on the PATH, in an empty folder.
type installed struct {
	project     project
	documents   *firestore.Client
	environment []string
	folder      string
}

// install installs the program beside a project, with a Firestore.
func install(t *testing.T, p project) *installed {
	t.Helper()
	for _, tool := range []string{"curl", "unzip"} { // of doctor's commands
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not on the PATH: doctor's commands are not typed", tool)
		}
	}
	p.program(t)
	store := emulator.Start(t)
	return &installed{project: p, documents: store.Client(t, "a-project"), environment: startFront(t, p, store.Addr), folder: t.TempDir()}
}

// run types a line into a shell.
func (i *installed) run(t *testing.T, line string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-c", line)
	cmd.Dir = i.folder
	cmd.Env = slices.Concat(os.Environ(), i.project.env, i.environment, []string{
		"PATH=" + i.project.bin + string(os.PathListSeparator) + os.Getenv("PATH"), "CLOUDSDK_CORE_DISABLE_PROMPTS=1",
	})
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (i *installed) must(t *testing.T, line string) {
	t.Helper()
	if out, err := i.run(t, line); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
}

func (i *installed) doctor(t *testing.T) (text string, code int) {
	t.Helper()
	out, err := i.run(t, "counters doctor --project a-project")
	return out, exitCode(err)
}

var headings = regexp.MustCompile(`(?m)^(?:ERROR|WARNING|INFO)  (\S+)$`)

// findings are the names of what doctor has found.
func findings(text string) (names []string) {
	for _, heading := range headings.FindAllStringSubmatch(text, -1) {
		names = append(names, heading[1])
	}
	return names
}

// commandsOf are the commands that doctor prints, in its order, but for those of some findings.
func commandsOf(text string, without []string) (commands []string) {
	name := ""
	for line := range strings.Lines(text) {
		if heading := headings.FindStringSubmatch(line); heading != nil {
			name = heading[1]
		}
		if strings.HasPrefix(line, "NOT CHECKED") {
			break
		}
		if command, is := strings.CutPrefix(line, "    $ "); is && !slices.Contains(without, name) {
			commands = append(commands, strings.TrimSuffix(command, "\n"))
		}
	}
	return commands
}

// get, damage and put are all that there is in the project.
func (p project) get(t *testing.T) []byte {
	t.Helper()
	resp, err := p.ask(t.Context(), http.MethodGet, "/_state", "")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (p project) damage(t *testing.T) (d damage) {
	t.Helper()
	if err := json.Unmarshal(p.get(t), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func (p project) put(t *testing.T, d damage) {
	t.Helper()
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := p.ask(t.Context(), http.MethodPut, "/_state", string(text))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
}

// shortFaults are those that are tried each time.
func shortFaults() []fault {
	return slices.DeleteFunc(slices.Clone(faults), func(f fault) bool { return !f.short })
}
