//go:build all

package terraform

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
)

// aKey is a key of Cloud KMS.
const aKey = "projects/p/locations/l/keyRings/r/cryptoKeys/k"

// elsewhere counts documents at the root and in a group, with conditions that take indexes.
const elsewhere = ",n=count(/notes where post=={post} and team=={team}),a=avg(**/notes.x where post=={post} and kind in ['x and y>=1',2] and n>=3),g=count(**/notes where post=={post})," +
	"d=sum(ratings.a.b where n>1 and kind=='x') as double,e=avg(ratings.a.b where kind=='y' and n>1),f=count(comments where n>=1 and n<5 and n>=2)"

// Two deployments, each described for both tools: what they make must be the same.
func TestGcloudMakesWhatTerraformMakes(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]struct {
		vars map[string]cty.Value
		args []string
	}{
		"defaults": {vars(), nil},
		"all else": {
			vars("location", cty.StringVal("nam5"), "prefix", cty.StringVal("my-likes"), "database", cty.StringVal("social"),
				"counters", cty.StringVal("teams/{team}/likes/{like}"), "create_database", cty.True, "public", cty.True, "auth", cty.StringVal("firebase"), "most_per_day", cty.StringVal("500USD"),
				"invokers", cty.SetVal([]cty.Value{cty.StringVal("user:a@example.com")}), "exempt_updated_at", cty.False, "exempt_created_at", cty.False,
				"memory", cty.StringVal("1Gi"), "runtime", cty.StringVal("go126"), "increment_concurrency", cty.NumberIntVal(1000),
				"increment_max_instances", cty.NumberIntVal(50), "increment_min_instances", cty.NumberIntVal(1),
				"rollup_max_instances", cty.NumberIntVal(5), "rollup_min_instances", cty.NumberIntVal(2),
				"reconcile_schedule", cty.StringVal("0 3 * * *"), "reconcile_deadline", cty.StringVal("20m"),
				"reconcile_missing_after", cty.StringVal("23h"), "lag_alert_seconds", cty.NumberIntVal(60),
				"allowed_origins", cty.ListVal([]cty.Value{cty.StringVal("https://a.example"), cty.StringVal("https://b.example")}),
				"notification_channels", cty.ListVal([]cty.Value{cty.StringVal("projects/p/notificationChannels/1")})),
			[]string{
				"--location", "nam5", "--prefix=my-likes", "--set", "DATABASE=social", "--set=COUNTERS=teams/{team}/likes/{like}", "--create-database",
				"--public", "--set=AUTH=firebase", "--most-per-day=500", "--invoker=user:a@example.com", "--no-exempt-updated-at", "--no-exempt-created-at",
				"--memory=1Gi", "--runtime=go126", "--increment-concurrency=1000", "--increment-max-instances=50",
				"--increment-min-instances=1", "--rollup-max-instances=5", "--rollup-min-instances=2", "--reconcile-schedule=0 3 * * *",
				"--set=RECONCILE_DEADLINE=20m", "--reconcile-missing-after=82800", "--lag-alert-seconds=60",
				"--set=ALLOWED_ORIGINS=https://a.example,https://b.example", "--notification-channel=projects/p/notificationChannels/1",
			},
		},
		"open, with the ceiling that this has":   {vars("public", cty.True), []string{"--public"}},
		"open, without a ceiling":                {vars("public", cty.True, "most_per_day", cty.StringVal("none")), []string{"--public", "--most-per-day=none"}},
		"a ceiling that is kept by the instance": {vars("run_gcloud", cty.True, "most_per_day", cty.StringVal("5")), []string{"--most-per-day=5USD"}},
		"a ceiling that is kept by the request, and the rollup by the instance": {
			vars("run_gcloud", cty.True, "most_per_day", cty.StringVal("12.34USD"), "rollup_billing", cty.StringVal("instance"), "location", cty.StringVal("australia-southeast1"),
				"memory", cty.StringVal("1Gi"), "reconcile_schedule", cty.StringVal("0,30 * * * *"), "reconcile_deadline", cty.StringVal("9m")),
			[]string{"--most-per-day=12.34USD", "--rollup-billing=instance", "--location=australia-southeast1", "--memory=1Gi", "--reconcile-schedule=0,30 * * * *", "--set=RECONCILE_DEADLINE=9m"},
		},
		"a high ceiling, where no price is known": {
			vars("run_gcloud", cty.True, "most_per_day", cty.StringVal("2000USD"), "increment_billing", cty.StringVal("instance"), "location", cty.StringVal("africa-south1"), "rollup_flushes", cty.NumberIntVal(8)),
			[]string{"--most-per-day=2000USD", "--increment-billing=instance", "--location=africa-south1", "--set=ROLLUP_FLUSHES=8"},
		},
		"a ceiling in Enterprise edition": {
			vars("create_database", cty.True, "database_edition", cty.StringVal("ENTERPRISE"), "run_gcloud", cty.True, "most_per_day", cty.StringVal("50USD"), "location", cty.StringVal("eur3"),
				"increment_min_instances", cty.NumberIntVal(2), "reconcile_schedule", cty.StringVal("*/10 * * * *")),
			[]string{"--create-database", "--edition=enterprise", "--most-per-day=50", "--location=eur3", "--increment-min-instances=2", "--reconcile-schedule=*/10 * * * *"},
		},
		"keys, and behind a load balancer": {
			vars("kms_key", cty.StringVal(aKey), "database_kms_key", cty.StringVal(aKey+"2"), "docker_repository", cty.StringVal("projects/p/locations/l/repositories/r"),
				"increment_ingress", cty.StringVal("ALLOW_INTERNAL_AND_GCLB"), "create_database", cty.True, "request_logs", cty.True),
			[]string{"--kms-key=" + aKey, "--database-kms-key=" + aKey + "2", "--docker-repository=projects/p/locations/l/repositories/r", "--increment-ingress=internal-and-gclb", "--create-database", "--request-logs"},
		},
		"hosted": {
			vars("counters", cty.StringVal("posts/{post}"), "hosted", cty.True, "fields", cty.StringVal("likes,views"), "shards", cty.StringVal("parts"), "cleanup_after", cty.StringVal("48h")),
			[]string{"--set=COUNTERS=posts/{post}", "--set=HOSTED=true", "--set=FIELDS=likes,views", "--set=SHARDS=parts", "--set=CLEANUP_AFTER=48h"},
		},
		"the extension's clients": {
			vars("counters", cty.StringVal("pages/{page}"), "hosted", cty.True, "extension", cty.True, "fields", cty.StringVal("visits,comments=count(comments)")),
			[]string{"--extension", "--set=COUNTERS=pages/{page}", "--set=FIELDS=visits,comments=count(comments)"},
		},
		"counted collections": {
			vars("location", cty.StringVal("nam5"), "prefix", cty.StringVal("my"), "counters", cty.StringVal("teams/{team}/posts/{post}"),
				"fields", cty.StringVal("likes,comments=count(comments),stars=sum( ratings.a.b),published=count(comments where kind=='x,y=count(z)'),p=count(Some_Notes where n==1)"+elsewhere)),
			[]string{"--location=nam5", "--prefix=my", "--set=COUNTERS=teams/{team}/posts/{post}",
				"--set=FIELDS=likes,comments=count(comments),stars=sum( ratings.a.b),published=count(comments where kind=='x,y=count(z)'),p=count(Some_Notes where n==1)" + elsewhere},
		},
		"documents alone": {
			vars("counters", cty.StringVal("stats/site"), "fields", cty.StringVal("users=count(/users)")),
			[]string{"--set=COUNTERS=stats/site", "--set=FIELDS=users=count(/users)"},
		},
		"members of each field but those that count documents": {
			vars("fields", cty.StringVal("likes, hearts=count ,n=count(comments where kind=='x,y=count(z)'),d=sum(ratings.a) as double,seats=limit(500),views"), "members", cty.StringVal("any")),
			[]string{"--set=FIELDS=likes, hearts=count ,n=count(comments where kind=='x,y=count(z)'),d=sum(ratings.a) as double,seats=limit(500),views", "--set=MEMBERS=any"},
		},
		"Enterprise edition": {
			vars("create_database", cty.True, "database_edition", cty.StringVal("ENTERPRISE"), "run_gcloud", cty.True, "members", cty.StringVal("any"),
				"fields", cty.StringVal("likes, m=count,seats=limit(5),comments=count(comments),p=count(Some_Notes where n=='x,y')"+elsewhere), "counters", cty.StringVal("teams/{team}/posts/{post}")),
			[]string{"--create-database", "--edition=enterprise", "--set=MEMBERS=any", "--set=FIELDS=likes, m=count,seats=limit(5),comments=count(comments),p=count(Some_Notes where n=='x,y')" + elsewhere, "--set=COUNTERS=teams/{team}/posts/{post}"},
		},
		"hosted, with its index": {
			vars("counters", cty.StringVal("posts/{post}"), "hosted", cty.True, "exempt_updated_at", cty.False),
			[]string{"--set=COUNTERS=posts/{post}", "--set=HOSTED=true", "--no-exempt-updated-at"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := load(t, ".", d.vars)
			calls := deploy(t, d.args...)
			for _, c := range calls {
				if project, _ := c.flag("project"); project != "a-project" && !strings.Contains(c.name(), "a-project") {
					t.Errorf("%s is of project %q", c.name(), project)
				}
			}
			compareProject(t, m, calls)
			compareGrants(t, m, calls)
			compareFunctions(t, m, calls)
			compareTriggers(t, m, calls, map[string]int{"the extension's clients": 2, "counted collections": 5, "Enterprise edition": 5, "documents alone": 1, "members of each field but those that count documents": 2}[name])
			compareScheduler(t, m, calls)
			compareMonitoring(t, m, calls)
		})
	}
}

