package doctor

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	resources "github.com/firestore-counters/counters/cmd/counters/internal/deployment"
	"github.com/firestore-counters/counters/cmd/internal/cost"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/settings"
)

// line is a command line that may be pasted into a shell.
func line(args ...string) string { return resources.Line(args...) }

// list is the list of resources of a deployment like the one that is there, in which these accounts have its jobs; nil
// where nobody knows where its counters are.
func (d *Deployment) list(accounts map[string]string) []resources.Resource {
	w := d.same()
	w.CreateDatabase, w.Accounts = true, accounts
	if d.enterprise() {
		w.Edition = "enterprise"
	}
	for _, f := range d.Functions.all() { // which deploy would move to a repository of its own
		if images := f.Text(ofImages); repositoryName.MatchString(images) && path.Base(images) != d.Target.Prefix+"-functions" {
			w.Images = images
		}
	}
	if w.Check() != nil { // what deploy would refuse is no reason to look at nothing
		w.Region, w.TriggerLocation = d.region(), d.location()
		var given []string
		for name, of := range layoutSettings {
			if name != "GOOGLE_CLOUD_PROJECT" {
				given = append(given, name+"="+of(d.Target))
			}
		}
		var err error
		if w.Settings, err = settings.ForDeployment(given); err != nil {
			return nil
		}
	}
	b := resources.Builder{Wanted: w, Look: func(name string) resources.Object {
		if d.Functions != nil && d.Functions.Reconcile != nil && name == "function "+d.Functions.Reconcile.Name { // which the job calls
			return d.Functions.Reconcile.Object
		}
		if p := d.part(name); p != nil {
			return p.There
		}
		return nil
	}}
	return b.List()
}

// made are the commands that make parts of the deployment, a line each.
func (d *Deployment) made(names ...string) string {
	var all []resources.Command
	for _, r := range d.list(d.jobs()) {
		if slices.Contains(names, r.Name) {
			all = append(all, r.Make...)
		}
	}
	return typed(all)
}

// typed are commands as they are typed, a line each.
func typed(commands []resources.Command) string {
	all := make([]string, len(commands))
	for i, command := range commands {
		all[i] = command.String()
	}
	return lines(all...)
}

func lines(all ...string) string { return strings.Join(all, "\n") }

// then is one line of commands, of which each waits for the one before to succeed: what comes after
// a deletion is ready before it.
func then(all ...string) string { return strings.Join(all, " && ") }

// recreate makes Rollup anew with the right trigger: a trigger can't move to another location. Writes in between are
// counted by the next reconcile.
func (d *Deployment) recreate(f *Function) string { return then(d.remove(f), d.deploy()) }

// asking is `counters deploy`, which every program of ours has with it, sources and all.
func asking(w *resources.Wanted) string {
	return line(append([]string{"counters", "deploy"}, w.Args()...)...)
}

// deploy makes everything that isn't there, and brings what is there to what it should be.
func (d *Deployment) deploy() string { return asking(d.same()) }

// with deploys the same with another setting, whose value may be empty.
func (d *Deployment) with(name, value string) string {
	env := d.environment()
	env[name] = value
	return asking(d.like(env, d.home()))
}

// same is what is there, as it should be.
func (d *Deployment) same() *resources.Wanted { return d.like(d.environment(), d.home()) }

// home is the region of the functions; empty where there are none.
func (d *Deployment) home() string {
	if there := d.Functions.all(); len(there) > 0 {
		return there[0].Region
	}
	return ""
}

// below is the same, below a ceiling that works out instances and ways to pay.
func (d *Deployment) below(ceiling string) string {
	w := d.same()
	w.MostPerDay, w.Most, w.RollupMost, w.Billing, w.RollupBilling = ceiling, 0, 0, "", ""
	w.Set = slices.DeleteFunc(w.Set, func(pair string) bool { return strings.HasPrefix(pair, "CEILING=") })
	return asking(w)
}

