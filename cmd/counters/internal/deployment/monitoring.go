package deployment

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	source "github.com/firestore-counters/counters"
)

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
	there := Objects(b.Look("alerts")["alertPolicies"])
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
