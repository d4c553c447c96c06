# What a plan holds, with the providers mocked: no project, no credentials. Run it with
# terraform/check.sh.

mock_provider "google" {}
mock_provider "google-beta" {}
mock_provider "time" {}

variables {
  project_id = "a-project"
  location   = "us-central1"
}

run "concurrency" {
  command = plan

  assert {
    condition     = google_cloudfunctions2_function.rollup.service_config[0].max_instance_request_concurrency == 1000
    error_message = "Rollup must take 1,000 events at a time."
  }
  assert {
    condition     = alltrue([for f in google_cloudfunctions2_function.http : f.service_config[0].max_instance_request_concurrency >= 100])
    error_message = "The platform's default concurrency of 1 undoes group commit."
  }
  assert {
    condition = alltrue([
      for f in concat(values(google_cloudfunctions2_function.http), [google_cloudfunctions2_function.rollup]) :
      f.service_config[0].available_cpu == "1" && f.build_config[0].runtime == "go127"
    ])
    error_message = "Concurrency needs 1 vCPU."
  }
  assert {
    condition     = google_cloudfunctions2_function.rollup.service_config[0].max_instance_count == 2
    error_message = "Rollup must have 2 instances at most unless told otherwise."
  }
  assert {
    condition     = google_cloudfunctions2_function.http["reconcile"].service_config[0].timeout_seconds == 300 && google_cloud_scheduler_job.reconcile.attempt_deadline == "300s"
    error_message = "Reconcile's timeout must follow RECONCILE_DEADLINE."
  }
}

run "trigger" {
  command = plan

  variables {
    counters = "likes/{like}"
    database = "social"
  }

  assert {
    condition     = google_cloudfunctions2_function.rollup.event_trigger[0].retry_policy == "RETRY_POLICY_RETRY"
    error_message = "Without retry an event that fails once is gone."
  }
  assert {
    condition     = google_cloudfunctions2_function.rollup.event_trigger[0].event_type == "google.cloud.firestore.document.v1.written"
    error_message = "The trigger must see creations, updates and deletions."
  }
  assert {
    condition = toset([for f in google_cloudfunctions2_function.rollup.event_trigger[0].event_filters : "${f.attribute} ${coalesce(f.operator, "=")} ${f.value}"]) == toset([
      "database = social",
      "document match-path-pattern likes/{like}/shards/{shard}",
    ])
    error_message = "The trigger's filters must follow database and collection."
  }
  assert {
    condition = alltrue([
      for f in concat(values(google_cloudfunctions2_function.http), [google_cloudfunctions2_function.rollup]) :
      f.service_config[0].environment_variables["COUNTERS"] == "likes/{like}" && f.service_config[0].environment_variables["DATABASE"] == "social"
    ])
    error_message = "All functions must have the same settings."
  }
  assert {
    condition = toset([for f in google_firestore_field.field : "${f.database} ${f.collection}.${f.field} ${length(f.ttl_config)}"]) == toset([
      "social counter_requests.expire_at 1",
      "social counter_rollup.states 0",
      "social counter_rollup.answers 0",
      "social counter_rollup.ops 0",
      "social likes.updated_at 0",
      "social likes.created_at 0",
    ])
    error_message = "Fields: one TTL policy, six exemptions."
  }
  assert {
    condition     = alltrue([for f in google_firestore_field.field : length(f.index_config) == 1 && length(f.index_config[0].indexes) == 0])
    error_message = "Every field that is configured must have no index."
  }
}

