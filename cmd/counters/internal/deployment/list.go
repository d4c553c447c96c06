package deployment

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// APIs are those that a deployment works with.
func APIs() []string {
	return []string{
		"artifactregistry.googleapis.com", "cloudbuild.googleapis.com", "cloudfunctions.googleapis.com", "cloudresourcemanager.googleapis.com",
		"cloudscheduler.googleapis.com", "eventarc.googleapis.com", "firestore.googleapis.com", "iam.googleapis.com", "logging.googleapis.com",
		"monitoring.googleapis.com", "pubsub.googleapis.com", "run.googleapis.com", "storage.googleapis.com",
	}
}

// Roles that the parts of a deployment have, and what they may by them.
const (
	documentRole = "roles/datastore.user"
	receiverRole = "roles/eventarc.eventReceiver"
	invokerRole  = "roles/run.invoker"
	agentRole    = "roles/eventarc.serviceAgent"
	logRole      = "roles/logging.logWriter"
	sourceRole   = "roles/storage.objectViewer"
	imageRole    = "roles/artifactregistry.writer"

	// EventType is that of the events that Rollup takes: each write of a document.
	EventType = "google.cloud.firestore.document.v1.written"
	// SourcesOnly is the condition on which a build reads the functions' sources, and nothing else.
	SourcesOnly = `resource.name.startsWith("projects/_/buckets/gcf-v2-sources-")`
)

// jobs are what the deployment has an account for.
var jobs = []string{"increment", "rollup", "reconcile", "eventarc", "scheduler", "build"}

// Builder makes the list of resources.
type Builder struct {
	*Wanted
	Look    func(name string) Object // what was read of a resource, or of a fact; nil where it isn't there, or isn't known
	Dir     string                   // where the commands find files
	Source  string                   // folder of the functions' source
	Version string                   // of that, by the contents of its files
	Files   map[string]Object        // what the commands' files are to hold, by name
}

// facts are read for what depends on them.
func facts(w *Wanted) map[string]Place {
	in := "projects/" + w.Project
	return map[string]Place{
		"the project": {Address: "cloudresourcemanager/v1/" + in},
		"runtimes":    {Address: "cloudfunctions/v2/" + in + "/locations/" + w.Region + "/runtimes"},
		"functions":   {Address: "cloudfunctions/v2/" + in + "/locations/-/functions"},
		"triggers":    {Address: "eventarc/v1/" + in + "/locations/-/triggers"},
		"alerts":      {Address: "monitoring/v3/" + in + "/alertPolicies"},
		"dashboards":  {Address: "monitoring/v1/" + in + "/dashboards"},
		"callers":     {Address: "run/v2/" + in + "/locations/" + w.Region + "/services/" + w.Prefix + "-increment:getIamPolicy?options.requestedPolicyVersion=3"},
		"service":     {Address: "run/v2/" + in + "/locations/" + w.Region + "/services/" + w.Prefix + "-increment"},
		"grants":      {Address: "cloudresourcemanager/v1/" + in + ":getIamPolicy"},
	}
}

// List is all that a deployment is made of, each behind what it needs. What nobody asked for follows from the ceiling,
// which is kept in another way with another edition of the database.
func (b *Builder) List() (all []Resource) {
	bounded, _ := b.bounded() // what can't be kept is refused before: see bounds
	b.Wanted, b.Files = &bounded, map[string]Object{}
	all = append(all, b.apis())
	all = append(all, b.accounts()...)
	all = append(all, b.database()...)
	all = append(all, b.grants()...)
	if b.all || len(b.WebApps) > 0 && !b.Settings.Hosted {
		all = append(all, rulesResource(b.Wanted, b.Look))
	}
	all = append(all, b.functions()...)
	all = append(all, b.triggers()...)
	all = append(all, b.job())
	all = append(all, b.monitoring()...)
	return append(all, b.callers()...)
}

func (b *Builder) in() string { return "projects/" + b.Project }

func (b *Builder) inRegion() string { return b.in() + "/locations/" + b.Region }

func (b *Builder) project() string { return "--project=" + b.Project }

// Account is the one that is given a job.
func (w *Wanted) Account(job string) string {
	return cmp.Or(w.Accounts[job], w.Prefix+"-"+job+AccountsEnd(w.Project))
}

// AccountsEnd ends the names of a project's accounts: the domain of example.com:my-project comes last in them.
func AccountsEnd(project string) string {
	if domain, name, has := strings.Cut(project, ":"); has {
		project = name + "." + domain
	}
	return "@" + project + ".iam.gserviceaccount.com"
}

// number is the project's.
func (b *Builder) number() string {
	if number := b.Look("the project").Text("projectNumber"); number != "" {
		return number
	}
	return Asked("projects", "describe", b.Project, "--format=value(projectNumber)")
}

// turnedOn ends what is said of an API that is turned off.
const turnedOn = " is turned on"

func (b *Builder) apis() Resource {
	wanted := APIs()
	if len(b.WebApps) > 0 {
		wanted = append(wanted, "firebaserules.googleapis.com")
	}
	if b.Budget != "" {
		wanted = append(wanted, "billingbudgets.googleapis.com", "cloudbilling.googleapis.com")
	}
	missing := func(there Object) (off []string) {
		on := map[string]bool{}
		for _, service := range Objects(there["services"]) {
			on[service.Text("config.name")] = true
		}
		for _, api := range wanted {
			if !on[api] {
				off = append(off, api)
			}
		}
		return off
	}
	enable := gcloud(append([]string{"services", "enable", b.project()}, missing(b.Look("APIs"))...)...)
	return Resource{
		Name: "APIs", Place: Place{Address: "serviceusage/v1/" + b.in() + "/services?filter=state:ENABLED&pageSize=200"},
		Differs: func(there Object) (lines []string) {
			for _, api := range missing(there) {
				lines = append(lines, api+turnedOn)
			}
			return lines
		},
		Make: []Command{enable}, Change: []Command{enable}, Shared: "the APIs of the project",
	}
}

