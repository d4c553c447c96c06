package doctor

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/googleapis/gax-go/v2/apierror"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	resources "github.com/firestore-counters/counters/cmd/counters/internal/deployment"
)

// needs are what reads take: the permission, and the narrowest role that has it. Of an address the first line holds
// whose API and whose part it has.
var needs = []struct{ api, part, permission, role string }{
	{"serviceusage", "", "serviceusage.services.list", "roles/serviceusage.serviceUsageViewer"},
	{"cloudfunctions", "/runtimes", "cloudfunctions.runtimes.list", "roles/cloudfunctions.viewer"},
	{"cloudfunctions", "", "cloudfunctions.functions.list", "roles/cloudfunctions.viewer"},
	{"eventarc", "", "eventarc.triggers.list", "roles/eventarc.viewer"},
	{"pubsub", "", "pubsub.subscriptions.get", "roles/pubsub.viewer"},
	{"run", ":getIamPolicy", "run.services.getIamPolicy", "roles/run.viewer"},
	{"run", "", "run.services.get", "roles/run.viewer"},
	{"monitoring", "/timeSeries", "monitoring.timeSeries.list", "roles/monitoring.viewer"},
	{"monitoring", "", "monitoring.alertPolicies.list", "roles/monitoring.viewer"},
	{"cloudresourcemanager", ":getIamPolicy", "resourcemanager.projects.getIamPolicy", "roles/iam.securityReviewer"},
	{"cloudresourcemanager", "", "resourcemanager.projects.get", "roles/browser"},
	{"artifactregistry", "", "artifactregistry.repositories.getIamPolicy", "roles/iam.securityReviewer"},
	{"firestore", "/fields/", "datastore.indexes.get", "roles/datastore.viewer"},
	{"firestore", "/indexes", "datastore.indexes.list", "roles/datastore.viewer"},
	{"firestore", "", "datastore.databases.getMetadata", "roles/datastore.viewer"},
	{"firebaserules", "", "firebaserules.releases.get", "roles/firebaserules.viewer"},
	{"cloudscheduler", "", "cloudscheduler.jobs.list", "roles/cloudscheduler.viewer"},
	{"iam", "", "iam.serviceAccounts.get", "roles/iam.serviceAccountViewer"},
	{"logging", "", "logging.logMetrics.get", "roles/logging.viewer"},
	{"cloudbilling", "", "resourcemanager.projects.get", "roles/browser"},
	{"billingbudgets", "", "billing.budgets.list", "roles/billing.viewer"},
}

// notChecked is that a part of a deployment can't be read, and what would let it; off is the API that is turned off,
// where that is why.
func notChecked(project, part string, err error) (n NotChecked, off string) {
	service, permission, role := firestoreAPI, "datastore.entities.list", "roles/datastore.viewer" // of documents, by gRPC
	var address string
	if u, ok := errors.AsType[*resources.Unread](err); ok {
		address, _, _ = strings.Cut(u.Address, "?")
		api, _, _ := strings.Cut(address, "/")
		service = api + ".googleapis.com"
		for _, need := range needs {
			if need.api == api && strings.Contains(address, need.part) {
				permission, role = need.permission, need.role
				break
			}
		}
	}
	n = NotChecked{Part: part, Why: firstLine(err)}
	switch {
	case errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded:
		n.Why = fmt.Sprintf("the platform did not answer within %s", patience)
	case strings.Contains(err.Error(), "could not find default credentials") || isCode(err, codes.Unauthenticated, 401):
		n.Why = "there are no credentials, or they have expired"
		n.Fix = line("gcloud", "auth", "application-default", "login")
	case disabled(err):
		n.Why, off = service+" is turned off in the project", service
		n.Fix = line("gcloud", "services", "enable", service, "--project="+project)
	case isCode(err, codes.NotFound, 404):
		n.Why = "it is not there: " + firstLine(err)
	case isCode(err, codes.PermissionDenied, 403):
		n.Why = fmt.Sprintf("it takes the permission %s, which %s has (%s)", permission, role, firstLine(err))
		grant := line("gcloud", "projects", "add-iam-policy-binding", project, "--role="+role, "--condition=None")
		if service == "billingbudgets.googleapis.com" { // they are the billing account's
			grant = line("gcloud", "billing", "accounts", "add-iam-policy-binding", path.Base(path.Dir(address)), "--role="+role)
		}
		n.Fix = grant + ` --member="user:$(gcloud config get account)"`
	}
	return n, off
}

func isCode(err error, code codes.Code, http int) bool {
	if refused, ok := errors.AsType[*resources.Refused](err); ok {
		return refused.Code == http
	}
	return status.Code(err) == code
}

// disabled reports whether the API is turned off in the project, which is answered like a missing
// permission.
func disabled(err error) bool {
	if api, ok := apierror.FromError(err); ok && api.Reason() == "SERVICE_DISABLED" {
		return true
	}
	return resources.Off(err) || strings.Contains(err.Error(), "it is disabled. Enable it by visiting")
}

// firstLine is the first line of an error's message, without what the client library puts around
// it.
func firstLine(err error) string {
	message := err.Error()
	if refused, ok := errors.AsType[*resources.Refused](err); ok {
		message = refused.Message
	} else if s, ok := status.FromError(err); ok {
		message = s.Message()
	}
	message, _, _ = strings.Cut(strings.TrimSpace(message), "\n")
	return message
}
