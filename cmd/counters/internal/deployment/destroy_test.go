package deployment

import (
	"archive/zip"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// destroy removes a deployment from a platform, and returns what it says.
func (p *platform) destroy(t *testing.T, r Removal, set ...string) (string, error) {
	t.Helper()
	return p.destroyBy(t, &Deployer{}, r, set...)
}

func (p *platform) destroyBy(t *testing.T, d *Deployer, r Removal, set ...string) (string, error) {
	t.Helper()
	var said strings.Builder
	d.Project, d.Region, d.Prefix, d.Set = "a-project", "us-central1", "counters", set
	d.Said, d.Out, d.Me, d.Gcloud, d.HTTP = &said, &said, "destroy", p.gcloud, p
	p.answers["storage ls"] = "gs://gcf-v2-sources-123456789-us-central1/counters-rollup/\ngs://gcf-v2-sources-123456789-us-central1/theirs/\n"
	p.ran = nil
	if err := d.CheckRemoval(r); err != nil {
		return "", err
	}
	err := d.Destroy(t.Context(), r)
	return said.String(), err
}

// What deploy makes destroy removes, and what is somebody else's it leaves; data and what others may need stay, and are
// listed.
func TestDestroyRemovesWhatDeployMade(t *testing.T) {
	t.Parallel()
	p := newPlatform()
	p.deployed(t, wanted(t, counted, "--web-app=https://app.example", "--budget=5"))
	list := func(address, key string, items ...any) {
		before, _ := p.objects[address][key].([]any)
		p.objects[address] = Object{key: append(before, items...)}
	}
	twice := p.objects["monitoring/v3/"+inProject+"alertPolicies"]["alertPolicies"].([]any)[0].(Object).Text("displayName")
	list("monitoring/v3/"+inProject+"alertPolicies", "alertPolicies", Object{"name": "second", "displayName": twice}, Object{"name": "theirs", "displayName": "theirs: " + twice})
	p.objects["monitoring/v3/second"] = Object{"name": "second"}
	list("monitoring/v1/"+inProject+"dashboards", "dashboards", Object{"name": "theirs", "displayName": "theirs"})
	trigger := Object{"name": inProject + "locations/nam5/triggers/counters-watch-0123abcd"}
	p.objects["eventarc/v1/"+trigger.Text("name")] = trigger
	list("eventarc/v1/"+inProject+"locations/-/triggers", "triggers", trigger, Object{"name": inProject + "locations/nam5/triggers/others-counters-watch-0123abcd"})
	list("cloudresourcemanager/v1/projects/a-project:getIamPolicy", "bindings", Object{"role": "roles/more", "members": []any{"serviceAccount:counters-build@a-project.iam.gserviceaccount.com", "user:me@example.com"}})

	out, err := p.destroy(t, Removal{})
	if err != nil {
		t.Fatal(err, out)
	}
	for begins, n := range map[string]int{
		"functions delete counters-": 3, "iam service-accounts delete counters-": 6, "artifacts repositories delete counters-functions": 1, "scheduler jobs delete counters-reconcile": 1,
		"eventarc triggers delete counters-watch-0123abcd --project=a-project --location=nam5": 1, "logging metrics delete counters_": 9, "alpha monitoring policies delete": 9,
		"monitoring dashboards delete": 1, "logging sinks update _Default --project=a-project --remove-exclusions=counters-requests": 1, "billing budgets delete": 1,
		"storage rm --recursive gs://gcf-v2-sources-123456789-us-central1/counters-rollup/": 1, "projects remove-iam-policy-binding a-project --member=serviceAccount:counters-": 7,
	} {
		got := 0
		for _, line := range p.ran {
			if strings.HasPrefix(line, begins) {
				got++
			}
		}
		if got != n {
			t.Errorf("%d × %s, want %d", got, begins, n)
		}
	}
	if n := len(p.ran); n != 41 {
		t.Errorf("ran %d:\n%s", n, strings.Join(p.ran, "\n"))
	}
	for _, line := range p.ran {
		if strings.Contains(line, "theirs") || strings.HasPrefix(line, "firestore") || strings.HasPrefix(line, "services") || strings.Contains(line, "user:me") {
			t.Errorf("touches what is others', data or APIs: %s", line)
		}
	}
	if at := func(part string) int {
		return slices.IndexFunc(p.ran, func(line string) bool { return strings.Contains(line, part) })
	}; at("functions delete counters-rollup") > at("service-accounts delete counters-rollup") ||
		at("--role=roles/logging.logWriter") > at("service-accounts delete counters-build") {
		t.Errorf("an account goes before what it has:\n%s", strings.Join(p.ran, "\n"))
	}
	for _, stays := range []string{
		"the TTL policy of counter_requests.expire_at", "the exemption of counter_rollup.imported from indexes", "the exemption of counters.updated_at from indexes",
		"the composite index of comments COLLECTION about n", "the index of comments.about in the collection group", "the database (default), with its documents", "the APIs stay",
		"the security rules that deploy released",
	} {
		if !strings.Contains(out, stays) {
			t.Errorf("doesn't say that %s stays:\n%s", stays, out)
		}
	}

	// All of it is printed in an order that goes.
	dry, err := p.destroyBy(t, &Deployer{DryRun: true}, Removal{Everything: true, Database: "(default)"})
	if err != nil || len(p.ran) > 0 || strings.Index(dry, "functions delete") > strings.Index(dry, "service-accounts delete") || strings.Index(dry, "--role=roles/more") > strings.Index(dry, "delete counters-build@") ||
		strings.Index(dry, "--no-delete-protection") < strings.Index(dry, "delete counters-build@") {
		t.Errorf("%v, ran %q\n%s", err, p.ran, dry)
	}
}

func TestDestroyGoesOnAfterAFailure(t *testing.T) {
	t.Parallel()
	p := newPlatform()
	p.deployed(t, wanted(t))
	p.fails = func(command string) error {
		if strings.HasPrefix(command, "functions delete counters-rollup") {
			return errors.New("not now")
		}
		return nil
	}
	out, err := p.destroy(t, Removal{})
	if err == nil || !strings.Contains(err.Error(), `run this again, with --set 'DATABASE=(default)'`) || !strings.Contains(out, "not now") {
		t.Errorf("a failed removal is not reported: %v: %s", err, out)
	}
	if len(p.ranOf("logging metrics delete")) != 9 || len(p.ranOf("service-accounts delete")) != 6 {
		t.Errorf("one failure keeps the rest from being removed: %q", p.ran)
	}
	p = newPlatform()
	if out, err := p.destroy(t, Removal{}); err != nil || len(p.ran) != 1 { // but for what was uploaded

		t.Errorf("where nothing is deployed: %v, %q: %s", err, p.ran, out)
	}
}

// A second run finds no functions that say what database is theirs. By the defaults it would take what another
// application has in (default).
func TestDestroyTouchesNoDatabaseThatIsNotKnown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		gone, denied bool
		removal      Removal
		set          []string
		says         string // "" where it ends well
		database     string // that commands name
	}{
		"it is known":                  {removal: Removal{true, "social"}, database: "social"},
		"it is known better":           {removal: Removal{true, ""}, set: []string{"DATABASE=theirs"}, database: "social"},
		"a second run":                 {gone: true},
		"a second run, of everything":  {gone: true, removal: Removal{true, ""}, says: "say --set DATABASE="},
		"a second run that knows it":   {gone: true, removal: Removal{true, ""}, set: []string{"DATABASE=social"}, database: "social"},
		"a second run that knows less": {gone: true, removal: Removal{true, ""}, set: []string{"COUNTERS=posts/{post}"}, says: "say --set DATABASE="},
		"another is to be deleted":     {removal: Removal{true, "theirs"}, says: "the counters are in social; nothing was removed"},
		"no list of functions":         {denied: true, removal: Removal{true, ""}, says: "nothing was removed"},
		"elsewhere":                    {set: []string{"elsewhere"}, says: "counters-rollup is in europe-west1, not in us-central1; nothing was removed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlatform()
			p.objects[strings.ReplaceAll(inDatabase, "(default)", "social")] = p.objects[inDatabase]
			p.deployed(t, wanted(t, "--set=DATABASE=social"))
			functions := "cloudfunctions/v2/" + inProject + "locations/-/functions"
			if slices.Contains(c.set, "elsewhere") {
				c.set = nil
				p.objects[functions] = Object{"functions": []any{Object{"name": inProject + "locations/europe-west1/functions/counters-rollup"}}}
			}
			if c.gone {
				delete(p.objects, functions)
			}
			if c.denied {
				p.refuses[functions] = &Refused{Code: 403, Message: "no"}
			}
			out, err := p.destroy(t, c.removal, c.set...)
			if err != nil {
				out += err.Error()
			}
			if (err == nil) != (c.says == "") || !strings.Contains(out, c.says) || c.says != "" && len(p.ran) > 0 {
				t.Errorf("%v, want %q; ran %q: %s", err, c.says, p.ran, out)
			}
			for _, line := range p.ran {
				if of := flag(strings.Fields(line), "database"); of != "" && of != c.database {
					t.Errorf("in the database %s, want %q alone: %s", of, c.database, line)
				}
			}
			if strings.Contains(out, "(default)") || c.database == "" && strings.Contains(out, "databases delete") || c.database != "" && !c.removal.Everything && !strings.Contains(out, "databases delete") {
				t.Errorf("names another database: %s", out)
			}
		})
	}
}

func TestDestroyRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		project, region, prefix string
		r                       Removal
		says                    string
	}{
		{"", "r", "counters", Removal{}, "--project is missing"}, {"a-project", "", "counters", Removal{}, "--region is missing"},
		{"123456789", "r", "counters", Removal{}, "a project's id, which is not its name or number"}, {"a-project", "r", ".*", Removal{}, "--prefix .*: want 1 to 20"},
		{"a-project", "r", "counters", Removal{Database: "d"}, "--delete-database d: want --everything with it"},
	} {
		d := Deployer{}
		d.Project, d.Region, d.Prefix = c.project, c.region, c.prefix
		if err := d.CheckRemoval(c.r); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A release's archive is deployed as what the program carries is, with the same version.
func TestSources(t *testing.T) {
	t.Parallel()
	own := &Deployer{dir: t.TempDir()}
	if err := own.sources(t.Context()); err != nil || len(own.version) != 16 {
		t.Fatal(own.version, err)
	}
	if _, err := os.Stat(filepath.Join(own.source, "terraform")); !os.IsNotExist(err) {
		t.Errorf("what isn't uploaded is unpacked: %v", err)
	}
	file := filepath.Join(t.TempDir(), "source.zip")
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	archive := zip.NewWriter(out)
	if err := errors.Join(archive.AddFS(os.DirFS(own.source)), archive.Close(), out.Close()); err != nil {
		t.Fatal(err)
	}
	d := &Deployer{dir: t.TempDir()}
	d.Source = file
	if err := d.sources(t.Context()); err != nil || d.version != own.version {
		t.Errorf("an archive of the same files is %s, and they are %s: %v", d.version, own.version, err)
	}
	for _, other := range []string{t.TempDir(), "no-such-thing", "destroy_test.go"} {
		d := &Deployer{dir: t.TempDir()}
		if d.Source = other; d.sources(t.Context()) == nil {
			t.Errorf("--source %s is taken", other)
		}
	}
}

// What is known later is asked for in a shell's own words; the rest it takes as it stands.
func TestLine(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		`a 'b c' 'd'\''e'`:                   {"a", "b c", "d'e"},
		`"--x=\$y\"$(gcloud a '--b=c d')|z"`: {`--x=$y"` + Asked("a", "--b=c d") + "|z"},
		`$'a\x07b'`:                          {"a\x07b"},
	} {
		if got := Line(args...); got != want {
			t.Errorf("%q is %s, want %s", args, got, want)
		}
	}
}
