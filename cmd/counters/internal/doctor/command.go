package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	resources "github.com/firestore-counters/counters/cmd/counters/internal/deployment"
	"github.com/firestore-counters/counters/cmd/internal/cost"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/settings"
)

// line is a command line that may be pasted into a shell.
func line(args ...string) string { return resources.Line(args...) }

// deployed is what somebody asks for who deploys what is there. Its error is of the settings, which the functions don't
// start with either.
func (d *Deployment) deployed() (w resources.Wanted, err error) {
	w = resources.Wanted{
		Project: d.Target.Project, Prefix: d.Target.Prefix, Location: d.location(), TriggerLocation: d.location(), Region: d.region(),
		CreateDatabase: true, Schedule: "7 * * * *",
	}
	if d.enterprise() {
		w.Edition = "enterprise"
	}
	w.Settings, err = d.asked()
	return w, err
}

// list is the list of resources of a deployment like the one that is there; nil where its settings aren't ones.
func (d *Deployment) list() []resources.Resource {
	w, err := d.deployed()
	if err != nil {
		return nil
	}
	b := resources.Builder{Wanted: &w, Look: func(name string) resources.Object {
		if p := d.part(name); p != nil {
			return p.There
		}
		return nil
	}}
	return b.List()
}

// asked is what the deployment's settings come to, as far as the database is concerned.
func (d *Deployment) asked() (settings.Deployment, error) {
	given := []string{
		"DATABASE=" + d.Target.Database, "COUNTERS=" + d.Target.Counters, "FIELDS=" + d.Target.Fields, "SHARDS=" + d.Target.Shards, fmt.Sprint("HOSTED=", d.Target.Hosted),
		fmt.Sprint("EXTENSION=", d.Target.Extension),
	}
	if there := d.Functions.all(); len(there) > 0 { // who may hold seats
		if asked, err := settings.ForDeployment(append(given, "AUTH="+cmp.Or(there[0].Env["AUTH"], "none"), "MEMBERS="+there[0].Env["MEMBERS"])); err == nil {
			return asked, nil
		}
	}
	return settings.ForDeployment(given)
}

// made are the commands that make parts of the deployment, a line each.
func (d *Deployment) made(names ...string) string {
	var all []string
	for _, r := range d.list() {
		for _, command := range r.Make {
			if slices.Contains(names, r.Name) {
				all = append(all, command.String())
			}
		}
	}
	return lines(all...)
}

func lines(all ...string) string { return strings.Join(all, "\n") }

// then is one line of commands, of which each waits for the one before to succeed: what comes after
// a deletion is ready before it.
func then(all ...string) string { return strings.Join(all, " && ") }

// redeploy changes something about a function and leaves the rest as it is, its source included.
func (d *Deployment) redeploy(f *Function, flags ...string) string {
	args := []string{"gcloud", "functions", "deploy", f.Name, "--gen2", "--project=" + d.Target.Project, "--region=" + f.Region}
	if f.Source != "" {
		args = append(args, "--source="+f.Source)
	}
	return line(append(args, flags...)...)
}

// setEnv sets one setting of a function.
func (d *Deployment) setEnv(f *Function, name, value string) string {
	return d.redeploy(f, "--update-env-vars=^|^"+name+"="+value)
}

// recreate makes Rollup anew with the right trigger: a trigger can't move to another location. Writes in between are
// counted by the next reconcile.
func (d *Deployment) recreate(f *Function) string { return then(d.remove(f), d.again(f)) }

// deploy runs what makes everything that isn't there, like what is there.
func (d *Deployment) deploy(flags ...string) string {
	if there := d.Functions.all(); len(there) > 0 {
		return d.again(there[0], flags...)
	}
	return d.script(map[string]string{
		"DATABASE": d.Target.Database, "COUNTERS": d.Target.Counters, "FIELDS": d.Target.Fields, "SHARDS": d.Target.Shards, "HOSTED": strconv.FormatBool(d.Target.Hosted),
		"EXTENSION": strconv.FormatBool(d.Target.Extension),
	}, "", flags...)
}

