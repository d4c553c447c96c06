package deployment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/spf13/pflag"
	"pgregory.net/rapid"
)

// platform is a project in memory: it reads, and notes what gcloud is told. What is told changes nothing.
type platform struct {
	mu      sync.Mutex
	objects map[string]Object          // :: address, without its query
	refuses map[string]*Refused        // :: beginning of an address → how it is refused
	ran     []string                   // what was changed, in order
	fails   func(command string) error // of gcloud
	answers map[string]string          // :: beginning of a question → what gcloud says
}

func (p *platform) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	api, _, _ := strings.Cut(r.URL.Host, ".")
	address := api + r.URL.Path
	answer := func(code int, body any) (*http.Response, error) {
		text, err := json.Marshal(body)
		return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader(string(text)))}, err
	}
	for begins, refused := range p.refuses {
		if strings.HasPrefix(address, begins) {
			return answer(refused.Code, Object{"error": Object{"message": refused.Message, "details": []any{Object{"reason": refused.Reason}}}})
		}
	}
	if r.Method != "GET" && !strings.HasSuffix(address, ":getIamPolicy") {
		p.ran = append(p.ran, r.Method+" "+address)
		return answer(200, Object{"name": "projects/a-project/rulesets/new"})
	}
	if object := p.objects[address]; object != nil {
		return answer(200, object)
	}
	if strings.HasPrefix(address, "cloudresourcemanager") && r.Method == "POST" {
		return answer(200, Object{})
	}
	return answer(404, Object{"error": Object{"message": "not found"}})
}

func (p *platform) gcloud(_ context.Context, words ...string) (string, error) {
	line := strings.Join(words, " ")
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fails != nil {
		if err := p.fails(line); err != nil {
			return "", err
		}
	}
	for begins, answer := range p.answers {
		if strings.HasPrefix(line, begins) {
			return answer, nil
		}
	}
	if words[0] != "auth" && words[1] != "ls" {
		p.ran = append(p.ran, line)
	}
	return "token", nil
}

// ranOf are the commands that were run and have a part in them.
func (p *platform) ranOf(part string) (lines []string) {
	for _, line := range p.ran {
		if strings.Contains(line, part) {
			lines = append(lines, line)
		}
	}
	return lines
}

const (
	version    = "0123456789abcdef" // of the functions' source
	inProject  = "projects/a-project/"
	inDatabase = "firestore/v1/" + inProject + "databases/(default)"
	inRegion   = inProject + "locations/us-central1/"
)

// newPlatform is a project with its APIs and a database, and nothing else.
func newPlatform() *platform {
	var services []any
	for _, api := range append(APIs(), "firebaserules.googleapis.com", "cloudbilling.googleapis.com", "billingbudgets.googleapis.com") {
		services = append(services, Object{"config": Object{"name": api}})
	}
	return &platform{
		refuses: map[string]*Refused{},
		answers: map[string]string{"functions describe": "https://f.a.run.app", "eventarc triggers describe": "projects/a-project/subscriptions/s", "eventarc triggers list": "projects/a-project/subscriptions/s"},
		objects: map[string]Object{
			"serviceusage/v1/" + inProject + "services":  {"services": services},
			"cloudresourcemanager/v1/projects/a-project": {"projectNumber": "123456789"},
			inDatabase: {"locationId": "us-central1", "type": "FIRESTORE_NATIVE", "databaseEdition": "STANDARD"},
			"cloudfunctions/v2/" + inRegion + "runtimes": {"runtimes": []any{
				Object{"name": "go127", "stage": "GA"}, Object{"name": "go126", "stage": "GA"}, Object{"name": "nodejs99", "stage": "GA"}, Object{"name": "go128", "stage": "BETA"},
			}},
		},
	}
}

// wanted is what these options come to.
func wanted(t testing.TB, args ...string) (w Wanted) {
	t.Helper()
	flags := pflag.NewFlagSet("deploy", pflag.ContinueOnError)
	w.Flags(flags)
	if err := flags.Parse(append([]string{"--project=a-project", "--location=us-central1"}, args...)); err != nil {
		t.Fatal(err)
	}
	if err := w.Check(); err != nil {
		t.Fatal(err)
	}
	return w
}

// run deploys to a platform, and returns what it says.
func (p *platform) run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return p.deploy(t, &Deployer{Wanted: wanted(t, args...)})
}

func (p *platform) deploy(t *testing.T, d *Deployer) (string, error) {
	t.Helper()
	var said strings.Builder
	d.source, d.version = "source", version
	d.Said, d.Me, d.Gcloud, d.HTTP = &said, "deploy", p.gcloud, p
	d.Out = &said
	d.Estimate = func(_ *Wanted, edition string) (string, error) {
		return "It costs nothing in " + edition + " edition.\n", nil
	}
	if d.Confirm == nil {
		d.Confirm = func() (bool, error) { return true, nil }
	}
	t.Setenv("TMPDIR", t.TempDir())
	err := d.Deploy(t.Context())
	return said.String(), err
}

