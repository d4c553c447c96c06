package deployment

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	source "github.com/firestore-counters/counters"
	"github.com/firestore-counters/counters/cmd/internal/cost"
	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/layout"
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

	eventType = "google.cloud.firestore.document.v1.written"
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

func (b *Builder) in() string       { return "projects/" + b.Project }
func (b *Builder) inRegion() string { return b.in() + "/locations/" + b.Region }
func (b *Builder) project() string  { return "--project=" + b.Project }

// Account is the one that is given a job.
func (w *Wanted) Account(job string) string { return w.Prefix + "-" + job + AccountsEnd(w.Project) }

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
		for _, service := range objects(there["services"]) {
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
				lines = append(lines, api+" is turned on")
			}
			return lines
		},
		Make: []Command{enable}, Change: []Command{enable}, Shared: "the APIs of the project",
	}
}

// binding is a role that somebody has by a policy.
func binding(address, member, role, condition string) Place {
	return Place{Address: address, List: "bindings", Is: func(b Object) bool {
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

// inDatabase are the flags of a command about a collection group.
func (b *Builder) inDatabase(group string) []string {
	return []string{b.project(), "--database=" + b.Settings.Database, "--collection-group=" + group}
}

// field is a field of a collection group, and what is done about it.
func (b *Builder) field(name, group, field string, words ...string) Resource {
	return Resource{
		Name: name, Needs: []string{"APIs", "database"}, Alone: "the database's fields", Shared: name,
		Place: Place{Address: "firestore/v1/" + b.in() + "/databases/" + b.Settings.Database + "/collectionGroups/" + group + "/fields/" + field},
		Make:  []Command{gcloud(words...)}, Change: []Command{gcloud(words...)},
		Remove: []Command{gcloud(b.clear(group, field)...)},
	}
}

// asWanted has a field that isn't as it is wanted be nothing of ours.
func (r Resource) asWanted() Resource {
	of := r
	r.Ours = func(there Object) bool {
		_, lines := of.differences(there)
		return len(lines) == 0
	}
	return r
}

// clear gives a field the index that all fields have.
func (b *Builder) clear(group, field string) []string {
	return slices.Concat([]string{"firestore", "indexes", "fields", "update", field}, b.inDatabase(group), []string{"--clear-exemption", "--format=none"})
}

// exempt is a field without an index.
func (b *Builder) exempt(group, field string) Resource {
	r := b.field("the exemption of "+group+"."+field+" from indexes", group, field,
		slices.Concat([]string{"firestore", "indexes", "fields", "update", field}, b.inDatabase(group), []string{"--disable-indexes", "--format=none"})...)
	r.Differs = func(there Object) []string {
		if isExempt(there) {
			return nil
		}
		return []string{"its index is turned off"}
	}
	return r.asWanted()
}

// kept is a field whose index is not to be turned off: it is looked at, as an earlier deployment may have done so.
func (b *Builder) kept(group, field string) Resource {
	r := b.field("field "+group+"."+field, group, field)
	r.Make, r.Change, r.Remove = nil, nil, nil
	return r
}

// indexed is a field's index that an earlier deployment turned off.
func (b *Builder) indexed(group, field string) Resource {
	r := b.field("the index of "+group+"."+field, group, field, b.clear(group, field)...)
	r.Make, r.Remove, r.Differs = nil, nil, func(there Object) []string {
		if !isExempt(there) {
			return nil
		}
		return []string{"is turned on again: the documents are the app's now"}
	}
	return r
}

func isExempt(field Object) bool {
	return field != nil && len(objects(field.At("indexConfig.indexes"))) == 0
}

// Exempt are the fields whose indexes are turned off unless they are to be kept, as collection group and field.
func (w *Wanted) Exempt() (fields [][2]string) {
	fields = [][2]string{{layout.Requests, layout.ExpireAt}}
	for _, name := range []string{book.BaseCounts, book.BaseReplaced, book.BaseImported} {
		fields = append(fields, [2]string{layout.Rollup, name})
	}
	collection := w.Settings.Collection
	switch {
	case w.all:
		for _, name := range []string{layout.UpdatedAt, layout.CreatedAt, layout.Rollup} {
			fields = append(fields, [2]string{collection, name})
		}
	default:
		if !w.KeepUpdatedAt { // our map says as of when each number is
			fields = append(fields, [2]string{collection, layout.Rollup})
		}
		if !w.KeepUpdatedAt && !w.Settings.Hosted { // or else it is the app's, and ours is in the map
			fields = append(fields, [2]string{collection, layout.UpdatedAt})
		}
		if !w.KeepCreatedAt && !w.Settings.Hosted {
			fields = append(fields, [2]string{collection, layout.CreatedAt})
		}
	}
	return fields
}

// database is the database, and how it treats the fields that matter.
func (b *Builder) database() (all []Resource) {
	database := Resource{Name: "database", Needs: []string{"APIs"}, Place: Place{Address: "firestore/v1/" + b.in() + "/databases/" + b.Settings.Database}}
	if b.CreateDatabase {
		create := []string{"firestore", "databases", "create", b.project(), "--database=" + b.Settings.Database, "--location=" + b.Location, "--delete-protection"}
		if b.enterprise() {
			create = append(create, "--edition=enterprise")
		}
		if b.KeyOfData != "" {
			create = append(create, "--kms-key-name="+b.KeyOfData)
		}
		database.Make = []Command{gcloud(append(create, "--format=none")...)}
	}
	ttl := b.field("the TTL policy of "+layout.Requests+"."+layout.ExpireAt, layout.Requests, layout.ExpireAt,
		slices.Concat([]string{"firestore", "fields", "ttls", "update", layout.ExpireAt}, b.inDatabase(layout.Requests), []string{"--enable-ttl", "--format=none"})...)
	ttl.Differs = func(there Object) []string {
		if state := there.Text("ttlConfig.state"); state == "ACTIVE" || state == "CREATING" {
			return nil
		}
		return []string{"is turned on"}
	}
	ttl.Remove = []Command{gcloud(slices.Concat([]string{"firestore", "fields", "ttls", "update", layout.ExpireAt}, b.inDatabase(layout.Requests), []string{"--disable-ttl", "--format=none"})...)}
	all = append(all, database, ttl.asWanted())
	for _, words := range b.Settings.IndexesIn(b.enterprise()) {
		all = append(all, b.index(strings.Fields(words)))
	}
	if b.enterprise() {
		return all // where no field has an index by itself
	}
	exempt := b.Exempt()
	for _, f := range exempt {
		all = append(all, b.exempt(f[0], f[1]))
	}
	before := b.Look("function " + b.Prefix + "-increment")
	wasHosted, _ := strconv.ParseBool(before.Text("serviceConfig.environmentVariables.HOSTED"))
	for _, name := range []string{layout.UpdatedAt, layout.CreatedAt, layout.Rollup} {
		group := b.Settings.Collection
		switch {
		case slices.Contains(exempt, [2]string{group, name}):
		case b.Settings.Hosted && before != nil && !wasHosted && name != layout.Rollup:
			all = append(all, b.indexed(group, name))
		case !b.Settings.Hosted || before == nil || name == layout.Rollup:
			all = append(all, b.kept(group, name))
		}
	}
	return all
}

// enterprise reports whether the database is of the Enterprise edition, or will be.
func (b *Builder) enterprise() bool {
	if there := b.Look("database"); there != nil {
		return there.Text("databaseEdition") == "ENTERPRISE"
	}
	return b.Edition == "enterprise"
}

// edition is that of the database, or the one that it will have.
func (b *Builder) edition() cost.Edition {
	if b.enterprise() {
		return cost.Enterprise
	}
	return cost.Standard
}

// index is one that a query needs, and that Firestore doesn't make by itself: a collection group, a scope and fields.
// It is built in the background. In Enterprise edition one field is as good as several. What is not there has no index
// for a counter's shards: they are so few that a scan costs less than an entry with each write.
func (b *Builder) index(words []string) Resource {
	group, scope, fields := words[0], words[1], words[2:]
	if len(fields) == 1 && !b.enterprise() { // one field of a group, beside the indexes that every field has in its collection: gcloud has no flag for it
		return b.groupIndex(group, fields[0])
	}
	create := slices.Concat([]string{"firestore", "indexes", "composite", "create"}, b.inDatabase(group), []string{"--query-scope=" + strings.ReplaceAll(strings.ToLower(scope), "_", "-")})
	for _, field := range fields {
		create = append(create, "--field-config=field-path="+field+",order=ascending")
	}
	if fields[0] == layout.Until || fields[0] == layout.Due { // which few documents of the collection have, and the others need no entry
		create = append(create, "--density=sparse-any")
	}
	name := "the composite index of " + strings.Join(words, " ")
	return Resource{
		Name: name, Needs: []string{"APIs", "database"}, Alone: "the database's fields", Shared: name,
		Place: Place{Address: "firestore/v1/" + b.in() + "/databases/" + b.Settings.Database + "/collectionGroups/" + group + "/indexes", List: "indexes", Is: func(index Object) bool {
			var has []string
			for _, field := range objects(index["fields"]) {
				if field.Text("fieldPath") != "__name__" {
					has = append(has, field.Text("fieldPath"))
				}
			}
			return strings.Contains(index.Text("name"), "/collectionGroups/"+group+"/") && index.Text("queryScope") == scope && slices.Equal(has, fields)
		}},
		Make:   []Command{gcloud(append(create, "--async", "--format=none")...)},
		Remove: []Command{gcloud("firestore", "indexes", "composite", "delete", path.Base(b.Look(name).Text("name")), b.project(), "--database="+b.Settings.Database)},
	}
}

// groupIndex is the index of one field in a collection group, beside those that every field has.
func (b *Builder) groupIndex(group, field string) Resource {
	r := b.field("the index of "+group+"."+field+" in the collection group", group, field)
	ascending := []any{Object{"fieldPath": field, "order": "ASCENDING"}}
	body := Object{"indexConfig": Object{"indexes": []any{
		Object{"queryScope": "COLLECTION_GROUP", "fields": ascending}, Object{"queryScope": "COLLECTION", "fields": ascending},
		Object{"queryScope": "COLLECTION", "fields": []any{Object{"fieldPath": field, "order": "DESCENDING"}}},
		Object{"queryScope": "COLLECTION", "fields": []any{Object{"fieldPath": field, "arrayConfig": "CONTAINS"}}},
	}}}
	address := r.Place.Address + "?updateMask=indexConfig"
	r.Change = []Command{{Shell: curl(b.Project, "PATCH", address, body), Call: func(ctx context.Context, c *Cloud) error {
		_, err := c.Call(ctx, "PATCH", address, body)
		return err
	}}}
	r.Make = r.Change
	r.Differs = func(there Object) []string {
		if slices.ContainsFunc(objects(there.At("indexConfig.indexes")), named("queryScope", "COLLECTION_GROUP")) {
			return nil
		}
		return []string{"is made"}
	}
	return r.asWanted()
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

// repository is where the functions' images go.
func (b *Builder) repository() string {
	if b.Images != "" {
		return b.Images
	}
	return b.inRegion() + "/repositories/" + b.Prefix + "-functions"
}

// runtime is the one to build for.
func (b *Builder) runtime() string {
	if b.Runtime != "" {
		return b.Runtime
	}
	if known := runtimesOf(b.Look("runtimes")); len(known) > 0 {
		return known[len(known)-1]
	}
	return Asked("functions", "runtimes", "list", "--region="+b.Region, b.project(), "--filter=stage=GA AND name~^go1[0-9][0-9]$", "--sort-by=~name", "--limit=1", "--format=value(name)")
}

var goRuntime = regexp.MustCompile(`^go1[0-9]{2}$`)

// runtimesOf are Go's runtimes that are generally available, sorted.
func runtimesOf(known Object) (names []string) {
	for _, runtime := range objects(known["runtimes"]) {
		if name := runtime.Text("name"); goRuntime.MatchString(name) && runtime.Text("stage") == "GA" && runtime.Text("environment") != "GEN_1" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// function is how one of the three is to be.
type function struct {
	name, entryPoint, ingress         string
	timeout, concurrency, most, least int
	billing                           string
	needs                             []string
}

var ingresses = map[string]string{"all": "ALLOW_ALL", "internal-only": "ALLOW_INTERNAL_ONLY", "internal-and-gclb": "ALLOW_INTERNAL_AND_GCLB"}

// functions are the three, and how they are billed. Rollup comes last: its trigger needs grants, which spread while the
// others are built, and doctor tells by its age whether a deployment came to its end.
func (b *Builder) functions() (all []Resource) {
	for _, f := range []function{
		{"increment", "Increment", b.Ingress, 75, b.Concurrency, b.Most, b.Least, b.Billing, nil},
		{"reconcile", "Reconcile", "internal-only", b.Settings.ReconcileTimeout, 100, 1, 0, "", nil},
		{"rollup", "Rollup", "internal-only", 60, 1000, b.RollupMost, b.RollupLeast, b.RollupBilling, []string{"the role of Eventarc's agent", "the events of " + b.Prefix + "-eventarc", "function " + b.Prefix + "-increment", "function " + b.Prefix + "-reconcile"}},
	} {
		name := b.Prefix + "-" + f.name
		service := Resource{
			Name: "billing of " + name, Place: Place{Address: "run/v2/" + b.inRegion() + "/services/" + name}, Alone: "service " + name,
			Differs: func(there Object) []string {
				if is := map[bool]string{true: "request", false: "instance"}[there.Text("template.containers.0.resources.cpuIdle") == "true"]; is != f.billing {
					return []string{"by the " + is + " → by the " + f.billing}
				}
				return nil
			},
		}
		bill := func(flag string) []Command {
			return []Command{gcloud("run", "services", "update", name, b.project(), "--region="+b.Region, flag, "--format=none")}
		}
		// It is taken back before a deployment, which keeps it: what is billed by the instance may not have less than 512
		// MiB.
		if f.billing == "request" {
			service.Change = bill("--cpu-throttling")
			all = append(all, service)
			f.needs = append(f.needs, service.Name)
		}
		all = append(all, b.function(name, f))
		if f.billing == "instance" {
			service.Needs, service.Make, service.Change = []string{"function " + name}, bill("--no-cpu-throttling"), bill("--no-cpu-throttling")
			service.Soft = name + " is still billed by the request: see above. That takes roles/run.admin; what is billed by the instance needs 1 CPU and 512 MiB at least. Then run this again"
			all = append(all, service)
		}
	}
	return all
}

func (b *Builder) function(name string, f function) Resource {
	environment := append(append([]string{"GOOGLE_CLOUD_PROJECT=" + b.Project}, b.environment(f.entryPoint)...), "PROJECT_NUMBER="+b.number())
	env := Object{}
	for _, pair := range environment {
		key, value, _ := strings.Cut(pair, "=")
		env[key] = value
	}
	want := Object{
		"state": "ACTIVE", "kmsKeyName": b.Key, "labels": Object{"counters-source": b.Version, LabelOfCeiling: CeilingLabel(b.MostPerDay)},
		"buildConfig": Object{
			"runtime": b.runtime(), "entryPoint": f.entryPoint, "serviceAccount": "projects/" + b.Project + "/serviceAccounts/" + b.Account("build"), "dockerRepository": b.repository(),
		},
		"serviceConfig": Object{
			"serviceAccountEmail": b.Account(f.name), "availableCpu": "1", "availableMemory": b.Memory, "timeoutSeconds": f.timeout, "ingressSettings": ingresses[f.ingress],
			"maxInstanceRequestConcurrency": f.concurrency, "maxInstanceCount": f.most, "minInstanceCount": f.least, "environmentVariables": env,
		},
	}
	words := []string{
		"functions", "deploy", name, "--gen2", b.project(), "--region=" + b.Region, "--runtime=" + b.runtime(), "--source=" + b.Source, "--entry-point=" + f.entryPoint,
		"--run-service-account=" + b.Account(f.name), "--build-service-account=projects/" + b.Project + "/serviceAccounts/" + b.Account("build"), "--docker-repository=" + b.repository(),
		"--cpu=1", "--memory=" + b.Memory, "--update-labels=counters-source=" + b.Version + "," + LabelOfCeiling + "=" + CeilingLabel(b.MostPerDay), "--set-env-vars=^|^" + strings.Join(environment, "|"),
		"--ingress-settings=" + f.ingress, fmt.Sprintf("--timeout=%ds", f.timeout), fmt.Sprintf("--concurrency=%d", f.concurrency),
		fmt.Sprintf("--max-instances=%d", f.most), fmt.Sprintf("--min-instances=%d", f.least),
	}
	if b.Key != "" {
		words = append(words, "--kms-key="+b.Key)
	}
	if f.entryPoint == "Rollup" {
		document := b.Settings.Counters + "/" + b.Settings.Shards + "/{shard}"
		want["eventTrigger"] = Object{
			"triggerRegion": b.TriggerLocation, "eventType": eventType, "retryPolicy": "RETRY_POLICY_RETRY", "serviceAccountEmail": b.Account("eventarc"),
			"eventFilters": []any{
				Object{"attribute": "database", "value": b.Settings.Database}, Object{"attribute": "document", "value": document, "operator": "match-path-pattern"},
			},
		}
		words = append(words, "--trigger-location="+b.TriggerLocation, "--trigger-service-account="+b.Account("eventarc"), "--retry", "--trigger-event-filters=type="+eventType,
			"--trigger-event-filters=database="+b.Settings.Database, "--trigger-event-filters-path-pattern=document="+document)
	} else {
		words = append(words, "--trigger-http")
	}
	again := slices.Clone(words)
	if b.Key == "" {
		again = append(again, "--clear-kms-key") // or it keeps the one that it had
	}
	return Resource{
		Name: "function " + name, Slow: "a build of about two minutes", Alone: "service " + name, Want: want,
		Needs: append([]string{
			"database", "account " + name, "the documents of " + name, "account " + b.Prefix + "-build", "the log of " + b.Prefix + "-build", "the sources of " + b.Prefix + "-build", "the images of " + b.Prefix + "-build",
		}, f.needs...),
		Place: Place{Address: "cloudfunctions/v2/" + b.inRegion() + "/functions/" + name},
		// On a function that is there this would take allUsers away, until it is given again at the end.
		Make:   []Command{gcloud(append(words, "--no-allow-unauthenticated", "--format=none")...)},
		Change: []Command{gcloud(append(again, "--format=none")...)},
		Remove: []Command{gcloud("functions", "delete", name, "--gen2", b.project(), "--region="+b.Region)},
	}
}

// may lets a member call a function, which needs the member's account where that is made.
func (b *Builder) may(function, member string, needs ...string) Resource {
	name := b.Prefix + "-" + function
	return Resource{
		Name: "caller " + member + " of " + name, Needs: append(needs, "function "+name), Alone: "service " + name,
		Place: binding("run/v2/"+b.inRegion()+"/services/"+name+":getIamPolicy?options.requestedPolicyVersion=3", member, invokerRole, ""),
		Make:  []Command{gcloud("run", "services", "add-iam-policy-binding", name, b.project(), "--region="+b.Region, "--member="+member, "--role="+invokerRole, "--format=none")},
	}
}

// WatchName is what the trigger of a counted collection is called: it is made of all that it is for, so that nothing
// about it ever changes.
func (w *Wanted) WatchName(collection string) string {
	hash := sha256.Sum256([]byte(w.Region + "/" + w.Settings.Database + "/" + w.Settings.Counters + "/" + collection))
	return fmt.Sprintf("%s-watch-%x", w.Prefix, hash[:4])
}

// isWatch matches the names of such triggers.
func (w *Wanted) isWatch(name string) bool {
	return regexp.MustCompile("^" + w.Prefix + "-watch-[0-9a-f]{8}$").MatchString(name)
}

// waits is how a trigger's events wait. By default Pub/Sub deletes a subscription through which nothing has come for a
// month.
func (b *Builder) waits(name, asked, needs string, of Place, deadline int) Resource {
	last := &of
	for last.Next != nil {
		last = last.Next
	}
	last.From, last.Next = "transport.pubsub.subscription", &Place{Address: "pubsub/v1/%s"}
	update := func(subscription string) []Command {
		words := []string{"pubsub", "subscriptions", "update", subscription, b.project(), "--expiration-period=never"}
		if deadline > 0 {
			words = append(words, fmt.Sprintf("--ack-deadline=%d", deadline))
		}
		return []Command{gcloud(append(words, "--format=none")...)}
	}
	return Resource{
		Name: name, Needs: []string{needs}, Place: of, Make: update(asked), Change: update(b.Look(name).Text("name")),
		Differs: func(there Object) (lines []string) {
			if ttl := there.Text("expirationPolicy.ttl"); ttl != "" {
				lines = append(lines, "expires after "+ttl+" → never")
			}
			if deadline > 0 {
				lines = append(lines, differences(Object{"ackDeadlineSeconds": deadline}, there)...)
			}
			return lines
		},
	}
}

// triggers are who calls Rollup and Reconcile, and the triggers beside Rollup's own: a function has one, and for each
// collection whose documents are counted there is another, to the same service.
func (b *Builder) triggers() (all []Resource) {
	rollup := "function " + b.Prefix + "-rollup"
	all = append(all, b.may("rollup", "serviceAccount:"+b.Account("eventarc"), "account "+b.Prefix+"-eventarc"),
		b.waits("subscription of "+b.Prefix+"-rollup", Asked("eventarc", "triggers", "list", b.project(), "--location="+b.TriggerLocation,
			"--filter=name~/"+b.Prefix+"-rollup-[0-9]+$", "--format=value(transport.pubsub.subscription)"), rollup,
			Place{Address: "cloudfunctions/v2/" + b.inRegion() + "/functions/" + b.Prefix + "-rollup", From: "eventTrigger.trigger", Next: &Place{Address: "eventarc/v1/%s"}}, 0))
	var watching []string
	at := b.in() + "/locations/" + b.TriggerLocation
	for i, collection := range b.Settings.Collections {
		name := b.WatchName(collection)
		watching = append(watching, "trigger "+name)
		all = append(all, Resource{
			Name: "trigger " + name, Needs: []string{rollup, "the events of " + b.Prefix + "-eventarc"}, Place: Place{Address: "eventarc/v1/" + at + "/triggers/" + name},
			Make: []Command{gcloud("eventarc", "triggers", "create", name, b.project(), "--location="+b.TriggerLocation,
				"--destination-run-service="+b.Prefix+"-rollup", "--destination-run-region="+b.Region, "--service-account="+b.Account("eventarc"),
				"--event-data-content-type=application/protobuf", "--event-filters=type="+eventType,
				"--event-filters=database="+b.Settings.Database, "--event-filters-path-pattern=document="+b.Settings.Watched[i], "--format=none")},
			Remove: []Command{gcloud("eventarc", "triggers", "delete", name, b.project(), "--location="+b.TriggerLocation)},
		},
			// An event waits until counting again is worth its price: by default Pub/Sub would hang up after 10 s, and send it
			// again.
			b.waits("subscription of "+name, Asked("eventarc", "triggers", "describe", name, b.project(), "--location="+b.TriggerLocation, "--format=value(transport.pubsub.subscription)"),
				"trigger "+name, Place{Address: "eventarc/v1/" + at + "/triggers/" + name}, 70))
	}
	for _, there := range objects(b.Look("triggers")["triggers"]) {
		name := path.Base(there.Text("name"))
		if resource := "trigger " + name; b.isWatch(name) && !slices.Contains(watching, resource) {
			all = append(all, Resource{
				Name: resource, Needs: append([]string{rollup}, watching...), Place: Place{Address: "eventarc/v1/" + there.Text("name")}, Absent: true,
				Remove: []Command{gcloud("eventarc", "triggers", "delete", name, b.project(), "--location="+strings.Split(there.Text("name"), "/")[3])},
			})
		}
	}
	return append(all, b.may("reconcile", "serviceAccount:"+b.Account("scheduler"), "account "+b.Prefix+"-scheduler"))
}

// uri is where a function answers.
func (b *Builder) uri(function string) string {
	name := b.Prefix + "-" + function
	if uri := b.Look("function " + name).Text("serviceConfig.uri"); uri != "" {
		return uri
	}
	return Asked("functions", "describe", name, "--gen2", b.project(), "--region="+b.Region, "--format=value(serviceConfig.uri)")
}

func (b *Builder) job() Resource {
	name, uri, deadline := b.Prefix+"-reconcile", b.uri("reconcile"), fmt.Sprintf("%ds", b.Settings.ReconcileTimeout)
	words := func(verb string) []Command {
		return []Command{gcloud("scheduler", "jobs", verb, "http", name, b.project(), "--location="+b.Region, "--schedule="+b.Schedule, "--time-zone=Etc/UTC", "--uri="+uri, "--http-method=POST",
			"--oidc-service-account-email="+b.Account("scheduler"), "--oidc-token-audience="+uri, "--attempt-deadline="+deadline, "--max-retry-attempts=1", "--format=none")}
	}
	return Resource{
		Name: "job " + name, Needs: []string{"function " + name, "account " + b.Prefix + "-scheduler"}, Place: Place{Address: "cloudscheduler/v1/" + b.inRegion() + "/jobs/" + name},
		Want: Object{
			"schedule": b.Schedule, "timeZone": "Etc/UTC", "attemptDeadline": deadline, "retryConfig": Object{"retryCount": 1},
			"httpTarget": Object{"uri": uri, "httpMethod": "POST", "oidcToken": Object{"serviceAccountEmail": b.Account("scheduler"), "audience": uri}},
		},
		Make: words("create"), Change: words("update"), Remove: []Command{gcloud("scheduler", "jobs", "delete", name, b.project(), "--location="+b.Region)},
	}
}

// Watching are the metrics and the alert policies that every deployment makes, by the names that they have with a
// prefix.
func Watching(prefix string) (metrics, alerts []string) {
	b := Builder{Wanted: &Wanted{Prefix: prefix}}
	for _, of := range b.documents("metrics") {
		metrics = append(metrics, of.Text("name"))
	}
	for _, of := range b.documents("alerts") {
		alerts = append(alerts, of.Text("displayName"))
	}
	return metrics, alerts
}

// documents are the files of a folder of terraform/monitoring, filled in as terraform does.
func (b *Builder) documents(pattern string) (all []Object) {
	files, err := fs.Glob(source.Source, "terraform/monitoring/"+pattern+"/*.json")
	if len(files) == 0 {
		files = []string{"terraform/monitoring/" + pattern + ".json"}
	}
	filled := strings.NewReplacer("${prefix}", b.Prefix, "${prom_prefix}", strings.ReplaceAll(b.Prefix, "-", "_"),
		"${lag_alert_ms}", strconv.Itoa(b.LagAlert*1000), "${reconcile_missing_after}", fmt.Sprintf("%ds", b.MissingAfter))
	for _, file := range files {
		text, failed := source.Source.ReadFile(file)
		var of Object
		if failed == nil {
			failed = json.Unmarshal([]byte(filled.Replace(string(text))), &of)
		}
		if err != nil || failed != nil {
			panic(fmt.Sprintf("%s: %v, %v", file, err, failed)) // Not possible: they are ours.
		}
		all = append(all, of)
	}
	return all
}

// file has a command find a document in a file, and returns its name.
func (b *Builder) file(name string, document Object) string {
	b.Files[name] = document
	return filepath.Join(b.Dir, name)
}

func named(key, name string) func(Object) bool {
	return func(o Object) bool { return o.Text(key) == name }
}

// monitoring is what tells of trouble, made of the same files as terraform's.
func (b *Builder) monitoring() (all []Resource) {
	apis := []string{"APIs"}
	for _, metric := range b.documents("metrics") {
		name := metric.Text("name")
		file := b.file(name+".json", metric)
		words := func(verb string) []Command {
			return []Command{gcloud("logging", "metrics", verb, name, b.project(), "--config-from-file="+file, "--format=none")}
		}
		all = append(all, Resource{
			Name: "metric " + name, Needs: apis, Place: Place{Address: "logging/v2/" + b.in() + "/metrics/" + name}, Want: metric,
			Make: words("create"), Change: words("update"), Remove: []Command{gcloud("logging", "metrics", "delete", name, b.project())},
		})
	}
	all = append(all, b.exclusion())
	if !b.NoAlerts {
		all = append(all, b.alerts()...)
	}
	if b.Budget != "" {
		all = append(all, b.budget())
	}
	dashboard := b.documents("dashboard")[0]
	list := Place{Address: "monitoring/v1/" + b.in() + "/dashboards", List: "dashboards", Is: named("displayName", b.Prefix)}
	there := b.Look("dashboard")
	file := b.file("dashboard.json", dashboard)
	with := Object{"etag": there.Text("etag")} // an update is refused without it
	for key, value := range dashboard {
		with[key] = value
	}
	return append(all, Resource{
		Name: "dashboard", Needs: apis, Place: list, Want: dashboard,
		Make:   []Command{gcloud("monitoring", "dashboards", "create", b.project(), "--config-from-file="+file, "--format=none")},
		Change: []Command{gcloud("monitoring", "dashboards", "update", there.Text("name"), b.project(), "--config-from-file="+b.file("dashboard-update.json", with), "--format=none")},
		Remove: []Command{gcloud("monitoring", "dashboards", "delete", there.Text("name"), b.project())},
	})
}

// exclusion leaves Cloud Run's log of each request out, which costs nearly what all else does. Metrics and alerts don't
// need it.
func (b *Builder) exclusion() Resource {
	want := b.documents("request_logs")[0]
	name := want.Text("name")
	words := func(verb string) []Command {
		return []Command{gcloud("logging", "sinks", "update", "_Default", b.project(),
			fmt.Sprintf("--%s-exclusion=name=%s,description=%s,filter=%s", verb, name, want.Text("description"), want.Text("filter")), "--format=none")}
	}
	r := Resource{
		Name: "exclusion " + name, Needs: []string{"APIs"}, Shared: "the project's log sink _Default: requests of these functions are left out", Want: want,
		Place: Place{Address: "logging/v2/" + b.in() + "/sinks/_Default", List: "exclusions", Is: named("name", name)},
		Make:  words("add"), Change: words("update"), Absent: b.RequestLogs,
		Remove: []Command{gcloud("logging", "sinks", "update", "_Default", b.project(), "--remove-exclusions="+name, "--format=none")},
	}
	return r
}

func (b *Builder) alerts() (all []Resource) {
	there := objects(b.Look("alerts")["alertPolicies"])
	for i, policy := range b.documents("alerts") {
		name := policy.Text("displayName")
		resource := "alert " + name
		file := b.file(fmt.Sprintf("alert-%d.json", i), policy)
		// The file replaces the policy, with the channels that it had.
		update := []string{"alpha", "monitoring", "policies", "update", b.Look(resource).Text("name"), b.project(), "--policy-from-file=" + file}
		create := []string{"alpha", "monitoring", "policies", "create", b.project(), "--policy-from-file=" + file}
		want := Object{"notificationChannels": b.Channels}
		for key, value := range policy {
			want[key] = value
		}
		if len(b.Channels) > 0 {
			channels := strings.Join(b.Channels, ",")
			update, create = append(update, "--set-notification-channels="+channels), append(create, "--notification-channels="+channels)
		}
		remove := func(id string) []Command {
			return []Command{gcloud("alpha", "monitoring", "policies", "delete", id, b.project())}
		}
		all = append(all, Resource{
			Name: resource, Needs: []string{"APIs"}, Place: Place{Address: "monitoring/v3/" + b.in() + "/alertPolicies", List: "alertPolicies", Is: named("displayName", name)}, Want: want,
			Make: []Command{gcloud(append(create, "--format=none")...)}, Change: []Command{gcloud(append(update, "--format=none")...)}, Remove: remove(b.Look(resource).Text("name")),
		})
		first := true
		for _, p := range there { // a second one was made by an attempt whose answer was lost
			if id := p.Text("name"); p.Text("displayName") == name {
				if !first {
					all = append(all, Resource{Name: "second " + id, Needs: []string{"APIs"}, Place: Place{Address: "monitoring/v3/" + id}, Absent: true, Remove: remove(id)})
				}
				first = false
			}
		}
	}
	return all
}

// budget is the billing account's. Who may not make one has all else.
func (b *Builder) budget() Resource {
	name := b.Prefix + " in " + b.Project
	number := strings.TrimRight(b.Budget, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
	want := Object{"amount": Object{"specifiedAmount": Object{"units": number}}}
	if currency := strings.TrimPrefix(b.Budget, number); currency != "" {
		want["amount"].(Object)["specifiedAmount"].(Object)["currencyCode"] = currency
	}
	return Resource{
		Name: "budget", Needs: []string{"APIs"}, Want: want,
		Place: Place{Address: "cloudbilling/v1/" + b.in() + "/billingInfo", From: "billingAccountName", Next: &Place{
			Address: "billingbudgets/v1/%s/budgets", List: "budgets", Is: named("displayName", name)}},
		Make: []Command{gcloud("billing", "budgets", "create", "--billing-account="+Asked("billing", "projects", "describe", b.Project, "--format=value(billingAccountName.basename())"),
			"--billing-project="+b.Project, "--display-name="+name, "--budget-amount="+b.Budget, "--filter-projects=projects/"+b.Project,
			"--threshold-rule=percent=0.5", "--threshold-rule=percent=1.0", "--format=none")},
		Change: []Command{gcloud("billing", "budgets", "update", b.Look("budget").Text("name"), "--billing-project="+b.Project, "--budget-amount="+b.Budget, "--format=none")},
		Remove: []Command{gcloud("billing", "budgets", "delete", b.Look("budget").Text("name"), "--billing-project="+b.Project)},
		Soft:   "the budget can't be made: it takes roles/billing.costsManager on the billing account",
	}
}

// callers are who may call Increment, beside those who may already.
func (b *Builder) callers() (all []Resource) {
	name := b.Prefix + "-increment"
	open := []Command{gcloud("run", "services", "update", name, b.project(), "--region="+b.Region, "--no-invoker-iam-check", "--format=none")}
	unchecked := b.Look("service").Text("invokerIamDisabled") == "true"
	members := slices.Clone(b.Invokers)
	if b.Public && (len(b.WebApps) == 0 || !unchecked) { // a web app is let in by either of them
		members = append(members, "allUsers")
	}
	for _, member := range members {
		r := b.may("increment", member)
		r.Soft = member
		if member == "allUsers" && len(b.WebApps) > 0 {
			r.Else = open
		}
		all = append(all, r)
	}
	if b.NoCheck {
		all = append(all, Resource{
			Name: "no invoker check of " + name, Needs: []string{"function " + name}, Alone: "service " + name, Place: facts(b.Wanted)["service"],
			Want: Object{"invokerIamDisabled": true}, Make: open, Change: open, Soft: "--no-invoker-check",
		})
	}
	return all
}
