package doctor

import (
	"context"

	"google.golang.org/api/billingbudgets/v1"
	"google.golang.org/api/cloudbilling/v1"
)

// budget reads whether somebody is told of the project's costs. Budgets are the billing account's,
// and so is who may read them.
func (r *Reader) budget(ctx context.Context, d *Deployment) error {
	denied := func(account, service, permission, role string, err error) error {
		return &unread{part: "budget", service: service, permission: permission, role: role, account: account, err: err}
	}
	project := "projects/" + d.Target.Project
	billing, err := cloudbilling.NewService(ctx, r.Billing...)
	if err != nil {
		return denied("", "cloudbilling.googleapis.com", "resourcemanager.projects.get", "roles/browser", err)
	}
	info, err := billing.Projects.GetBillingInfo(project).Context(ctx).Do()
	switch {
	case err != nil && disabled(err): // a deployment turns it on for a budget
		d.Budget = &Budget{Unasked: "cloudbilling.googleapis.com"}
		return nil
	case err != nil:
		return denied("", "cloudbilling.googleapis.com", "resourcemanager.projects.get", "roles/browser", err)
	case !info.BillingEnabled:
		d.Budget = &Budget{Off: true}
		return nil
	}
	d.Budget = &Budget{Account: info.BillingAccountName}
	client, err := billingbudgets.NewService(ctx, r.Budgets...)
	if err != nil {
		return denied(info.BillingAccountName, "billingbudgets.googleapis.com", "billing.budgets.list", "roles/billing.viewer", err)
	}
	names := []string{} // of budgets that may be for it, where its number is not known
	err = client.BillingAccounts.Budgets.List(info.BillingAccountName).Pages(ctx, func(page *billingbudgets.GoogleCloudBillingBudgetsV1ListBudgetsResponse) error {
		for _, b := range page.Budgets {
			if b.BudgetFilter == nil || d.Number == "" || covers(b.BudgetFilter.Projects, project, d.Number) {
				names = append(names, b.Name)
			}
		}
		return nil
	})
	switch {
	case err != nil && disabled(err):
		d.Budget.Unasked = "billingbudgets.googleapis.com"
		return nil
	case err != nil:
		return denied(info.BillingAccountName, "billingbudgets.googleapis.com", "billing.budgets.list", "roles/billing.viewer", err)
	}
	d.Budget.Names = names
	return nil
}
