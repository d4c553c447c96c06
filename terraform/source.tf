# Where the functions' source is when Cloud Build takes it.

resource "google_storage_bucket" "source" {
  project  = var.project_id
  name     = "${var.project_id}-${var.prefix}-source"
  location = local.region
  labels   = var.labels

  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"

  dynamic "encryption" {
    for_each = var.kms_key == "" ? [] : [var.kms_key]
    content {
      default_kms_key_name = encryption.value
    }
  }

  force_destroy = true # nothing but archives that can be made again

  depends_on = [time_sleep.until_apis_are_active]
}

resource "google_storage_bucket_object" "source" {
  bucket = google_storage_bucket.source.name
  # A changed archive is deployed only when its name changes.
  name   = "${var.prefix}-${local.archive_sha256}.zip"
  source = local.archive

  lifecycle {
    create_before_destroy = true
  }
}