// deployed makes a platform have all that is wanted, where its list says that it is read.
func (p *platform) deployed(t testing.TB, w Wanted) {
	t.Helper()
	list := func(list, key string, item Object) {
		if p.objects[list] == nil {
			p.objects[list] = Object{}
		}
		items, _ := p.objects[list][key].([]any)
		p.objects[list][key] = append(items, item)
	}
	for range 2 { // what is there names other things
		b := &Builder{Wanted: &w, Version: version, Look: func(name string) Object {
			switch name {
			case "the project":
				return normal(p.objects["cloudresourcemanager/v1/projects/a-project"]).(map[string]any)
			case "runtimes":
				return normal(p.objects["cloudfunctions/v2/"+inRegion+"runtimes"]).(map[string]any)
			case "function " + w.Prefix + "-reconcile":
				return Object{"serviceConfig": map[string]any{"uri": "https://" + w.Prefix + "-reconcile.a.run.app"}}
			}
			return nil
		}}
		for _, r := range b.List() {
			address, _, _ := strings.Cut(r.Place.Address, "?")
			there := Object{}
			maps.Copy(there, r.Want)
			if name := strings.TrimPrefix(address[strings.IndexByte(address, '/')+1:], "v1/"); there["name"] == nil {
				there["name"] = strings.TrimPrefix(name, "v2/")
			}
			switch {
			case r.Name == "APIs", r.Absent, r.Name == "database", strings.HasPrefix(r.Name, "field "), strings.HasPrefix(r.Name, "the index of") && r.Ours == nil:
				continue
			case strings.HasPrefix(r.Name, "function "):
				there["serviceConfig"].(Object)["uri"] = "https://" + strings.TrimPrefix(r.Name, "function ") + ".a.run.app"
				if r.Want["eventTrigger"] != nil {
					trigger := inRegion + "triggers/" + w.Prefix + "-rollup-123456"
					there["eventTrigger"].(Object)["trigger"] = trigger
					p.objects["eventarc/v1/"+trigger] = Object{"name": trigger, "transport": Object{"pubsub": Object{"subscription": inProject + "subscriptions/of-rollup"}}}
				}
			case strings.HasPrefix(r.Name, "billing of"):
				there["template"] = Object{"containers": []any{Object{"resources": Object{"cpuIdle": !strings.Contains(fmt.Sprint(r.Make), "no-cpu")}}}}
			case strings.HasPrefix(r.Name, "subscription of"):
				subscription := inProject + "subscriptions/of-" + strings.TrimPrefix(r.Name, "subscription of "+w.Prefix+"-")
				p.objects["pubsub/v1/"+subscription] = Object{"name": subscription, "ackDeadlineSeconds": 70, "expirationPolicy": Object{}}
				continue
			case strings.HasPrefix(r.Name, "trigger "):
				there["transport"] = Object{"pubsub": Object{"subscription": inProject + "subscriptions/of-" + strings.TrimPrefix(r.Name, "trigger "+w.Prefix+"-")}}
			case strings.HasPrefix(r.Name, "the TTL"):
				there = p.field(address)
				there["ttlConfig"] = Object{"state": "ACTIVE"}
			case strings.HasPrefix(r.Name, "the exemption"):
				there = p.field(address)
				there["indexConfig"] = Object{"indexes": []any{}}
			case strings.HasSuffix(r.Name, "in the collection group"):
				there["indexConfig"] = Object{"indexes": []any{Object{"queryScope": "COLLECTION_GROUP"}}}
			case strings.HasPrefix(r.Name, "the composite"):
				words := strings.Fields(strings.TrimPrefix(r.Name, "the composite index of "))
				var fields []any
				for _, field := range append(words[2:], "__name__") {
					fields = append(fields, Object{"fieldPath": field})
				}
				list(address, "indexes", Object{"name": there.Text("name") + "/1", "queryScope": words[1], "fields": fields})
				continue
			case r.Name == "security rules":
				_, name := rulesOf(&w)
				p.objects[address] = Object{"rulesetName": inProject + "rulesets/r1"}
				p.objects["firebaserules/v1/"+inProject+"rulesets/r1"] = Object{"name": inProject + "rulesets/r1", "source": Object{"files": []any{Object{"name": name}}}}
				continue
			case r.Name == "budget":
				p.objects[address] = Object{"billingAccountName": "billingAccounts/1"}
				there["displayName"], there["name"] = w.Prefix+" in a-project", "billingAccounts/1/budgets/1"
				p.objects["billingbudgets/v1/billingAccounts/1/budgets"] = Object{"budgets": []any{there}}
				continue
			case r.Place.List == "bindings":
				for _, command := range r.Make {
					member, role, condition := flag(command.Words, "member"), flag(command.Words, "role"), flag(command.Words, "condition")
					if role != "" {
						binding := Object{"role": role, "members": []any{member}}
						if expression, conditional := strings.CutPrefix(condition, "expression="); conditional {
							expression, _, _ = strings.Cut(expression, ",title=")
							binding["condition"] = Object{"expression": expression}
						}
						list(address, "bindings", binding)
					}
				}
				continue
			case r.Place.List != "":
				there["name"] = r.Name
				if r.Place.List == "exclusions" {
					there["name"] = r.Want["name"]
				}
				list(address, r.Place.List, there)
				continue
			}
			if before := p.objects[address]; before != nil && strings.HasPrefix(address, "run/") {
				maps.Copy(before, there)
				continue
			}
			p.objects[address] = there
		}
		for address, object := range p.objects { // the second round is of what is there by now
			for _, key := range []string{"bindings", "indexes", "exclusions", "alertPolicies", "dashboards"} {
				if items, _ := object[key].([]any); len(items) > 0 && !strings.HasPrefix(address, "firestore/v1/"+inProject+"databases/(default)/collectionGroups/x") {
					object[key] = unique(items)
				}
			}
		}
	}
	var functions []any
	for _, name := range []string{"increment", "reconcile", "rollup"} {
		function := p.objects["cloudfunctions/v2/"+inRegion+"functions/"+w.Prefix+"-"+name]
		function["name"] = inRegion + "functions/" + w.Prefix + "-" + name
		functions = append(functions, function)
	}
	p.objects["cloudfunctions/v2/"+inProject+"locations/-/functions"] = Object{"functions": functions}
}

func (p *platform) field(address string) Object {
	if p.objects[address] == nil {
		p.objects[address] = Object{}
	}
	return p.objects[address]
}

func unique(items []any) (some []any) {
	seen := map[string]bool{}
	for _, item := range items {
		text, _ := json.Marshal(item)
		if !seen[string(text)] {
			some = append(some, item)
		}
		seen[string(text)] = true
	}
	return some
}

func flag(words []string, name string) string {
	for _, word := range words {
		if value, ok := strings.CutPrefix(word, "--"+name+"="); ok {
			return value
		}
	}
	return ""
}

const counted = "--set=FIELDS=total=count,comments=count(comments),mine=count(/comments where about=={counter} and n>=1),all=count(**/comments where about=={counter})"

// Where all is as it is wanted, no command runs, whatever is wanted.
func TestDeployedAgainNothingRuns(t *testing.T) {
	for _, args := range [][]string{
		nil, {"--create-database"}, {counted, "--invoker=user:a@example.com", "--no-alerts"}, {"--request-logs", "--no-invoker-check", "--budget=100USD"},
		{"--set=COUNTERS=posts/{post}", "--set=HOSTED=1", "--no-exempt-updated-at"}, {"--web-app=https://app.example", "--increment-billing=instance", "--memory=1Gi"},
		{"--increment-max-instances=4", "--increment-min-instances=1", "--notification-channel=projects/p/notificationChannels/1", "--no-exempt-created-at"},
	} {
		p := newPlatform()
		p.deployed(t, wanted(t, args...))
		out, err := p.run(t, args...)
		if err != nil || len(p.ran) > 0 || !strings.Contains(out, "no command runs") || !strings.Contains(out, "Increment is at https://counters-increment.a.run.app") {
			t.Fatalf("%v: %v, ran\n%s\n%s", args, err, strings.Join(p.ran, "\n"), out)
		}
	}
}

