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

# So may that of the trigger that is made with the function, which doesn't name its subscription.
resource "terraform_data" "rollup_subscription" {
  count = var.run_gcloud ? 1 : 0

  triggers_replace = google_cloudfunctions2_function.rollup.event_trigger[0].trigger

  provisioner "local-exec" {
    command = "gcloud pubsub subscriptions update \"$(gcloud eventarc triggers describe ${google_cloudfunctions2_function.rollup.event_trigger[0].trigger} --project=${var.project_id} --format='value(transport.pubsub.subscription)')\" --project=${var.project_id} --expiration-period=never"
  }
}

# google_firestore_field says more of a field than TTL's when it makes or removes one.
resource "terraform_data" "ttl" {
  count = var.run_gcloud && local.enterprise && contains(var.owns, "database") ? 1 : 0

  input = local.ttl

  provisioner "local-exec" {
    command = "gcloud ${self.input} --enable-ttl"
  }

  provisioner "local-exec" {
    when    = destroy
    command = "gcloud ${self.input} --disable-ttl"
  }

  depends_on = [time_sleep.until_apis_are_active, google_firestore_database.database]
}

locals {
  ttl = "firestore fields ttls update expire_at --project=${var.project_id} --database='${var.database}' --collection-group=counter_requests --format=none"
}

check "ttl_has_gcloud" {
  assert {
    condition     = var.run_gcloud || !local.enterprise || !contains(var.owns, "database")
    error_message = "Nothing deletes markers yet, which takes gcloud in Enterprise edition. Set run_gcloud, or run: gcloud ${local.ttl} --enable-ttl"
  }
}

# How the instances of a function are billed. The functions' resource has no argument for it, a
# redeployment keeps it, and a service of google_cloud_run_v2_service beside the function would write
# the image and the settings back that it has read before. So this is the setting: where it is, a
# function is billed by the instance. It is taken back before the function changes: what is billed so
# may not have less than 512 MiB.
resource "terraform_data" "billed_by_instance" {
  for_each = { for name, billing in local.billing : name => "run services update ${name} --project=${var.project_id} --region=${local.region}" if var.run_gcloud && billing == "instance" }

  input = each.value

  provisioner "local-exec" {
    command = "gcloud ${each.value} --no-cpu-throttling"
  }

  provisioner "local-exec" {
    when    = destroy
    command = "gcloud ${self.input} --cpu-throttling"
  }

  lifecycle {
    # One that is made anew is billed by the request.
    replace_triggered_by = [google_cloudfunctions2_function.http["increment"].url, google_cloudfunctions2_function.rollup.url]
  }
}

check "billing_has_gcloud" {
  assert {
    condition     = var.run_gcloud || !contains(values(local.billing), "instance")
    error_message = "Not billed by the instance yet, which takes gcloud. Set run_gcloud, or run: ${join("; ", [for name, billing in local.billing : "gcloud run services update ${name} --project=${var.project_id} --region=${local.region} --no-cpu-throttling" if billing == "instance"])}"
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
    terraform_data.billed_by_instance, # two updates of a service at the same time get in each other's way
    terraform_data.unchecked,
  ]

  lifecycle {
    replace_triggered_by = [google_cloudfunctions2_function.http["increment"]]
  }
}

# It is where Cloud Run doesn't check, and its end has that checked again: also where run_gcloud ends
# with it, and nothing else would say so.
resource "terraform_data" "unchecked" {
  count = var.run_gcloud && !var.invoker_check ? 1 : 0

  input = "run services update ${local.increment} --project=${var.project_id} --region=${local.region}"

  provisioner "local-exec" {
    when    = destroy
    command = "gcloud ${self.input} --invoker-iam-check"
  }

  # Behind which it is made, and before which it ends.
  depends_on = [google_cloudfunctions2_function.http, terraform_data.billed_by_instance]
}

check "invoker_check_has_gcloud" {
  assert {
    condition     = var.invoker_check || var.run_gcloud
    error_message = "Cloud Run still checks who calls: invoker_check is false, which takes gcloud. Set run_gcloud, or run: gcloud run services update ${local.increment} --project=${var.project_id} --region=${local.region} --no-invoker-iam-check"
  }
}