// kept are the flags of `counters deploy` for what the deployment has beside its settings: without
// them it takes that back, or puts it back to its default. A key and a repository are a region's.
func (d *Deployment) kept(sameRegion bool) (flags []string) {
	flags = append(d.callers(), d.billings()...)
	flags = append(flags, d.most()...)
	add := func(flag, value, byDefault string) {
		if value != "" && value != byDefault {
			flags = append(flags, flag, value)
		}
	}
	within := func(flag string, n, least, most, byDefault int32) {
		if n >= least && n <= most {
			add(flag, strconv.Itoa(int(n)), strconv.Itoa(int(byDefault)))
		}
	}
	most, rollupMost := int32(10), int32(2) // by default, where no ceiling works them out
	if slices.Contains(flags, "--most-per-day") && !slices.Contains(flags, "none") {
		most, rollupMost = 0, 0
	}
	for i, f := range d.Functions.all() {
		if i == 0 { // the three have this alike
			if resources.IsMemory.MatchString(f.Memory) {
				add("--memory", f.Memory, "512Mi")
			}
			if sameRegion {
				add("--kms-key", f.Key, "")
				if repository := repositoryName.FindStringSubmatch(f.Repository); repository != nil && repository[3] != "gcf-artifacts" && repository[3] != d.Target.Prefix+"-functions" {
					add("--docker-repository", f.Repository, "")
				}
			}
		}
		switch f.EntryPoint {
		case "Increment":
			within("--increment-concurrency", f.Concurrency, 100, 1000, 500)
			within("--increment-max-instances", f.MaxInstances, 1, 1000, most)
			within("--increment-min-instances", f.MinInstances, 0, f.MaxInstances, 0)
			add("--increment-ingress", map[string]string{"ALLOW_INTERNAL_ONLY": "internal-only", "ALLOW_INTERNAL_AND_GCLB": "internal-and-gclb"}[f.Ingress], "")
		case "Rollup":
			within("--rollup-max-instances", f.MaxInstances, 1, 1000, rollupMost)
			within("--rollup-min-instances", f.MinInstances, 0, f.MaxInstances, 0)
		}
	}
	if job := d.reconcileJob(); job != nil && resources.IsSchedule.MatchString(job.Schedule) {
		add("--reconcile-schedule", job.Schedule, "7 * * * *")
	}
	if d.Functions != nil && d.Functions.Rollup != nil && d.Functions.Rollup.Trigger != nil {
		if region := d.Functions.Rollup.Trigger.Region; sameRegion && slices.Contains(resources.Near(d.location()), region) {
			add("--trigger-location", region, d.location()) // where it can't be moved from
		}
	}
	for _, channel := range d.channels() {
		add("--notification-channel", channel, "")
	}
	if d.noAlerts() {
		flags = append(flags, "--no-alerts")
	}
	return flags
}

// callers are the script's flags for those who may call Increment.
func (d *Deployment) callers() (flags []string) {
	if d.Functions == nil || d.Functions.Increment == nil || d.Functions.Increment.Invokers == nil {
		return nil
	}
	increment := d.Functions.Increment
	if increment.Open {
		flags = append(flags, "--no-invoker-check")
	}
	for _, b := range increment.Invokers.Bindings {
		for _, member := range b.Members {
			switch {
			case b.Role != invokerRoles[0] || b.Condition != "":
			case member == "allUsers":
				flags = append(flags, "--public")
			case resources.IsMember.MatchString(member): // the others stay, as deploy takes nobody away
				flags = append(flags, "--invoker", member)
			}
		}
	}
	return flags
}

// billings are the script's flags for the functions that are billed by the instance: without them it
// takes that back.
func (d *Deployment) billings() (flags []string) {
	for _, entryPoint := range []string{"Increment", "Rollup"} {
		if f := *d.Functions.of(entryPoint); f != nil && f.Billing == cost.ByInstance {
			flags = append(flags, "--"+strings.ToLower(entryPoint)+"-billing", string(f.Billing))
		}
	}
	return flags
}