// Whatever is wanted, each resource comes behind what it needs, has a name of its own, and goes again.
func TestListProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		of := func(args ...string) []string {
			return rapid.SliceOfNDistinct(rapid.SampledFrom(args), 0, len(args), rapid.ID).Draw(rt, "args")
		}
		args := of("--create-database", "--public", "--no-invoker-check", counted, "--set=HOSTED=true", "--no-alerts", "--request-logs", "--budget=5", "--web-app=https://app.example",
			"--increment-billing=instance", "--rollup-billing=instance", "--no-exempt-updated-at", "--no-exempt-created-at", "--invoker=user:a@example.com", "--prefix=likes")
		if slices.Contains(args, "--set=HOSTED=true") {
			args = append(args, "--set=COUNTERS=posts/{counter}")
		}
		w := wanted(t, args...)
		b := &Builder{Wanted: &w, Look: func(string) Object { return nil }}
		seen := map[string]bool{"database": true}
		for _, r := range b.List() {
			if r.Name != "database" && seen[r.Name] {
				rt.Errorf("two are called %s", r.Name)
			}
			seen[r.Name] = true
			if strings.HasPrefix(r.Name, "the exemption of "+w.Settings.Shards+".") {
				rt.Errorf("%s: sum() needs what it takes away", r.Name)
			}
			for _, need := range r.Needs {
				if !seen[need] {
					rt.Errorf("%s needs %s, which comes later or not at all", r.Name, need)
				}
			}
			api, _, _ := strings.Cut(r.Place.Address, "/")
			if !slices.Contains(append(APIs(), "serviceusage.googleapis.com", "firebaserules.googleapis.com", "cloudbilling.googleapis.com"), api+".googleapis.com") {
				rt.Errorf("%s is read at %s, which is not turned on", r.Name, r.Place.Address)
			}
			goes := r.Place.List == "bindings" || strings.HasPrefix(r.Name, "subscription") || strings.HasPrefix(r.Name, "billing") || strings.HasPrefix(r.Name, "no invoker") || r.Name == "APIs" || r.Name == "database"
			if len(r.Make) > 0 && len(r.Remove) == 0 && !goes {
				rt.Errorf("nothing removes %s", r.Name)
			}
			for _, command := range slices.Concat(r.Make, r.Change) {
				if strings.Contains(command.String(), "\x02") {
					rt.Errorf("%s is no line of a shell: %q", r.Name, command)
				}
			}
		}
	})
}

// A second run says what it takes back, and changes that alone.
func TestASecondRunSaysWhatItTakesBack(t *testing.T) {
	for _, c := range []struct {
		before, after []string
		says          []string
		runs          []string // beginnings of the commands, in any order
	}{
		{[]string{"--increment-max-instances=50"}, nil, []string{"function counters-increment: serviceConfig.maxInstanceCount 50 → 10"}, []string{"functions deploy counters-increment"}},
		{[]string{"--set=AUTO_CREATE=true"}, nil, []string{"serviceConfig.environmentVariables.AUTO_CREATE true → false"}, []string{"functions deploy counters-increment", "functions deploy counters-reconcile", "functions deploy counters-rollup"}},
		{nil, []string{"--request-logs"}, []string{"Others in the project may notice", "the project's log sink _Default"}, []string{"logging sinks update _Default --project=a-project --remove-exclusions=counters-requests"}},
		{[]string{"--notification-channel=projects/p/notificationChannels/1", "--reconcile-schedule=0 3 * * *"}, nil,
			[]string{"alerts were sent to projects/p/notificationChannels/1, which was not named, and are no more", "job counters-reconcile: schedule 0 3 * * * → 7 * * * *"},
			slices.Concat(slices.Repeat([]string{"alpha monitoring policies update"}, 8), []string{"scheduler jobs update http counters-reconcile"})},
		{[]string{"--kms-key=projects/p/locations/l/keyRings/r/cryptoKeys/k", "--docker-repository=projects/p/locations/l/repositories/r"}, nil, []string{"kmsKeyName projects/p/locations/l/keyRings/r/cryptoKeys/k → none", "And it makes:\n\n  repository"},
			[]string{"artifacts repositories add-iam-policy-binding", "artifacts repositories create", "functions deploy counters-increment", "functions deploy counters-reconcile", "functions deploy counters-rollup"}},
		{[]string{counted}, []string{"--set=FIELDS=total=count,comments=count(comments)"}, []string{"FIELDS total=count,comments=count(comments),mine"},
			[]string{"functions deploy counters-increment", "functions deploy counters-reconcile", "functions deploy counters-rollup"}},
		// A key that is kept is not given again, and the deployment lets allUsers be.
		{[]string{"--public", "--set=AUTH=firebase"}, []string{"--public", "--set=AUTH=firebase", "--memory=1Gi"}, []string{"availableMemory 512Mi → 1Gi"},
			[]string{"functions deploy counters-increment", "functions deploy counters-reconcile", "functions deploy counters-rollup"}},
		// It is taken back before: what is billed by the instance may not have less than 512 MiB.
		{[]string{"--increment-billing=instance"}, []string{"--memory=256Mi"}, []string{"billing of counters-increment: by the instance → by the request"},
			[]string{"functions deploy counters-increment", "functions deploy counters-reconcile", "functions deploy counters-rollup", "run services update counters-increment --project=a-project --region=us-central1 --cpu-throttling"}},
	} {
		p := newPlatform()
		p.deployed(t, wanted(t, c.before...))
		out, err := p.run(t, c.after...)
		for _, says := range c.says {
			if err != nil || !strings.Contains(out, says) {
				t.Errorf("%v after %v: %v, no %q in\n%s", c.after, c.before, err, says, out)
			}
		}
		ran := slices.Sorted(slices.Values(p.ran))
		if !slices.EqualFunc(ran, c.runs, strings.HasPrefix) {
			t.Errorf("%v after %v: ran\n%s", c.after, c.before, strings.Join(ran, "\n"))
		}
		for _, line := range p.ranOf("functions deploy") {
			if strings.Contains(line, "--no-allow-unauthenticated") || !strings.Contains(line, "--clear-kms-key") {
				t.Errorf("takes callers away, or leaves a key: %s", line)
			}
		}
		if back := slices.IndexFunc(p.ran, func(line string) bool { return strings.HasPrefix(line, "run services update") }); back > slices.IndexFunc(p.ran, func(line string) bool { return strings.HasPrefix(line, "functions deploy counters-increment") }) {
			t.Errorf("the billing is taken back too late: %q", p.ran)
		}
	}
}