run "hosted" {
  command = plan

  variables {
    counters      = "teams/{team}/posts/{post}"
    fields        = "likes,views"
    shards        = "parts"
    hosted        = true
    cleanup_after = "48h"
  }

  assert {
    condition     = contains([for f in google_cloudfunctions2_function.rollup.event_trigger[0].event_filters : f.value], "teams/{team}/posts/{post}/parts/{shard}")
    error_message = "The trigger's path pattern must follow COUNTERS and SHARDS."
  }
  assert {
    condition = alltrue([
      for f in concat(values(google_cloudfunctions2_function.http), [google_cloudfunctions2_function.rollup]) :
      f.service_config[0].environment_variables["FIELDS"] == "likes,views" &&
      f.service_config[0].environment_variables["HOSTED"] == "true" &&
      f.service_config[0].environment_variables["CLEANUP_AFTER"] == "48h"
    ])
    error_message = "All functions must know what is counted, and where."
  }
  assert {
    condition = toset([for f in google_firestore_field.field : "${f.collection}.${f.field}"]) == toset([
      "counter_requests.expire_at", "counter_rollup.states", "counter_rollup.answers", "counter_rollup.ops", "posts.counter_rollup",
    ])
    error_message = "In a document of the app's own only our map may lose its index."
  }
}

run "counted_collections" {
  command = plan

  variables {
    location = "nam5"
    counters = "posts/{post}"
    fields   = "likes,comments=count(comments),public=count(comments where kind=='a=count(b)'),stars=sum(ratings.stars)"
  }

  assert {
    condition = toset([
      for t in google_eventarc_trigger.watch : join(", ", sort([for c in t.matching_criteria : "${c.attribute} ${coalesce(c.operator, "=")} ${c.value}"]))
      ]) == toset([
      for c in ["comments", "ratings"] :
      "database = (default), document match-path-pattern posts/{post}/${c}/{document}, type = google.cloud.firestore.document.v1.written"
    ])
    error_message = "Each collection whose documents are counted needs one trigger, whatever counts them."
  }
  assert {
    condition = alltrue([
      for t in google_eventarc_trigger.watch :
      t.location == "nam5" && t.destination[0].cloud_run_service[0].service == "counters-rollup" &&
      t.destination[0].cloud_run_service[0].region == "us-central1" && t.event_data_content_type == "application/protobuf"
    ])
    error_message = "The triggers are where the database is, and go to Rollup's service."
  }
}

run "collections_elsewhere" {
  command = plan

  variables {
    counters = "posts/{post}"
    fields   = "likes,a=count(/comments where post=={post}),b=count(**/comments where post=={post}),c=avg(ratings.stars where public==true and n>=3),d=count(ratings where x in ['a', 1])"
  }

  assert {
    condition = toset(flatten([
      for t in google_eventarc_trigger.watch : [for c in t.matching_criteria : c.value if c.attribute == "document"]
    ])) == toset(["comments/{document}", "{parents=**}/comments/{document}", "posts/{post}/ratings/{document}"])
    error_message = "Each collection has a trigger of its own path."
  }
  assert {
    condition = [for i in google_firestore_index.query : join(" ", concat([i.collection, i.query_scope], [for f in i.fields : f.field_path]))] == [
      "ratings COLLECTION public n stars"
    ]
    error_message = "An average with conditions needs a composite index."
  }
  assert {
    condition     = [for f in google_firestore_field.query : "${f.collection}.${f.field}"] == ["comments.post"]
    error_message = "One field of a group needs an index in the group."
  }
}

run "plain_region" {
  command = plan

  variables {
    location = "europe-west1"
  }

  assert {
    condition     = google_cloudfunctions2_function.rollup.location == "europe-west1" && google_cloudfunctions2_function.rollup.event_trigger[0].trigger_region == "europe-west1"
    error_message = "A region is where the trigger and the functions are."
  }
}

run "nam5" {
  command = plan

  variables {
    location = "nam5"
  }

  assert {
    condition     = google_cloudfunctions2_function.rollup.location == "us-central1" && google_cloudfunctions2_function.rollup.event_trigger[0].trigger_region == "nam5"
    error_message = "nam5: functions in us-central1, trigger in nam5."
  }
  assert {
    condition     = google_cloud_scheduler_job.reconcile.region == "us-central1" && google_storage_bucket.source.location == "us-central1"
    error_message = "Only the trigger can be in a multi-region."
  }
}

run "eur3" {
  command = plan

  variables {
    location = "eur3"
  }

  assert {
    condition     = google_cloudfunctions2_function.rollup.location == "europe-west4" && google_cloudfunctions2_function.rollup.event_trigger[0].trigger_region == "eur3"
    error_message = "eur3: functions in europe-west4, trigger in eur3."
  }
}