// like is what somebody asks for who deploys what is there with the settings of an environment: what isn't asked for
// deploy takes back, or puts back to its default. A key, a repository and a trigger's location are a region's; without
// a region it goes to the one next to the database.
func (d *Deployment) like(env map[string]string, region string) *resources.Wanted {
	w := resources.Usual(d.location())
	w.Project, w.Prefix, w.Region = d.Target.Project, d.Target.Prefix, d.elsewhere(region)
	d.callers(w)
	for i, f := range d.Functions.all() {
		least, most, billing := &w.Least, &w.Most, &w.Billing
		usual := resources.UsualMost
		if memory := f.Text("serviceConfig.availableMemory"); i == 0 && resources.IsMemory.MatchString(memory) { // the three have this alike
			w.Memory = memory
		}
		if i == 0 && region != "" {
			w.Key = f.Text("kmsKeyName")
			if parts := repositoryName.FindStringSubmatch(f.Text(ofImages)); parts != nil && parts[3] != "gcf-artifacts" && parts[3] != d.Target.Prefix+"-functions" {
				w.Images = parts[0]
			}
		}
		switch f.EntryPoint {
		case "Increment":
			if concurrency := f.has("maxInstanceRequestConcurrency"); concurrency >= 100 && concurrency <= 1000 {
				w.Concurrency = concurrency
			}
			w.Ingress = cmp.Or(map[string]string{"ALLOW_INTERNAL_ONLY": "internal-only", "ALLOW_INTERNAL_AND_GCLB": "internal-and-gclb"}[f.Text("serviceConfig.ingressSettings")], w.Ingress)
		case "Rollup":
			least, most, billing, usual = &w.RollupLeast, &w.RollupMost, &w.RollupBilling, resources.UsualRollupMost
			if t := f.Trigger; t != nil && region != "" && t.Region != d.location() && slices.Contains(resources.Near(d.location()), t.Region) {
				w.TriggerLocation = t.Region // where it can't be moved from
			}
		default:
			continue
		}
		instances := f.has("maxInstanceCount")
		if instances >= 1 && instances <= 1000 && (instances != usual || d.bounded()) {
			*most = instances
		}
		*least = min(f.has("minInstanceCount"), instances)
		if f.Billing == cost.ByInstance {
			*billing = string(f.Billing)
		}
	}
	if schedule := d.reconcileJob().Text("schedule"); resources.IsSchedule.MatchString(schedule) {
		w.Schedule = schedule
	}
	w.Channels, w.NoAlerts = d.channels(), d.noAlerts()
	for _, s := range settingsOf(env) {
		if s.raw != s.byDefault && s.name != "GOOGLE_CLOUD_PROJECT" && s.name != "PROJECT_NUMBER" && (s.name != "CEILING" || !d.bounded()) { // which the ceiling works out
			w.Set = append(w.Set, s.name+"="+s.raw)
			if s.name == "CEILING" { // which deploy takes from who asks for no other
				w.MostPerDay = "none"
			}
		}
	}
	return w
}

// callers asks for those who may call Increment, and for the ceiling that it has.
func (d *Deployment) callers(w *resources.Wanted) {
	if d.Functions == nil || d.Functions.Increment == nil {
		return
	}
	increment := d.Functions.Increment
	if d.bounded() {
		w.MostPerDay = fmt.Sprintf("%vUSD", d.ceiling())
	} else if d.open() {
		w.MostPerDay = "none"
	}
	if w.NoCheck = increment.Open; increment.Invokers == nil {
		return
	}
	for _, member := range resources.Members(resources.Object(increment.Invokers)) {
		switch {
		case member == "allUsers":
			w.Public = true
		case resources.IsMember.MatchString(member): // the others stay, as deploy takes nobody away
			w.Invokers = append(w.Invokers, member)
		}
	}
}

// elsewhere is a region where deploy doesn't go by itself; empty for the one where it does.
func (d *Deployment) elsewhere(region string) string {
	if region == resources.Near(d.location())[0] {
		return ""
	}
	return region
}

func (d *Deployment) remove(f *Function) string {
	return line("gcloud", "functions", "delete", f.Name, "--gen2", "--project="+d.Target.Project, "--region="+f.Region, "--quiet")
}

// counters is a command of this program about a counter of the deployment.
func (d *Deployment) counters(verb, id string, flags ...string) string {
	args := d.command(verb, flags...)
	if strings.HasPrefix(id, "-") {
		args = append(args, "--")
	}
	return line(append(args, id)...)
}

// command is a command of this program on the deployment's counters.
func (d *Deployment) command(verb string, flags ...string) []string {
	args := append([]string{"counters"}, strings.Fields(verb)...)
	args = append(append(args, "--project="+d.Target.Project), flags...)
	for _, flag := range []struct{ name, value, byDefault string }{
		{"database", d.Target.Database, defaultDatabase},
		{"counter-path", d.Target.Counters, layout.DefaultPath},
		{"shards-name", d.Target.Shards, layout.DefaultShards},
		{"fields", d.Target.Fields, layout.DefaultFields},
	} {
		if flag.value != flag.byDefault {
			args = append(args, "--"+flag.name+"="+flag.value)
		}
	}
	if d.Target.Hosted {
		args = append(args, "--hosted")
	}
	return args
}

func (f *Function) label(name string) string { return f.Text("labels." + name) }

// service is the name of a function's Cloud Run service.
func (f *Function) service() string {
	name := f.Text(ofService)
	return name[strings.LastIndexByte(name, '/')+1:]
}