// Each collection whose documents are counted has a trigger. One that is there stays, and one that nothing needs any
// more goes, after those that take its place.
func TestTriggersOfCollectionsThatAreCountedNoMore(t *testing.T) {
	p := newPlatform()
	w := wanted(t, "--set=FIELDS=c=count(comments)")
	p.deployed(t, w)
	old, others := "counters-watch-0123abcd", "others-counters-watch-0123abcd"
	var all []any
	for _, name := range []string{w.WatchName("comments"), old, others, "counters-rollup-123456"} {
		trigger := Object{"name": inProject + "locations/nam5/triggers/" + name}
		p.objects["eventarc/v1/"+trigger.Text("name")] = trigger
		all = append(all, trigger)
	}
	p.objects["eventarc/v1/"+inProject+"locations/-/triggers"] = Object{"triggers": all}
	out, err := p.run(t, "--set=FIELDS=c=count(comments),r=count(ratings)")
	if err != nil {
		t.Fatal(err, out)
	}
	if got := p.ranOf("eventarc triggers"); len(got) != 2 || !strings.HasPrefix(got[0], "eventarc triggers create "+w.WatchName("ratings")) || got[1] != "eventarc triggers delete "+old+" --project=a-project --location=nam5" {
		t.Errorf("%q", got)
	}
	if got := p.ranOf("pubsub"); len(got) != 1 || !strings.Contains(got[0], "--expiration-period=never --ack-deadline=70") {
		t.Errorf("%q", got)
	}
}

// What passes is waited for, with words on what for, and for no longer than five minutes; what doesn't pass is not. One
// failure keeps what needs it from being begun, and nothing else.
func TestDeployIsPatientWithWhatPasses(t *testing.T) {
	const agent = "Permission denied while using the Eventarc Service Agent."
	for _, c := range []struct {
		fails, says string
		failures    int
		ok          bool
		words       string
	}{
		{"functions deploy counters-rollup", agent, 20, true, "function counters-rollup: waiting for the role of Eventarc's agent; again in 10 s, for"},
		{"functions deploy counters-rollup", agent, 99, false, "can't make function counters-rollup: see above"},
		{"functions deploy counters-rollup", "Build failed with status: FAILURE. undefined: x", 1, false, "undefined: x"},
		{"functions deploy counters-increment", "Could not build the function due to a missing permission on the build service account.", 2, true, "the roles of the build's account"},
		{"projects add-iam-policy-binding", "INVALID_ARGUMENT: Service account counters-build@a-project.iam.gserviceaccount.com does not exist.", 3, true, "waiting for a new service account"},
		{"projects add-iam-policy-binding", "ABORTED: There were concurrent policy changes.", 3, true, "another change of the same policy"},
		{"iam service-accounts create counters-scheduler", "PERMISSION_DENIED: Permission iam.serviceAccounts.create is required.", 1, false, "not begun, as they need it: caller"},
	} {
		p := newPlatform()
		failures := 0
		p.fails = func(command string) error {
			if !strings.HasPrefix(command, c.fails) || failures == c.failures {
				return nil
			}
			failures++
			return errors.New(c.says)
		}
		var out string
		var err error
		args := wanted(t)
		dir := t.TempDir()
		t.Setenv("TMPDIR", dir)
		synctest.Test(t, func(t *testing.T) {
			var said strings.Builder
			d := &Deployer{Wanted: args, Out: &said, source: "source", version: version, Cloud: Cloud{Said: &said, Me: "deploy", Gcloud: p.gcloud, HTTP: p},
				Estimate: func(*Wanted, string) (string, error) { return "", nil }, Confirm: func() (bool, error) { return true, nil }}
			err = d.Deploy(t.Context())
			out = said.String()
		})
		if err != nil {
			out += err.Error()
		}
		if (err == nil) != c.ok || !strings.Contains(out, c.words) || c.failures < 99 && failures != c.failures {
			t.Errorf("%s fails %d times with %q: %v\n%s", c.fails, failures, c.says, err, out)
		}
		// By these doctor tells that a deployment has not come to Rollup.
		for _, line := range p.ranOf("functions deploy") {
			if !strings.Contains(line, "--update-labels=counters-source="+version+",") {
				t.Errorf("its source is not said: %s", line)
			}
		}
		if len(p.ranOf("monitoring dashboards create")) != 1 {
			t.Errorf("%s fails, and nothing else goes on: %q", c.fails, p.ran)
		}
	}
}

