//go:build all

package terraform

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// aKey is a key of Cloud KMS.
const aKey = "projects/p/locations/l/keyRings/r/cryptoKeys/k"

// elsewhere counts documents at the root and in a group, with conditions that take indexes.
const elsewhere = ",n=count(/notes where post=={post} and team=={team}),a=avg(**/notes.x where post=={post} and kind in ['x and y>=1',2] and n>=3),g=count(**/notes where post=={post})," +
	"d=sum(ratings.a.b where n>1 and kind=='x') as double,e=avg(ratings.a.b where kind=='y' and n>1),f=count(comments where n>=1 and n<5 and n>=2)"

// An agreement is a command of gcloud's, and the resource by which terraform makes the same.
type agreement struct {
	command string
	word    int    // of the command that is the name of what is made; 0 for none
	kind    string // of the resource
	name    string // the argument that is its name
	pairs   string // flag=argument; of what both call the same, flag

	said    func(c call) []string     // by other flags
	planned func(r resource) []string // by other arguments
}

// What isn't a flag for an argument: filters of events, and documents of monitoring, are compared in lines.
var agreements = []agreement{
	{command: "beta services identity create", kind: "google_project_service_identity", pairs: "service"},
	{command: "iam service-accounts create", word: 3, kind: "google_service_account", name: "account_id", pairs: "display-name=display_name"},
	{command: "artifacts repositories create", word: 3, kind: "google_artifact_registry_repository", name: "repository_id", pairs: "location description repository-format=format"},
	{
		command: "firestore databases create", kind: "google_firestore_database",
		pairs: "database=name location=location_id edition=database_edition delete-protection=delete_protection_state kms-key-name=cmek_config.kms_key_name",
	},
	{
		command: "firestore indexes composite create", kind: "google_firestore_index", pairs: "database collection-group=collection query-scope=query_scope density",
		said: func(c call) []string { return []string{strings.Join(c.all("field-config"), " ")} },
		planned: func(r resource) []string {
			var fields []string
			for _, f := range objects(r.Values["fields"]) {
				fields = append(fields, fmt.Sprintf("field-path=%s,order=%s", f["field_path"], strings.ToLower(f["order"].(string))))
			}
			return []string{strings.Join(fields, " ")}
		},
	},
	{
		command: "projects add-iam-policy-binding", kind: "google_project_iam_member", pairs: "member role", said: func(c call) []string { return c.all("condition") },
		planned: func(r resource) []string {
			if r.text("condition.expression") == "" {
				return []string{"None"}
			}
			return []string{fmt.Sprintf("expression=%s,title=%s,description=%s", r.text("condition.expression"), r.text("condition.title"), r.text("condition.description"))}
		},
	},
	{command: "run services add-iam-policy-binding", word: 3, kind: "google_cloud_run_v2_service_iam_member", name: "name", pairs: "member role region=location"},
	{
		command: "artifacts repositories add-iam-policy-binding", kind: "google_artifact_registry_repository_iam_member", pairs: "member role",
		said: func(c call) []string { return c.words[3:] },
		planned: func(r resource) []string {
			return []string{"projects/" + r.text("project") + "/locations/" + r.text("location") + "/repositories/" + r.text("repository")}
		},
	},
	{
		command: "functions deploy", word: 2, kind: "google_cloudfunctions2_function", name: "name",
		pairs: "region=location runtime=build_config.runtime entry-point=build_config.entry_point build-service-account=build_config.service_account docker-repository=build_config.docker_repository " +
			"run-service-account=service_config.service_account_email cpu=service_config.available_cpu memory=service_config.available_memory timeout=service_config.timeout_seconds " +
			"concurrency=service_config.max_instance_request_concurrency max-instances=service_config.max_instance_count min-instances=service_config.min_instance_count " +
			"ingress-settings=service_config.ingress_settings kms-key=kms_key_name trigger-location=event_trigger.trigger_region trigger-service-account=event_trigger.service_account_email " +
			"retry=event_trigger.retry_policy",
		said: func(c call) []string {
			env, _ := c.flag("set-env-vars")
			labels, _ := c.flag("update-labels")
			_, ceiling, _ := strings.Cut(labels, ",counters-most-per-day=")
			lines := append(strings.Split(strings.TrimPrefix(env, "^|^"), "|"), "ceiling "+ceiling)
			if _, private := c.flag("no-allow-unauthenticated"); !private {
				lines = append(lines, "lets everybody in")
			}
			return append(lines, c.filters()...)
		},
		planned: func(r resource) []string {
			lines := []string{"ceiling " + r.text("labels.counters-most-per-day")}
			for name, value := range r.environment() {
				lines = append(lines, fmt.Sprint(name, "=", value))
			}
			if event := r.text("event_trigger.event_type"); event != "" {
				lines = append(append(lines, "filter  type="+event), filters(objects(r.Values["event_trigger"])[0]["event_filters"])...)
			}
			return lines
		},
	},
	{
		command: "eventarc triggers create", word: 3, kind: "google_eventarc_trigger", name: "name",
		pairs: "location destination-run-service=destination.cloud_run_service.service destination-run-region=destination.cloud_run_service.region service-account=service_account " +
			"event-data-content-type=event_data_content_type",
		said: call.filters, planned: func(r resource) []string { return filters(r.Values["matching_criteria"]) },
	},
	{
		command: "scheduler jobs create http", word: 4, kind: "google_cloud_scheduler_job", name: "name",
		pairs: "location=region schedule time-zone=time_zone uri=http_target.uri http-method=http_target.http_method oidc-service-account-email=http_target.oidc_token.service_account_email " +
			"oidc-token-audience=http_target.oidc_token.audience attempt-deadline=attempt_deadline max-retry-attempts=retry_config.retry_count",
	},
	{
		command: "logging sinks update _Default", kind: "google_logging_project_exclusion", said: func(c call) []string { return c.all("add-exclusion") },
		planned: func(r resource) []string {
			return []string{fmt.Sprintf("name=%s,description=%s,filter=%s", r.text("name"), r.text("description"), r.text("filter"))}
		},
	},
	{command: "logging metrics create", word: 3, kind: "google_logging_metric", name: "name", said: func(c call) []string { return leaves(c.file) }, planned: arguments},
	{
		command: "alpha monitoring policies create", kind: "google_monitoring_alert_policy", planned: arguments,
		said: func(c call) []string {
			lines := leaves(c.file)
			for _, channels := range c.all("notification-channels") {
				for channel := range strings.SplitSeq(channels, ",") {
					lines = append(lines, "notification_channels "+channel)
				}
			}
			return []string{strings.Join(slices.Sorted(slices.Values(lines)), "\n  ")} // its name is among them
		},
	},
	{
		command: "monitoring dashboards create", kind: "google_monitoring_dashboard", said: func(c call) []string { return []string{compact(c.file)} },
		planned: func(r resource) []string { return []string{compact(r.text("dashboard_json"))} },
	},
}