func compareProject(t *testing.T, m *module, calls []call) {
	t.Helper()
	var gcloud, tf []string
	inGroup := regexp.MustCompile(`/databases/([^/]+)/collectionGroups/([^/]+)/fields/([^?]+)\?`)
	for _, c := range calls {
		switch at := inGroup.FindStringSubmatch(c.name()); {
		case at != nil:
			gcloud = append(gcloud, fmt.Sprintf("index of %s %s.%s in the group", at[1], at[2], at[3]))
		case strings.HasPrefix(c.name(), "services enable"):
			for _, api := range c.words[2:] {
				gcloud = append(gcloud, "API "+api)
			}
		case strings.HasPrefix(c.name(), "beta services identity create"):
			service, _ := c.flag("service")
			gcloud = append(gcloud, "identity "+service)
		case strings.HasPrefix(c.name(), "firestore databases create"):
			id, _ := c.flag("database")
			location, _ := c.flag("location")
			_, protected := c.flag("delete-protection")
			key, _ := c.flag("kms-key-name")
			edition, _ := c.flag("edition")
			gcloud = append(gcloud, fmt.Sprintf("database %s in %s, protected: %v, key %s, %s", id, location, protected, key, strings.ToUpper(cmp.Or(edition, "standard"))))
		case strings.HasPrefix(c.name(), "firestore indexes fields update"), strings.HasPrefix(c.name(), "firestore fields ttls update"):
			id, _ := c.flag("database")
			group, _ := c.flag("collection-group")
			_, unindexed := c.flag("disable-indexes")
			_, ttl := c.flag("enable-ttl")
			gcloud = append(gcloud, fmt.Sprintf("field %s %s.%s unindexed: %v TTL: %v", id, group, c.words[4], unindexed, ttl))
		case strings.HasPrefix(c.name(), "firestore indexes composite create"):
			id, _ := c.flag("database")
			group, _ := c.flag("collection-group")
			scope, _ := c.flag("query-scope")
			index := fmt.Sprintf("index %s %s %s", id, group, strings.ReplaceAll(strings.ToUpper(scope), "-", "_"))
			if density, ok := c.flag("density"); ok {
				index += " " + strings.ReplaceAll(strings.ToUpper(density), "-", "_")
			}
			for _, f := range c.flags {
				if config, ok := strings.CutPrefix(f, "--field-config=field-path="); ok {
					index += " " + strings.TrimSuffix(config, ",order=ascending")
				}
			}
			gcloud = append(gcloud, index)
		case strings.HasPrefix(c.name(), "iam service-accounts create"):
			gcloud = append(gcloud, "account "+c.words[3])
		case strings.HasPrefix(c.name(), "artifacts repositories create"):
			format, _ := c.flag("repository-format")
			location, _ := c.flag("location")
			gcloud = append(gcloud, fmt.Sprintf("repository %s in %s of %s", c.words[3], location, strings.ToUpper(format)))
		}
	}
	for _, i := range m.instances("google_project_service") {
		tf = append(tf, "API "+text(i.args, "service"))
	}
	for _, i := range m.instances("google_project_service_identity") {
		tf = append(tf, "identity "+text(i.args, "service"))
	}
	for _, i := range m.instances("google_firestore_database") {
		key := ""
		if _, ok := i.args["cmek_config"]; ok {
			key = text(i.args, "cmek_config.kms_key_name")
		}
		tf = append(tf, fmt.Sprintf("database %s in %s, protected: %v, key %s, %s", text(i.args, "name"), text(i.args, "location_id"), text(i.args, "delete_protection_state") == "DELETE_PROTECTION_ENABLED", key, text(i.args, "database_edition")))
	}
	for _, i := range m.instances("google_firestore_field") {
		field := fmt.Sprintf("field %s %s.%s", text(i.args, "database"), text(i.args, "collection"), text(i.args, "field"))
		if scope := text(i.args, "index_config.indexes.query_scope"); scope != "" {
			tf = append(tf, fmt.Sprintf("index of %s %s.%s in the group", text(i.args, "database"), text(i.args, "collection"), text(i.args, "field")))
		} else if _, ok := i.args["index_config"]; ok {
			tf = append(tf, field+" unindexed: true TTL: false")
		}
		if _, ok := i.args["ttl_config"]; ok {
			tf = append(tf, field+" unindexed: false TTL: true")
		}
	}
	for _, i := range m.instances("google_firestore_index") {
		index := strings.TrimSpace(fmt.Sprintf("index %s %s %s %s", text(i.args, "database"), text(i.args, "collection"), text(i.args, "query_scope"), text(i.args, "density")))
		for it := i.args["fields"].ElementIterator(); it.Next(); {
			_, field := it.Element()
			index += " " + text(field.AsValueMap(), "field_path")
		}
		tf = append(tf, index)
	}
	if m.local("enterprise").True() { // terraform_data.ttl
		tf = append(tf, "field (default) counter_requests.expire_at unindexed: false TTL: true")
	}
	for _, i := range m.instances("google_service_account") {
		tf = append(tf, "account "+text(i.args, "account_id"))
	}
	for _, i := range m.instances("google_artifact_registry_repository") {
		tf = append(tf, fmt.Sprintf("repository %s in %s of %s", text(i.args, "repository_id"), text(i.args, "location"), text(i.args, "format")))
	}
	same(t, "project", gcloud, tf)
}

