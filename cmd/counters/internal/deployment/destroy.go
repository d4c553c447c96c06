package deployment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/firestore-counters/counters/internal/settings"
)

// Removal is what is to be removed.
type Removal struct {
	Everything bool   // what other deployments may need, too
	Database   string // to be deleted with all documents in it; empty for none
}

// CheckRemoval says what is wrong with what is asked for, before anything is asked of Google.
func (d *Deployer) CheckRemoval(r Removal) error {
	switch {
	case d.Project == "":
		return fmt.Errorf("--project is missing")
	case d.Region == "":
		return fmt.Errorf("--region is missing: that of the functions; see gcloud functions list")
	// As deploy wants them: accounts are called after the id, and a prefix is part of patterns.
	case !IsProject.MatchString(d.Project):
		return fmt.Errorf("--project %s: want a project's id, which is not its name or number: see gcloud projects list", d.Project)
	case !isPrefix.MatchString(d.Prefix):
		return fmt.Errorf("--prefix %s: want 1 to 20 lower-case letters, digits and hyphens", d.Prefix)
	case r.Database != "" && !r.Everything:
		return fmt.Errorf("--delete-database %s: want --everything with it", r.Database)
	}
	return d.settle()
}

// removing is something to be removed.
type removing struct {
	Resource
	stays string // what it is to others, where it is to stay
}

// Destroy removes what the list and its prefix name, but for data and what others may need, and says what is left. One
// failure doesn't keep the rest from going.
func (d *Deployer) Destroy(ctx context.Context, r Removal) (err error) {
	if d.dir, err = os.MkdirTemp("", "counters-"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(d.dir) }()
	d.project = d.Project
	if err := d.login(ctx); err != nil {
		return fmt.Errorf("nothing was removed: %w", err)
	}
	known, err := d.knownSettings(ctx, r)
	if err != nil {
		return fmt.Errorf("%w; nothing was removed", err)
	}
	d.look(ctx)
	failed := map[string]error{}
	for name, err := range d.blind {
		d.say("%s: can't read %s: %v\n", d.Me, name, err)
		failed[name] = err
	}
	goes, stays := d.removals(ctx, r, known)
	if d.DryRun {
		for _, g := range slices.Backward(goes) { // what needs something goes before it
			fmt.Fprintf(d.Out, "# %s\n", g.Name)
			for _, command := range g.Remove {
				fmt.Fprintln(d.Out, command)
			}
		}
	} else {
		for name, err := range d.remove(ctx, goes) {
			d.say("%s: %s: %v\n", d.Me, name, err)
			failed[name] = err
		}
	}
	if len(stays) > 0 {
		d.say("%s: what stays, and the command that removes it:\n", d.Me)
		for _, s := range stays {
			d.say("  %s\n    %s\n", s.stays, joined(s.Remove))
		}
	}
	if !known {
		d.say("%s: what is in the database stays, and isn't listed: the functions are gone, which say what database is theirs. See --set\n", d.Me)
	}
	d.say("%s: the APIs stay turned on: gcloud services list --enabled --project=%s\n", d.Me, d.Project)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if len(failed) > 0 { // the functions may be gone by then
		again := ""
		if given := d.Set; known {
			if len(given) == 0 {
				given = []string{"DATABASE=" + d.Settings.Database}
			}
			for _, pair := range given {
				again += " --set " + Line(pair)
			}
			again = ", with" + again
		}
		return errors.New("some of it could not be read or removed; see above, and run this again" + again)
	}
	return nil
}

// joined are commands on one line.
func joined(commands []Command) string {
	lines := make([]string, len(commands))
	for i, c := range commands {
		lines[i] = c.String()
	}
	return strings.Join(lines, " && ")
}

// knownSettings takes the settings from the functions, as long as one of them says what they are, and reports whether
// it is known what database is theirs. By the defaults, what is removed could be another deployment's.
func (d *Deployer) knownSettings(ctx context.Context, r Removal) (known bool, err error) {
	place := facts(&d.Wanted)["functions"]
	there, err := d.Read(ctx, "functions", place)
	if err != nil && !Off(err) {
		return false, fmt.Errorf("can't read the functions of project %s: %w", d.Project, err)
	}
	said := false
	for _, name := range []string{"rollup", "reconcile", "increment"} {
		var regions []string
		for _, function := range Objects(there["functions"]) {
			parts := strings.Split(function.Text("name"), "/") // projects/p/locations/r/functions/f
			if len(parts) != 6 || parts[5] != d.Prefix+"-"+name {
				continue
			}
			if regions = append(regions, parts[3]); parts[3] != d.Region || said {
				continue
			}
			said, known, d.Set = true, true, nil
			for _, setting := range []string{"DATABASE", "COUNTERS", "FIELDS", "SHARDS", "HOSTED", "AUTH", "MEMBERS"} {
				if value := function.Text("serviceConfig.environmentVariables." + setting); value != "" {
					d.Set = append(d.Set, setting+"="+value)
				}
			}
		}
		if len(regions) > 0 && !slices.Contains(regions, d.Region) {
			return false, fmt.Errorf("%s-%s is in %s, not in %s", d.Prefix, name, strings.Join(regions, " and "), d.Region)
		}
	}
	for _, pair := range d.Set {
		known = known || strings.HasPrefix(pair, "DATABASE=")
	}
	if d.Settings, err = settings.ForDeployment(d.Set); err != nil {
		return false, fmt.Errorf("the settings of %s are not ones: %w", d.Prefix, err)
	}
	if !known && r.Everything {
		return false, fmt.Errorf("the functions are gone, which say what database is theirs: say --set DATABASE=…, and COUNTERS, FIELDS and SHARDS where they were set")
	}
	if r.Database != "" && r.Database != d.Settings.Database {
		return false, fmt.Errorf("--delete-database %s: the counters are in %s", r.Database, d.Settings.Database)
	}
	d.all, d.Location, d.TriggerLocation, d.Budget = true, d.Region, d.Region, "1"
	d.Settings.Collections = nil // their triggers go by their names, wherever they are
	return known, nil
}