run "another_mapping" {
  command = plan

  variables {
    location      = "nam5"
    multi_regions = { nam5 = { region = "us-east1", trigger_region = "us-central1" } }
  }

  assert {
    condition     = google_cloudfunctions2_function.rollup.location == "us-east1" && google_cloudfunctions2_function.rollup.event_trigger[0].trigger_region == "us-central1"
    error_message = "The mapping must be the user's to change."
  }
}

run "nothing_public" {
  command = plan

  assert {
    condition     = length(google_eventarc_trigger.watch) == 0
    error_message = "Without counted collections Rollup's own trigger is enough."
  }
  assert {
    condition     = length(google_cloud_run_v2_service_iam_member.increment) == 0
    error_message = "Nobody may call Increment unless named."
  }
  assert {
    condition     = length(google_firestore_database.database) == 0 && length(google_firebaserules_release.rules) == 0
    error_message = "No database and no rules unless asked for."
  }
  assert {
    condition     = google_storage_bucket.source.public_access_prevention == "enforced"
    error_message = "The source must not be public."
  }
}

run "public_when_asked_for" {
  command = plan

  variables {
    public   = true
    auth     = "firebase"
    invokers = ["user:a@example.com"]
  }

  assert {
    condition     = toset([for m in google_cloud_run_v2_service_iam_member.increment : "${m.name} ${m.role} ${m.member}"]) == toset(["counters-increment roles/run.invoker allUsers", "counters-increment roles/run.invoker user:a@example.com"])
    error_message = "public and invokers must give the invoker's role on Increment."
  }
  assert {
    condition     = google_cloud_run_v2_service_iam_member.rollup.name == "counters-rollup" && google_cloud_run_v2_service_iam_member.reconcile.name == "counters-reconcile"
    error_message = "public is for Increment only."
  }
}

run "public_without_auth" {
  command = plan

  variables {
    public = true
  }

  expect_failures = [check.public_has_auth]
}

run "public_makes_counters_without_bound" {
  command = plan

  variables {
    public      = true
    auto_create = true
  }

  expect_failures = [check.public_has_auth, check.public_makes_few_counters]
}

run "public_makes_few_counters" {
  command = plan

  variables {
    public      = true
    auto_create = 60
  }

  expect_failures = [check.public_has_auth]
}

run "rules_of_the_apps_documents_are_the_apps" {
  command = plan

  variables {
    release_rules = true
    hosted        = true
    counters      = "posts/{post}"
    fields        = "likes,views"
  }

  expect_failures = [google_firebaserules_ruleset.rules]
}

run "database_and_rules" {
  command = plan

  variables {
    create_database = true
    release_rules   = true
    counters        = "teams/{team}/posts/{post}"
    shards          = "parts"
  }

  assert {
    condition     = google_firestore_database.database[0].delete_protection_state == "DELETE_PROTECTION_ENABLED" && google_firestore_database.database[0].deletion_policy == "ABANDON"
    error_message = "Counts must survive a destroy."
  }
  assert {
    condition     = google_firebaserules_release.rules[0].name == "cloud.firestore" && strcontains(google_firebaserules_ruleset.rules[0].source[0].files[0].content, "match /teams/{team}/posts/{post} {")
    error_message = "Rules must be those of the collection."
  }
  assert {
    condition     = strcontains(google_firebaserules_ruleset.rules[0].source[0].files[0].content, "return /databases/$(database)/documents/teams/$(team)/posts/$(post)/parts/$(n);") && strcontains(google_firebaserules_ruleset.rules[0].source[0].files[0].content, "match /parts/{n}")
    error_message = "So must the paths in them be."
  }
  assert {
    condition     = contains(keys(google_project_service.service), "firebaserules.googleapis.com")
    error_message = "Releasing rules needs their API."
  }
}

run "no_exemptions" {
  command = plan

  variables {
    exempt_updated_at = false
    exempt_created_at = false
  }

  assert {
    condition     = toset([for f in google_firestore_field.field : f.collection]) == toset(["counter_requests", "counter_rollup"])
    error_message = "Without the exemptions only fields of our own are touched."
  }
}

