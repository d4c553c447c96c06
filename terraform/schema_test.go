package terraform

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
)

// What the module may use of each resource: the arguments and blocks (the latter after a dot,
// nested ones after another) that it needs, each looked up in the provider's documentation of 6.30,
// the least version allowed, and of 7.45. Terraform refuses a name that isn't here, which has to be
// looked up there first: see provider_test.go.
var documented = map[string]string{
	"archive_file":        "type output_path output_file_mode",
	"archive_file.source": "filename content",

	"terraform_data": "input triggers_replace", // terraform's own
	"time_sleep":     "create_duration triggers",

	"google_project":                  "project_id",
	"google_project_service":          "project service disable_on_destroy",
	"google_project_service_identity": "project service", // google-beta only
	"google_service_account":          "project account_id display_name description",

	"google_project_iam_member":              "project role member",
	"google_project_iam_member.condition":    "title description expression",
	"google_cloud_run_v2_service_iam_member": "project location name role member",

	"google_artifact_registry_repository":            "project location repository_id description format labels",
	"google_artifact_registry_repository_iam_member": "project location repository role member",

	"google_storage_bucket.encryption": "default_kms_key_name",

	"google_storage_bucket":        "project name location labels uniform_bucket_level_access public_access_prevention force_destroy",
	"google_storage_bucket_object": "bucket name source",

	"google_cloudfunctions2_function":                                    "project location name description labels kms_key_name",
	"google_cloudfunctions2_function.build_config":                       "runtime entry_point service_account docker_repository",
	"google_cloudfunctions2_function.build_config.source":                "",
	"google_cloudfunctions2_function.build_config.source.storage_source": "bucket object",
	"google_cloudfunctions2_function.service_config":                     "available_cpu available_memory max_instance_request_concurrency max_instance_count min_instance_count timeout_seconds ingress_settings service_account_email environment_variables all_traffic_on_latest_revision",
	"google_cloudfunctions2_function.event_trigger":                      "event_type trigger_region retry_policy service_account_email",
	"google_cloudfunctions2_function.event_trigger.event_filters":        "attribute value operator",

	"google_eventarc_trigger":                               "project location name labels service_account event_data_content_type",
	"google_eventarc_trigger.matching_criteria":             "attribute value operator",
	"google_eventarc_trigger.destination":                   "",
	"google_eventarc_trigger.destination.cloud_run_service": "service region",

	"google_firestore_database":             "project name location_id type database_edition delete_protection_state deletion_policy",
	"google_firestore_database.cmek_config": "kms_key_name",

	"google_firestore_field":                      "project database collection field",
	"google_firestore_field.index_config":         "",
	"google_firestore_field.index_config.indexes": "order query_scope array_config",
	"google_firestore_index":                      "project database collection query_scope density",
	"google_firestore_index.fields":               "field_path order",
	"google_firestore_field.ttl_config":           "",

	"google_firebaserules_ruleset":              "project",
	"google_firebaserules_ruleset.source":       "",
	"google_firebaserules_ruleset.source.files": "name content",
	"google_firebaserules_release":              "project name ruleset_name",

	"google_cloud_scheduler_job":                        "project region name description schedule time_zone attempt_deadline",
	"google_cloud_scheduler_job.retry_config":           "retry_count",
	"google_cloud_scheduler_job.http_target":            "http_method uri",
	"google_cloud_scheduler_job.http_target.oidc_token": "service_account_email audience",

	"google_logging_project_exclusion": "project name description filter",

	"google_logging_metric":                                    "project name description filter value_extractor",
	"google_logging_metric.metric_descriptor":                  "metric_kind value_type unit",
	"google_logging_metric.bucket_options":                     "",
	"google_logging_metric.bucket_options.exponential_buckets": "num_finite_buckets growth_factor scale",
	"google_logging_metric.bucket_options.explicit_buckets":    "bounds",

	"google_billing_budget":                         "billing_account display_name",
	"google_billing_budget.budget_filter":           "projects",
	"google_billing_budget.amount":                  "",
	"google_billing_budget.amount.specified_amount": "units currency_code",
	"google_billing_budget.threshold_rules":         "threshold_percent",

	"google_monitoring_alert_policy":                                                "project display_name combiner severity notification_channels",
	"google_monitoring_alert_policy.documentation":                                  "mime_type content",
	"google_monitoring_alert_policy.alert_strategy":                                 "auto_close",
	"google_monitoring_alert_policy.alert_strategy.notification_rate_limit":         "period",
	"google_monitoring_alert_policy.conditions":                                     "display_name",
	"google_monitoring_alert_policy.conditions.condition_matched_log":               "filter label_extractors",
	"google_monitoring_alert_policy.conditions.condition_prometheus_query_language": "query duration evaluation_interval disable_metric_validation",
	"google_monitoring_alert_policy.conditions.condition_threshold":                 "filter comparison threshold_value duration",
	"google_monitoring_alert_policy.conditions.condition_threshold.aggregations":    "alignment_period per_series_aligner cross_series_reducer",
	"google_monitoring_alert_policy.conditions.condition_absent":                    "filter duration",
	"google_monitoring_alert_policy.conditions.condition_absent.aggregations":       "alignment_period per_series_aligner cross_series_reducer",
	"google_monitoring_dashboard":                                                   "project dashboard_json",
}

// The first apply in a project fails unless Eventarc's identity has its role before the trigger is
// made. Callers are let in when all else is there.
func TestWhatWaits(t *testing.T) {
	t.Parallel()
	everything := []string{
		"google_cloud_scheduler_job.reconcile", "google_eventarc_trigger.watch", "google_firestore_field.field", "google_firestore_index.query",
		"google_monitoring_alert_policy.alert", "google_monitoring_dashboard.dashboard",
	}
	first := map[string][]string{
		"google_cloudfunctions2_function.rollup": {
			"time_sleep.until_the_agent_has_its_role", "google_project_iam_member.eventarc_receiver", "google_cloudfunctions2_function.http",
		},
		"google_cloud_run_v2_service_iam_member.increment": everything,
		"terraform_data.invoker_check":                     everything,
	}
	for _, b := range parse(t, ".").resources {
		name := strings.Join(b.Labels, ".")
		var after []string
		if depends := b.Body.Attributes["depends_on"]; depends != nil {
			for _, ref := range depends.Expr.Variables() {
				after = append(after, traversal(ref))
			}
		}
		for _, want := range first[name] {
			if !slices.Contains(after, want) {
				t.Errorf("%s doesn't wait for %s, only for %v", name, want, after)
			}
		}
		delete(first, name)
	}
	if len(first) > 0 {
		t.Errorf("there is no %v", slices.Collect(maps.Keys(first)))
	}
}

func traversal(ref hcl.Traversal) string {
	parts := []string{ref.RootName()}
	for _, step := range ref[1:] {
		if attr, ok := step.(hcl.TraverseAttr); ok {
			parts = append(parts, attr.Name)
		}
	}
	return strings.Join(parts, ".")
}
