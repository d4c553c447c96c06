# What a plan holds, with the providers mocked: no project, no credentials. Run it with
# terraform/check.sh. What counters deploy makes as well, ../agreement_test.go holds the two together.

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

  assert {
    condition     = alltrue([for f in google_cloudfunctions2_function.http : f.service_config[0].environment_variables["AUTO_CREATE"] == "60"])
    error_message = "The functions must be told the number."
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
    condition     = strcontains(google_firebaserules_ruleset.rules[0].source[0].files[0].content, "return /databases/$(database)/documents/teams/$(team)/posts/$(post)/$(field + '_members')/$(request.auth.uid);") && length(regexall("/counters/|/shards/|[$][(]counter[)]", google_firebaserules_ruleset.rules[0].source[0].files[0].content)) == 0
    error_message = "And those of members; nothing of the defaults is left."
  }
  assert {
    condition     = contains(keys(google_project_service.service), "firebaserules.googleapis.com")
    error_message = "Releasing rules needs their API."
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
    condition     = toset([for m in google_logging_metric.metric : m.name]) == toset([for n in ["rollup_lag", "rollup_events", "rollup_delta", "drift", "poison_events", "contention", "ambiguous_commits", "ceiling_held", "ceiling_used"] : "my-likes_${n}"])
    error_message = "Nine metrics, prefixed."
  }
  assert {
    condition     = toset(keys(google_monitoring_alert_policy.alert)) == toset(["lag", "drift", "poison", "rollup_errors", "reconcile_missing", "noted", "ceiling_half", "ceiling_held"])
    error_message = "Eight alerts."
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
    condition     = length(google_monitoring_alert_policy.alert) == 0 && length(google_logging_metric.metric) == 9
    error_message = "alerts = false leaves the metrics."
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
    increment_max_instances = 10
  }

  expect_failures = [google_cloudfunctions2_function.http]
}

run "more_of_rollup_warm_than_there_may_be" {
  command = plan

  variables {
    rollup_min_instances = 3
    rollup_max_instances = 2
  }

  expect_failures = [google_cloudfunctions2_function.rollup]
}

run "a_ceiling_that_can_not_be_kept" {
  command = plan

  variables {
    most_per_day = "3"
  }

  expect_failures = [google_cloudfunctions2_function.http]
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

run "enterprise_edition" {
  command = plan

  variables {
    create_database  = true
    database_edition = "ENTERPRISE"
    fields           = "likes,n=count(/notes where post=={counter})"
    members          = "any"
    run_gcloud       = true
  }

  assert {
    condition     = google_firestore_database.database[0].database_edition == "ENTERPRISE" && length(google_firestore_field.field) == 0 && length(terraform_data.ttl) == 1
    error_message = "No field must be configured but by the TTL policy."
  }

  assert {
    condition     = toset(keys(google_firestore_index.query)) == toset(["/notes post", "**/likes_members member", "likes_members until", "counter_requests until", "counter_requests due"])
    error_message = "Queries must have their indexes."
  }
}

run "enterprise_edition_without_gcloud" {
  command = plan

  variables {
    database_edition = "ENTERPRISE"
  }

  expect_failures = [check.ttl_has_gcloud]
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
    auto_create   = true
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

run "every_setting_is_checked" {
  command = plan

  variables {
    database           = "a/b"
    counters           = "a"
    shards             = "a/b"
    fields             = "a.b"
    cleanup_after      = "999ms"
    cleanup            = "all"
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
    ceiling            = "5USD"
    rollup_interval    = "6s"
    commit_interval    = "2s"
    rollup_burst       = 0
    rollup_pending     = 1.5
    rollup_flushes     = 1001
    reconcile_deadline = "1h"
    reconcile_parallel = 101
    log_level          = "TRACE"
    auto_create        = "some"
    read_cache         = "2m"
    members            = "all"
    reset              = "all"
    limit              = "all"
    trusted_proxies    = 11
    recount_max        = "2h"
    recount_age        = "1ms"
    recount_reads      = -1
    gogc               = "0"
    gomemlimit         = "much"
  }

  expect_failures = [
    var.database, var.counters, var.shards, var.fields, var.cleanup_after, var.cleanup, var.num_shards, var.max_shards, var.cache_ttl, var.max_increment,
    var.request_ttl, var.request_timeout, var.commit_interval, var.max_batch, var.max_queue, var.auth, var.allowed_origins, var.rate_limit,
    var.ceiling, var.rollup_interval, var.rollup_burst, var.rollup_pending, var.rollup_flushes, var.reconcile_deadline,
    var.reconcile_parallel, var.log_level, var.auto_create, var.read_cache, var.members, var.reset, var.limit, var.trusted_proxies,
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
    increment_max_instances = -1
    increment_min_instances = -1
    rollup_max_instances    = -1
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
    database_edition        = "enterprise"
    most_per_day            = "5 euros"
  }

  expect_failures = [
    var.project_id, var.location, var.prefix, var.labels, var.runtime, var.invokers, var.increment_concurrency,
    var.increment_max_instances, var.increment_min_instances, var.rollup_max_instances, var.rollup_min_instances,
    var.memory, var.reconcile_schedule, var.reconcile_missing_after, var.lag_alert_seconds, var.notification_channels,
    var.multi_regions, var.owns, var.patience, var.increment_ingress, var.kms_key, var.database_kms_key,
    var.docker_repository, var.budget, var.increment_billing, var.rollup_billing,
    var.database_edition, var.most_per_day,
  ]
}