// gcloudsWord is how gcloud's flags say what is a constant of an API, or its default.
var gcloudsWord = map[string]string{
	"STANDARD": "", "ENTERPRISE": "enterprise", "DELETE_PROTECTION_ENABLED": "true", "DOCKER": "docker", "COLLECTION": "collection", "COLLECTION_GROUP": "collection-group", "SPARSE_ANY": "sparse-any",
	"ALLOW_ALL": "all", "ALLOW_INTERNAL_ONLY": "internal-only", "ALLOW_INTERNAL_AND_GCLB": "internal-and-gclb", "RETRY_POLICY_RETRY": "true",
}

// Deployments, each described for both tools: what they make must be the same. What terraform makes is in its plan.
func TestGcloudMakesWhatTerraformMakes(t *testing.T) {
	t.Parallel()
	deployments := map[string]struct {
		vars vars
		args []string
	}{
		"defaults": {nil, nil},
		"all else": {
			vars{"location": "nam5", "prefix": "my-likes", "database": "social",
				"counters": "teams/{team}/likes/{like}", "create_database": true, "public": true, "auth": "firebase", "most_per_day": "500USD",
				"invokers": []string{"user:a@example.com"}, "exempt_updated_at": false, "exempt_created_at": false,
				"memory": "1Gi", "runtime": "go126", "increment_concurrency": 1000,
				"increment_max_instances": 50, "increment_min_instances": 1,
				"rollup_max_instances": 5, "rollup_min_instances": 2,
				"reconcile_schedule": "0 3 * * *", "reconcile_deadline": "20m",
				"reconcile_missing_after": "23h", "lag_alert_seconds": 60,
				"auto_create": true, "rate_limit": 2.5, "request_ttl": "90m", "max_increment": 1 << 62,
				"allowed_origins":       []string{"https://a.example", "https://b.example"},
				"notification_channels": []string{"projects/p/notificationChannels/1"}},
			[]string{
				"--location", "nam5", "--prefix=my-likes", "--set", "DATABASE=social", "--set=COUNTERS=teams/{team}/likes/{like}", "--create-database",
				"--public", "--set=AUTH=firebase", "--most-per-day=500", "--invoker=user:a@example.com", "--no-exempt-updated-at", "--no-exempt-created-at",
				"--memory=1Gi", "--runtime=go126", "--increment-concurrency=1000", "--increment-max-instances=50",
				"--increment-min-instances=1", "--rollup-max-instances=5", "--rollup-min-instances=2", "--reconcile-schedule=0 3 * * *",
				"--set=RECONCILE_DEADLINE=20m", "--reconcile-missing-after=82800", "--lag-alert-seconds=60",
				"--set=AUTO_CREATE=true", "--set=RATE_LIMIT=2.5", "--set=REQUEST_TTL=90m", "--set=MAX_INCREMENT=4611686018427387904",
				"--set=ALLOWED_ORIGINS=https://a.example,https://b.example", "--notification-channel=projects/p/notificationChannels/1",
			},
		},
		"open, with the ceiling that this has":   {vars{"public": true}, []string{"--public"}},
		"open, without a ceiling":                {vars{"public": true, "most_per_day": "none"}, []string{"--public", "--most-per-day=none"}},
		"a ceiling that is kept by the instance": {vars{"run_gcloud": true, "most_per_day": "5"}, []string{"--most-per-day=5USD"}},
		"a ceiling that is kept by the request, and the rollup by the instance": {
			vars{"run_gcloud": true, "most_per_day": "12.34USD", "rollup_billing": "instance", "location": "australia-southeast1",
				"memory": "1Gi", "reconcile_schedule": "0,30 * * * *", "reconcile_deadline": "9m"},
			[]string{"--most-per-day=12.34USD", "--rollup-billing=instance", "--location=australia-southeast1", "--memory=1Gi", "--reconcile-schedule=0,30 * * * *", "--set=RECONCILE_DEADLINE=9m"},
		},
		"a high ceiling, where no price is known": {
			vars{"run_gcloud": true, "most_per_day": "2000USD", "increment_billing": "instance", "location": "africa-south1", "rollup_flushes": 8},
			[]string{"--most-per-day=2000USD", "--increment-billing=instance", "--location=africa-south1", "--set=ROLLUP_FLUSHES=8"},
		},
		"a ceiling in Enterprise edition": {
			vars{"create_database": true, "database_edition": "ENTERPRISE", "run_gcloud": true, "most_per_day": "50USD", "location": "eur3",
				"increment_min_instances": 2, "reconcile_schedule": "*/10 * * * *"},
			[]string{"--create-database", "--edition=enterprise", "--most-per-day=50", "--location=eur3", "--increment-min-instances=2", "--reconcile-schedule=*/10 * * * *"},
		},
		"keys, and behind a load balancer": {
			vars{"kms_key": aKey, "database_kms_key": aKey + "2", "docker_repository": "projects/p/locations/l/repositories/r",
				"increment_ingress": "ALLOW_INTERNAL_AND_GCLB", "create_database": true, "request_logs": true},
			[]string{"--kms-key=" + aKey, "--database-kms-key=" + aKey + "2", "--docker-repository=projects/p/locations/l/repositories/r", "--increment-ingress=internal-and-gclb", "--create-database", "--request-logs"},
		},
		"hosted": {
			vars{"counters": "posts/{post}", "hosted": true, "fields": "likes,views", "shards": "parts", "cleanup_after": "48h"},
			[]string{"--set=COUNTERS=posts/{post}", "--set=HOSTED=true", "--set=FIELDS=likes,views", "--set=SHARDS=parts", "--set=CLEANUP_AFTER=48h"},
		},
		"the extension's clients": {
			vars{"counters": "pages/{page}", "hosted": true, "extension": true, "fields": "visits,comments=count(comments)"},
			[]string{"--extension", "--set=COUNTERS=pages/{page}", "--set=FIELDS=visits,comments=count(comments)"},
		},
		"the extension's clients in Enterprise edition": {
			vars{"create_database": true, "database_edition": "ENTERPRISE", "run_gcloud": true, "counters": "pages/{page}", "hosted": true, "extension": true, "fields": "visits, likes=n"},
			[]string{"--create-database", "--edition=enterprise", "--extension", "--set=COUNTERS=pages/{page}", "--set=FIELDS=visits, likes=n"},
		},
		"counted collections": {
			vars{"location": "nam5", "prefix": "my", "counters": "teams/{team}/posts/{post}",
				"fields": "likes,comments=count(comments),stars=sum( ratings.a.b),published=count(comments where kind=='x,y=count(z)'),p=count(Some_Notes where n==1)" + elsewhere},
			[]string{"--location=nam5", "--prefix=my", "--set=COUNTERS=teams/{team}/posts/{post}",
				"--set=FIELDS=likes,comments=count(comments),stars=sum( ratings.a.b),published=count(comments where kind=='x,y=count(z)'),p=count(Some_Notes where n==1)" + elsewhere},
		},
		"documents alone": {
			vars{"counters": "stats/site", "fields": "users=count(/users)"},
			[]string{"--set=COUNTERS=stats/site", "--set=FIELDS=users=count(/users)"},
		},
		"members of each field but those that count documents": {
			vars{"fields": "likes, hearts=count ,n=count(comments where kind=='x,y=count(z)'),d=sum(ratings.a) as double,seats=limit(500),views", "members": "any"},
			[]string{"--set=FIELDS=likes, hearts=count ,n=count(comments where kind=='x,y=count(z)'),d=sum(ratings.a) as double,seats=limit(500),views", "--set=MEMBERS=any"},
		},
		"Enterprise edition": {
			vars{"create_database": true, "database_edition": "ENTERPRISE", "run_gcloud": true, "members": "any",
				"fields": "likes, m=count,seats=limit(5),comments=count(comments),p=count(Some_Notes where n=='x,y')" + elsewhere, "counters": "teams/{team}/posts/{post}"},
			[]string{"--create-database", "--edition=enterprise", "--set=MEMBERS=any", "--set=FIELDS=likes, m=count,seats=limit(5),comments=count(comments),p=count(Some_Notes where n=='x,y')" + elsewhere, "--set=COUNTERS=teams/{team}/posts/{post}"},
		},
		"hosted, with its index": {
			vars{"counters": "posts/{post}", "hosted": true, "exempt_updated_at": false},
			[]string{"--set=COUNTERS=posts/{post}", "--set=HOSTED=true", "--no-exempt-updated-at"},
		},
	}
	// Beside Rollup's own.
	triggers := map[string]int{"the extension's clients": 2, "the extension's clients in Enterprise edition": 1, "counted collections": 5, "Enterprise edition": 5, "documents alone": 1, "members of each field but those that count documents": 2}
	program := build(t)
	for name, d := range deployments {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var gcloud, terraform []string
			for _, c := range deploy(t, program, d.args...) {
				if project, _ := c.flag("project"); project != "a-project" && !strings.Contains(c.name(), "a-project") {
					t.Errorf("%s is of project %q", c.name(), project)
				}
				gcloud = append(gcloud, c.makes(t)...)
			}
			planned := planKnown(t, d.vars)
			for _, r := range planned.resources {
				terraform = append(terraform, r.makes(t)...)
			}
			same(t, name, "gcloud", gcloud, "terraform", terraform)
			if n := len(planned.of("google_eventarc_trigger")); n != triggers[name] {
				t.Errorf("terraform makes %d further triggers, want %d", n, triggers[name])
			}
		})
	}
}

