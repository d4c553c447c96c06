package doctor

import (
	"context"
	"time"

	"google.golang.org/api/eventarc/v1"
	"google.golang.org/grpc/codes"
)

// trigger reads what Eventarc knows of Rollup's trigger.
func (r *Reader) trigger(ctx context.Context, d *Deployment) error {
	if d.Functions == nil || d.Functions.Rollup == nil || d.Functions.Rollup.Trigger == nil || d.Functions.Rollup.Trigger.Name == "" {
		return nil
	}
	denied := func(err error) error {
		return &unread{part: "the trigger", service: "eventarc.googleapis.com", permission: "eventarc.triggers.get", role: "roles/eventarc.viewer", err: err}
	}
	client, err := eventarc.NewService(ctx, r.Eventarc...)
	if err != nil {
		return denied(err)
	}
	t := d.Functions.Rollup.Trigger
	trigger, err := client.Projects.Locations.Triggers.Get(t.Name).Context(ctx).Do()
	switch {
	case err != nil && isCode(err, codes.NotFound, 404):
		t.Missing = true
		return nil
	case err != nil:
		return denied(err)
	}
	t.Created, _ = time.Parse(time.RFC3339Nano, trigger.CreateTime) // zero, which is not compared, where it can't be read
	return nil
}
