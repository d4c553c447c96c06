# What to deploy, where, and how large. What the functions themselves can be told is in settings.tf.

variable "project_id" {
  description = "Project to deploy to. Its Firestore database is the counters' database."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^([a-z0-9.-]+[.][a-z]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]$", var.project_id))
    error_message = "project_id must be a project's id (not its name or number): 6 to 30 lower-case letters, digits and hyphens, after a domain and a colon where it has one."
  }
}

variable "location" {
  description = "Location of the Firestore database: a region such as europe-west1, or a multi-region such as nam5. The functions run in or next to it."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^([a-z]+-[a-z]+[0-9]+|[a-z]+[0-9]+)$", var.location))
    error_message = "location must be a Firestore location, such as us-central1, nam5 or eur3. See `gcloud firestore databases list`."
  }
}

variable "multi_regions" {
  description = "For each multi-region that location may be: the functions' region, and the location of the Eventarc trigger, which must be the database's own."
  type = map(object({
    region         = string
    trigger_region = string
  }))
  nullable = false
  default = {
    nam5 = { region = "us-central1", trigger_region = "nam5" }
    nam7 = { region = "us-central1", trigger_region = "nam7" }
    eur3 = { region = "europe-west4", trigger_region = "eur3" }
  }

  validation {
    condition     = alltrue([for m in values(var.multi_regions) : can(regex("^[a-z]+-[a-z]+[0-9]+$", m.region)) && length(m.trigger_region) > 0])
    error_message = "multi_regions must have for each multi-region a region, such as us-central1, and a trigger_region."
  }
}

variable "prefix" {
  description = "Begins the name of everything that is made, so that several deployments fit in one project."
  type        = string
  nullable    = false
  default     = "counters"

  validation {
    condition     = can(regex("^[a-z]([a-z0-9-]{0,18}[a-z0-9])?$", var.prefix))
    error_message = "prefix must be 1 to 20 lower-case letters, digits and hyphens, beginning with a letter and not ending with a hyphen: ids of service accounts end at 30."
  }
}

variable "labels" {
  description = "Labels on the functions and the bucket."
  type        = map(string)
  nullable    = false
  default     = {}

  validation {
    condition     = alltrue([for k, v in var.labels : can(regex("^[a-z][a-z0-9_-]{0,62}$", k)) && can(regex("^[a-z0-9_-]{0,63}$", v))])
    error_message = "labels must have keys and values of at most 63 lower-case letters, digits, _ and -; keys begin with a letter."
  }
}

variable "runtime" {
  description = "Runtime of the functions: go127 where the region has it (gcloud functions runtimes list --region R), go126 otherwise."
  type        = string
  nullable    = false
  default     = "go127"

  validation {
    condition     = can(regex("^go1[0-9]{2}$", var.runtime)) && try(tonumber(substr(var.runtime, 2, 3)) >= 126, false)
    error_message = "runtime must be go126 or later: go.mod says go 1.26."
  }
}

variable "owns" {
  description = "What this deployment keeps for all others too: project (the role of Eventarc's agent) and database (TTL policy and index exemptions). Take a word out if another deployment of the project, or of the database, keeps that."
  type        = set(string)
  nullable    = false
  default     = ["project", "database"]

  validation {
    condition     = alltrue([for o in var.owns : contains(["project", "database"], o)])
    error_message = "owns must hold project, database, both or neither."
  }
}

variable "run_gcloud" {
  description = "Let terraform run gcloud, installed and logged in, for what the providers have no argument for: invoker_check, increment_billing, rollup_billing, how long Pub/Sub waits for the answer to a counted collection's event, and that it keeps subscriptions without traffic."
  type        = bool
  nullable    = false
  default     = false
}