func compareGrants(t *testing.T, m *module, calls []call) {
	t.Helper()
	var gcloud, tf []string
	for _, c := range calls {
		member, _ := c.flag("member")
		role, _ := c.flag("role")
		region, _ := c.flag("region")
		condition, _ := c.flag("condition")
		switch {
		case strings.HasPrefix(c.name(), "projects add-iam-policy-binding"):
			gcloud = append(gcloud, fmt.Sprintf("%s %s %s", member, role, condition))
		case strings.HasPrefix(c.name(), "run services add-iam-policy-binding"):
			gcloud = append(gcloud, fmt.Sprintf("%s %s on %s in %s", member, role, c.words[3], region))
		case strings.HasPrefix(c.name(), "artifacts repositories add-iam-policy-binding"):
			gcloud = append(gcloud, fmt.Sprintf("%s %s on %s", member, role, c.words[3]))
		}
	}
	for _, i := range m.instances("google_project_iam_member") {
		condition := "None"
		if _, ok := i.args["condition"]; ok {
			condition = fmt.Sprintf("expression=%s,title=%s,description=%s", text(i.args, "condition.expression"), text(i.args, "condition.title"), text(i.args, "condition.description"))
		}
		tf = append(tf, fmt.Sprintf("%s %s %s", text(i.args, "member"), text(i.args, "role"), condition))
	}
	for _, i := range m.instances("google_cloud_run_v2_service_iam_member") {
		tf = append(tf, fmt.Sprintf("%s %s on %s in %s", text(i.args, "member"), text(i.args, "role"), text(i.args, "name"), text(i.args, "location")))
	}
	for _, i := range m.instances("google_artifact_registry_repository_iam_member") {
		tf = append(tf, fmt.Sprintf("%s %s on projects/%s/locations/%s/repositories/%s", text(i.args, "member"), text(i.args, "role"), text(i.args, "project"), text(i.args, "location"), text(i.args, "repository")))
	}
	same(t, "grants", gcloud, tf)
}

