# Metrics from the functions' logs, alerts on them, and a dashboard. They are files in the form of
# Google's API, so that counters deploy makes the same ones from the same text.

locals {
  monitoring = {
    prefix = var.prefix
    # As PromQL spells it.
    prom_prefix             = replace(var.prefix, "-", "_")
    lag_alert_ms            = var.lag_alert_seconds * 1000
    reconcile_missing_after = "${tonumber(regex("^[0-9]+", var.reconcile_missing_after)) * { m = 60, h = 3600 }[regex("[mh]$", var.reconcile_missing_after)]}s"
  }

  metrics = {
    for f in fileset("${path.module}/monitoring/metrics", "*.json") :
    trimsuffix(f, ".json") => jsondecode(templatefile("${path.module}/monitoring/metrics/${f}", local.monitoring))
  }

  request_logs = jsondecode(templatefile("${path.module}/monitoring/request_logs.json", local.monitoring))

  alerts = {
    for f in fileset("${path.module}/monitoring/alerts", "*.json") :
    trimsuffix(f, ".json") => jsondecode(templatefile("${path.module}/monitoring/alerts/${f}", local.monitoring))
  }
}

# A metric's name is no argument that makes it anew: the provider would make the new one, and forget
# the old one where it is.
resource "terraform_data" "prefix" {
  input = var.prefix
}

resource "google_logging_metric" "metric" {
  for_each = local.metrics

  project         = var.project_id
  name            = each.value.name
  description     = each.value.description
  filter          = each.value.filter
  value_extractor = try(each.value.valueExtractor, null)

  metric_descriptor {
    metric_kind = each.value.metricDescriptor.metricKind
    value_type  = each.value.metricDescriptor.valueType
    unit        = each.value.metricDescriptor.unit
  }

  dynamic "bucket_options" {
    for_each = contains(keys(each.value), "bucketOptions") ? [each.value.bucketOptions] : []
    content {
      dynamic "exponential_buckets" {
        for_each = contains(keys(bucket_options.value), "exponentialBuckets") ? [bucket_options.value.exponentialBuckets] : []
        content {
          num_finite_buckets = exponential_buckets.value.numFiniteBuckets
          growth_factor      = exponential_buckets.value.growthFactor
          scale              = exponential_buckets.value.scale
        }
      }
      dynamic "explicit_buckets" {
        for_each = contains(keys(bucket_options.value), "explicitBuckets") ? [bucket_options.value.explicitBuckets] : []
        content {
          bounds = explicit_buckets.value.bounds
        }
      }
    }
  }

  depends_on = [time_sleep.until_apis_are_active]

  lifecycle {
    replace_triggered_by = [terraform_data.prefix]
  }
}