variable "increment_ingress" {
  description = "Where Increment takes requests from: ALLOW_ALL, or ALLOW_INTERNAL_AND_GCLB for Google's load balancer alone, so that nobody bypasses it, or its Cloud Armor."
  type        = string
  nullable    = false
  default     = "ALLOW_ALL"

  validation {
    condition     = contains(["ALLOW_ALL", "ALLOW_INTERNAL_AND_GCLB", "ALLOW_INTERNAL_ONLY"], var.increment_ingress)
    error_message = "increment_ingress must be ALLOW_ALL, ALLOW_INTERNAL_AND_GCLB or ALLOW_INTERNAL_ONLY."
  }
}

variable "kms_key" {
  description = "Key of Cloud KMS in the functions' region, as projects/P/locations/L/keyRings/R/cryptoKeys/K, for the functions and the bucket of their source; empty for Google's own. It needs docker_repository, and roles for Google's agents: docs/deploying.md."
  type        = string
  nullable    = false
  default     = ""

  validation {
    condition     = var.kms_key == "" || can(regex("^projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+$", var.kms_key))
    error_message = "kms_key must be of the form projects/P/locations/L/keyRings/R/cryptoKeys/K, or empty."
  }
}

variable "database_kms_key" {
  description = "Key of Cloud KMS in the database's location (us for nam5, europe for eur3) for a database that create_database makes; empty for Google's own. It can't be changed later."
  type        = string
  nullable    = false
  default     = ""

  validation {
    condition     = var.database_kms_key == "" || can(regex("^projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+$", var.database_kms_key))
    error_message = "database_kms_key must be of the form projects/P/locations/L/keyRings/R/cryptoKeys/K, or empty."
  }
}

variable "docker_repository" {
  description = "Repository of Artifact Registry for the functions' images, as projects/P/locations/L/repositories/R; empty for the deployment's own. With kms_key it needs one with the same key. The build may write to no other."
  type        = string
  nullable    = false
  default     = ""

  validation {
    condition     = var.docker_repository == "" || can(regex("^projects/[^/]+/locations/[^/]+/repositories/[^/]+$", var.docker_repository))
    error_message = "docker_repository must be of the form projects/P/locations/L/repositories/R, or empty."
  }
}

variable "patience" {
  description = "How long a first apply waits until APIs that were turned on, accounts, and the role of Eventarc's agent work everywhere."
  type = object({
    apis     = string
    accounts = string
    agent    = string
  })
  nullable = false
  default  = { apis = "90s", accounts = "20s", agent = "120s" }

  validation {
    condition     = alltrue([for d in values(var.patience) : can(regex("^[0-9]+(s|m)$", d))])
    error_message = "patience must be of durations such as 90s or 2m."
  }
}

# The database.

variable "create_database" {
  description = "Create the Firestore database, protected against deletion; `terraform destroy` leaves it. false if it exists, also after a destroy."
  type        = bool
  nullable    = false
  default     = false
}

variable "database_edition" {
  description = "Edition of the Firestore database: STANDARD or ENTERPRISE. Of the latter, queries get the indexes that they need, and the TTL policy takes gcloud (run_gcloud)."
  type        = string
  nullable    = false
  default     = "STANDARD"

  validation {
    condition     = contains(["STANDARD", "ENTERPRISE"], var.database_edition)
    error_message = "database_edition must be STANDARD or ENTERPRISE."
  }
}

variable "exempt_updated_at" {
  description = "Turn off the single-field indexes of updated_at and of the map counter_rollup in the counters' whole collection group (with hosted, of the map alone). They cap all counters together at 500 roll-ups a second. false if you query by them."
  type        = bool
  nullable    = false
  default     = true
}

variable "exempt_created_at" {
  description = "Turn off the single-field index of created_at in the counters' whole collection group (with hosted there is none). It caps creations at 500 a second. false if you query by it."
  type        = bool
  nullable    = false
  default     = true
}

variable "release_rules" {
  description = "Release firestore.rules for the database, in place of the rules that are there."
  type        = bool
  nullable    = false
  default     = false
}

# Who may call Increment.

variable "public" {
  description = "Let the whole internet call Increment. AUTH says what a caller may do."
  type        = bool
  nullable    = false
  default     = false
}

