package deployment

import (
	"crypto/sha256"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

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
	for _, runtime := range Objects(known["runtimes"]) {
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
		// It is taken back before a deployment, which keeps it: what is billed by the instance may not have less than
		// 512 MiB.
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
			"triggerRegion": b.TriggerLocation, "eventType": EventType, "retryPolicy": "RETRY_POLICY_RETRY", "serviceAccountEmail": b.Account("eventarc"),
			"eventFilters": Events(b.Settings.Database, document)[1:], // its type is said beside them
		}
		words = append(words, "--trigger-location="+b.TriggerLocation, "--trigger-service-account="+b.Account("eventarc"), "--retry", "--trigger-event-filters=type="+EventType,
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

// Events are the filters of a trigger on writes of documents, whose path is a pattern.
func Events(database, documents string) []Object {
	return []Object{
		{"attribute": "type", "value": EventType}, {"attribute": "database", "value": database},
		{"attribute": "document", "value": documents, "operator": "match-path-pattern"},
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
				"--event-data-content-type=application/protobuf", "--event-filters=type="+EventType,
				"--event-filters=database="+b.Settings.Database, "--event-filters-path-pattern=document="+b.Settings.Watched[i], "--format=none")},
			Remove: []Command{gcloud("eventarc", "triggers", "delete", name, b.project(), "--location="+b.TriggerLocation)},
		},
			// An event waits until counting again is worth its price: by default Pub/Sub would hang up after 10 s, and
			// send it again.
			b.waits("subscription of "+name, Asked("eventarc", "triggers", "describe", name, b.project(), "--location="+b.TriggerLocation, "--format=value(transport.pubsub.subscription)"),
				"trigger "+name, Place{Address: "eventarc/v1/" + at + "/triggers/" + name}, 70))
	}
	for _, there := range Objects(b.Look("triggers")["triggers"]) {
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
