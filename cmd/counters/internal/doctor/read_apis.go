package doctor

import (
	"context"
	"path"

	"google.golang.org/api/serviceusage/v1"

	resources "github.com/firestore-counters/counters/cmd/counters/internal/deployment"
)

// apis reads which APIs are turned off.
func (r *Reader) apis(ctx context.Context, d *Deployment) error {
	denied := func(err error) error {
		return &unread{part: "APIs", service: "serviceusage.googleapis.com", permission: "serviceusage.services.get", role: "roles/serviceusage.serviceUsageViewer", err: err}
	}
	client, err := serviceusage.NewService(ctx, r.Services...)
	if err != nil {
		return denied(err)
	}
	parent := "projects/" + d.Target.Project
	var names []string
	for _, api := range resources.APIs() {
		names = append(names, parent+"/services/"+api)
	}
	answer, err := client.Services.BatchGet(parent).Names(names...).Context(ctx).Do()
	if err != nil {
		return denied(err)
	}
	for _, service := range answer.Services {
		if service.State == "DISABLED" {
			d.off(path.Base(service.Name))
		}
	}
	return nil
}
