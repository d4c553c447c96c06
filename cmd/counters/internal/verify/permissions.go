package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
)

// needs are permissions that a trial takes, of each role that a deployer needs.
var needs = []struct{ permission, role string }{
	{"serviceusage.services.enable", "roles/serviceusage.serviceUsageAdmin"},
	{"resourcemanager.projects.setIamPolicy", "roles/resourcemanager.projectIamAdmin"},
	{"iam.serviceAccounts.create", "roles/iam.serviceAccountAdmin"},
	{"iam.serviceAccounts.actAs", "roles/iam.serviceAccountUser"},
	{"datastore.indexes.update", "roles/datastore.owner"},
	{"datastore.entities.create", "roles/datastore.owner"},
	{"artifactregistry.repositories.create", "roles/artifactregistry.admin"},
	{"cloudfunctions.functions.create", "roles/cloudfunctions.admin"},
	{"run.services.setIamPolicy", "roles/run.admin"},
	{"eventarc.triggers.create", "roles/eventarc.admin"},
	{"cloudscheduler.jobs.create", "roles/cloudscheduler.admin"},
	{"pubsub.subscriptions.update", "roles/pubsub.editor"},
	{"logging.logMetrics.create", "roles/logging.configWriter"},
	{"monitoring.dashboards.create", "roles/monitoring.editor"},
	{"storage.objects.delete", "roles/storage.admin"}, // of what was uploaded
}

// Lacking asks which roles gcloud's account lacks, by a permission of each. An error says that it isn't known,
// as where the API of Resource Manager is off.
func Lacking(ctx context.Context, t *Trial) (roles []string, err error) {
	token, err := t.Gcloud(ctx, "auth", "print-access-token")
	if err != nil {
		return nil, err
	}
	type permissions struct {
		Permissions []string `json:"permissions"`
	}
	var ask permissions
	for _, n := range needs {
		ask.Permissions = append(ask.Permissions, n.permission)
	}
	body, err := json.Marshal(ask)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.Resources+"v1/projects/"+t.Project+":testIamPermissions", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	if bytes.Contains(text, []byte("SERVICE_DISABLED")) {
		return nil, errors.New("cloudresourcemanager.googleapis.com is turned off")
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %.300s", answer.Status, text)
	}
	var has permissions
	if err := json.Unmarshal(text, &has); err != nil {
		return nil, fmt.Errorf("read the answer %.300s: %w", text, err)
	}
	for _, n := range needs {
		if !slices.Contains(has.Permissions, n.permission) && !slices.Contains(roles, n.role) {
			roles = append(roles, n.role)
		}
	}
	return roles, nil
}
