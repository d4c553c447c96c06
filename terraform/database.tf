resource "google_firestore_database" "database" {
  count = var.create_database ? 1 : 0

  project     = var.project_id
  name        = var.database
  location_id = var.location
  type        = "FIRESTORE_NATIVE"

  database_edition = var.database_edition

  # The counts are nowhere else: `terraform destroy` forgets the database and leaves it where it is.
  delete_protection_state = "DELETE_PROTECTION_ENABLED"
  deletion_policy         = "ABANDON"

  dynamic "cmek_config" {
    for_each = var.database_kms_key == "" ? [] : [var.database_kms_key]
    content {
      kms_key_name = cmek_config.value
    }
  }

  depends_on = [time_sleep.until_apis_are_active]
}

# Who deploys again after a destroy would meet "Database already exists": it is said when it can
# still be heeded.
resource "terraform_data" "database_stays" {
  count = var.create_database ? 1 : 0

  input = var.database

  provisioner "local-exec" {
    when    = destroy
    command = "echo \"The database ${self.input} stays, and all counters in it. To deploy again, set create_database to false.\""
  }
}

locals {
  # A field's configuration holds for its collection group in the whole database. So: names of our
  # own, and of the counters' documents only what its variable allows. What shards count keeps its
  # index, whatever FIELDS calls it: sum() needs it. In Enterprise edition no field has an index by itself,
  # and Firestore takes no configuration of a field but TTL's (terraform-provider-google#25331): see gcloud.tf.
  fields = local.enterprise ? {} : merge(
    !contains(var.owns, "database") ? {} : {
      # Deletes what is past its time, within a day or so. Its index is of no use, and as the values
      # only ever grow it would cap all increments together at 500 a second.
      "counter_requests.expire_at" = { collection = "counter_requests", field = "expire_at", ttl = true }
      # The maps of the document beside a counter: nobody asks for counters by their entries.
      "counter_rollup.base"     = { collection = "counter_rollup", field = "base", ttl = false }
      "counter_rollup.replaced" = { collection = "counter_rollup", field = "replaced", ttl = false }
      "counter_rollup.imported" = { collection = "counter_rollup", field = "imported", ttl = false }
    },
    # Our map says as of when each number is. In a document of the app's own it has updated_at, too.
    !var.exempt_updated_at ? {} : {
      "counter_rollup" = { collection = local.collection, field = "counter_rollup", ttl = false }
    },
    !var.exempt_updated_at || var.hosted ? {} : {
      "updated_at" = { collection = local.collection, field = "updated_at", ttl = false }
    },
    !var.exempt_created_at || var.hosted ? {} : {
      "created_at" = { collection = local.collection, field = "created_at", ttl = false }
    },
  )
}

resource "google_firestore_field" "field" {
  for_each = local.fields

  project    = var.project_id
  database   = var.database
  collection = each.value.collection
  field      = each.value.field

  index_config {} # no index at all

  dynamic "ttl_config" {
    for_each = each.value.ttl ? [1] : []
    content {}
  }

  depends_on = [time_sleep.until_apis_are_active, google_firestore_database.database]
}

# What the queries of counted collections need: see local.indexes.
resource "google_firestore_index" "query" {
  for_each = { for key, queries in local.indexes : key => queries[0] if local.enterprise || length(queries[0].fields) > 1 }

  project     = var.project_id
  database    = var.database
  collection  = each.value.collection
  query_scope = each.value.group ? "COLLECTION_GROUP" : "COLLECTION"
  density     = contains(["until", "due"], each.value.fields[0]) ? "SPARSE_ANY" : null # few documents of the collection have that

  dynamic "fields" {
    for_each = each.value.fields
    content {
      field_path = fields.value
      order      = "ASCENDING"
    }
  }

  depends_on = [time_sleep.until_apis_are_active, google_firestore_database.database]
}

# The same of one field of a group, beside the indexes that every field has in its collection.
resource "google_firestore_field" "query" {
  for_each = { for key, queries in local.indexes : key => queries[0] if !local.enterprise && length(queries[0].fields) == 1 }

  project    = var.project_id
  database   = var.database
  collection = each.value.collection
  field      = each.value.fields[0]

  index_config {
    indexes {
      order       = "ASCENDING"
      query_scope = "COLLECTION_GROUP"
    }
    indexes {
      order = "ASCENDING"
    }
    indexes {
      order = "DESCENDING"
    }
    indexes {
      array_config = "CONTAINS"
    }
  }

  depends_on = [time_sleep.until_apis_are_active, google_firestore_database.database]
}
