# What to deploy, where, and how large. What the functions themselves can be told is in settings.tf.

variable "project_id" {
  description = "Project to deploy to. Its Firestore database is the counters' database."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{4,28}[a-z0-9]$", var.project_id))
    error_message = "project_id must be a project's id (not its name or number): 6 to 30 lower-case letters, digits and hyphens."
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
  description = "For each multi-region that location may be: the region that the functions run in, and the location of the Eventarc trigger. Google's own pages disagree on the latter (some map nam5 to us-central1), but the API refuses anything but the database's own location."
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
  description = "What this deployment keeps for all others too: project (the role of Eventarc's agent) and database (TTL policy and index exemptions of counter_requests and counter_rollup). Only the first deployment of a project, and of a database, should; the others take the word out, or a destroy takes it from those that stay."
  type        = set(string)
  nullable    = false
  default     = ["project", "database"]

  validation {
    condition     = alltrue([for o in var.owns : contains(["project", "database"], o)])
    error_message = "owns must hold project, database, both or neither."
  }
}

variable "run_gcloud" {
  description = "Let terraform run gcloud, which has to be installed and logged in where it runs, for what the providers have no argument for: how long Pub/Sub waits for the answer to an event of a counted collection, invoker_check, increment_billing and rollup_billing."
  type        = bool
  nullable    = false
  default     = false
}

variable "increment_ingress" {
  description = "Where Increment takes requests from: ALLOW_ALL, or ALLOW_INTERNAL_AND_GCLB behind Google's load balancer. With the former its own address passes by what stands before it, such as Cloud Armor."
  type        = string
  nullable    = false
  default     = "ALLOW_ALL"

  validation {
    condition     = contains(["ALLOW_ALL", "ALLOW_INTERNAL_AND_GCLB", "ALLOW_INTERNAL_ONLY"], var.increment_ingress)
    error_message = "increment_ingress must be ALLOW_ALL, ALLOW_INTERNAL_AND_GCLB or ALLOW_INTERNAL_ONLY."
  }
}

variable "kms_key" {
  description = "Key of Cloud KMS in the functions' region, as projects/P/locations/L/keyRings/R/cryptoKeys/K, that encrypts the functions and the bucket of their source; empty for Google's own. It takes docker_repository, and roles/cloudkms.cryptoKeyEncrypterDecrypter on it for Google's agents: docs/deploying.md."
  type        = string
  nullable    = false
  default     = ""

  validation {
    condition     = var.kms_key == "" || can(regex("^projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+$", var.kms_key))
    error_message = "kms_key must be of the form projects/P/locations/L/keyRings/R/cryptoKeys/K, or empty."
  }
}

variable "database_kms_key" {
  description = "Key of Cloud KMS in the database's location (us for nam5, europe for eur3) that encrypts a database that create_database makes; empty for Google's own. It can't be changed later."
  type        = string
  nullable    = false
  default     = ""

  validation {
    condition     = var.database_kms_key == "" || can(regex("^projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+$", var.database_kms_key))
    error_message = "database_kms_key must be of the form projects/P/locations/L/keyRings/R/cryptoKeys/K, or empty."
  }
}

variable "docker_repository" {
  description = "Repository of Artifact Registry for the functions' images, as projects/P/locations/L/repositories/R; with kms_key, one that is encrypted with the same key. Empty for one of the deployment's own. The build may write there, and in no other."
  type        = string
  nullable    = false
  default     = ""

  validation {
    condition     = var.docker_repository == "" || can(regex("^projects/[^/]+/locations/[^/]+/repositories/[^/]+$", var.docker_repository))
    error_message = "docker_repository must be of the form projects/P/locations/L/repositories/R, or empty."
  }
}

variable "patience" {
  description = "How long a first apply waits for what Google says is there and isn't yet: APIs that were turned on, accounts, and the role of Eventarc's agent."
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
  description = "Create the Firestore database, protected against deletion, and left alone by `terraform destroy`. Off: it is there already, also after a destroy."
  type        = bool
  nullable    = false
  default     = false
}

variable "exempt_updated_at" {
  description = "Turn the single-field index of updated_at off, in the whole collection group of the counters; of counter_rollup, the map where it is, with hosted. An index on a timestamp that grows caps all counters together at 500 roll-ups a second. Set it to false when you query counters by updated_at."
  type        = bool
  nullable    = false
  default     = true
}

variable "exempt_created_at" {
  description = "Turn the single-field index of created_at off, in the whole collection group of the counters, which has none with hosted. It caps creations at 500 a second. Set it to false when you query counters by created_at."
  type        = bool
  nullable    = false
  default     = true
}

variable "release_rules" {
  description = "Release firestore.rules for the database. It replaces the rules that are there, so it is off unless asked for."
  type        = bool
  nullable    = false
  default     = false
}

# Who may call Increment.

variable "public" {
  description = "Let the whole internet call Increment. What a caller then may do is AUTH's business."
  type        = bool
  nullable    = false
  default     = false
}