// What can't be deployed is refused before anything is made.
func TestDeployMakesNothingWithoutADatabase(t *testing.T) {
	for _, c := range []struct {
		database Object
		says     string
		args     []string
	}{
		{nil, "there is no database (default) in a-project. Add --create-database", nil},
		{Object{"locationId": "nam5", "type": "FIRESTORE_NATIVE"}, "say --location nam5", nil},
		{Object{"locationId": "nam5", "type": "FIRESTORE_NATIVE"}, "say --location nam5", []string{"--create-database"}},
		{Object{"locationId": "us-central1", "type": "DATASTORE_MODE"}, "Datastore mode", nil},
		{Object{"locationId": "us-central1", "type": "FIRESTORE_NATIVE"}, "--runtime go126: want one that us-central1 has, go127", []string{"--runtime=go126"}},
		{Object{"locationId": "us-central1", "type": "FIRESTORE_NATIVE"}, "can't read grants", nil},
	} {
		p := newPlatform()
		p.objects[inDatabase] = c.database
		p.objects["cloudfunctions/v2/"+inRegion+"runtimes"] = Object{"runtimes": []any{Object{"name": "go127", "stage": "GA"}}}
		if strings.Contains(c.says, "can't read") {
			p.refuses["cloudresourcemanager/v1/projects/a-project"] = &Refused{Code: 403, Message: "Permission denied"}
		}
		out, err := p.run(t, c.args...)
		if err == nil || !strings.Contains(err.Error(), c.says) || len(p.ran) > 0 {
			t.Errorf("%v %v: %v, ran %q\n%s", c.database, c.args, err, p.ran, out)
		}
	}
	// Which runtimes there are can't be asked for before Functions are turned on: nothing but that is done.
	p := newPlatform()
	services := p.objects["serviceusage/v1/"+inProject+"services"]
	p.objects["serviceusage/v1/"+inProject+"services"] = Object{}
	p.refuses["cloudfunctions/"] = &Refused{Code: 403, Reason: "SERVICE_DISABLED", Message: "it is off"}
	p.fails = func(command string) error {
		if strings.HasPrefix(command, "services enable") {
			p.objects["serviceusage/v1/"+inProject+"services"] = services
			delete(p.refuses, "cloudfunctions/")
		}
		return nil
	}
	if out, err := p.run(t, "--runtime=go199"); err == nil || !strings.Contains(err.Error(), "--runtime go199: want one that us-central1 has, go126 or go127") || len(p.ran) != 1 {
		t.Errorf("%v, ran %q\n%s", err, p.ran, out)
	}
	p = newPlatform()
	p.objects["serviceusage/v1/"+inProject+"services"] = Object{}
	p.objects[inDatabase] = nil
	if _, err := p.run(t); err == nil || !strings.Contains(err.Error(), "Firestore is turned off in a-project") || len(p.ran) > 0 {
		t.Errorf("%v, ran %q", err, p.ran)
	}
	p.refuses["serviceusage/"] = &Refused{Code: 403, Message: "no"}
	if _, err := p.run(t); err == nil || !strings.Contains(err.Error(), "can't read project a-project. Is the id right") {
		t.Error(err)
	}
	p.fails = func(string) error { return errors.New("no account") }
	if _, err := p.run(t); err == nil || !strings.Contains(err.Error(), "nothing was made: are you logged in (gcloud auth login)? no account") {
		t.Error(err)
	}
}

// It asks before anything is made, and makes nothing without a yes; where nothing differs it doesn't ask.
func TestDeployAsks(t *testing.T) {
	for _, yes := range []bool{true, false} {
		p, asked := newPlatform(), 0
		d := &Deployer{Wanted: wanted(t), Confirm: func() (bool, error) { asked++; return yes, nil }}
		if _, err := p.deploy(t, d); (err == nil) != yes || (len(p.ran) > 0) != yes || asked != 1 {
			t.Errorf("answered %v: %v, ran %q, asked %d times", yes, err, p.ran, asked)
		}
	}
	p := newPlatform()
	p.deployed(t, wanted(t))
	d := &Deployer{Wanted: wanted(t), Confirm: func() (bool, error) { t.Error("it asks where nothing differs"); return true, nil }}
	if _, err := p.deploy(t, d); err != nil {
		t.Error(err)
	}
}

// A dry run asks what is there, prints the commands of what differs, and runs none.
func TestDryRunsChangeNothing(t *testing.T) {
	p := newPlatform()
	out, err := p.deploy(t, &Deployer{Wanted: wanted(t), DryRun: true})
	if n := strings.Count(out, "\ngcloud "); err != nil || len(p.ran) > 0 || n < 40 || strings.Contains(out, "create-database") {
		t.Errorf("%v, %d commands, ran %q\n%s", err, n, p.ran, out)
	}
	p.deployed(t, wanted(t))
	out, err = p.deploy(t, &Deployer{Wanted: wanted(t, "--increment-max-instances=4"), DryRun: true})
	if n := strings.Count(out, "\ngcloud "); err != nil || len(p.ran) > 0 || n != 1 {
		t.Errorf("%v, %d commands, ran %q\n%s", err, n, p.ran, out)
	}
}

// Organisations that share with their own domains only refuse allUsers: everything else is there by then, and what else
// there is to do is said. A web app is let in the other way.
func TestARefusedGrantEndsNothing(t *testing.T) {
	refuse := func(command string) error {
		if strings.Contains(command, "add-iam-policy-binding counters-increment") {
			return errors.New("FAILED_PRECONDITION: One or more users named in the policy do not belong to a permitted customer")
		}
		return nil
	}
	p := newPlatform()
	p.fails = refuse
	out, err := p.run(t, "--public", "--invoker=user:a@example.com", "--set=AUTH=firebase")
	if err == nil || !strings.Contains(err.Error(), "all is deployed, but user:a@example.com allUsers was refused") || !strings.Contains(err.Error(), "--no-invoker-check") || !strings.Contains(out, "Increment is at") {
		t.Errorf("%v\n%s", err, out)
	}
	p = newPlatform()
	p.fails = refuse
	out, err = p.run(t, "--web-app=https://app.example")
	if err != nil || len(p.ranOf("--no-invoker-iam-check")) != 1 || !strings.Contains(out, "Cloud Run doesn't check who calls") {
		t.Errorf("%v, %q\n%s", err, p.ran, out)
	}
	p = newPlatform()
	p.fails = func(command string) error {
		if strings.Contains(command, "billing budgets create") || strings.Contains(command, "--no-cpu-throttling") {
			return errors.New("PERMISSION_DENIED")
		}
		return nil
	}
	_, err = p.run(t, "--budget=5", "--increment-billing=instance")
	if err == nil || !strings.Contains(err.Error(), "all is deployed, but counters-increment is still billed by the request: see above. That takes roles/run.admin") ||
		!strings.Contains(err.Error(), "all is deployed, but the budget can't be made: it takes roles/billing.costsManager") {
		t.Error(err)
	}
}

// Who was let in before and isn't named any more stays, and is named with the command that takes it back; so is
// everybody.
func TestDeployNamesCallersThatAreLeftOver(t *testing.T) {
	p := newPlatform()
	p.deployed(t, wanted(t, "--public", "--invoker=user:a@example.com", "--invoker=user:b@example.com", "--no-invoker-check", "--set=AUTH=firebase"))
	out, err := p.run(t, "--invoker=user:b@example.com", "--set=AUTH=firebase")
	if err != nil || len(p.ran) > 0 {
		t.Errorf("%v, ran %q", err, p.ran)
	}
	for member, left := range map[string]bool{"allUsers": true, "user:a@example.com": true, "user:b@example.com": false} {
		command := "gcloud run services remove-iam-policy-binding counters-increment --project=a-project --region=us-central1 --member=" + member + " --role=roles/run.invoker"
		if strings.Contains(out, command) != left {
			t.Errorf("%s is named as left over: %v, want %v\n%s", member, !left, left, out)
		}
	}
	if !strings.Contains(out, "gcloud run services update counters-increment --project=a-project --region=us-central1 --invoker-iam-check") {
		t.Errorf("what lets everybody in is not named:\n%s", out)
	}
}