func compareFunctions(t *testing.T, m *module, calls []call) {
	t.Helper()
	var gcloud, tf []string
	for name, by := range m.local("billing").AsValueMap() {
		if by.AsString() == "instance" {
			tf = append(tf, name+" by the instance")
		}
	}
	for _, c := range calls {
		if _, byInstance := c.flag("no-cpu-throttling"); byInstance {
			gcloud = append(gcloud, c.words[3]+" by the instance")
		}
		if !strings.HasPrefix(c.name(), "functions deploy") {
			continue
		}
		add := func(what, value string) { gcloud = append(gcloud, fmt.Sprintf("%s %s %s", c.words[2], what, value)) }
		for _, name := range []string{"region", "runtime", "entry-point", "run-service-account", "build-service-account", "cpu", "memory", "concurrency", "max-instances", "min-instances", "ingress-settings", "kms-key", "docker-repository"} {
			value, _ := c.flag(name)
			add(name, value)
		}
		labels, _ := c.flag("update-labels")
		_, ceiling, _ := strings.Cut(labels, ",counters-most-per-day=")
		add("ceiling", ceiling)
		timeout, _ := c.flag("timeout")
		add("timeout", strings.TrimSuffix(timeout, "s"))
		env, _ := c.flag("set-env-vars")
		for pair := range strings.SplitSeq(strings.TrimPrefix(env, "^|^"), "|") {
			add("env", pair)
		}
		if _, private := c.flag("no-allow-unauthenticated"); !private {
			t.Errorf("%s is deployed without --no-allow-unauthenticated", c.words[2])
		}
		if location, ok := c.flag("trigger-location"); ok {
			add("trigger", location)
			account, _ := c.flag("trigger-service-account")
			add("trigger", account)
			_, retry := c.flag("retry")
			add("retry", fmt.Sprint(retry))
			for _, f := range c.flags {
				if filter, ok := strings.CutPrefix(f, "--trigger-event-filters="); ok {
					add("filter", filter)
				} else if filter, ok := strings.CutPrefix(f, "--trigger-event-filters-path-pattern="); ok {
					add("filter match-path-pattern", filter)
				}
			}
		}
	}
	for _, i := range m.instances("google_cloudfunctions2_function") {
		add := func(what, value string) { tf = append(tf, fmt.Sprintf("%s %s %s", text(i.args, "name"), what, value)) }
		for name, path := range map[string]string{
			"region": "location", "runtime": "build_config.runtime", "entry-point": "build_config.entry_point",
			"run-service-account": "service_config.service_account_email", "build-service-account": "build_config.service_account",
			"cpu": "service_config.available_cpu", "memory": "service_config.available_memory",
			"concurrency":   "service_config.max_instance_request_concurrency",
			"max-instances": "service_config.max_instance_count", "min-instances": "service_config.min_instance_count",
			"timeout": "service_config.timeout_seconds", "kms-key": "kms_key_name", "docker-repository": "build_config.docker_repository",
		} {
			add(name, text(i.args, path))
		}
		add("ingress-settings", map[string]string{"ALLOW_ALL": "all", "ALLOW_INTERNAL_ONLY": "internal-only", "ALLOW_INTERNAL_AND_GCLB": "internal-and-gclb"}[text(i.args, "service_config.ingress_settings")])
		for name, v := range i.args["service_config"].Index(cty.NumberIntVal(0)).GetAttr("environment_variables").AsValueMap() {
			add("env", name+"="+v.AsString())
		}
		add("ceiling", text(i.args["labels"].AsValueMap(), "counters-most-per-day"))
		if _, ok := i.args["event_trigger"]; !ok {
			continue
		}
		add("trigger", text(i.args, "event_trigger.trigger_region"))
		add("trigger", text(i.args, "event_trigger.service_account_email"))
		add("retry", fmt.Sprint(text(i.args, "event_trigger.retry_policy") == "RETRY_POLICY_RETRY"))
		add("filter", "type="+text(i.args, "event_trigger.event_type"))
		for it := i.args["event_trigger"].Index(cty.NumberIntVal(0)).GetAttr("event_filters").ElementIterator(); it.Next(); {
			_, f := it.Element()
			filter := f.AsValueMap()
			add(strings.TrimSpace("filter "+text(filter, "operator")), text(filter, "attribute")+"="+text(filter, "value"))
		}
	}
	same(t, "functions", gcloud, tf)
}

