output "increment_url" {
  description = "Where to count: POST {url}/{counter} adds, GET {url}/{counter} reads. counters smoke takes it as its argument."
  value       = google_cloudfunctions2_function.http["increment"].service_config[0].uri
}

output "reconcile_url" {
  description = "What Scheduler calls."
  value       = google_cloudfunctions2_function.http["reconcile"].service_config[0].uri
}

output "reconcile_command" {
  description = "Runs Reconcile now, over all counters."
  value       = "gcloud scheduler jobs run ${google_cloud_scheduler_job.reconcile.name} --project=${var.project_id} --location=${local.region}"
}

output "rollup_trigger" {
  description = "Full name of the Eventarc trigger, for gcloud eventarc triggers describe."
  value       = google_cloudfunctions2_function.rollup.event_trigger[0].trigger
}

output "ack_deadline_commands" {
  description = "Commands to run after an apply that makes a trigger, unless run_gcloud does. Otherwise Pub/Sub hangs up on a counted collection's waiting event after 10 s, and sends it again; and deletes a subscription without traffic for 31 days."
  value = flatten([
    "gcloud pubsub subscriptions update \"$(gcloud eventarc triggers describe ${google_cloudfunctions2_function.rollup.event_trigger[0].trigger} --project=${var.project_id} --format='value(transport.pubsub.subscription)')\" --project=${var.project_id} --expiration-period=never",
    [
      for trigger in google_eventarc_trigger.watch : [
        for transport in trigger.transport : [
          for pubsub in transport.pubsub :
          "gcloud pubsub subscriptions update ${pubsub.subscription} --project=${var.project_id} --ack-deadline=70 --expiration-period=never"
        ]
      ]
    ]
  ])
}

output "functions" {
  description = "Names of the functions, which are those of their Cloud Run services too."
  value       = { increment = local.increment, rollup = local.rollup, reconcile = local.reconcile }
}

output "region" {
  description = "Region of the functions and of the Scheduler job."
  value       = local.region
}

output "trigger_region" {
  description = "Location of the Eventarc trigger, which is the database's."
  value       = local.trigger_region
}

output "service_accounts" {
  description = "Email addresses of the accounts that were made, by what they do."
  value       = { for name, account in google_service_account.account : name => account.email }
}

output "dashboard_url" {
  description = "The dashboard, in the console."
  value       = "https://console.cloud.google.com/monitoring/dashboards/builder/${basename(google_monitoring_dashboard.dashboard.id)}?project=${var.project_id}"
}
