package doctor

import (
	"strings"
	"testing"

	"cloud.google.com/go/firestore/apiv1/admin/adminpb"
	"google.golang.org/api/eventarc/v1"
	"google.golang.org/api/run/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// A deployment that is healthy, though not in every detail what terraform makes: nothing is found.
func TestHealthy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		target Target
		do     func(*testing.T, *deployment)
	}{
		{"terraform's", Target{}, func(*testing.T, *deployment) {}},
		{"asked for by location", Target{Location: "nam5"}, func(*testing.T, *deployment) {}},
		{"the Enterprise edition", Target{}, func(t *testing.T, d *deployment) {
			d.count(t)
			d.databases[0].DatabaseEdition = adminpb.Database_ENTERPRISE
			d.indexes = append(d.indexes, composite("counter_requests", "until"), composite("counter_requests", "due"))
			d.fields = map[string]*adminpb.Field{"counter_requests.expire_at": d.fields["counter_requests.expire_at"]}
		}},
		{"asked for by region and prefix", Target{Location: testRegion, Prefix: "counters"}, func(*testing.T, *deployment) {}},
		{"other names", Target{}, func(t *testing.T, d *deployment) {
			for _, f := range d.functions[:3] {
				f.Name = strings.Replace(f.Name, "counters-", "likes-", 1)
			}
		}},
		{"a prefix among several", Target{Prefix: "likes"}, func(t *testing.T, d *deployment) {
			for _, f := range d.functions[:3] {
				f.Name = strings.Replace(f.Name, "counters-", "likes-", 1)
			}
			d.cloud.deploy("rollup", "Rollup", 1, "allUsers") // of another deployment
			d.function("counters-rollup").ServiceConfig.Service = d.function("likes-rollup").ServiceConfig.Service
			d.policies["counters-rollup"].Bindings[0].Members = []string{member("eventarc")}
		}},
		{"another database and collection", Target{}, func(t *testing.T, d *deployment) {
			d.databases[0].Name = "projects/" + testProject + "/databases/likes"
			d.serves("posts/{post}", "total=count", false)
			for _, f := range d.functions[:3] {
				f.ServiceConfig.EnvironmentVariables["DATABASE"] = "likes"
			}
			trigger := d.function("counters-rollup").EventTrigger
			trigger.EventFilters[0].Value = "likes"
			trigger.EventFilters[1].Value = "posts/*/shards/{n=*}"
			d.grant("roles/datastore.user", `resource.name == "projects/my-project/databases/likes"`, member("increment"), member("rollup"), member("reconcile"))
		}},
		{"open to the internet, below a ceiling", Target{}, func(t *testing.T, d *deployment) {
			d.ceiling(t, "12.50USD")
			d.policies["counters-increment"].Bindings[0].Members = []string{"allUsers"}
			for _, f := range d.functions[:3] {
				f.ServiceConfig.EnvironmentVariables["AUTH"] = "firebase"
			}
		}},
		// By the request the quiet functions would cost less, and the ceiling couldn't be kept.
		{"a ceiling that is kept by the instance", Target{}, func(t *testing.T, d *deployment) { d.ceiling(t, "7USD") }},
		{"busy functions that are billed by the instance", Target{}, func(t *testing.T, d *deployment) {
			for _, name := range []string{"counters-increment", "counters-rollup"} {
				d.billed(name, false)
				d.had[name] = had{requests: 60_480_000, mean: 20, billed: 604_800, counted: 10_080}
			}
		}},
		{"a week after it was billed otherwise", Target{}, func(t *testing.T, d *deployment) {
			// All was billed as an instance's, and a seventh less was in flight.
			d.had["counters-increment"] = had{requests: 4_500_000, mean: 20, billed: 604_800, counted: 10_080}
		}},
		{"one that costs next to nothing, either way", Target{}, func(t *testing.T, d *deployment) {
			d.had["counters-rollup"] = had{requests: 3_000, mean: 900, billed: 2_700, counted: 50}
		}},
		{"a busy week of a service that does not say how it is billed", Target{}, func(t *testing.T, d *deployment) {
			d.had["counters-increment"] = had{requests: 60_480_000, mean: 20, billed: 604_000, counted: 10_080}
			delete(d.had, "counters-rollup") // and one of which nothing was written down
			d.services["counters-increment"].Template = nil
		}},
		{"several fields of nested counters", Target{}, func(t *testing.T, d *deployment) {
			d.serves("teams/{team}/posts/{post}", "likes, total=count", false)
			cfg := shards.Config{Place: shards.Place{Counters: "teams/{team}/posts/{post}", Fields: "likes,total=count"}}
			if err := d.counterOf(t, cfg, "red/a").Create(t.Context(), shards.CreateOptions{Shards: 2}); err != nil {
				t.Fatal(err)
			}
			d.env("counters-increment", "FIELDS", "likes,total=count")
		}},
		{"counted collections", Target{}, func(t *testing.T, d *deployment) {
			d.count(t)
			d.triggers["theirs"] = &eventarc.Trigger{Name: "projects/my-project/locations/nam5/triggers/theirs",
				Destination: &eventarc.Destination{CloudRun: &eventarc.CloudRun{Service: "theirs", Region: testRegion}}}
		}},
		{"documents alone", Target{}, func(t *testing.T, d *deployment) {
			d.countUsers(t)
			if err := d.counterOf(t, usersConfig, "site").Create(t.Context(), shards.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			d.reconcileOf(t, rollup.Config{Place: rollup.Place{Counters: usersConfig.Counters, Fields: usersConfig.Fields}}, "site")
		}},
		{"a sum that takes too long to be taken again", Target{}, func(t *testing.T, d *deployment) {
			d.count(t)
			d.aggregation = status.Error(codes.DeadlineExceeded, "Aggregation query timed out.")
		}},
		{"shards that a resize has kept", Target{}, func(t *testing.T, d *deployment) {
			c := d.counter(t, "smaller")
			if err := c.Create(t.Context(), shards.CreateOptions{Shards: 3}); err != nil {
				t.Fatal(err)
			}
			if err := c.Resize(t.Context(), 1, shards.ResizeOptions{KeepShards: true}); err != nil {
				t.Fatal(err)
			}
		}},
		{"a sum of doubles that is whole", Target{}, func(t *testing.T, d *deployment) {
			d.count(t)
			d.set(t, "counters/visits/ratings/b", map[string]any{"of": map[string]any{"stars": 3.0}})
			d.reconcileOf(t, rollup.Config{Place: rollup.Place{Fields: countedFields}}, "visits")
		}},
		{"documents of the app's own, said otherwise", Target{}, func(t *testing.T, d *deployment) {
			d.host(t)
			for _, f := range d.functions[:3] {
				f.ServiceConfig.EnvironmentVariables["HOSTED"] = "1"
			}
		}},
		{"documents of the app's own", Target{}, func(t *testing.T, d *deployment) {
			d.host(t)
		}},
		{"a trigger in a region of nam5", Target{}, func(t *testing.T, d *deployment) {
			d.function("counters-rollup").EventTrigger.TriggerRegion = testRegion
		}},
		{"a plain region", Target{}, func(t *testing.T, d *deployment) {
			d.databases[0].LocationId = testRegion
			d.function("counters-rollup").EventTrigger.TriggerRegion = testRegion
		}},
		{"events with authentication context", Target{}, func(t *testing.T, d *deployment) {
			d.function("counters-rollup").EventTrigger.EventType += ".withAuthContext"
		}},
		{"wide roles", Target{}, func(t *testing.T, d *deployment) {
			for _, name := range []string{"increment", "rollup", "reconcile", "eventarc"} {
				d.revoke(member(name))
				d.grant("roles/editor", "", member(name))
			}
			d.policies["counters-rollup"].Bindings = nil
		}},
		{"public, with tokens", Target{}, func(t *testing.T, d *deployment) {
			for _, f := range d.functions[:3] {
				f.ServiceConfig.EnvironmentVariables["AUTH"] = "firebase"
				f.ServiceConfig.EnvironmentVariables["AUTO_CREATE"] = "true" // of one user 60 a minute
			}
			d.policies["counters-increment"] = &run.GoogleIamV1Policy{Bindings: []*run.GoogleIamV1Binding{{Role: "roles/run.invoker", Members: []string{"allUsers"}}}}
		}},
		{"settings that are written differently", Target{}, func(t *testing.T, d *deployment) {
			d.env("counters-increment", "CACHE_TTL", "1m")
			delete(d.function("counters-rollup").ServiceConfig.EnvironmentVariables, "CACHE_TTL")
			delete(d.function("counters-rollup").ServiceConfig.EnvironmentVariables, "GOOGLE_CLOUD_PROJECT")
		}},
		{"a TTL policy in the making", Target{}, func(t *testing.T, d *deployment) {
			d.fields["counter_requests.expire_at"].TtlConfig.State = adminpb.Field_TtlConfig_CREATING
		}},
		{"a job that calls some counters by name", Target{}, func(t *testing.T, d *deployment) {
			d.jobs[0].Name += "-hot"
			d.jobs[0].HttpTarget.Uri += "?counter=visits"
		}},
		{"an event on its way", Target{}, func(t *testing.T, d *deployment) { d.add(t, "visits", 3) }},
		{"no counters", Target{}, func(t *testing.T, d *deployment) {
			if err := d.counter(t, "visits").Delete(t.Context(), shards.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}},
		{"what is left of a counter that was deleted by hand", Target{}, func(t *testing.T, d *deployment) { d.remove(t, "counters/visits") }},
		{"a deletion under way", Target{}, func(t *testing.T, d *deployment) {
			d.remove(t, "counters/visits")
			d.set(t, "counters/visits/counter_rollup/base", map[string]any{"ending": true})
		}},
		{"shards with a field of the clients' own beside the count", Target{}, func(t *testing.T, d *deployment) {
			d.set(t, "counters/visits/shards/0", map[string]any{"clicks": 3})
		}},
		{"a counter beyond those that are read", Target{Most: 1}, func(t *testing.T, d *deployment) {
			d.set(t, "counters/zebra", map[string]any{"num_shards": 2})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := newDeployment(t)
			c.do(t, d)
			read, found := d.read(t, c.target)
			for _, f := range found {
				t.Errorf("found %s: %s: %s", f.Name, f.Subject, f.Seen)
			}
			if len(read.NotChecked) > 0 {
				t.Errorf("not checked: %v", read.NotChecked)
			}
			if len(read.Functions.all()) != 3 || read.Access == nil || read.Jobs == nil || read.Runtimes == nil || len(read.Parts) < 10 {
				t.Errorf("not everything was read: %+v", read)
			}
		})
	}
}

// The settings of an explicit target are held against the functions'.
func TestTargetIsHeldAgainstTheFunctions(t *testing.T) {
	t.Parallel()
	_, found := newDeployment(t).read(t, Target{Place: layout.Place{Counters: "likes/{like}"}})
	layout := 0
	for _, f := range found {
		if f.Name == "layout-differs" {
			layout++
		}
	}
	if layout != 3 {
		t.Errorf("of three functions with another path %d were found: %v", layout, found)
	}
}

// Which counters are read is said.
func TestCountersAreBounded(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	for _, id := range []string{"a", "b", "c"} {
		if err := d.counter(t, id).Create(t.Context(), shards.CreateOptions{Shards: 1}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		limit, read int
		more        bool
	}{{2, 2, true}, {4, 4, false}, {9, 4, false}} {
		got, _ := d.read(t, Target{Most: c.limit})
		if len(got.Counters.Read) != c.read || got.Counters.More != c.more {
			t.Errorf("of 4 counters, at most %d: %d were read, more: %v", c.limit, len(got.Counters.Read), got.Counters.More)
		}
	}
}