// compareTriggers compares the triggers beside Rollup's own, of which there are to be so many.
func compareTriggers(t *testing.T, m *module, calls []call, n int) {
	t.Helper()
	var gcloud, tf []string
	for _, c := range calls {
		if !strings.HasPrefix(c.name(), "eventarc triggers create") {
			continue
		}
		add := func(what, value string) { gcloud = append(gcloud, fmt.Sprintf("%s %s %s", c.words[3], what, value)) }
		for _, name := range []string{"location", "destination-run-service", "destination-run-region", "service-account", "event-data-content-type"} {
			value, _ := c.flag(name)
			add(name, value)
		}
		for _, f := range c.flags {
			if filter, ok := strings.CutPrefix(f, "--event-filters="); ok {
				add("filter", filter)
			} else if filter, ok := strings.CutPrefix(f, "--event-filters-path-pattern="); ok {
				add("filter match-path-pattern", filter)
			}
		}
	}
	triggers := m.instances("google_eventarc_trigger")
	for _, i := range triggers {
		add := func(what, value string) { tf = append(tf, fmt.Sprintf("%s %s %s", text(i.args, "name"), what, value)) }
		for name, path := range map[string]string{
			"location": "location", "destination-run-service": "destination.cloud_run_service.service", "destination-run-region": "destination.cloud_run_service.region",
			"service-account": "service_account", "event-data-content-type": "event_data_content_type",
		} {
			add(name, text(i.args, path))
		}
		for it := i.args["matching_criteria"].ElementIterator(); it.Next(); {
			_, f := it.Element()
			filter := f.AsValueMap()
			add(strings.TrimSpace("filter "+text(filter, "operator")), text(filter, "attribute")+"="+text(filter, "value"))
		}
	}
	if len(triggers) != n {
		t.Errorf("terraform makes %d further triggers, want %d", len(triggers), n)
	}
	if len(triggers)+len(gcloud) > 0 {
		same(t, "triggers", gcloud, tf)
	}
}