// MissingAPIs are those that the resource of the APIs would turn on; none where it is another resource.
func (r Resource) MissingAPIs(there Object) (off []string) {
	_, lines := r.Differences(there)
	for _, line := range lines {
		if api, is := strings.CutSuffix(line, turnedOn); is {
			off = append(off, api)
		}
	}
	return off
}

// Grant is a role that a policy gives.
type Grant struct{ Member, Role, Condition string }

// binding is a role that somebody has by a policy.
func binding(address, member, role, condition string) Place {
	return Place{Address: address, Grant: &Grant{member, role, condition}, List: "bindings", Is: func(b Object) bool {
		members, _ := b["members"].([]any)
		return b.Text("role") == role && b.Text("condition.expression") == condition && slices.Contains(members, any(member))
	}}
}

// grant is a role of an account's in the project.
func (b *Builder) grant(name, member, role string, condition ...string) Resource {
	expression, given := "", "None"
	if len(condition) > 0 {
		expression, given = condition[0], fmt.Sprintf("expression=%s,title=%s-%s,description=%s", condition[0], b.Prefix, condition[1], condition[2])
	}
	return Resource{
		Name: name, Place: binding("cloudresourcemanager/v1/"+b.in()+":getIamPolicy", member, role, expression), Alone: "the project's policy",
		Make: []Command{gcloud("projects", "add-iam-policy-binding", b.Project, "--member="+member, "--role="+role, "--condition="+given, "--format=none")},
	}
}

// accounts are the deployment's own, and the role of Google's that has to be there before a trigger is.
func (b *Builder) accounts() (all []Resource) {
	agent := b.grant("the role of Eventarc's agent", "serviceAccount:service-"+b.number()+"@gcp-sa-eventarc.iam.gserviceaccount.com", agentRole)
	// A trigger that comes before fails: "Permission denied while using the Eventarc Service Agent".
	agent.Make = slices.Insert(agent.Make, 0, gcloud("beta", "services", "identity", "create", b.project(), "--service=eventarc.googleapis.com"))
	agent.Needs, agent.Shared = []string{"APIs"}, "the role of Eventarc's agent"
	agent.Remove = []Command{gcloud("projects", "remove-iam-policy-binding", b.Project,
		"--member=serviceAccount:service-"+b.number()+"@gcp-sa-eventarc.iam.gserviceaccount.com", "--role="+agentRole, "--all", "--format=none")}
	all = append(all, agent)
	for _, job := range jobs {
		all = append(all, Resource{
			Name: "account " + b.Prefix + "-" + job, Needs: []string{"APIs"}, Place: Place{Address: "iam/v1/" + b.in() + "/serviceAccounts/" + b.Account(job)},
			Make:   []Command{gcloud("iam", "service-accounts", "create", b.Prefix+"-"+job, b.project(), "--display-name="+b.Prefix+"-"+job)},
			Remove: []Command{gcloud("iam", "service-accounts", "delete", b.Account(job), b.project())},
		})
	}
	return all
}

// grants are what the accounts may do, and where the functions' images are.
func (b *Builder) grants() (all []Resource) {
	of := func(job, role, what string, condition ...string) {
		r := b.grant(what+" of "+b.Prefix+"-"+job, "serviceAccount:"+b.Account(job), role, condition...)
		r.Needs = []string{"account " + b.Prefix + "-" + job}
		all = append(all, r)
	}
	for _, job := range []string{"increment", "rollup", "reconcile"} {
		of(job, documentRole, "the documents", fmt.Sprintf(`resource.name == "projects/%s/databases/%s"`, b.Project, b.Settings.Database), "database", "The counters' database only")
	}
	of("build", logRole, "the log")
	of("build", sourceRole, "the sources", SourcesOnly, "source", "The functions' sources only")
	of("eventarc", receiverRole, "the events")

	// In a repository of their own, so that the build writes no other image of the project.
	writer := []string{"account " + b.Prefix + "-build"}
	if b.Images == "" {
		name := b.Prefix + "-functions"
		all = append(all, Resource{
			Name: "repository", Needs: []string{"APIs"}, Place: Place{Address: "artifactregistry/v1/" + b.repository()},
			Make: []Command{gcloud("artifacts", "repositories", "create", name, b.project(), "--location="+b.Region, "--repository-format=docker",
				fmt.Sprintf("--description=Images of %[1]s-increment, %[1]s-rollup and %[1]s-reconcile.", b.Prefix), "--format=none")},
			Remove: []Command{gcloud("artifacts", "repositories", "delete", name, b.project(), "--location="+b.Region)},
		})
		writer = append(writer, "repository")
	}
	member := "serviceAccount:" + b.Account("build")
	return append(all, Resource{
		Name: "the images of " + b.Prefix + "-build", Needs: writer,
		Place: binding("artifactregistry/v1/"+b.repository()+":getIamPolicy?options.requestedPolicyVersion=3", member, imageRole, ""),
		Make:  []Command{gcloud("artifacts", "repositories", "add-iam-policy-binding", b.repository(), b.project(), "--member="+member, "--role="+imageRole, "--format=none")},
	})
}
