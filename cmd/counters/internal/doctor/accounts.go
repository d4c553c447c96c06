package doctor

import (
	"path"
	"slices"
	"strings"

	resources "github.com/firestore-counters/counters/cmd/counters/internal/deployment"
)

// accounts are the service accounts of the deployment's own, sorted. Those of other projects are not
// its own, and neither are Google's.
func (d *Deployment) accounts() []string {
	var all []string
	add := func(account string) {
		account = path.Base(account)
		if strings.HasSuffix(account, resources.AccountsEnd(d.Target.Project)) {
			all = append(all, account)
		}
	}
	for _, function := range d.Functions.all() {
		add(function.Account)
		add(function.BuildAccount)
	}
	for _, t := range d.triggers() {
		add(t.Account)
	}
	add(d.reconcileJob().Text(accountOfJob))
	slices.Sort(all)
	return slices.Compact(all)
}

// accounts looks at whether those are there that the deployment acts as.
func (f *findings) accounts(d *Deployment) {
	for _, account := range d.accounts() {
		switch why := d.Gone[account]; why {
		case "":
		case disabledAccount:
			f.add("account-gone", account, "it is "+why, line("gcloud", "iam", "service-accounts", "enable", account, "--project="+d.Target.Project))
		default:
			f.add("account-gone", account, "it is "+why, d.deploy())
		}
	}
}
