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

	"github.com/firestore-counters/counters/cmd/counters/internal/deployment"
)

// beside are the permissions that a trial takes beside those of its deployment.
var beside = []deployment.Permission{
	{Name: "datastore.entities.create", Role: "roles/datastore.owner"},
	{Name: "storage.objects.delete", Role: "roles/storage.admin"}, // of what was uploaded
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
	needs, err := deployment.Permissions([]string{"HOSTED=true", "FIELDS=" + fields})
	if err != nil {
		return nil, err
	}
	needs = append(needs, beside...)
	var ask permissions
	for _, n := range needs {
		ask.Permissions = append(ask.Permissions, n.Name)
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
		if !slices.Contains(has.Permissions, n.Name) && !slices.Contains(roles, n.Role) {
			roles = append(roles, n.Role)
		}
	}
	return roles, nil
}
