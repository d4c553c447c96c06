package doctor

import (
	"context"
	"time"

	"google.golang.org/api/firebaserules/v1"
	"google.golang.org/grpc/codes"
)

// rules reads the security rules that hold for the database.
func (r *Reader) rules(ctx context.Context, d *Deployment) error {
	denied := func(err error) error {
		return &unread{part: "security rules", service: "firebaserules.googleapis.com", permission: "firebaserules.releases.get", role: "roles/firebaserules.viewer", err: err}
	}
	client, err := firebaserules.NewService(ctx, r.Rules...)
	if err != nil {
		return denied(err)
	}
	name := "projects/" + d.Target.Project + "/releases/cloud.firestore"
	if d.Target.Database != defaultDatabase {
		name += "/" + d.Target.Database
	}
	release, err := client.Projects.Releases.Get(name).Context(ctx).Do()
	switch {
	case err != nil && (disabled(err) || isCode(err, codes.NotFound, 404)): // without the API none can have been released
		d.Rules = &Rules{Missing: true}
		return nil
	case err != nil:
		return denied(err)
	}
	set, err := client.Projects.Rulesets.Get(release.RulesetName).Context(ctx).Do()
	if err != nil {
		return denied(err)
	}
	rules := &Rules{Name: release.RulesetName}
	rules.Released, _ = time.Parse(time.RFC3339Nano, release.UpdateTime)
	if set.Source != nil {
		for i, file := range set.Source.Files {
			if i == 0 {
				rules.File = file.Name
			}
			rules.Text += file.Content
		}
	}
	d.Rules = rules
	return nil
}
