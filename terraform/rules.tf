locals {
  # Collection that the counters' documents are in: index exemptions hold for it.
  collection = reverse(split("/", var.counters))[1]

  # The rules file is written for the default path and shards, in matches as {counter} and in paths
  # as $(counter).
  rules = replace(replace(replace(replace(file("${local.root}/firestore/firestore.rules"),
    "match /counters/{counter}", "match /${var.counters}"),
    "documents/counters/$(counter)", "documents/${replace(replace(var.counters, "{", "$("), "}", ")")}"),
    "match /shards/{", "match /${var.shards}/{"),
  "/shards/$(", "/${var.shards}/$(")
}

resource "google_firebaserules_ruleset" "rules" {
  count = var.release_rules ? 1 : 0

  project = var.project_id

  source {
    files {
      name    = "firestore.rules"
      content = local.rules
    }
  }

  lifecycle {
    create_before_destroy = true

    precondition {
      condition     = !var.hosted
      error_message = "With hosted, the counters are documents of the app's, and releasing firestore.rules would shut its users out of them: copy its block for posts into the rules of the app, and leave release_rules off."
    }
  }

  depends_on = [time_sleep.until_apis_are_active, google_firestore_database.database]
}

resource "google_firebaserules_release" "rules" {
  count = var.release_rules ? 1 : 0

  project      = var.project_id
  name         = var.database == "(default)" ? "cloud.firestore" : "cloud.firestore/${var.database}"
  ruleset_name = "projects/${var.project_id}/rulesets/${google_firebaserules_ruleset.rules[0].name}"
}
