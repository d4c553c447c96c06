# In a checkout the source archive is made of what is beside the module; a release of the module
# carries one, and has release/archive.tf in the place of this file.
#
# The archive holds exactly what .gcloudignore leaves of the repository, so that terraform
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

locals {
  archive        = data.archive_file.source.output_path
  archive_sha256 = data.archive_file.source.output_sha256
}
