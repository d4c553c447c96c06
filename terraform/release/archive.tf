# A release of the module carries what a checkout has beside it.

locals {
  root           = path.module
  archive        = "${path.module}/functions.zip"
  archive_sha256 = filesha256(local.archive)
}