// besides are commands that change what is there when all is made, or what the plan has no resource for.
var besides = []string{"pubsub subscriptions update", "run services update"}

// inGroup is the address of a field whose index is made by its API.
var inGroup = regexp.MustCompile(`/databases/([^/]+)/collectionGroups/([^/]+)/fields/([^?]+)\?`)

// makes is what a command makes, a line each.
func (c call) makes(t *testing.T) (lines []string) {
	t.Helper()
	database, _ := c.flag("database")
	group, _ := c.flag("collection-group")
	_, byInstance := c.flag("no-cpu-throttling")
	switch at := inGroup.FindStringSubmatch(c.name()); {
	case at != nil:
		return []string{fmt.Sprintf("field %s %s.%s: an index in the group", at[1], at[2], at[3])}
	case c.is("services enable"):
		for _, api := range c.words[2:] {
			lines = append(lines, "API "+api)
		}
		return lines
	case c.is("firestore indexes fields update"), c.is("firestore fields ttls update"):
		for _, flag := range []string{"disable-indexes", "enable-ttl"} {
			if _, is := c.flag(flag); is {
				lines = append(lines, fmt.Sprintf("field %s %s.%s: %s", database, group, c.words[4], flag))
			}
		}
		return lines
	case c.is("run services update") && byInstance:
		return []string{c.words[3] + " by the instance"}
	}
	for _, a := range agreements {
		if !c.is(a.command) {
			continue
		}
		name := ""
		if a.word > 0 {
			name = c.words[a.word]
		}
		for pair := range strings.FieldsSeq(a.pairs) {
			flag, _, _ := strings.Cut(pair, "=")
			value, is := c.flag(flag)
			if is && value == "" {
				value = "true"
			}
			if flag == "timeout" {
				value = strings.TrimSuffix(value, "s")
			}
			lines = append(lines, flag+" "+value)
		}
		if a.said != nil {
			lines = append(lines, a.said(c)...)
		}
		return a.lines(name, lines)
	}
	if !slices.ContainsFunc(besides, c.is) {
		t.Errorf("nothing in terraform is compared with %s", c.name())
	}
	return nil
}