func compareScheduler(t *testing.T, m *module, calls []call) {
	t.Helper()
	var gcloud []string
	for _, c := range calls {
		if strings.HasPrefix(c.name(), "scheduler jobs create http") {
			gcloud = append(gcloud, c.words[4])
			for _, name := range []string{"location", "schedule", "time-zone", "uri", "http-method", "oidc-service-account-email", "oidc-token-audience", "attempt-deadline", "max-retry-attempts"} {
				value, _ := c.flag(name)
				gcloud = append(gcloud, name+" "+value)
			}
		}
	}
	args := m.one("google_cloud_scheduler_job", "reconcile")
	tf := []string{text(args, "name")}
	for name, path := range map[string]string{
		"location": "region", "schedule": "schedule", "time-zone": "time_zone", "uri": "http_target.uri", "http-method": "http_target.http_method",
		"oidc-service-account-email": "http_target.oidc_token.service_account_email", "oidc-token-audience": "http_target.oidc_token.audience",
		"attempt-deadline": "attempt_deadline", "max-retry-attempts": "retry_config.retry_count",
	} {
		tf = append(tf, name+" "+text(args, path))
	}
	same(t, "scheduler", gcloud, tf)
}

// Both read the same files; what is compared is how they fill them in.
func compareMonitoring(t *testing.T, m *module, calls []call) {
	t.Helper()
	var gcloud, tf []string
	for _, c := range calls {
		channels, _ := c.flag("notification-channels")
		switch {
		case strings.HasPrefix(c.name(), "logging sinks update _Default"):
			exclusion, _ := c.flag("add-exclusion")
			gcloud = append(gcloud, "left out: "+exclusion)
		case strings.HasPrefix(c.name(), "logging metrics create"), strings.HasPrefix(c.name(), "alpha monitoring policies create"), strings.HasPrefix(c.name(), "monitoring dashboards create"):
			gcloud = append(gcloud, channels+compact(t, c.file))
			if name, ok := decode(t, c.file)["name"]; ok && name != c.words[3] {
				t.Errorf("the metric %s is made of a file that says %v", c.words[3], name)
			}
		}
	}
	channels := ""
	for _, i := range m.instances("google_monitoring_alert_policy") {
		for it := i.args["notification_channels"].ElementIterator(); it.Next(); {
			_, v := it.Element()
			channels = v.AsString()
		}
	}
	for _, i := range m.instances("google_logging_project_exclusion") {
		tf = append(tf, fmt.Sprintf("left out: name=%s,description=%s,filter=%s", text(i.args, "name"), text(i.args, "description"), text(i.args, "filter")))
	}
	rendered := m.local("monitoring")
	for _, pattern := range []string{"metrics/*.json", "alerts/*.json", "dashboard.json"} {
		files, _ := filepath.Glob(filepath.Join("monitoring", pattern))
		for _, path := range files {
			v, err := m.ctx.Functions["templatefile"].Call([]cty.Value{cty.StringVal(path), rendered})
			if err != nil {
				t.Fatal(err)
			}
			prefix := ""
			if strings.HasPrefix(pattern, "alerts") {
				prefix = channels
			}
			tf = append(tf, prefix+compact(t, v.AsString()))
		}
	}
	same(t, "monitoring", gcloud, tf)
}