// Beside the extension, whose clients are to be taken over, nothing counts: deploy says so, and until when.
func TestTheExtensionStillRuns(t *testing.T) {
	for _, c := range []struct {
		args  []string
		named bool
	}{
		{[]string{"--extension", "--set=COUNTERS=pages/{page}", "--set=FIELDS=visits"}, true},
		{[]string{"--set=HOSTED=true", "--set=COUNTERS=pages/{page}", "--set=FIELDS=visits"}, false},
	} {
		p := newPlatform()
		p.objects["cloudfunctions/v2/"+inProject+"locations/-/functions"] = Object{"functions": []any{
			Object{"name": inProject + "locations/us-central1/functions/ext-firestore-counter-controllerCore"}, Object{"name": inProject + "locations/us-central1/functions/mine-worker"},
		}}
		out, err := p.run(t, c.args...)
		if err != nil {
			t.Fatal(err, out)
		}
		if named := strings.Contains(out, "still runs (ext-firestore-counter-controllerCore)"); named != c.named {
			t.Errorf("%q: the extension is named: %v, want %v\n%s", c.args, named, c.named, out)
		}
		if made := len(p.ranOf("document=pages/{page}/_counter_shards_/{document}")) > 0; made != c.named {
			t.Errorf("%q: a trigger for its shards is made: %v, want %v", c.args, made, c.named)
		}
	}
}

// An index that an earlier deployment turned off is given back with the documents, where it is known to have done so;
// else it is named, with the command that turns it on.
func TestIndexesThatAreOff(t *testing.T) {
	const turnOn = "gcloud firestore indexes fields update %s --project=a-project '--database=(default)' --collection-group=%s --clear-exemption"
	hosted := []string{"--set=COUNTERS=posts/{post}", "--set=HOSTED=true"}
	for _, c := range []struct {
		before, args []string // no deployment before: nil
		back, named  []string
	}{
		{[]string{"--set=COUNTERS=posts/{post}"}, hosted, []string{"posts created_at", "posts updated_at"}, nil},
		{hosted, hosted, nil, nil}, // the app turned them off
		{nil, hosted, nil, []string{"posts updated_at", "posts created_at"}},
		{[]string{}, []string{"--no-exempt-updated-at", "--no-exempt-created-at"}, nil, []string{"counters updated_at", "counters created_at", "counters counter_rollup"}},
		{[]string{}, []string{"--no-exempt-created-at"}, nil, []string{"counters created_at"}},
		{[]string{}, nil, nil, nil},
	} {
		p := newPlatform()
		if c.before != nil {
			p.deployed(t, wanted(t, c.before...))
		}
		for _, group := range []string{"posts", "counters"} {
			for _, field := range []string{"updated_at", "created_at"} {
				p.objects[inDatabase+"/collectionGroups/"+group+"/fields/"+field] = Object{"indexConfig": Object{}}
			}
		}
		out, err := p.run(t, c.args...)
		if err != nil {
			t.Fatal(err, out)
		}
		var back []string
		for _, line := range p.ranOf("--clear-exemption") {
			words := strings.Fields(line)
			back = append(back, flag(words, "collection-group")+" "+words[4])
		}
		slices.Sort(back)
		if !slices.Equal(back, c.back) || strings.Count(out, "--clear-exemption") != len(c.named) {
			t.Errorf("%v after %v: given back are %q\n%s", c.args, c.before, back, out)
		}
		for _, named := range c.named {
			group, field, _ := strings.Cut(named, " ")
			if !strings.Contains(out, fmt.Sprintf(turnOn, field, group)) {
				t.Errorf("%v: doesn't name %s:\n%s", c.args, named, out)
			}
		}
	}
}

// What is to be tried at the end can be, with the token and the counter that it takes; the plan and the warnings say
// what matters before.
func TestWhatDeploySays(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"--set=AUTO_CREATE=true", `Try it:  counters smoke https://counters-increment.a.run.app --token "$(gcloud auth print-identity-token)"` + "\n"},
		{"", `--token "$(gcloud auth print-identity-token)" --counter ID   (ID is that of a counter that is there)`},
		{"--set=AUTO_CREATE=true --set=COUNTERS=teams/{team}/posts/{post}", `--token "$(gcloud auth print-identity-token)" --counter ID`},
		{"--set=AUTH=firebase --set=AUTO_CREATE=true", "--token TOKEN   (TOKEN is the ID token of a user who signed in with Firebase)\n"},
		{"--web-app=https://app.example --set=HOSTED=true --set=COUNTERS=posts/{post}", "--token TOKEN --counter ID   (TOKEN is the ID token of a user who signed in with Firebase, and ID is"},
		{"--set=AUTH=appcheck --set=AUTO_CREATE=true", "--header 'X-Firebase-AppCheck: TOKEN'   (TOKEN is an App Check token of your app)\n"},
		{"--set=FIELDS=n=count(notes)", "There is nothing to increment: documents are counted."},
		{"", "Nobody may call it yet. Run the same again with one of these:"},
		{"--increment-max-instances=4", "instances: at most 4, "},
		{"", "(default) in us-central1, which is there, of the standard edition, and stays as it is"},
		{"", "may call   nobody new: --invoker"},
		{"--no-invoker-check --set=AUTH=firebase", "may call   the whole internet (AUTH=firebase)\n"},
		{"--web-app=https://a.example --web-app=https://b.example", "may call   the whole internet (AUTH=firebase); web pages: https://a.example,https://b.example (--web-app)\n"},
		{"--set=CLEANUP=idle --set=CLEANUP_AFTER=48h", "deletes    counters, whatever they hold, once nothing was written in them for 48h (CLEANUP, CLEANUP_AFTER)\n"},
		{"--set=CLEANUP=zero --set=AUTO_CREATE=true", "deletes    counters that are at 0, once nothing was written in them for 24h"}, {"", "!deletes"},
		{"--budget=100USD --no-alerts", "a dashboard, a budget of 100USD a month\n"},
		{"--public", "warning: with AUTH=none anybody on the internet can count\n"},
		{"--no-invoker-check --set=AUTO_CREATE=True", "make counters without bound"},
		{"--set=AUTH=none", "!anybody on the internet can count"}, {"--public --set=AUTO_CREATE=60", "!make counters without bound"},
		{"--public --set=AUTO_CREATE=true --set=AUTH=firebase", "!make counters without bound"}, {"--set=AUTO_CREATE=true --invoker=user:me@example.com", "!without bound"},
	} {
		p := newPlatform()
		p.deployed(t, wanted(t, strings.Fields(c.args)...))
		if strings.HasPrefix(c.says, "Nobody") {
			delete(p.objects, "run/v2/"+inRegion+"services/counters-increment:getIamPolicy")
		}
		out, err := p.run(t, strings.Fields(c.args)...)
		says, not := strings.CutPrefix(c.says, "!")
		if err != nil || strings.Contains(out, says) == not {
			t.Errorf("%s: %v, %q in\n%s", c.args, err, c.says, out)
		}
	}
	p := newPlatform()
	p.objects["firebaserules/v1/"+inProject+"releases/cloud.firestore"] = Object{"rulesetName": inProject + "rulesets/theirs"}
	p.objects["firebaserules/v1/"+inProject+"rulesets/theirs"] = Object{"source": Object{"files": []any{Object{"name": "firestore.rules"}}}}
	if out, err := p.run(t, "--web-app=https://app.example"); err != nil || !strings.Contains(out, "security rules of its own") || len(p.ranOf("firebaserules")) > 0 {
		t.Errorf("%v, ran %q\n%s", err, p.ran, out)
	}
}

