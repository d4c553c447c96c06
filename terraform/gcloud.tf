# What the providers have no argument for, and gcloud does. It runs where terraform does, and only
# where that is asked for.

# Pub/Sub would hang up on a waiting event after 10 s, and send it again; and a subscription through
# which nothing has come for a month may go away.
resource "terraform_data" "ack_deadline" {
  for_each = var.run_gcloud ? local.watched : {}

  triggers_replace = google_eventarc_trigger.watch[each.key].uid # one that is made again has another subscription

  provisioner "local-exec" {
    command = "gcloud pubsub subscriptions update ${google_eventarc_trigger.watch[each.key].transport[0].pubsub[0].subscription} --project=${var.project_id} --ack-deadline=70 --expiration-period=never"
  }
}

# Whether Cloud Run checks who calls Increment (terraform-provider-google#23360). Said again with
# each change of the function, as it is nowhere said to outlive one.
resource "terraform_data" "invoker_check" {
  count = var.run_gcloud ? 1 : 0

  triggers_replace = var.invoker_check

  provisioner "local-exec" {
    command = "gcloud run services update ${local.increment} --project=${var.project_id} --region=${local.region} --${var.invoker_check ? "" : "no-"}invoker-iam-check"
  }

  # Callers are let in last.
  depends_on = [
    google_cloud_scheduler_job.reconcile,
    google_eventarc_trigger.watch,
    google_firestore_field.field,
    google_firestore_field.query,
    google_firestore_index.query,
    google_monitoring_alert_policy.alert,
    google_monitoring_dashboard.dashboard,
  ]

  lifecycle {
    replace_triggered_by = [google_cloudfunctions2_function.http["increment"]]
  }
}

check "invoker_check_has_gcloud" {
  assert {
    condition     = var.invoker_check || var.run_gcloud
    error_message = "Cloud Run still checks who calls: invoker_check is false, which takes gcloud. Set run_gcloud, or run: gcloud run services update ${local.increment} --project=${var.project_id} --region=${local.region} --no-invoker-iam-check"
  }
}
