package doctor

// Budget is what the project's billing account is told of its costs.
type Budget struct {
	Off     bool   // the project has no billing
	Unasked string // the API that is turned off, without which a deployment has no budget
	Account string
	// of the account's budgets, those that are for this project or for all of the account's; nil when
	// they could not be read
	Names []string
}

func (f *findings) budget(d *Deployment) {
	b, w := d.Budget, d.same()
	w.Budget = "100"
	switch {
	case b == nil || len(d.Functions.all()) == 0:
	case b.Off:
		f.add("billing-off", d.Target.Project, "it has no billing account", line("gcloud", "billing", "projects", "link", d.Target.Project)+
			` --billing-account="$(gcloud billing accounts list --filter=open=true --format='value(name.basename())' | head -1)"`)
	case b.Unasked != "":
		f.add("budget-missing", d.Target.Project, "counters deploy has made none: "+b.Unasked+" is turned off", asking(w))
	case b.Names != nil && len(b.Names) == 0:
		f.add("budget-missing", d.Target.Project, "no budget of "+b.Account+" is for it", asking(w))
	}
}
