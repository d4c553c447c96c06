# The source archive holds exactly what .gcloudignore leaves of the repository, so that terraform
# and gcloud deploy the same. The file is an allow list of a simple form (a test holds it to that):
# patterns without a slash in the middle, or anchored ones; the last pattern that matches decides.

locals {
  root = "${path.module}/.."

  ignore = [
    for line in local.lines : {
      keep = startswith(line, "!")
      # An anchored pattern matches from the top, another one at any depth; whatever lies below what
      # it matches too.
      regex = format("%s%s(/.*)?$",
        startswith(trimprefix(line, "!"), "/") ? "^" : "^(.*/)?",
        replace(replace(trim(trimprefix(line, "!"), "/"), ".", "\\."), "*", "[^/]*"),
      )
    } if length(trimspace(line)) > 0 && !startswith(line, "#")
  ]

  # Listed is only what is allowed: the rest of a checkout may be large.
  lines   = split("\n", file("${local.root}/.gcloudignore"))
  allowed = [for line in local.lines : trimprefix(line, "!/") if startswith(line, "!/") && line != "!/."]
  candidates = setunion(concat(
    [for path in local.allowed : fileset(local.root, path)],
    [for path in local.allowed : fileset(local.root, "${path}/**")],
  )...)

  files = sort([
    for f in local.candidates : f
    if reverse([for p in local.ignore : p.keep if can(regex(p.regex, f))])[0]
  ])
}

data "archive_file" "source" {
  type             = "zip"
  output_path      = "${path.root}/.terraform/${var.prefix}-source.zip"
  output_file_mode = "0644" # the same archive, whoever's umask made the checkout

  dynamic "source" {
    for_each = local.files
    content {
      filename = source.value
      content  = file("${local.root}/${source.value}")
    }
  }
}

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
  name   = "${var.prefix}-${data.archive_file.source.output_sha256}.zip"
  source = data.archive_file.source.output_path

  lifecycle {
    create_before_destroy = true
  }
}
