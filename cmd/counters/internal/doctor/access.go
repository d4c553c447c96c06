package doctor

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	resources "github.com/firestore-counters/counters/cmd/counters/internal/deployment"
)

// grants are the grants of the list that doctor looks at, by how their names begin, with what their accounts do by them
// and what is found where they are missing.
var grants = []struct{ begins, does, finding string }{
	{"the documents of ", "runs %s, and has no %s on the database", "account-role-missing"},
	{"the events of ", "carries events to Rollup, and has no %[2]s", "account-role-missing"},
	{"caller ", "calls %s, and has no %s on it", "account-role-missing"},
	{"the log of ", "writes the log of each build, and has no %[2]s", "build-role-missing"},
	{"the sources of ", "reads the source of each build, and has no %[2]s", "build-role-missing"},
	{"the images of ", "writes the image of each build, and has no %[2]s on its repository", "build-role-missing"},
}

// wider are roles that are as good as one that the list gives.
var wider = map[string][]string{
	"roles/datastore.user":          {"roles/datastore.owner"},
	"roles/run.invoker":             {"roles/run.servicesInvoker", "roles/run.developer", "roles/run.admin"},
	"roles/logging.logWriter":       {"roles/logging.admin", "roles/cloudbuild.builds.builder"},
	"roles/storage.objectViewer":    {"roles/storage.objectUser", "roles/storage.objectAdmin", "roles/storage.admin", "roles/cloudbuild.builds.builder"},
	"roles/artifactregistry.writer": {"roles/artifactregistry.createOnPushWriter", "roles/artifactregistry.repoAdmin", "roles/artifactregistry.admin", "roles/cloudbuild.builds.builder"},
}

// enough are the roles that are enough where the list gives one, which comes first.
func enough(role string) []string {
	return slices.Concat([]string{role}, wider[role], []string{"roles/editor", "roles/owner"})
}

var (
	invokerRoles = enough("roles/run.invoker")
	agentRoles   = enough("roles/eventarc.serviceAgent")
	tokenRoles   = []string{"roles/iam.serviceAccountTokenCreator", "roles/owner"}
)

// agentsChanged is since when projects have a Pub/Sub agent that makes tokens by itself.
var agentsChanged = time.Date(2021, time.April, 9, 0, 0, 0, 0, time.UTC)

// agent reports whether a member is Google's own account for a service, in any project.
func agent(service string) func(member string) bool {
	return func(member string) bool {
		return strings.HasPrefix(member, "serviceAccount:service-") && strings.HasSuffix(member, "@gcp-sa-"+service+".iam.gserviceaccount.com")
	}
}

// everybody are the members that stand for the whole internet; anybody can get a Google account.
var everybody = []string{"allUsers", "allAuthenticatedUsers"}

// gives is the first of the roles that a policy gives to a member for whom is is true; empty where it gives none.
func (p Policy) gives(roles []string, is func(member string) bool, holds func(condition string) bool) string {
	for _, b := range p.bindings() {
		if slices.Contains(roles, b.Text("role")) && holds(b.Text("condition.expression")) && slices.ContainsFunc(texts(b["members"]), is) {
			return b.Text("role")
		}
	}
	return ""
}

// has reports whether a policy gives one of the roles to a member for whom is is true.
func (p Policy) has(roles []string, is func(member string) bool, holds func(condition string) bool) bool {
	return p.gives(roles, is, holds) != ""
}

func (p Policy) bindings() []resources.Object { return resources.Objects(p["bindings"]) }

// custom reports whether a policy gives a member a role that only its owner knows.
func (p Policy) custom(member string) bool {
	return slices.ContainsFunc(p.bindings(), func(b resources.Object) bool {
		return !strings.HasPrefix(b.Text("role"), "roles/") && slices.Contains(texts(b["members"]), member)
	})
}

func is(members ...string) func(string) bool {
	return func(member string) bool { return slices.Contains(members, member) }
}

func always(string) bool { return true }

// named is a database in a condition's expression.
var named = regexp.MustCompile(`/databases/([^/"']+)`)

// onDatabase reports whether a condition lets a role hold for the database: it does unless it names
// others only.
func (d *Deployment) onDatabase(condition string) bool {
	names := named.FindAllStringSubmatch(condition, -1)
	return len(names) == 0 || slices.ContainsFunc(names, func(name []string) bool { return name[1] == d.Target.Database })
}