variable "invoker_check" {
  description = "Have Cloud Run check who calls Increment. false lets the whole internet call, like public, in organisations that refuse allUsers, as new ones do. It needs run_gcloud."
  type        = bool
  nullable    = false
  default     = true
}

variable "invokers" {
  description = "Members that may call Increment, such as serviceAccount:web@my-project.iam.gserviceaccount.com or group:team@example.com."
  type        = set(string)
  nullable    = false
  default     = []

  validation {
    condition     = alltrue([for m in var.invokers : can(regex("^(user|serviceAccount|group|domain|principal|principalSet):.+", m))])
    error_message = "invokers must be members such as serviceAccount:a@b.iam.gserviceaccount.com. To let everybody call Increment, set public."
  }
}

# Size. An instance has 1 vCPU: less allows no more than one request at a time.

variable "increment_concurrency" {
  description = "Requests that one instance of Increment takes at the same time. Those for one counter share a commit, so a low number costs more commits."
  type        = number
  nullable    = false
  default     = 500

  validation {
    condition     = var.increment_concurrency >= 100 && var.increment_concurrency <= 1000 && floor(var.increment_concurrency) == var.increment_concurrency
    error_message = "increment_concurrency must be a whole number from 100 to 1000."
  }
}

variable "most_per_day" {
  description = "US dollars that a day may cost, whatever anybody sends, such as 5USD; or none. It works out instances, the way to pay, and what each function may spend. Empty is 10USD with public or without invoker_check, otherwise none."
  type        = string
  nullable    = false
  default     = ""

  validation {
    condition     = can(regex("^(none|[0-9]{1,6}([.][0-9]{1,2})?(USD)?)?$", var.most_per_day))
    error_message = "most_per_day must be US dollars a day, such as 5USD, none or empty."
  }
}

variable "increment_max_instances" {
  description = "Instances of Increment at most; 0 is 10, or as many as most_per_day keeps busy. All instances of a small project may have 20 CPUs in a region, one each."
  type        = number
  nullable    = false
  default     = 0

  validation {
    condition     = var.increment_max_instances >= 0 && var.increment_max_instances <= 1000 && floor(var.increment_max_instances) == var.increment_max_instances
    error_message = "increment_max_instances must be a whole number from 1 to 1000, or 0."
  }
}

variable "increment_min_instances" {
  description = "Instances of Increment that are kept warm, and billed even if nobody calls."
  type        = number
  nullable    = false
  default     = 0

  validation {
    condition     = var.increment_min_instances >= 0 && var.increment_min_instances <= 1000 && floor(var.increment_min_instances) == var.increment_min_instances
    error_message = "increment_min_instances must be a whole number from 0 to 1000."
  }
}

variable "rollup_max_instances" {
  description = "Instances of Rollup at most; 0 is 2, or as many as most_per_day keeps busy. One takes some 4,000 events a second, and 800 counters that change every second. More cost reads."
  type        = number
  nullable    = false
  default     = 0

  validation {
    condition     = var.rollup_max_instances >= 0 && var.rollup_max_instances <= 1000 && floor(var.rollup_max_instances) == var.rollup_max_instances
    error_message = "rollup_max_instances must be a whole number from 1 to 1000, or 0."
  }
}

variable "rollup_min_instances" {
  description = "Instances of Rollup that are kept warm."
  type        = number
  nullable    = false
  default     = 0

  validation {
    condition     = var.rollup_min_instances >= 0 && var.rollup_min_instances <= 1000 && floor(var.rollup_min_instances) == var.rollup_min_instances
    error_message = "rollup_min_instances must be a whole number from 0 to 1000."
  }
}

variable "increment_billing" {
  description = "How Cloud Run bills Increment: request, or instance, which costs less from about ten requests a second on (counters cost), and needs run_gcloud. Empty is request, or instance where most_per_day can't be kept otherwise."
  type        = string
  nullable    = false
  default     = ""

  validation {
    condition     = contains(["", "request", "instance"], var.increment_billing)
    error_message = "increment_billing must be request, instance or empty."
  }
}

