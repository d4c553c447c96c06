locals {
  multi_region   = try(var.multi_regions[var.location], null)
  region         = local.multi_region == null ? var.location : local.multi_region.region
  trigger_region = local.multi_region == null ? var.location : local.multi_region.trigger_region

  # The names are known before anything is made, so that metrics, alerts and grants can name what
  # comes after them.
  increment = "${var.prefix}-increment"
  rollup    = "${var.prefix}-rollup"
  reconcile = "${var.prefix}-reconcile"

  services = setunion([
    "artifactregistry.googleapis.com",
    "cloudbuild.googleapis.com",
    "cloudfunctions.googleapis.com",
    "cloudresourcemanager.googleapis.com",
    "cloudscheduler.googleapis.com",
    "eventarc.googleapis.com",
    "firestore.googleapis.com",
    "iam.googleapis.com",
    "logging.googleapis.com",
    "monitoring.googleapis.com",
    "pubsub.googleapis.com",
    "run.googleapis.com",
    "storage.googleapis.com",
    ],
    var.release_rules ? ["firebaserules.googleapis.com"] : [],
  )
}

resource "google_project_service" "service" {
  for_each = local.services

  project            = var.project_id
  service            = each.value
  disable_on_destroy = false # others in the project may use it
}

# An API answers "it is disabled" for up to a minute after it was turned on, and the provider
# doesn't try again.
resource "time_sleep" "until_apis_are_active" {
  create_duration = var.patience.apis
  triggers        = { apis = join(" ", local.services) } # waits again when a version needs another one

  depends_on = [google_project_service.service]
}

# Only for the project's number. It waits for the API that it is read from, so that a plan for a new
# project works.
data "google_project" "project" {
  project_id = var.project_id

  depends_on = [time_sleep.until_apis_are_active]
}