// most is the script's flag for the ceiling, as the deployment has it.
func (d *Deployment) most() (flags []string) {
	if d.Functions == nil {
		return nil
	}
	if increment := d.Functions.Increment; increment != nil {
		if dollars, is := resources.CeilingOfLabel(increment.Labels[resources.LabelOfCeiling]); is {
			return []string{"--most-per-day", fmt.Sprintf("%vUSD", dollars)}
		}
		if d.open() {
			return []string{"--most-per-day", "none"}
		}
	}
	return nil
}

// below is what deploys everything like what is there, below a ceiling that works out instances and ways to pay.
func (d *Deployment) below(ceiling string) string {
	worked := []string{"--most-per-day", "--increment-max-instances", "--rollup-max-instances", "--increment-billing", "--rollup-billing"}
	flags := []string{"--most-per-day", ceiling}
	kept := d.kept(true)
	for i := 0; i < len(kept); i++ {
		if slices.Contains(worked, kept[i]) {
			i++ // and its value
			continue
		}
		flags = append(flags, kept[i])
	}
	increment := d.Functions.Increment
	env := maps.Clone(increment.Env)
	delete(env, "CEILING")
	return d.script(env, d.elsewhere(increment.Region), flags...)
}

// script is `counters deploy`, which every program of ours has with it, sources and all.
func (d *Deployment) script(env map[string]string, region string, flags ...string) string {
	args := []string{"counters", "deploy", "--project", d.Target.Project, "--location", d.location(), "--prefix", d.Target.Prefix}
	if region != "" {
		args = append(args, "--region", region)
	}
	args = append(args, flags...)
	for _, s := range settingsOf(env) {
		if s.name == "CEILING" && slices.Contains(args, "--most-per-day") && !slices.Contains(args, "none") {
			continue // which works it out
		}
		if s.raw != s.byDefault && s.name != "GOOGLE_CLOUD_PROJECT" && s.name != "PROJECT_NUMBER" {
			args = append(args, "--set", s.name+"="+s.raw)
		}
	}
	return line(args...)
}

func (d *Deployment) remove(f *Function) string {
	return line("gcloud", "functions", "delete", f.Name, "--gen2", "--project="+d.Target.Project, "--region="+f.Region, "--quiet")
}

// account is the one that the deployment's makers give a job to.
func (d *Deployment) account(job string) string {
	return d.Target.Prefix + "-" + job + resources.AccountsEnd(d.Target.Project)
}

// number is a shell expression for the project's number.
func (d *Deployment) number() string {
	return "$(gcloud projects describe " + d.Target.Project + " --format='value(projectNumber)')"
}

// grant gives a role in the project, on condition of an expression unless that is empty.
func (d *Deployment) grant(member, role, condition string) string {
	if condition == "" {
		condition = "None"
	}
	return line("gcloud", "projects", "add-iam-policy-binding", d.Target.Project, "--member="+member, "--role="+role, "--condition="+condition)
}

// allow lets a member call a function.
func (d *Deployment) allow(f *Function, member string) string {
	return line("gcloud", "run", "services", "add-iam-policy-binding", f.service(), "--project="+d.Target.Project, "--region="+f.Region,
		"--member="+member, "--role=roles/run.invoker")
}

// counters is a command of this program about a counter of the deployment.
func (d *Deployment) counters(verb, id string, flags ...string) string {
	args := d.command(verb, flags...)
	if strings.HasPrefix(id, "-") {
		args = append(args, "--")
	}
	return line(append(args, id)...)
}

// reconcileAll reconciles every counter of the deployment, from the first.
func (d *Deployment) reconcileAll() string { return line(d.command("reconcile", "--all")...) }

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

// service is the name of a function's Cloud Run service.
func (f *Function) service() string { return f.Service[strings.LastIndexByte(f.Service, '/')+1:] }
