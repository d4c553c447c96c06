package doctor

import (
	"context"

	"google.golang.org/api/iam/v1"
	"google.golang.org/grpc/codes"
)

// What an account is that nothing can act as.
const (
	deletedAccount  = "deleted"
	disabledAccount = "disabled"
)

// accounts reads whether the deployment's accounts are there.
func (r *Reader) accounts(ctx context.Context, d *Deployment) error {
	denied := func(err error) error {
		return &unread{part: "accounts", service: "iam.googleapis.com", permission: "iam.serviceAccounts.get", role: "roles/iam.serviceAccountViewer", err: err}
	}
	all := d.accounts()
	if len(all) == 0 {
		return nil
	}
	client, err := iam.NewService(ctx, r.Accounts...)
	if err != nil {
		return denied(err)
	}
	d.Gone = map[string]string{}
	for _, account := range all {
		there, err := client.Projects.ServiceAccounts.Get("projects/" + d.Target.Project + "/serviceAccounts/" + account).Context(ctx).Do()
		switch {
		case err != nil && isCode(err, codes.NotFound, 404):
			d.Gone[account] = deletedAccount
		case err != nil:
			return denied(err)
		case there.Disabled:
			d.Gone[account] = disabledAccount
		}
	}
	return nil
}