// A database of the Enterprise edition has the indexes that what is asked there needs, and no field of it is exempt
// from one. The plan says which edition it has; another one than asked for is refused.
func TestEnterpriseEdition(t *testing.T) {
	fields := "--set=FIELDS=likes,n=count(notes),m=count(/notes where post=={counter}),s=sum(ratings.stars)"
	indexes := []string{
		"firestore indexes composite create --project=a-project --database=(default) --collection-group=notes --query-scope=collection --field-config=field-path=post,order=ascending --async --format=none",
		"firestore indexes composite create --project=a-project --database=(default) --collection-group=ratings --query-scope=collection --field-config=field-path=stars,order=ascending --async --format=none",
		"firestore indexes composite create --project=a-project --database=(default) --collection-group=likes_members --query-scope=collection-group --field-config=field-path=member,order=ascending --async --format=none",
		"firestore indexes composite create --project=a-project --database=(default) --collection-group=likes_members --query-scope=collection --field-config=field-path=until,order=ascending --density=sparse-any --async --format=none",
		"firestore indexes composite create --project=a-project --database=(default) --collection-group=counter_requests --query-scope=collection --field-config=field-path=until,order=ascending --density=sparse-any --async --format=none",
		"firestore indexes composite create --project=a-project --database=(default) --collection-group=counter_requests --query-scope=collection --field-config=field-path=due,order=ascending --density=sparse-any --async --format=none",
	}
	check := func(p *platform, out string, err error, create int) {
		t.Helper()
		slices.Sort(indexes)
		if got := slices.Sorted(slices.Values(p.ranOf("firestore indexes"))); err != nil || !slices.Equal(got, indexes) {
			t.Errorf("%v, ran %q, want %q\n%s", err, got, indexes, out)
		}
		if got := p.ranOf("firestore fields ttls update expire_at"); len(got) != 1 {
			t.Errorf("the TTL policy takes %q", got)
		}
		if got := p.ranOf("--delete-protection --edition=enterprise"); len(got) != create {
			t.Errorf("the database takes %q", got)
		}
		if !strings.Contains(out, "of the enterprise edition") || !strings.Contains(out, "It costs nothing in enterprise edition.") {
			t.Errorf("the plan doesn't say the edition:\n%s", out)
		}
	}
	p := newPlatform()
	p.objects[inDatabase]["databaseEdition"] = "ENTERPRISE"
	out, err := p.run(t, fields, "--set=MEMBERS=any")
	check(p, out, err, 0)
	p = newPlatform()
	delete(p.objects, inDatabase)
	out, err = p.run(t, fields, "--set=MEMBERS=any", "--create-database", "--edition=enterprise")
	check(p, out, err, 1)

	p = newPlatform()
	if out, err := p.run(t, "--edition=enterprise"); err == nil || !strings.Contains(err.Error(), "the database (default) is of the standard edition, which never changes") || len(p.ran) > 0 {
		t.Errorf("%v, ran %q\n%s", err, p.ran, out)
	}
}

func TestOptionsAreRefused(t *testing.T) {
	t.Parallel()
	const key = "projects/p/locations/l/keyRings/r/cryptoKeys/k"
	for args, says := range map[string]string{
		"--project=": "--project is missing", "--project=example:p-roject": "a project's id", "--location=": "--location is missing", "--project=My": "a project's id", "--location=Frankfurt": "a location of Firestore",
		"--web-app=app.example": "--web-app app.example: want an origin such as https://app.example", "--web-app=https://app.example/": "without a path",
		"--set=NUM_SHARD=5": "NUM_SHARD=5: there is no such setting", "--set=NUM_SHARDS": "NUM_SHARDS: want a value", "--set=COUNTERS=a|b": "without |",
		"--set=RECONCILE_DEADLINE=99h": "RECONCILE_DEADLINE=99h0m0s: want 1s to 1700s", "--set=COUNTERS=counters": "want collections and wildcards in turn", "--set=FIELDS=a.b": "FIELDS=a.b: want names",
		"--set=CLEANUP=all": "want off, zero or idle", "--set=CLEANUP=zero": "want AUTO_CREATE=true with it",
		"--set=NUM_SHARDS=0": "nothing was made", "--lag-alert-seconds=4": "want a whole number from 5 to 3600", "--reconcile-missing-after=90": "want whole minutes",
		"--rollup-max-instances=2 --rollup-min-instances=3": "want a whole number from 0 to 2", "--memory=512MB": "--memory 512MB: want", "--memory=128Mi": "--memory 128Mi: want 256Mi at least: an instance takes 500 requests at a time",
		"--memory=511Mi --rollup-billing=instance": "--memory 511Mi: want 512Mi at least with --increment-billing or --rollup-billing instance", "--rollup-max-instances=1001": "want a whole number from 1 to 1000",
		"--trigger-location=us-east1": "--trigger-location us-east1: want us-central1, the database's", "--increment-billing=hour": "--increment-billing hour: want request or instance",
		"--edition=gold": "--edition gold: want standard or enterprise", "--rollup-billing=hour": "--rollup-billing hour: want request or instance", "--runtime=go124": "go126 or later", "--reconcile-schedule=hourly": "a cron expression of five fields",
		"--increment-ingress=ALLOW_ALL": "want all, internal-and-gclb", "--kms-key=k": "cryptoKeys/K", "--kms-key=" + key: "want --docker-repository too", "--invoker=allUsers": "let in by --public",
		"--notification-channel=5": "projects/P/notificationChannels/N", "--region=eur3": "a region", "--set=AUTH=iap": "want none, firebase or appcheck", "--increment-concurrency=1": "undoes group commit",
		"--prefix=Likes": "--prefix", "--budget=0": "a whole amount a month", "--invoker=user:a\x02b": "a member such as",
	} {
		var w Wanted
		flags := pflag.NewFlagSet("deploy", pflag.ContinueOnError)
		w.Flags(flags)
		if err := flags.Parse(append([]string{"--project=a-project", "--location=us-central1"}, strings.Fields(args)...)); err != nil {
			t.Fatal(err)
		}
		if err := w.Check(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %s", args, err, says)
		}
	}
}

