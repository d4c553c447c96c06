package doctor

import (
	"maps"
	"path"
	"slices"
	"strings"

	resources "github.com/firestore-counters/counters/cmd/counters/internal/deployment"
)

// accounts are the parts that are service accounts of the deployment's own, and in use. Those of other projects are not
// its own, and neither are Google's.
func (d *Deployment) accounts() (all []Part) {
	jobs := slices.Collect(maps.Values(d.jobs()))
	for _, p := range d.Parts {
		account := path.Base(p.Place.Address)
		if strings.HasPrefix(p.Name, "account ") && slices.Contains(jobs, account) && strings.HasSuffix(account, resources.AccountsEnd(d.Target.Project)) {
			all = append(all, p)
		}
	}
	return all
}

// gone reports why nothing can act as an account of the deployment's; empty where that isn't so.
func (p *Part) gone() string {
	switch {
	case p.There == nil:
		return "deleted"
	case p.There.Text("disabled") == "true":
		return "disabled"
	}
	return ""
}

// accounts looks at whether those are there that the deployment acts as.
func (f *findings) accounts(d *Deployment) {
	for _, p := range d.accounts() {
		account, fix := path.Base(p.Place.Address), d.deploy()
		if p.There != nil {
			fix = line("gcloud", "iam", "service-accounts", "enable", account, "--project="+d.Target.Project)
		}
		if why := p.gone(); why != "" {
			f.add("account-gone", account, "it is "+why, fix)
		}
	}
}