func (c call) is(command string) bool { return strings.HasPrefix(c.name()+" ", command+" ") }

// all are the values of a flag that may be repeated.
func (c call) all(name string) (values []string) {
	for _, f := range c.flags {
		if value, is := strings.CutPrefix(f, "--"+name+"="); is {
			values = append(values, value)
		}
	}
	return values
}

// filters are those of a trigger.
func (c call) filters() (lines []string) {
	for _, prefix := range []string{"", "trigger-"} {
		for _, value := range c.all(prefix + "event-filters") {
			lines = append(lines, "filter  "+value)
		}
		for _, value := range c.all(prefix + "event-filters-path-pattern") {
			lines = append(lines, "filter match-path-pattern "+value)
		}
	}
	return lines
}

// makes is what terraform makes, as gcloud says it, a line each.
func (r resource) makes(t *testing.T) (lines []string) {
	t.Helper()
	switch r.Type + "." + r.Name {
	case "terraform_data.ttl": // by gcloud
		return commandOf("gcloud " + r.text("input") + " --enable-ttl").makes(t)
	case "terraform_data.billed_by_instance":
		return commandOf("gcloud " + r.text("input") + " --no-cpu-throttling").makes(t)
	}
	switch field := fmt.Sprintf("field %s %s.%s: ", r.text("database"), r.text("collection"), r.text("field")); r.Type {
	case "google_project_service":
		return []string{"API " + r.text("service")}
	case "google_firestore_field":
		if len(objects(r.Values["ttl_config"])) > 0 {
			lines = append(lines, field+"enable-ttl")
		}
		for _, index := range objects(r.Values["index_config"]) {
			switch indexes := objects(index["indexes"]); {
			case len(indexes) == 0:
				lines = append(lines, field+"disable-indexes")
			case text(indexes[0], "query_scope") == "COLLECTION_GROUP":
				lines = append(lines, field+"an index in the group")
			}
		}
		return lines
	}
	for _, a := range agreements {
		if a.kind != r.Type {
			continue
		}
		for pair := range strings.FieldsSeq(a.pairs) {
			flag, path, named := strings.Cut(pair, "=")
			if !named {
				path = flag
			}
			value := r.text(path)
			if word, is := gcloudsWord[value]; is {
				value = word
			}
			lines = append(lines, flag+" "+value)
		}
		if a.planned != nil {
			lines = append(lines, a.planned(r)...)
		}
		return a.lines(r.text(a.name), lines)
	}
	return nil
}