resource "google_monitoring_alert_policy" "alert" {
  for_each = { for name, alert in local.alerts : name => alert if var.alerts }

  project               = var.project_id
  display_name          = each.value.displayName
  combiner              = each.value.combiner
  severity              = each.value.severity
  notification_channels = var.notification_channels

  documentation {
    mime_type = each.value.documentation.mimeType
    content   = each.value.documentation.content
  }

  alert_strategy {
    auto_close = each.value.alertStrategy.autoClose

    dynamic "notification_rate_limit" {
      for_each = contains(keys(each.value.alertStrategy), "notificationRateLimit") ? [each.value.alertStrategy.notificationRateLimit] : []
      content {
        period = notification_rate_limit.value.period
      }
    }
  }

  dynamic "conditions" {
    for_each = each.value.conditions
    content {
      display_name = conditions.value.displayName

      dynamic "condition_matched_log" {
        for_each = contains(keys(conditions.value), "conditionMatchedLog") ? [conditions.value.conditionMatchedLog] : []
        content {
          filter           = condition_matched_log.value.filter
          label_extractors = condition_matched_log.value.labelExtractors
        }
      }

      dynamic "condition_prometheus_query_language" {
        for_each = contains(keys(conditions.value), "conditionPrometheusQueryLanguage") ? [conditions.value.conditionPrometheusQueryLanguage] : []
        content {
          query                     = condition_prometheus_query_language.value.query
          duration                  = condition_prometheus_query_language.value.duration
          evaluation_interval       = condition_prometheus_query_language.value.evaluationInterval
          disable_metric_validation = condition_prometheus_query_language.value.disableMetricValidation
        }
      }

      dynamic "condition_threshold" {
        for_each = contains(keys(conditions.value), "conditionThreshold") ? [conditions.value.conditionThreshold] : []
        content {
          filter          = condition_threshold.value.filter
          comparison      = condition_threshold.value.comparison
          threshold_value = condition_threshold.value.thresholdValue
          duration        = condition_threshold.value.duration

          dynamic "aggregations" {
            for_each = condition_threshold.value.aggregations
            content {
              alignment_period     = aggregations.value.alignmentPeriod
              per_series_aligner   = aggregations.value.perSeriesAligner
              cross_series_reducer = aggregations.value.crossSeriesReducer
            }
          }
        }
      }

      dynamic "condition_absent" {
        for_each = contains(keys(conditions.value), "conditionAbsent") ? [conditions.value.conditionAbsent] : []
        content {
          filter   = condition_absent.value.filter
          duration = condition_absent.value.duration

          dynamic "aggregations" {
            for_each = condition_absent.value.aggregations
            content {
              alignment_period     = aggregations.value.alignmentPeriod
              per_series_aligner   = aggregations.value.perSeriesAligner
              cross_series_reducer = aggregations.value.crossSeriesReducer
            }
          }
        }
      }
    }
  }

  depends_on = [google_logging_metric.metric]
}

# Cloud Run logs each request: at a thousand a second they cost nearly what all else does. Metrics
# and alerts don't need them.
resource "google_logging_project_exclusion" "request_logs" {
  count = var.request_logs ? 0 : 1

  project     = var.project_id
  name        = local.request_logs.name
  description = local.request_logs.description
  filter      = local.request_logs.filter

  depends_on = [time_sleep.until_apis_are_active]
}

resource "google_monitoring_dashboard" "dashboard" {
  project        = var.project_id
  dashboard_json = templatefile("${path.module}/monitoring/dashboard.json", local.monitoring)

  depends_on = [google_logging_metric.metric]
}

# The budget's APIs, and what is read by them, apart from all others: what waits for them isn't known
# when a budget is added, and the functions' settings have to be.
resource "google_project_service" "budget" {
  for_each = var.budget == "" ? toset([]) : toset(["billingbudgets.googleapis.com", "cloudbilling.googleapis.com"])

  project            = var.project_id
  service            = each.value
  disable_on_destroy = false
}

resource "time_sleep" "until_budgets_are_active" {
  count = var.budget == "" ? 0 : 1

  create_duration = var.patience.apis

  depends_on = [google_project_service.budget]
}

data "google_project" "billed" {
  count = var.budget == "" ? 0 : 1

  project_id = var.project_id

  depends_on = [time_sleep.until_apis_are_active, time_sleep.until_budgets_are_active]
}

# It is the billing account's: whoever applies needs roles/billing.costsManager there.
resource "google_billing_budget" "budget" {
  count = var.budget == "" ? 0 : 1

  billing_account = data.google_project.billed[0].billing_account
  display_name    = "${var.prefix} in ${var.project_id}"

  budget_filter {
    projects = ["projects/${data.google_project.billed[0].number}"]
  }

  amount {
    specified_amount {
      units         = regex("^[0-9]+", var.budget)
      currency_code = one(regexall("[A-Z]{3}$", var.budget))
    }
  }

  dynamic "threshold_rules" {
    for_each = [0.5, 1.0]
    content {
      threshold_percent = threshold_rules.value
    }
  }
}