// Every command that a deployment may run has a permission that it takes.
func TestPermissions(t *testing.T) {
	t.Parallel()
	all, err := Permissions([]string{"FIELDS=likes,n=count(comments where public==true and stars>2),m=count(**/notes where post=={counter})", "MEMBERS=any"})
	if err != nil || slices.Contains(all, Permission{}) || len(all) < 12 {
		t.Errorf("%v, %v", all, err)
	}
	for _, want := range []string{"roles/pubsub.editor", "roles/datastore.owner", "roles/monitoring.editor", "roles/eventarc.admin"} {
		if !slices.ContainsFunc(all, func(p Permission) bool { return p.Role == want }) {
			t.Errorf("no %s in %v", want, all)
		}
	}
}

// The id of a project may have a domain, which comes last in the names of its accounts.
func TestProjectWithADomain(t *testing.T) {
	p := newPlatform()
	d := &Deployer{Wanted: wanted(t, "--project=example.com:p-roject", "--create-database"), DryRun: true}
	p.objects = map[string]Object{"serviceusage/v1/projects/example.com:p-roject/services": p.objects["serviceusage/v1/"+inProject+"services"]}
	out, err := p.deploy(t, d)
	if err != nil || !strings.Contains(out, "counters-increment@p-roject.example.com.iam.gserviceaccount.com") || strings.Contains(out, "@example.com:") || !strings.Contains(out, "--project=example.com:p-roject") {
		t.Errorf("%v\n%s", err, out)
	}
	w := wanted(t, "--project=example.com:p-roject")
	if got := w.Account("build"); got != "counters-build@p-roject.example.com.iam.gserviceaccount.com" {
		t.Errorf("its builder is %s", got)
	}
}

// busy answers that it is busy, and the second time what is there.
type busy struct {
	http.RoundTripper
	asked int
}

func (b *busy) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.asked++; b.asked == 1 {
		return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: io.NopCloser(strings.NewReader("later"))}, nil
	}
	return b.RoundTripper.RoundTrip(r)
}

// An answer is remembered, and an error is not: who is patient with it would read it again and again.
func TestABusyPlatformIsAskedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		by := &busy{RoundTripper: newPlatform()}
		c := Reading(by)
		for range 2 {
			object, err := c.Read(t.Context(), "the database", Place{Address: inDatabase})
			if err != nil || object.Text("locationId") != "us-central1" {
				t.Errorf("%v, %v", object, err)
			}
		}
		if by.asked != 2 {
			t.Errorf("asked %d times, want 2", by.asked)
		}
	})
}

// What is asked for again by its own arguments is the same; what is as it is by default takes none.
func TestArgsAskForTheSame(t *testing.T) {
	t.Parallel()
	read := func(args ...string) (w Wanted) {
		flags := pflag.NewFlagSet("deploy", pflag.ContinueOnError)
		w.Flags(flags)
		if err := flags.Parse(args); err != nil {
			t.Fatal(err)
		}
		return w
	}
	byDefault := read()
	if args := byDefault.Args(); len(args) > 0 {
		t.Errorf("by default it takes %q", args)
	}
	args := []string{"--project", "p-roject", "--location", "nam5", "--create-database", "--web-app", "https://a.example", "--web-app", "https://b.example", "--invoker", "user:me@example.com",
		"--public", "--set", "FIELDS=a,b=count(c where d=='e,f')", "--set", "AUTH=firebase", "--most-per-day", "5USD", "--increment-max-instances", "3", "--lag-alert-seconds", "60"}
	asked := read(args...)
	if got := asked.Args(); !slices.Equal(got, args) {
		t.Errorf("%q\nwant %q", got, args)
	}
}

func TestARefusalWithoutAMessageHasItsReason(t *testing.T) {
	t.Parallel()
	const said = `{"error": {"code": 403, "details": [{"reason": "SERVICE_DISABLED"}]}}`
	if err := refusal(403, []byte(said)); !Off(err) || err.Error() != "403: "+said {
		t.Errorf("it is %v, and says that an API is off: %v", err, Off(err))
	}
}

// A file of a source may be called anything: gcloud lists one a line.
func TestSourceOfAFolder(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("gcloud is played by a script of sh")
	}
	in, from := t.TempDir(), t.TempDir()
	t.Setenv("PATH", in+string(os.PathListSeparator)+os.Getenv("PATH"))
	for file, text := range map[string]string{
		filepath.Join(in, "gcloud"): "#!/bin/sh\nfor file in *; do echo \"$file\"; done\n", filepath.Join(from, "function.go"): "package p\n", filepath.Join(from, "read me.txt"): "",
	} {
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	d := &Deployer{Wanted: Wanted{Source: from}, Cloud: Cloud{Said: t.Output()}, dir: t.TempDir()}
	if err := d.sources(t.Context()); err != nil || d.source != from || d.version == "" {
		t.Errorf("source %s of version %q: %v", d.source, d.version, err)
	}
}