// lines are told from those of other resources by the name, or they are one.
func (a agreement) lines(name string, lines []string) []string {
	if name == "" {
		return []string{a.command + ": " + strings.Join(lines, ", ")}
	}
	for i := range lines {
		lines[i] = a.command + " " + name + ": " + lines[i]
	}
	return lines
}

func filters(blocks any) (lines []string) {
	for _, f := range objects(blocks) {
		lines = append(lines, fmt.Sprintf("filter %s %s=%s", text(f, "operator"), text(f, "attribute"), text(f, "value")))
	}
	return lines
}

// arguments are those of a resource that are texts, with the names of the blocks that they are in.
func arguments(r resource) []string {
	values := map[string]any{}
	for name, value := range r.Values {
		if name != "project" { // where it is
			values[name] = value
		}
	}
	lines := leavesOf(values)
	if r.Type == "google_monitoring_alert_policy" {
		lines = []string{strings.Join(slices.Sorted(slices.Values(lines)), "\n  ")}
	}
	return lines
}

// compact is a document without its spaces, and with sorted keys.
func compact(document string) string {
	var of any
	err := json.Unmarshal([]byte(document), &of)
	out, failed := json.Marshal(of)
	if err != nil || failed != nil {
		return fmt.Sprint(err, failed)
	}
	return string(out)
}

