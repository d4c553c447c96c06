# Where the functions' images are. The platform's own repository, gcf-artifacts, has those of all
# functions of the project: whoever builds there may write what others run.

locals {
  docker_repository = var.docker_repository == "" ? "projects/${var.project_id}/locations/${local.region}/repositories/${var.prefix}-functions" : var.docker_repository
}

resource "google_artifact_registry_repository" "images" {
  count = var.docker_repository == "" ? 1 : 0

  project       = var.project_id
  location      = local.region
  repository_id = "${var.prefix}-functions"
  description   = "Images of ${local.increment}, ${local.rollup} and ${local.reconcile}."
  format        = "DOCKER"
  labels        = var.labels

  depends_on = [time_sleep.until_apis_are_active]
}

resource "google_artifact_registry_repository_iam_member" "build" {
  project    = split("/", local.docker_repository)[1]
  location   = split("/", local.docker_repository)[3]
  repository = split("/", local.docker_repository)[5]
  role       = "roles/artifactregistry.writer"
  member     = "serviceAccount:${google_service_account.account["build"].email}"

  depends_on = [google_artifact_registry_repository.images, time_sleep.until_accounts_are_known]
}