run "roles" {
  command = apply # of mocks: who a member is, is only known then

  assert {
    condition     = alltrue([for n in ["increment", "rollup", "reconcile"] : google_project_iam_member.documents[n].member == "serviceAccount:${google_service_account.account[n].email}"])
    error_message = "Each function must have an account of its own."
  }
  assert {
    condition     = alltrue([for m in google_project_iam_member.documents : m.role == "roles/datastore.user" && m.condition[0].expression == "resource.name == \"projects/a-project/databases/(default)\""])
    error_message = "Documents of the one database."
  }
  assert {
    condition     = google_project_iam_member.eventarc_receiver.role == "roles/eventarc.eventReceiver" && google_project_iam_member.eventarc_receiver.member == "serviceAccount:${google_service_account.account["eventarc"].email}"
    error_message = "The trigger's account receives events."
  }
  assert {
    condition     = google_cloud_run_v2_service_iam_member.rollup.role == "roles/run.invoker" && google_cloud_run_v2_service_iam_member.rollup.member == "serviceAccount:${google_service_account.account["eventarc"].email}"
    error_message = "The trigger's account calls Rollup, and only that."
  }
  assert {
    condition     = google_cloud_run_v2_service_iam_member.reconcile.role == "roles/run.invoker" && google_cloud_run_v2_service_iam_member.reconcile.member == "serviceAccount:${google_service_account.account["scheduler"].email}"
    error_message = "Scheduler's account calls Reconcile, and only that."
  }
  assert {
    condition     = google_project_iam_member.eventarc_agent[0].role == "roles/eventarc.serviceAgent" && google_project_iam_member.eventarc_agent[0].member == "serviceAccount:${google_project_service_identity.eventarc.email}"
    error_message = "Eventarc's agent needs its role."
  }
  assert {
    condition     = toset([for m in google_project_iam_member.build : m.role]) == toset(["roles/logging.logWriter", "roles/storage.objectViewer"])
    error_message = "The build's roles."
  }
  assert {
    condition     = google_artifact_registry_repository_iam_member.build.repository == google_artifact_registry_repository.images[0].repository_id && google_artifact_registry_repository_iam_member.build.role == "roles/artifactregistry.writer"
    error_message = "The build writes the functions' images, and no others."
  }
  assert {
    condition = [
      for m in google_project_iam_member.build : m.condition[0].expression if m.role == "roles/storage.objectViewer"
    ] == ["resource.name.startsWith(\"projects/_/buckets/gcf-v2-sources-\")"]
    error_message = "The build reads sources of functions, and no other bucket."
  }
  assert {
    condition     = google_cloudfunctions2_function.rollup.service_config[0].service_account_email == google_service_account.account["rollup"].email && google_cloudfunctions2_function.rollup.event_trigger[0].service_account_email == google_service_account.account["eventarc"].email
    error_message = "Rollup runs as one account, and is called by another."
  }
  assert {
    condition     = google_cloud_scheduler_job.reconcile.http_target[0].oidc_token[0].service_account_email == google_service_account.account["scheduler"].email
    error_message = "Scheduler calls with a token of its own account."
  }
}

run "monitoring" {
  command = plan

  variables {
    prefix                  = "my-likes"
    lag_alert_seconds       = 60
    reconcile_missing_after = "90m"
  }

  assert {
    condition     = toset([for m in google_logging_metric.metric : m.name]) == toset([for n in ["rollup_lag", "rollup_events", "rollup_delta", "drift", "poison_events", "contention", "ambiguous_commits"] : "my-likes_${n}"])
    error_message = "Seven metrics, prefixed."
  }
  assert {
    condition     = toset(keys(google_monitoring_alert_policy.alert)) == toset(["lag", "drift", "poison", "rollup_errors", "reconcile_missing", "noted"])
    error_message = "Six alerts."
  }
  assert {
    condition     = strcontains(google_monitoring_alert_policy.alert["lag"].conditions[0].condition_prometheus_query_language[0].query, "user_my_likes_rollup_lag_bucket") && endswith(google_monitoring_alert_policy.alert["lag"].conditions[0].condition_prometheus_query_language[0].query, "> 60000")
    error_message = "The lag alert must read the metric that is made."
  }
  assert {
    condition     = google_monitoring_alert_policy.alert["lag"].conditions[0].condition_prometheus_query_language[0].disable_metric_validation
    error_message = "The first apply makes metric and alert together."
  }
  assert {
    condition     = google_monitoring_alert_policy.alert["reconcile_missing"].conditions[0].condition_absent[0].duration == "5400s"
    error_message = "reconcile_missing_after must reach its alert."
  }
  assert {
    condition     = alltrue([for a in google_monitoring_alert_policy.alert : length(a.documentation[0].content) > 100])
    error_message = "An alert must say what to do."
  }
}