variable "invoker_check" {
  description = "Have Cloud Run check who calls Increment. Off, the whole internet may, as with public: the way for organisations that share with their own domains only, as new ones do, and refuse allUsers. The providers have no argument for it: it takes run_gcloud."
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
  description = "Requests that one instance of Increment takes at the same time. Those for one counter share a commit, so a low number undoes group commit."
  type        = number
  nullable    = false
  default     = 500

  validation {
    condition     = var.increment_concurrency >= 100 && var.increment_concurrency <= 1000 && floor(var.increment_concurrency) == var.increment_concurrency
    error_message = "increment_concurrency must be a whole number from 100 to 1000."
  }
}

variable "increment_max_instances" {
  description = "Instances of Increment at most. All instances of a small project together may have 20 CPUs in a region, one each."
  type        = number
  nullable    = false
  default     = 10

  validation {
    condition     = var.increment_max_instances >= 1 && var.increment_max_instances <= 1000 && floor(var.increment_max_instances) == var.increment_max_instances
    error_message = "increment_max_instances must be a whole number from 1 to 1000."
  }
}

variable "increment_min_instances" {
  description = "Instances of Increment that are kept warm. Each is billed whether it is called or not."
  type        = number
  nullable    = false
  default     = 0

  validation {
    condition     = var.increment_min_instances >= 0 && var.increment_min_instances <= 1000 && floor(var.increment_min_instances) == var.increment_min_instances
    error_message = "increment_min_instances must be a whole number from 0 to 1000."
  }
}

variable "rollup_max_instances" {
  description = "Instances of Rollup at most. An instance holds at most one event of a shard, for up to 1.1 s, and 1,000 in all: take the shards that are written within the same 1.1 s ÷ 1,000, rounded up. More only fight over the same counters."
  type        = number
  nullable    = false
  default     = 2

  validation {
    condition     = var.rollup_max_instances >= 1 && var.rollup_max_instances <= 100 && floor(var.rollup_max_instances) == var.rollup_max_instances
    error_message = "rollup_max_instances must be a whole number from 1 to 100."
  }
}

variable "rollup_min_instances" {
  description = "Instances of Rollup that are kept warm."
  type        = number
  nullable    = false
  default     = 0

  validation {
    condition     = var.rollup_min_instances >= 0 && var.rollup_min_instances <= 100 && floor(var.rollup_min_instances) == var.rollup_min_instances
    error_message = "rollup_min_instances must be a whole number from 0 to 100."
  }
}

variable "increment_billing" {
  description = "How Cloud Run bills Increment: by the request, or instance for all the time that an instance is there, and nothing for requests. The latter costs less from about ten requests a second on: counters cost. The providers have no argument for it: it takes run_gcloud."
  type        = string
  nullable    = false
  default     = "request"

  validation {
    condition     = contains(["request", "instance"], var.increment_billing)
    error_message = "increment_billing must be request or instance."
  }
}

variable "rollup_billing" {
  description = "How Cloud Run bills Rollup, in the same words. By the instance costs less as soon as counters are written all the time. It takes run_gcloud, too."
  type        = string
  nullable    = false
  default     = "request"

  validation {
    condition     = contains(["request", "instance"], var.rollup_billing)
    error_message = "rollup_billing must be request or instance."
  }
}

variable "memory" {
  description = "Memory of an instance: 512Mi at least where functions are billed by the instance."
  type        = string
  nullable    = false
  default     = "512Mi"

  validation {
    condition     = can(regex("^[0-9]+(Mi|Gi)$", var.memory))
    error_message = "memory must be a number of Mi or Gi, such as 512Mi."
  }
}

# Reconcile, and what is watched.

variable "reconcile_schedule" {
  description = "When Reconcile runs, as a cron expression in UTC. Each run reads each counter and its ledger, and adds up its shards, with a query per field."
  type        = string
  nullable    = false
  default     = "7 * * * *"

  validation {
    condition     = length(split(" ", var.reconcile_schedule)) == 5
    error_message = "reconcile_schedule must be a cron expression of five fields, such as 7 * * * *."
  }
}

variable "reconcile_missing_after" {
  description = "Alert when Reconcile hasn't answered with success for this long: three times its schedule's period or so, a whole number of minutes, 1m to 23h."
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
  description = "Keep Cloud Run's log entry of each request of Increment and Rollup that succeeded: about a kilobyte each, $0.50 a GiB beyond 50 a month. Metrics and alerts don't need them."
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
  description = "Tell the billing account's administrators when the project comes to half of this in a month, and to all of it, such as 100 or 100USD, in the account's currency; it stops nothing. Without one there is no budget."
  type        = string
  nullable    = false
  default     = ""

  validation {
    condition     = can(regex("^([1-9][0-9]{0,8}([A-Z]{3})?)?$", var.budget))
    error_message = "budget must be a whole amount a month, such as 100, or 100USD in the billing account's currency."
  }
}

variable "notification_channels" {
  description = "Notification channels of the alert policies, as projects/P/notificationChannels/N. Without any, incidents are only shown in the console."
  type        = list(string)
  nullable    = false
  default     = []

  validation {
    condition     = alltrue([for c in var.notification_channels : can(regex("^projects/[^/]+/notificationChannels/[^/]+$", c))])
    error_message = "notification_channels must be of the form projects/P/notificationChannels/N. See `gcloud beta monitoring channels list`."
  }
}
