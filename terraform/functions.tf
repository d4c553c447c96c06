locals {
  # By the instance is billed what has 512 MiB at least, and a whole CPU, as all have.
  memory_mib    = tonumber(regex("^[0-9]+", var.memory)) * { Mi = 1, Gi = 1024 }[regex("[A-Z]i$", var.memory)]
  memory_is_low = contains(values(local.billing), "instance") && local.memory_mib < 512

  # Go's duration of the setting, in seconds.
  reconcile_seconds = ceil(
    tonumber(regex("^[0-9]+", var.reconcile_deadline)) * { ms = 0.001, s = 1, m = 60, h = 3600 }[regex("[a-z]+$", var.reconcile_deadline)]
  )

  http = {
    increment = {
      name          = local.increment
      entry_point   = "Increment"
      description   = "Adds to counters and reads them."
      timeout       = 75 # above the largest REQUEST_TIMEOUT
      concurrency   = var.increment_concurrency
      max_instances = local.increments
      min_instances = var.increment_min_instances
      ingress       = var.increment_ingress
    }
    reconcile = {
      name          = local.reconcile
      entry_point   = "Reconcile"
      description   = "Holds every total against its shards, and mends it."
      timeout       = local.reconcile_seconds + 60 # time to remember where it stopped, and to answer
      concurrency   = 100                          # Scheduler's call, and those for counters by name beside it
      max_instances = 1
      min_instances = 0
      ingress       = "ALLOW_INTERNAL_ONLY" # Scheduler's calls within the project are
    }
  }
}

locals {
  # Collections whose documents are counted, as in comments=count(comments) or
  # stars=sum(ratings.stars where kind=='a'), and what each one's trigger is called: a name made of
  # all that it is for, as counters deploy has it. With extension, also the shards of Firebase's.
  watched = {
    for source in concat(local.queries[*].source, var.extension ? ["_counter_shards_"] : []) :
    source => "${var.prefix}-watch-${substr(sha256("${local.region}/${var.database}/${var.counters}/${source}"), 0, 8)}"...
  }
  # What FIELDS asks for, and the conditions of each: equalities, and ranges.
  queries = [
    for m in regexall("(?:count|sum|avg) *[(] *([*][*]/|/|) *([A-Za-z0-9_-]+)((?:[.][A-Za-z0-9_]+)*)((?: +where [^()]*)?) *[)]", replace(var.fields, "/'[^']*'/", "''")) : {
      source     = "${m[0]}${m[1]}"
      collection = m[1]
      pattern    = "${m[0] == "" ? "${var.counters}/" : m[0] == "/" ? "" : "{parents=**}/"}${m[1]}/{document}"
      group      = m[0] == "**/"
      ranges     = [for c in regexall("([A-Za-z0-9_.]+) *[<>]", m[3]) : c[0]]
      fields = distinct(concat(
        [for c in regexall("([A-Za-z0-9_.]+) *(?:==| in )", m[3]) : c[0]],
        [for c in regexall("([A-Za-z0-9_.]+) *[<>]", m[3]) : c[0]],
        compact([trimprefix(m[2], ".")]),
      ))
      sums = m[2] != ""
    }
  ]
  # Of the fields of queries, those that need an index that Firestore doesn't make by itself:
  # several, unless they are equalities of a count, whose indexes are merged; and any of a group. In
  # Enterprise edition it makes none.
  indexes = {
    for q in concat(local.queries, local.members, local.held) : "${q.source} ${join(" ", q.fields)}" => q...
    if local.enterprise || q.group ? length(q.fields) > 0 : length(q.fields) > 1 && (q.sums || length(q.ranges) > 0)
  }
  enterprise = var.database_edition == "ENTERPRISE"
  # The fields that are no query.
  sums = [
    for m in regexall("([^,= ]+) *(?:= *[^,= ]+ *)?(?:,|$)", replace(replace(var.fields, "/'[^']*'/", "''"), "/[^,= ]+ *= *(?:count|sum|avg) *[(][^()]*[)](?: +as +double)? */", "")) : m[0]
  ]
  # counters forget asks for a member of any counter, in each of them.
  members = [
    for name in local.sums :
    { source = "**/${name}_members", collection = "${name}_members", pattern = "", group = true, ranges = [], fields = ["member"], sums = false }
    if var.members == "" ? var.auth == "firebase" : var.members != "off"
  ]
  # Seats and amounts that are held are looked for when they are over, and shards of Firebase's extension that hold
  # something.
  held = [
    for h in local.enterprise ? concat([for m in local.members : [m.collection, "until"]], [for name in local.sums : ["_counter_shards_", name] if var.extension], length(local.sums) > 0 ? [["counter_requests", "until"], ["counter_requests", "due"]] : []) : [] :
    { source = h[0], collection = h[0], pattern = "", group = false, ranges = [], fields = [h[1]], sums = false }
  ]
}