run "no_alerts" {
  command = plan

  variables {
    alerts = false
  }

  assert {
    condition     = length(google_monitoring_alert_policy.alert) == 0 && length(google_logging_metric.metric) == 7
    error_message = "alerts = false leaves the metrics."
  }
}

run "internal_traffic" {
  command = plan

  assert {
    condition = (
      google_cloudfunctions2_function.rollup.service_config[0].ingress_settings == "ALLOW_INTERNAL_ONLY" &&
      google_cloudfunctions2_function.http["reconcile"].service_config[0].ingress_settings == "ALLOW_INTERNAL_ONLY" &&
      google_cloudfunctions2_function.http["increment"].service_config[0].ingress_settings == "ALLOW_ALL"
    )
    error_message = "The internet must reach Increment and nothing else."
  }
}

run "behind_a_load_balancer" {
  command = plan

  variables {
    increment_ingress = "ALLOW_INTERNAL_AND_GCLB"
    trusted_proxies   = 1
  }

  assert {
    condition = (
      google_cloudfunctions2_function.http["increment"].service_config[0].ingress_settings == "ALLOW_INTERNAL_AND_GCLB" &&
      google_cloudfunctions2_function.http["reconcile"].service_config[0].ingress_settings == "ALLOW_INTERNAL_ONLY"
    )
    error_message = "Increment must have no way in that passes by the load balancer."
  }
  assert {
    condition     = google_cloudfunctions2_function.http["increment"].service_config[0].environment_variables["TRUSTED_PROXIES"] == "1"
    error_message = "Increment must know whose word of an address counts."
  }
}

run "keys_of_ones_own" {
  command = plan

  variables {
    create_database   = true
    kms_key           = "projects/p/locations/us-central1/keyRings/r/cryptoKeys/k"
    database_kms_key  = "projects/p/locations/us-central1/keyRings/r/cryptoKeys/d"
    docker_repository = "projects/p/locations/us-central1/repositories/r"
  }

  assert {
    condition = alltrue([
      for f in concat(values(google_cloudfunctions2_function.http), [google_cloudfunctions2_function.rollup]) :
      f.kms_key_name == var.kms_key && f.build_config[0].docker_repository == var.docker_repository
    ])
    error_message = "All functions and their images must be encrypted with the key."
  }
  assert {
    condition     = google_storage_bucket.source.encryption[0].default_kms_key_name == var.kms_key
    error_message = "So must their source be."
  }
  assert {
    condition     = google_firestore_database.database[0].cmek_config[0].kms_key_name == var.database_kms_key
    error_message = "The database has a key of its own."
  }
}

run "a_key_takes_a_repository" {
  command = plan

  variables {
    kms_key = "projects/p/locations/us-central1/keyRings/r/cryptoKeys/k"
  }

  expect_failures = [google_cloudfunctions2_function.http]
}

run "more_warm_than_there_may_be" {
  command = plan

  variables {
    increment_min_instances = 11
  }

  expect_failures = [google_cloudfunctions2_function.http]
}

run "more_of_rollup_warm_than_there_may_be" {
  command = plan

  variables {
    rollup_min_instances = 3
  }

  expect_failures = [google_cloudfunctions2_function.rollup]
}

