# One account for each function, one for each caller, one for the build: whoever takes over one of
# them can do what that one does, and nothing else.

locals {
  accounts = {
    increment = "Runs ${local.increment}: reads and writes documents."
    rollup    = "Runs ${local.rollup}: reads and writes documents."
    reconcile = "Runs ${local.reconcile}: reads and writes documents."
    eventarc  = "Carries Firestore's events to ${local.rollup}."
    scheduler = "Calls ${local.reconcile}."
    build     = "Builds the functions."
  }
}

resource "google_service_account" "account" {
  for_each = local.accounts

  project      = var.project_id
  account_id   = "${var.prefix}-${each.key}"
  display_name = "${var.prefix}-${each.key}"
  description  = each.value

  depends_on = [time_sleep.until_apis_are_active]
}

# A new account is refused as unknown for some seconds where it is named: in policies, functions and
# jobs.
resource "time_sleep" "until_accounts_are_known" {
  create_duration = var.patience.accounts
  triggers        = { for name, account in google_service_account.account : name => account.unique_id }
}

# The functions: documents of this one database. Roles on a database can be given on its project
# only.
resource "google_project_iam_member" "documents" {
  for_each = toset(["increment", "rollup", "reconcile"])

  project = var.project_id
  role    = "roles/datastore.user"
  member  = "serviceAccount:${google_service_account.account[each.key].email}"

  condition {
    title       = "${var.prefix}-database"
    description = "The counters' database only"
    expression  = "resource.name == \"projects/${var.project_id}/databases/${var.database}\""
  }

  depends_on = [time_sleep.until_accounts_are_known]
}

# The build: its logs, and the source; and the image, in images.tf. The bucket is the platform's own,
# made with the first function of a region, so it is given on the project, on condition of its name.
resource "google_project_iam_member" "build" {
  for_each = toset(["roles/logging.logWriter", "roles/storage.objectViewer"])

  project = var.project_id
  role    = each.value
  member  = "serviceAccount:${google_service_account.account["build"].email}"

  dynamic "condition" {
    for_each = each.value == "roles/storage.objectViewer" ? [1] : []
    content {
      title       = "${var.prefix}-source"
      description = "The functions' sources only"
      expression  = "resource.name.startsWith(\"projects/_/buckets/gcf-v2-sources-\")"
    }
  }

  depends_on = [time_sleep.until_accounts_are_known]
}

# The caller of Rollup: take events, and call that one service.
resource "google_project_iam_member" "eventarc_receiver" {
  project = var.project_id
  role    = "roles/eventarc.eventReceiver"
  member  = "serviceAccount:${google_service_account.account["eventarc"].email}"

  depends_on = [time_sleep.until_accounts_are_known]
}

resource "google_cloud_run_v2_service_iam_member" "rollup" {
  project  = var.project_id
  location = local.region
  name     = google_cloudfunctions2_function.rollup.name
  role     = "roles/run.invoker"
  member   = "serviceAccount:${google_service_account.account["eventarc"].email}"
}

# The caller of Reconcile.
resource "google_cloud_run_v2_service_iam_member" "reconcile" {
  project  = var.project_id
  location = local.region
  name     = google_cloudfunctions2_function.http["reconcile"].name
  role     = "roles/run.invoker"
  member   = "serviceAccount:${google_service_account.account["scheduler"].email}"
}

# The callers of Increment: none unless they are named, everyone only when that is asked for. They
# are let in last, as an organisation's policy may refuse it, and go first.
resource "google_cloud_run_v2_service_iam_member" "increment" {
  for_each = setunion(var.invokers, var.public ? ["allUsers"] : [])

  project  = var.project_id
  location = local.region
  name     = google_cloudfunctions2_function.http["increment"].name
  role     = "roles/run.invoker"
  member   = each.value

  depends_on = [
    google_cloud_scheduler_job.reconcile,
    google_eventarc_trigger.watch,
    google_firestore_field.field,
    google_firestore_field.query,
    google_firestore_index.query,
    google_monitoring_alert_policy.alert,
    google_monitoring_dashboard.dashboard,
  ]
}

check "public_has_auth" {
  assert {
    condition     = !((var.public || !var.invoker_check) && var.auth == "none")
    error_message = "Anybody on the internet can count: nobody checks who calls, and auth is none. Set auth to firebase or appcheck, or list the callers in invokers."
  }
}

check "public_makes_few_counters" {
  assert {
    condition     = !((var.public || !var.invoker_check) && var.auth == "none" && tostring(var.auto_create) == "true")
    error_message = "Anybody on the internet can make counters without bound, and each is some 15 documents that are read hourly: nobody checks who calls, auth is none and auto_create is true. Set auto_create to a number of new counters a minute and caller, or auth to firebase or appcheck."
  }
}

# Eventarc's own agent. Without it the first apply in a project fails with "Permission denied while
# using the Eventarc Service Agent": the API makes the agent lazily, and grants it its role later
# still.
resource "google_project_service_identity" "eventarc" {
  provider = google-beta

  project = var.project_id
  service = "eventarc.googleapis.com"

  depends_on = [time_sleep.until_apis_are_active]
}

# All deployments of the project need it, and the first one to be destroyed must not take it from
# the others.
resource "google_project_iam_member" "eventarc_agent" {
  count = contains(var.owns, "project") ? 1 : 0

  project = var.project_id
  role    = "roles/eventarc.serviceAgent"
  member  = "serviceAccount:${google_project_service_identity.eventarc.email}"
}

# The trigger is refused until the role has reached every corner.
resource "time_sleep" "until_the_agent_has_its_role" {
  create_duration = var.patience.agent
  triggers        = { member = google_project_service_identity.eventarc.email }

  depends_on = [google_project_iam_member.eventarc_agent]
}