// leaves are the values in a document, by their paths as terraform spells them.
func leaves(document string) []string {
	var of map[string]any
	decoder := json.NewDecoder(strings.NewReader(document))
	decoder.UseNumber() // as it is written
	if err := decoder.Decode(&of); err != nil {
		return []string{err.Error()}
	}
	return leavesOf(of)
}

func leavesOf(document any) (lines []string) {
	type at struct {
		path  string
		value any
	}
	for left := []at{{"", document}}; len(left) > 0; left = left[1:] {
		switch here := left[0]; of := here.value.(type) {
		case nil:
		case map[string]any:
			for key, value := range of {
				left = append(left, at{strings.TrimSpace(here.path + " " + snake(key)), value})
			}
		case []any:
			for _, value := range of {
				left = append(left, at{here.path, value})
			}
		default:
			lines = append(lines, fmt.Sprint(here.path, " ", of))
		}
	}
	return lines
}

// snake is a name of an API's as terraform spells it.
func snake(name string) string {
	var b bytes.Buffer
	for _, r := range name {
		if unicode.IsUpper(r) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// same reports what only one of two lists holds.
func same(t *testing.T, what, one string, ones []string, other string, others []string) {
	t.Helper()
	if len(others) == 0 {
		t.Errorf("%s: %s has none", what, other)
	}
	for _, s := range ones {
		if !slices.Contains(others, s) {
			t.Errorf("%s: only %s has %s", what, one, s)
		}
	}
	for _, s := range others {
		if !slices.Contains(ones, s) {
			t.Errorf("%s: only %s has %s", what, other, s)
		}
	}
}

// A dashboard and the alerts may only name metrics that are made.
func TestQueriesNameMetricsThatAreMade(t *testing.T) {
	t.Parallel()
	p := planOne(t, nil)
	made, used := map[string]bool{}, map[string]bool{}
	for _, r := range p.of("google_logging_metric") {
		made[r.text("name")] = true
	}
	queries := p.one("google_monitoring_dashboard", "dashboard").text("dashboard_json")
	for _, r := range p.of("google_monitoring_alert_policy") {
		queries += strings.Join(arguments(r), "\n")
	}
	for _, q := range regexp.MustCompile(`logging_googleapis_com:user_(\w+)`).FindAllStringSubmatch(queries, -1) {
		name := q[1]
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			name = strings.TrimSuffix(name, suffix)
		}
		used[name] = true
		if !made[name] {
			t.Errorf("%s is queried, but not made", q[1])
		}
	}
	for name := range made {
		if !used[name] {
			t.Errorf("%s is made, and shown nowhere", name)
		}
	}
}

// Who deploys with the Firebase CLI has the same indexes.
func TestIndexesFileIsTheModules(t *testing.T) {
	t.Parallel()
	var file struct {
		Indexes        []any
		FieldOverrides []struct {
			CollectionGroup, FieldPath string
			TTL                        bool
			Indexes                    []any
		}
	}
	if err := json.Unmarshal([]byte(mustRead(t, "../firestore/firestore.indexes.json")), &file); err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, f := range file.FieldOverrides {
		if f.Indexes == nil || len(f.Indexes) > 0 {
			t.Errorf("%s.%s should have an empty list of indexes", f.CollectionGroup, f.FieldPath)
		}
		got = append(got, fmt.Sprintf("%s.%s TTL: %v", f.CollectionGroup, f.FieldPath, f.TTL))
	}
	for _, r := range planOne(t, nil).of("google_firestore_field") {
		want = append(want, fmt.Sprintf("%s.%s TTL: %v", r.text("collection"), r.text("field"), len(objects(r.Values["ttl_config"])) > 0))
	}
	same(t, "fields", "firestore.indexes.json", got, "terraform", want)

	var firebase struct {
		Firestore struct{ Rules, Indexes string }
	}
	if err := json.Unmarshal([]byte(mustRead(t, "../firestore/firebase.json")), &firebase); err != nil || firebase.Firestore.Rules != "firestore.rules" || firebase.Firestore.Indexes != "firestore.indexes.json" {
		t.Errorf("firebase.json: %v, %+v", err, firebase)
	}
}