run "no_keys" {
  command = plan

  variables {
    create_database = true
  }

  assert {
    condition     = google_cloudfunctions2_function.rollup.kms_key_name == null && length(google_storage_bucket.source.encryption) == 0 && length(google_firestore_database.database[0].cmek_config) == 0
    error_message = "Google's own keys unless told otherwise."
  }
}

run "garbage_collector" {
  command = plan

  variables {
    gogc       = "off"
    gomemlimit = "200MiB"
  }

  assert {
    condition = alltrue([
      for f in concat(values(google_cloudfunctions2_function.http), [google_cloudfunctions2_function.rollup]) :
      f.service_config[0].environment_variables["GOGC"] == "off" && f.service_config[0].environment_variables["GOMEMLIMIT"] == "200MiB"
    ])
    error_message = "Go reads GOGC and GOMEMLIMIT from the environment."
  }
}

run "no_request_logs" {
  command = plan

  assert {
    condition     = google_logging_project_exclusion.request_logs[0].name == "counters-requests"
    error_message = "Requests that succeeded must not be logged unless asked for."
  }
  assert {
    condition = alltrue([
      for word in ["resource.type=\"cloud_run_revision\"", "counters-increment", "counters-rollup", "run.googleapis.com/requests", "status<300"] :
      strcontains(google_logging_project_exclusion.request_logs[0].filter, word)
    ])
    error_message = "The exclusion is of requests of Increment and Rollup, and of nothing else."
  }
}

run "request_logs" {
  command = plan

  variables {
    request_logs = true
  }

  assert {
    condition     = length(google_logging_project_exclusion.request_logs) == 0
    error_message = "request_logs keeps them."
  }
}

run "gcloud_runs_nowhere" {
  command = plan

  variables {
    fields = "likes,comments=count(comments)"
  }

  assert {
    condition     = length(terraform_data.ack_deadline) == 0 && length(terraform_data.invoker_check) == 0
    error_message = "gcloud must not run unless asked for."
  }
}

run "gcloud_runs_where_asked_for" {
  command = plan

  variables {
    fields     = "likes,comments=count(comments),stars=sum(ratings.stars)"
    run_gcloud = true
  }

  assert {
    condition     = toset(keys(terraform_data.ack_deadline)) == toset(["comments", "ratings"]) && length(terraform_data.invoker_check) == 1
    error_message = "Each subscription of ours needs its deadline."
  }
}

run "billed_by_the_request" {
  command = plan

  variables {
    run_gcloud = true
  }

  assert {
    condition     = length(terraform_data.billed_by_instance) == 0
    error_message = "Functions must be billed by the request unless something else is asked for."
  }
}

run "billed_by_the_instance" {
  command = plan

  variables {
    increment_billing = "instance"
    rollup_billing    = "instance"
    memory            = "1Gi"
    run_gcloud        = true
  }

  assert {
    condition     = toset(keys(terraform_data.billed_by_instance)) == toset(["counters-increment", "counters-rollup"]) && terraform_data.billed_by_instance["counters-rollup"].input == "run services update counters-rollup --project=a-project --region=us-central1"
    error_message = "Both functions must be billed by the instance."
  }
}

run "billed_by_the_instance_without_gcloud" {
  command = plan

  variables {
    rollup_billing = "instance"
  }

  expect_failures = [check.billing_has_gcloud]
}

run "billed_by_the_instance_with_too_little_memory" {
  command = plan

  variables {
    rollup_billing = "instance"
    run_gcloud     = true
    memory         = "256Mi"
  }

  expect_failures = [google_cloudfunctions2_function.http]
}

run "no_invoker_check" {
  command = plan

  variables {
    invoker_check = false
    run_gcloud    = true
    auth          = "firebase"
  }

  assert {
    condition     = length(google_cloud_run_v2_service_iam_member.increment) == 0
    error_message = "Where nobody's callers are checked, none is named."
  }
}

run "no_invoker_check_without_gcloud" {
  command = plan

  variables {
    invoker_check = false
    auth          = "firebase"
  }

  expect_failures = [check.invoker_check_has_gcloud]
}

run "no_invoker_check_without_auth" {
  command = plan

  variables {
    invoker_check = false
    run_gcloud    = true
    auto_create   = true
  }

  expect_failures = [check.public_has_auth, check.public_makes_few_counters]
}

