resource "google_cloud_scheduler_job" "reconcile" {
  project     = var.project_id
  region      = local.region
  name        = local.reconcile
  description = "Calls ${local.reconcile}."
  schedule    = var.reconcile_schedule
  time_zone   = "Etc/UTC"

  attempt_deadline = "${local.reconcile_seconds + 60}s"

  retry_config {
    retry_count = 1 # the next run is not far, and goes on where this one stopped
  }

  http_target {
    http_method = "POST"
    uri         = google_cloudfunctions2_function.http["reconcile"].service_config[0].uri

    oidc_token {
      service_account_email = google_service_account.account["scheduler"].email
      audience              = google_cloudfunctions2_function.http["reconcile"].service_config[0].uri
    }
  }

  depends_on = [google_cloud_run_v2_service_iam_member.reconcile]
}
