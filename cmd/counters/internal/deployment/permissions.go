package deployment

import (
	"slices"
	"strings"

	"github.com/firestore-counters/counters/internal/settings"
)

// Permission is one that a deployer needs, and a role that has it.
type Permission struct{ Name, Role string }

// takes are what gcloud's commands take, by their first two words.
var takes = map[string]Permission{
	"services enable":                 {"serviceusage.services.enable", "roles/serviceusage.serviceUsageAdmin"},
	"services identity":               {"serviceusage.services.enable", "roles/serviceusage.serviceUsageAdmin"},
	"projects add-iam-policy-binding": {"resourcemanager.projects.setIamPolicy", "roles/resourcemanager.projectIamAdmin"},
	"iam service-accounts":            {"iam.serviceAccounts.create", "roles/iam.serviceAccountAdmin"},
	"firestore databases":             {"datastore.databases.create", "roles/datastore.owner"},
	"firestore fields":                {"datastore.indexes.update", "roles/datastore.owner"},
	"firestore indexes":               {"datastore.indexes.update", "roles/datastore.owner"},
	"artifacts repositories":          {"artifactregistry.repositories.create", "roles/artifactregistry.admin"},
	"functions deploy":                {"cloudfunctions.functions.create", "roles/cloudfunctions.admin"},
	"run services":                    {"run.services.setIamPolicy", "roles/run.admin"},
	"eventarc triggers":               {"eventarc.triggers.create", "roles/eventarc.admin"},
	"scheduler jobs":                  {"cloudscheduler.jobs.create", "roles/cloudscheduler.admin"},
	"pubsub subscriptions":            {"pubsub.subscriptions.update", "roles/pubsub.editor"},
	"logging metrics":                 {"logging.logMetrics.create", "roles/logging.configWriter"},
	"logging sinks":                   {"logging.sinks.update", "roles/logging.configWriter"},
	"monitoring dashboards":           {"monitoring.dashboards.create", "roles/monitoring.editor"},
	"monitoring policies":             {"monitoring.alertPolicies.create", "roles/monitoring.editor"},
}

// Permissions are those that the commands of a deployment with these settings take, in a database that is there; and to
// give its functions their accounts. Its error is of the settings.
func Permissions(given []string) (all []Permission, err error) {
	w := Wanted{Project: "p", Prefix: "counters", Location: "us-central1", TriggerLocation: "us-central1", Region: "us-central1"}
	if w.Settings, err = settings.ForDeployment(given); err != nil {
		return nil, err
	}
	b := Builder{Wanted: &w, Look: func(string) Object { return nil }}
	all = []Permission{{"iam.serviceAccounts.actAs", "roles/iam.serviceAccountUser"}}
	for _, r := range b.List() {
		for _, command := range r.Make {
			if command.Call != nil {
				continue
			}
			words := command.Words
			if words[0] == "alpha" || words[0] == "beta" {
				words = words[1:]
			}
			if takes := takes[strings.Join(words[:2], " ")]; !slices.Contains(all, takes) {
				all = append(all, takes)
			}
		}
	}
	return all, nil
}