variable "rollup_billing" {
  description = "How Cloud Run bills Rollup: request or instance, which costs less when counters are written all the time. instance needs run_gcloud. Empty is as for increment_billing."
  type        = string
  nullable    = false
  default     = ""

  validation {
    condition     = contains(["", "request", "instance"], var.rollup_billing)
    error_message = "rollup_billing must be request, instance or empty."
  }
}

variable "memory" {
  description = "Memory of an instance, 512Mi at least if functions are billed by the instance."
  type        = string
  nullable    = false
  default     = "512Mi"

  validation {
    condition     = can(regex("^[0-9]+(Mi|Gi)$", var.memory))
    error_message = "memory must be a number of Mi or Gi, such as 512Mi."
  }

  validation {
    condition     = try(tonumber(regex("^[0-9]+", var.memory)) * (endswith(var.memory, "Gi") ? 1024 : 1) >= 256, true)
    error_message = "memory must be 256Mi at least: an instance takes up to 1,000 requests at a time."
  }
}

# Reconcile, and what is watched.

variable "reconcile_schedule" {
  description = "When Reconcile runs, as a cron expression in UTC. Each run reads every counter and its base, and adds up its shards with a query per field."
  type        = string
  nullable    = false
  default     = "7 * * * *"

  validation {
    condition     = length(split(" ", var.reconcile_schedule)) == 5
    error_message = "reconcile_schedule must be a cron expression of five fields, such as 7 * * * *."
  }
}

variable "reconcile_missing_after" {
  description = "Alert when Reconcile hasn't succeeded for this long: about three times its schedule's period, a whole number of minutes, 1m to 23h."
  type        = string
  nullable    = false
  default     = "3h"

  validation {
    condition     = try(can(regex("^[0-9]+(m|h)$", var.reconcile_missing_after)) && tonumber(regex("^[0-9]+", var.reconcile_missing_after)) * { m = 60, h = 3600 }[regex("[mh]$", var.reconcile_missing_after)] <= 82800 && tonumber(regex("^[0-9]+", var.reconcile_missing_after)) >= 1, false)
    error_message = "reconcile_missing_after must be minutes or hours, such as 90m or 3h, 23h at most: Cloud Monitoring forgets sooner than a day."
  }
}

variable "lag_alert_seconds" {
  description = "Alert when 1 in 100 shard writes takes longer than this to reach its counter's total, for 10 minutes."
  type        = number
  nullable    = false
  default     = 30

  validation {
    condition     = var.lag_alert_seconds >= 5 && var.lag_alert_seconds <= 3600
    error_message = "lag_alert_seconds must be 5 to 3600: below 5 s a roll-up that backs off as it should would alert."
  }
}

variable "request_logs" {
  description = "Keep Cloud Run's log entry of each request of Increment and Rollup: about 1 KB each, $0.50 a GiB beyond 50 a month. Metrics and alerts don't need them."
  type        = bool
  nullable    = false
  default     = false
}

variable "alerts" {
  description = "Make the alert policies."
  type        = bool
  nullable    = false
  default     = true
}

variable "budget" {
  description = "Tell the billing account's administrators when the project has spent half of this in a month, and all of it, such as 100 or 100USD, in the account's currency. It stops nothing."
  type        = string
  nullable    = false
  default     = ""

  validation {
    condition     = can(regex("^([1-9][0-9]{0,8}([A-Z]{3})?)?$", var.budget))
    error_message = "budget must be a whole amount a month, such as 100, or 100USD in the billing account's currency."
  }
}

variable "notification_channels" {
  description = "Notification channels of the alert policies, as projects/P/notificationChannels/N. Without any, only the console shows incidents."
  type        = list(string)
  nullable    = false
  default     = []

  validation {
    condition     = alltrue([for c in var.notification_channels : can(regex("^projects/[^/]+/notificationChannels/[^/]+$", c))])
    error_message = "notification_channels must be of the form projects/P/notificationChannels/N. See `gcloud beta monitoring channels list`."
  }
}