run "a_second_deployment_owns_nothing" {
  command = plan

  variables {
    owns = []
  }

  assert {
    condition     = length(google_project_iam_member.eventarc_agent) == 0
    error_message = "The role of Eventarc's agent must stay the first deployment's."
  }
  assert {
    condition     = length([for f in google_firestore_field.field : f if startswith(f.collection, "counter_")]) == 0
    error_message = "What counter_requests and counter_rollup are exempt from must stay the first deployment's."
  }
}

run "every_setting_is_checked" {
  command = plan

  variables {
    database           = "a/b"
    counters           = "a"
    shards             = "a/b"
    fields             = "a.b"
    cleanup_after      = "999ms"
    num_shards         = 0
    max_shards         = 1001
    cache_ttl          = "2h"
    max_increment      = 0
    request_ttl        = "1s"
    request_timeout    = "61s"
    max_batch          = 501
    max_queue          = 0
    auth               = "nobody"
    allowed_origins    = ["https://example.com/path"]
    rate_limit         = -1
    rollup_interval    = "6s"
    commit_interval    = "2s"
    rollup_burst       = 0
    rollup_ledgers     = 0
    rollup_pending     = 1.5
    rollup_flushes     = 1001
    reconcile_deadline = "1h"
    reconcile_parallel = 101
    log_level          = "TRACE"
    auto_create        = "some"
    read_cache         = "2m"
    members            = "all"
    reset              = "all"
    trusted_proxies    = 11
    recount_max        = "2h"
    recount_age        = "1ms"
    recount_reads      = -1
    gogc               = "0"
    gomemlimit         = "much"
  }

  expect_failures = [
    var.database, var.counters, var.shards, var.fields, var.cleanup_after, var.num_shards, var.max_shards, var.cache_ttl, var.max_increment,
    var.request_ttl, var.request_timeout, var.commit_interval, var.max_batch, var.max_queue, var.auth, var.allowed_origins, var.rate_limit,
    var.rollup_interval, var.rollup_burst, var.rollup_ledgers, var.rollup_pending, var.rollup_flushes, var.reconcile_deadline,
    var.reconcile_parallel, var.log_level, var.auto_create, var.read_cache, var.members, var.reset, var.trusted_proxies,
    var.recount_max, var.recount_age, var.recount_reads, var.gogc, var.gomemlimit,
  ]
}

run "every_size_is_checked" {
  command = plan

  variables {
    project_id              = "My Project"
    location                = "EU"
    prefix                  = "much-too-long-a-prefix"
    labels                  = { Upper = "case" }
    runtime                 = "go122"
    invokers                = ["allUsers"]
    increment_concurrency   = 1
    increment_max_instances = 0
    increment_min_instances = -1
    rollup_max_instances    = 0
    rollup_min_instances    = -1
    memory                  = "512"
    reconcile_schedule      = "hourly"
    reconcile_missing_after = "24h"
    lag_alert_seconds       = 1
    notification_channels   = ["me@example.com"]
    budget                  = "1.5 euros"
    multi_regions           = { nam5 = { region = "nam5", trigger_region = "nam5" } }
    owns                    = ["everything"]
    patience                = { apis = "soon", accounts = "1s", agent = "1s" }
    increment_ingress       = "ALLOW_NONE"
    kms_key                 = "a-key"
    database_kms_key        = "a-key"
    docker_repository       = "a-repository"
    increment_billing       = "hour"
    rollup_billing          = "month"
  }

  expect_failures = [
    var.project_id, var.location, var.prefix, var.labels, var.runtime, var.invokers, var.increment_concurrency,
    var.increment_max_instances, var.increment_min_instances, var.rollup_max_instances, var.rollup_min_instances,
    var.memory, var.reconcile_schedule, var.reconcile_missing_after, var.lag_alert_seconds, var.notification_channels,
    var.multi_regions, var.owns, var.patience, var.increment_ingress, var.kms_key, var.database_kms_key,
    var.docker_repository, var.budget, var.increment_billing, var.rollup_billing,
  ]
}