// removals are what goes and what stays, of what is there.
func (d *Deployer) removals(ctx context.Context, asked Removal, known bool) (goes, stays []removing) {
	list, b := d.list()
	deleted := asked.Database != ""
	for _, r := range list {
		there := d.lookAt(r.Name)
		ofDatabase := slices.Contains(r.Needs, "database") && r.Shared != ""
		switch {
		case there == nil || len(r.Remove) == 0 || r.Ours != nil && !r.Ours(there):
		case ofDatabase && (!known || d.lookAt("database") == nil || deleted && !strings.HasPrefix(r.Name, "security")):
		case r.Name == "the role of Eventarc's agent" && d.othersTriggers():
		case r.Shared == "" || asked.Everything || strings.HasPrefix(r.Name, "exclusion "):
			goes = append(goes, removing{Resource: r})
		default:
			stays = append(stays, removing{r, r.Shared})
		}
	}
	goes = append(goes, d.byPattern(ctx, b)...)
	in := []string{b.project(), "--database=" + d.Settings.Database}
	of := func(verb string, words ...string) Command {
		return gcloud(slices.Concat([]string{"firestore", "databases", verb}, in, words)...)
	}
	switch {
	case !known || d.lookAt("database") == nil:
	case deleted:
		goes = slices.Insert(goes, 0, removing{Resource: Resource{Name: "database", Remove: []Command{
			of("update", "--no-delete-protection", "--format=none"), of("delete", "--format=none"),
		}}})
	default:
		stays = append(stays, removing{Resource{Remove: []Command{of("delete")}}, "the database " + d.Settings.Database + ", with its documents and rules"})
	}
	return goes, stays
}

// othersTriggers reports whether there are triggers of others.
func (d *Deployer) othersTriggers() bool {
	own := regexp.MustCompile("^" + d.Prefix + "-(watch-[0-9a-f]{8}|rollup-[0-9]+)$")
	return slices.ContainsFunc(Objects(d.lookAt("triggers")["triggers"]), func(t Object) bool { return !own.MatchString(path.Base(t.Text("name"))) })
}

// byPattern is what the list doesn't name, and the prefix does: triggers of collections that were counted, all roles of
// the accounts, second dashboards, and what was uploaded.
func (d *Deployer) byPattern(ctx context.Context, b *Builder) (all []removing) {
	add := func(name string, needs []string, commands ...Command) {
		all = append(all, removing{Resource: Resource{Name: name, Needs: needs, Remove: commands}})
	}
	for _, job := range jobs {
		member := "serviceAccount:" + d.Account(job)
		var roles []string
		for _, binding := range Objects(d.lookAt("grants")["bindings"]) {
			of, _ := binding["members"].([]any)
			if role := binding.Text("role"); slices.Contains(of, any(member)) && !slices.Contains(roles, role) {
				roles = append(roles, role)
			}
		}
		for _, role := range roles { // before the account, or it stays behind as a grant of a deleted account
			all = append(all, removing{Resource: Resource{
				Name: role + " of " + d.Account(job), Needs: []string{"account " + d.Prefix + "-" + job}, Alone: "the project's policy",
				Remove: []Command{gcloud("projects", "remove-iam-policy-binding", d.Project, "--member="+member, "--role="+role, "--all", "--format=none")},
			}})
		}
	}
	first := d.lookAt("dashboard").Text("name")
	for _, board := range Objects(d.lookAt("dashboards")["dashboards"]) {
		if id := board.Text("name"); board.Text("displayName") == d.Prefix && id != first {
			add("dashboard "+id, nil, gcloud("monitoring", "dashboards", "delete", id, b.project()))
		}
	}
	// The platform keeps the sources of functions that are gone. There is no such bucket where nothing was deployed.
	if number := d.lookAt("the project").Text("projectNumber"); number != "" {
		sources := "gs://gcf-v2-sources-" + number + "-" + d.Region
		listed, err := d.gcloud(ctx, "storage", "ls", sources, b.project())
		for _, name := range []string{"increment", "reconcile", "rollup"} {
			folder := sources + "/" + d.Prefix + "-" + name + "/"
			if err == nil && slices.Contains(strings.Fields(listed), folder) {
				// It comes behind the function, as it is needed by it.
				all = append(all, removing{Resource: Resource{Name: folder, Needs: nil, Remove: []Command{gcloud("storage", "rm", "--recursive", folder, b.project())}}})
			}
		}
	}
	return all
}

// remove removes things side by side: what something needs goes after it.
func (d *Deployer) remove(ctx context.Context, goes []removing) map[string]error {
	needed := map[string][]string{}
	for _, g := range goes {
		for _, need := range g.Needs {
			needed[need] = append(needed[need], g.Name)
		}
	}
	var mu sync.Mutex
	n := 0
	var all []work
	for _, g := range goes {
		all = append(all, work{name: g.Name, needs: needed[g.Name], alone: g.Alone, do: func(ctx context.Context) error {
			for _, command := range g.Remove {
				if err := d.patiently(ctx, g.Name, func() error { return d.run(ctx, command) }); err != nil {
					return err
				}
			}
			mu.Lock()
			defer mu.Unlock()
			n++
			d.say("[%d/%d] %s is removed\n", n, len(goes), g.Name)
			return nil
		}})
	}
	return sideBySide(ctx, all, true)
}