# Startup CPU boost has no argument here: the platform turns it on for every function of the 2nd
# generation.
resource "google_cloudfunctions2_function" "http" {
  for_each = local.http

  project     = var.project_id
  location    = local.region
  name        = each.value.name
  description = each.value.description
  labels      = local.labels

  kms_key_name = var.kms_key == "" ? null : var.kms_key

  build_config {
    runtime         = var.runtime
    entry_point     = each.value.entry_point
    service_account = google_service_account.account["build"].id

    docker_repository = local.docker_repository

    source {
      storage_source {
        bucket = google_storage_bucket_object.source.bucket
        object = google_storage_bucket_object.source.name
      }
    }
  }

  service_config {
    available_cpu                    = "1" # less allows no concurrency
    available_memory                 = var.memory
    max_instance_request_concurrency = each.value.concurrency # the platform's own default is 1
    max_instance_count               = each.value.max_instances
    min_instance_count               = each.value.min_instances
    timeout_seconds                  = each.value.timeout
    ingress_settings                 = each.value.ingress
    service_account_email            = google_service_account.account[each.key].email
    environment_variables            = merge(local.environment, { CEILING = local.ceilings[each.key] })
    all_traffic_on_latest_revision   = true
  }

  depends_on = [
    google_artifact_registry_repository_iam_member.build,
    google_project_iam_member.build,
    google_project_iam_member.documents,
  ]

  lifecycle {
    precondition {
      condition     = var.kms_key == "" || var.docker_repository != ""
      error_message = "kms_key takes docker_repository: the platform's own repository isn't encrypted with it. Name one of Artifact Registry that is encrypted with the same key."
    }
    precondition {
      condition     = !local.memory_is_low
      error_message = "memory must be 512Mi at least where increment_billing or rollup_billing is instance: Cloud Run refuses less."
    }
    precondition {
      condition     = each.value.min_instances <= each.value.max_instances
      error_message = "increment_min_instances must be at most increment_max_instances."
    }
    precondition {
      condition     = !local.bounded || local.keeps
      error_message = "most_per_day: ${local.dollars} US dollars a day can't be kept: want ${local.least_per_day} at least, by list prices, with an instance each of Increment and Rollup all day; or none. By the instance it is less, which takes run_gcloud."
    }
    precondition {
      condition     = !local.bounded || var.ceiling == ""
      error_message = "ceiling must be empty where most_per_day works it out for each function: set most_per_day to none with it."
    }
  }
}

resource "google_cloudfunctions2_function" "rollup" {
  project     = var.project_id
  location    = local.region
  name        = local.rollup
  description = "Keeps every counter's total: called with each write of a shard."
  labels      = local.labels

  kms_key_name = var.kms_key == "" ? null : var.kms_key

  build_config {
    runtime         = var.runtime
    entry_point     = "Rollup"
    service_account = google_service_account.account["build"].id

    docker_repository = local.docker_repository

    source {
      storage_source {
        bucket = google_storage_bucket_object.source.bucket
        object = google_storage_bucket_object.source.name
      }
    }
  }

  service_config {
    available_cpu                    = "1"
    available_memory                 = var.memory
    max_instance_request_concurrency = 1000 # the most there is: events wait here for the flush that they share
    max_instance_count               = local.rollups
    min_instance_count               = var.rollup_min_instances
    timeout_seconds                  = 60
    ingress_settings                 = "ALLOW_INTERNAL_ONLY" # Eventarc's deliveries within the project are
    service_account_email            = google_service_account.account["rollup"].email
    environment_variables            = merge(local.environment, { CEILING = local.ceilings["rollup"] })
    all_traffic_on_latest_revision   = true
  }

  event_trigger {
    event_type            = "google.cloud.firestore.document.v1.written"
    trigger_region        = local.trigger_region
    retry_policy          = "RETRY_POLICY_RETRY" # without it an event that fails once is gone
    service_account_email = google_service_account.account["eventarc"].email

    event_filters {
      attribute = "database"
      value     = var.database
    }

    event_filters {
      attribute = "document"
      operator  = "match-path-pattern"
      value     = "${var.counters}/${var.shards}/{shard}"
    }
  }

  depends_on = [
    google_firestore_database.database,
    google_project_iam_member.build,
    google_project_iam_member.documents,
    google_project_iam_member.eventarc_receiver,
    time_sleep.until_the_agent_has_its_role,
    # A grant may take longer than that to reach every corner, and the first function's build takes
    # minutes too.
    google_cloudfunctions2_function.http,
  ]

  lifecycle {
    precondition {
      condition     = var.rollup_min_instances <= local.rollups
      error_message = "rollup_min_instances must be at most rollup_max_instances."
    }
    precondition {
      condition     = var.hosted || !var.extension
      error_message = "extension needs hosted: the extension counts in documents of your app's own."
    }
  }
}

# A function has one trigger of its own. These bring the events of what else is counted to the same
# service, which tells them apart by their paths. Retry is on, and 24 hours long, as the function's.
resource "google_eventarc_trigger" "watch" {
  for_each = local.watched

  project                 = var.project_id
  location                = local.trigger_region
  name                    = each.value[0]
  labels                  = var.labels
  service_account         = google_service_account.account["eventarc"].email
  event_data_content_type = "application/protobuf"

  matching_criteria {
    attribute = "type"
    value     = "google.cloud.firestore.document.v1.written"
  }

  matching_criteria {
    attribute = "database"
    value     = var.database
  }

  matching_criteria {
    attribute = "document"
    operator  = "match-path-pattern"
    value     = one(distinct(concat([for q in local.queries : q.pattern if q.source == each.key], each.key == "_counter_shards_" ? ["${var.counters}/_counter_shards_/{document}"] : [])))
  }

  destination {
    cloud_run_service {
      service = google_cloudfunctions2_function.rollup.name
      region  = local.region
    }
  }

  depends_on = [google_cloud_run_v2_service_iam_member.rollup]
}