func (f *findings) access(d *Deployment) {
	f.grants(d, d.jobs())
	for _, function := range d.Functions.all() {
		f.open(d, function)
	}
	if len(d.Functions.all()) > 0 && d.Access != nil && !d.Access.has(agentRoles, agent("eventarc"), always) {
		f.add("agent-role-missing", "Eventarc's service agent", "it does not have "+agentRoles[0],
			d.made("the role of Eventarc's agent"))
	}
	if since := moment(d.Project, "createTime"); d.Access != nil && !since.IsZero() && since.Before(agentsChanged) && !d.Access.has(tokenRoles, agent("pubsub"), always) {
		member := "serviceAccount:service-" + resources.Asked("projects", "describe", d.Target.Project, "--format=value(projectNumber)") + "@gcp-sa-pubsub.iam.gserviceaccount.com"
		f.add("pubsub-agent-role-missing", "Pub/Sub's service agent", "the project is of "+since.Format(time.DateOnly)+", and it does not have "+tokenRoles[0],
			line("gcloud", "projects", "add-iam-policy-binding", d.Target.Project, "--member="+member, "--role="+tokenRoles[0], "--condition=None"))
	}
}

// jobs are the accounts that have the jobs of the deployment, where they are known.
func (d *Deployment) jobs() map[string]string {
	jobs := map[string]string{"scheduler": d.reconcileJob().Text(accountOfJob)}
	for _, function := range d.Functions.all() {
		jobs[strings.ToLower(function.EntryPoint)] = function.Text("serviceConfig.serviceAccountEmail")
		if build := function.Text("buildConfig.serviceAccount"); build != "" {
			jobs["build"] = path.Base(build)
		}
		if t := function.Trigger; t != nil {
			jobs["eventarc"] = t.Account
		}
	}
	maps.DeleteFunc(jobs, func(_, account string) bool { return account == "" })
	return jobs
}

// policy says who has which role at an address of the list; nil where it could not be read.
func (d *Deployment) policy(address string) Policy {
	switch api, _, _ := strings.Cut(address, "/"); api {
	case "cloudresourcemanager":
		return d.Access
	case "artifactregistry":
		return d.Images
	}
	for _, function := range d.Functions.all() {
		if address == "run/v2/"+function.Text(ofService)+withConditions && !function.Open && !function.Invokers.has(invokerRoles, is(everybody...), always) &&
			!d.Access.has(invokerRoles, is(everybody...), always) {
			return function.Invokers
		}
	}
	return nil // or everybody may call it
}

// grants looks at whether the accounts that have jobs may do what the list lets them, by whatever role, in the project
// or by the policy of what it is about.
func (f *findings) grants(d *Deployment, jobs map[string]string) {
	inUse := slices.Collect(maps.Values(jobs))
	for _, p := range d.accounts() {
		if p.gone() != "" { // which is said
			inUse = slices.DeleteFunc(inUse, func(account string) bool { return account == path.Base(p.Place.Address) })
		}
	}
	for _, r := range d.list(jobs) {
		g := r.Place.Grant
		i := slices.IndexFunc(grants, func(g struct{ begins, does, finding string }) bool { return strings.HasPrefix(r.Name, g.begins) })
		if g == nil || i < 0 {
			continue
		}
		account, policy := strings.TrimPrefix(g.Member, "serviceAccount:"), d.policy(r.Place.Address)
		finding := grants[i].finding
		switch {
		case policy == nil, !slices.Contains(inUse, account):
			continue
		case policy.has(enough(g.Role), is(g.Member), d.onDatabase), d.Access.has(enough(g.Role), is(g.Member), d.onDatabase):
			continue
		case d.Access == nil, d.Access.custom(g.Member), policy.custom(g.Member):
			finding = "account-role-unclear"
		}
		f.add(finding, account, "it "+fmt.Sprintf(grants[i].does, r.Name[strings.LastIndexByte(r.Name, ' ')+1:], g.Role), typed(r.Make))
	}
}

// open looks at whether the internet can call a function.
func (f *findings) open(d *Deployment, function *Function) {
	name := "function-open"
	if function == d.Functions.Increment {
		if s, err := parse(function.Env); err != nil || s.Auth != "none" {
			return // it asks for a token by itself
		}
		name = "increment-open"
	}
	add := func(what, mend string) {
		if s, err := parse(function.Env); err == nil && function == d.Functions.Increment && s.MakesForAnybody() {
			// It is the worse of the two, and its end leaves the other.
			f.add("auto-create-open", function.Name, "AUTO_CREATE is true, and "+what, d.with("AUTO_CREATE", "60"))
			return
		}
		f.add(name, function.Name, what, mend)
	}
	if function.Open {
		add("its Cloud Run service does not check who calls it",
			line("gcloud", "run", "services", "update", function.service(), "--project="+d.Target.Project, "--region="+function.Region, "--invoker-iam-check"))
		return
	}
	for _, member := range everybody {
		if role := function.Invokers.gives(invokerRoles, is(member), always); role != "" {
			add(member+" may call it", line("gcloud", "run", "services", "remove-iam-policy-binding", function.service(),
				"--project="+d.Target.Project, "--region="+function.Region, "--member="+member, "--role="+role))
		} else if role := d.Access.gives(invokerRoles, is(member), always); role != "" {
			add(member+" may call everything in the project", line("gcloud", "projects", "remove-iam-policy-binding", d.Target.Project,
				"--member="+member, "--role="+role, "--all"))
		}
	}
}

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
