package doctor

import (
	"context"
	"errors"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	resources "github.com/firestore-counters/counters/cmd/counters/internal/deployment"
)

// database reads where the database is.
func (r *Reader) database(ctx context.Context, d *Deployment) error {
	there, err := r.get(ctx, "firestore/v1/"+d.layout().Database)
	if err == nil {
		d.Database = &Database{there}
	}
	return err
}

// parts reads the parts of the list of resources that are called so.
func (r *Reader) parts(ctx context.Context, d *Deployment, called string, list []resources.Resource) error {
	var mu sync.Mutex
	var read errgroup.Group
	read.SetLimit(parallel)
	there := map[string]resources.Object{}
	for _, resource := range list {
		if k, _ := kindOf(resource.Name); k.part == called {
			read.Go(func() error {
				object, err := r.cloud.Read(ctx, resource.Name, resource.Place)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					there[resource.Name] = object
				}
				return err
			})
		}
	}
	err := read.Wait()
	for _, resource := range list {
		if object, is := there[resource.Name]; is {
			d.Parts = append(d.Parts, Part{resource, object})
			for _, api := range resource.MissingAPIs(object) {
				d.off(api)
			}
		}
	}
	return err
}

// rules reads the security rules that hold for the database.
func (r *Reader) rules(ctx context.Context, d *Deployment) error {
	name := "projects/" + d.Target.Project + "/releases/cloud.firestore"
	if d.Target.Database != defaultDatabase {
		name += "/" + d.Target.Database
	}
	release, err := r.get(ctx, "firebaserules/v1/"+name)
	switch {
	case err != nil && !disabled(err):
		return err
	case release == nil: // without the API none can have been released
		d.Rules = &Rules{}
		return nil
	}
	set, err := r.must(ctx, "firebaserules/v1/"+release.Text("rulesetName"))
	if err != nil {
		return err
	}
	d.Rules = &Rules{release, set}
	return nil
}

// jobs reads the Scheduler jobs of the functions' region.
func (r *Reader) jobs(ctx context.Context, d *Deployment) error {
	region := d.region()
	if region == "" {
		return errors.New("their region is not known: there is no function to go by. Name it with --location")
	}
	return r.one("cloudscheduler/v1/projects/"+d.Target.Project+"/locations/"+region+"/jobs", &d.Jobs)(ctx, d)
}

// budget reads whether somebody is told of the project's costs. Budgets are the billing account's,
// and so is who may read them.
func (r *Reader) budget(ctx context.Context, d *Deployment) error {
	project, number := "projects/"+d.Target.Project, d.Project.Text("projectNumber")
	info, err := r.must(ctx, "cloudbilling/v1/"+project+"/billingInfo")
	switch {
	case err != nil && disabled(err): // a deployment turns it on for a budget
		d.Budget = &Budget{Unasked: "cloudbilling.googleapis.com"}
		return nil
	case err != nil:
		return err
	case info.Text("billingEnabled") != "true":
		d.Budget = &Budget{Off: true}
		return nil
	}
	d.Budget = &Budget{Account: info.Text("billingAccountName")}
	list, err := r.get(ctx, "billingbudgets/v1/"+d.Budget.Account+"/budgets")
	if err != nil && disabled(err) {
		d.Budget.Unasked = "billingbudgets.googleapis.com"
		return nil
	}
	if err != nil {
		return err
	}
	d.Budget.Names = []string{} // of budgets that may be for it, where its number is not known
	for _, b := range resources.Objects(list["budgets"]) {
		if of := texts(b.At("budgetFilter.projects")); len(of) == 0 || number == "" || slices.Contains(of, project) || slices.Contains(of, "projects/"+number) {
			d.Budget.Names = append(d.Budget.Names, b.Text("name"))
		}
	}
	return nil
}
