package doctor

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	resources "github.com/firestore-counters/counters/cmd/counters/internal/deployment"
)

// Roles that are enough, the narrowest first: that one is what doctor proposes.
var (
	documentRoles = []string{"roles/datastore.user", "roles/datastore.owner", "roles/editor", "roles/owner"}
	receiverRoles = []string{"roles/eventarc.eventReceiver", "roles/editor", "roles/owner"}
	invokerRoles  = []string{"roles/run.invoker", "roles/run.servicesInvoker", "roles/run.developer", "roles/run.admin", "roles/editor", "roles/owner"}
	agentRoles    = []string{"roles/eventarc.serviceAgent", "roles/editor", "roles/owner"}
	tokenRoles    = []string{"roles/iam.serviceAccountTokenCreator", "roles/owner"}
)

// agentsChanged is since when projects have a Pub/Sub agent that makes tokens by itself.
var agentsChanged = time.Date(2021, time.April, 9, 0, 0, 0, 0, time.UTC)

// pubsubAgent matches Pub/Sub's own account in a project.
var pubsubAgent = regexp.MustCompile(`^serviceAccount:service-[0-9]+@gcp-sa-pubsub\.iam\.gserviceaccount\.com$`)

// eventarcAgent matches Eventarc's own account in a project.
var eventarcAgent = regexp.MustCompile(`^serviceAccount:service-[0-9]+@gcp-sa-eventarc\.iam\.gserviceaccount\.com$`)

// everybody are the members that stand for the whole internet; anybody can get a Google account.
var everybody = []string{"allUsers", "allAuthenticatedUsers"}

// has reports whether a policy gives one of the roles to a member for whom is true.
func (p Policy) has(roles []string, is func(member string) bool, holds func(condition string) bool) bool {
	return slices.ContainsFunc(p.bindings(), func(b resources.Object) bool {
		return slices.Contains(roles, b.Text("role")) && holds(b.Text("condition.expression")) && slices.ContainsFunc(texts(b["members"]), is)
	})
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
	for _, function := range d.Functions.all() {
		f.documents(d, function)
		f.open(d, function)
	}
	if d.Functions == nil {
		return
	}
	if rollup := d.Functions.Rollup; rollup != nil && rollup.Trigger != nil {
		f.receiver(d, rollup.Trigger.Account)
		f.invoker(d, rollup, rollup.Trigger.Account)
	}
	if account := d.reconcileJob().Text(accountOfJob); account != "" {
		f.invoker(d, d.Functions.Reconcile, account)
	}
	if len(d.Functions.all()) > 0 && d.Access != nil && !d.Access.has(agentRoles, eventarcAgent.MatchString, always) {
		f.add("agent-role-missing", "Eventarc's service agent", "it does not have "+agentRoles[0],
			line("gcloud", "projects", "add-iam-policy-binding", d.Target.Project, "--role="+agentRoles[0], "--condition=None")+
				` --member="serviceAccount:service-`+d.number()+`@gcp-sa-eventarc.iam.gserviceaccount.com"`)
	}
	if member := "serviceAccount:service-" + d.number() + "@gcp-sa-pubsub.iam.gserviceaccount.com"; d.Access != nil && !d.Since.IsZero() && d.Since.Before(agentsChanged) &&
		!d.Access.has(tokenRoles, pubsubAgent.MatchString, always) {
		f.add("pubsub-agent-role-missing", "Pub/Sub's service agent", "the project is of "+d.Since.Format(time.DateOnly)+", and it does not have "+tokenRoles[0],
			line("gcloud", "projects", "add-iam-policy-binding", d.Target.Project, "--role="+tokenRoles[0], "--condition=None")+` --member="`+member+`"`)
	}
}

// documents looks at a function's own account: it reads and writes documents.
func (f *findings) documents(d *Deployment, function *Function) {
	condition := fmt.Sprintf(`expression=resource.name == "projects/%s/databases/%s",title=%s-database`, d.Target.Project, d.Target.Database, d.Target.Prefix)
	f.role(d, "account-role-missing", function.Account, fmt.Sprintf("it runs %s, and has no %s on database %s", function.Name, documentRoles[0], d.Target.Database),
		documentRoles, nil, d.onDatabase, d.grant("serviceAccount:"+function.Account, documentRoles[0], condition))
}

// receiver looks at the trigger's account: it takes events.
func (f *findings) receiver(d *Deployment, account string) {
	f.role(d, "account-role-missing", account, "it carries events to Rollup, and has no "+receiverRoles[0], receiverRoles, nil, always, d.grant("serviceAccount:"+account, receiverRoles[0], ""))
}

// invoker looks at an account that calls a function.
func (f *findings) invoker(d *Deployment, function *Function, account string) {
	everybodyMay := function.Invokers.has(invokerRoles, is(everybody...), always) || d.Access.has(invokerRoles, is(everybody...), always)
	if function.Invokers == nil || function.Open || everybodyMay {
		return
	}
	f.role(d, "account-role-missing", account, fmt.Sprintf("it calls %s, and has no %s on it", function.Name, invokerRoles[0]), invokerRoles, function.Invokers, always,
		d.allow(function, "serviceAccount:"+account))
}

// role looks at whether an account has one of the roles that are enough, in the project or by the policy of what it is
// about, where that has one.
func (f *findings) role(d *Deployment, finding, account, seen string, enough []string, on Policy, holds func(condition string) bool, grant string) {
	member := "serviceAccount:" + account
	switch {
	case account == "", d.Gone[account] != "", on == nil && d.Access == nil:
		return
	case on.has(enough, is(member), holds), d.Access.has(enough, is(member), holds):
		return
	case d.Access == nil, d.Access.custom(member), on.custom(member):
		finding = "account-role-unclear"
	}
	f.add(finding, account, seen, grant)
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
		switch {
		case function.Invokers.has(invokerRoles, is(member), always):
			add(member+" may call it", line("gcloud", "run", "services", "remove-iam-policy-binding", function.service(),
				"--project="+d.Target.Project, "--region="+function.Region, "--member="+member, "--role="+function.Invokers.role(member)))
		case d.Access.has(invokerRoles, is(member), always):
			add(member+" may call everything in the project", line("gcloud", "projects", "remove-iam-policy-binding", d.Target.Project,
				"--member="+member, "--role="+d.Access.role(member), "--all"))
		}
	}
}

// role is the first role by which a member may call functions.
func (p Policy) role(member string) string {
	for _, b := range p.bindings() {
		if slices.Contains(invokerRoles, b.Text("role")) && slices.Contains(texts(b["members"]), member) {
			return b.Text("role")
		}
	}
	return ""
}
