# The functions' settings: one variable for each, with the name, default and description of the environment variable.
# The names and defaults are those of internal/settings; a test holds the two against each other.

locals {
  # What all three functions get. Every setting is written out, so that a deployment doesn't change with a default.
  environment = {
    GOOGLE_CLOUD_PROJECT = var.project_id
    DATABASE             = var.database
    COUNTERS             = var.counters
    SHARDS               = var.shards
    COUNT_FIELD          = var.count_field
    AUTO_CREATE          = tostring(var.auto_create)
    NUM_SHARDS           = tostring(var.num_shards)
    MAX_SHARDS           = tostring(var.max_shards)
    CACHE_TTL            = var.cache_ttl
    MAX_INCREMENT        = tostring(var.max_increment)
    EXACT_WRITES         = tostring(var.exact_writes)
    REQUEST_TTL          = var.request_ttl
    REQUEST_TIMEOUT      = var.request_timeout
    MAX_BATCH            = tostring(var.max_batch)
    MAX_QUEUE            = tostring(var.max_queue)
    AUTH                 = var.auth
    PROJECT_NUMBER       = tostring(data.google_project.project.number)
    PUBLIC_READS         = tostring(var.public_reads)
    ALLOWED_ORIGINS      = join(",", var.allowed_origins)
    RATE_LIMIT           = tostring(var.rate_limit)
    ROLLUP_INTERVAL      = var.rollup_interval
    ROLLUP_LEDGERS       = tostring(var.rollup_ledgers)
    ROLLUP_PENDING       = tostring(var.rollup_pending)
    ROLLUP_FLUSHES       = tostring(var.rollup_flushes)
    RECONCILE_DEADLINE   = var.reconcile_deadline
    RECONCILE_PARALLEL   = tostring(var.reconcile_parallel)
    LOG_LEVEL            = var.log_level
  }
}

variable "database" {
  description = "Firestore database."
  type        = string
  nullable    = false
  default     = "(default)"

  validation {
    condition     = can(regex("^(\\(default\\)|[a-z][a-z0-9-]{2,61}[a-z0-9])$", var.database))
    error_message = "database must be (default), or 4 to 63 lower-case letters, digits and hyphens, beginning with a letter."
  }
}

variable "counters" {
  description = "Path of the documents that are counters: collections and wildcards in turn, such as posts/{post} or teams/{team}/posts/{post}. A counter's id is its wildcards' values, joined by slashes."
  type        = string
  nullable    = false
  default     = "counters/{counter}"

  validation {
    condition     = can(regex("^([A-Za-z0-9_-]+/[{][A-Za-z_][A-Za-z0-9_]*[}])(/[A-Za-z0-9_-]+/[{][A-Za-z_][A-Za-z0-9_]*[}])*$", var.counters)) && length(regexall("__|counter_|[{]shard[}]", var.counters)) == 0
    error_message = "counters must be collections and wildcards in turn, such as teams/{team}/posts/{post}, of letters, digits, _ and -: it is part of the trigger's path pattern."
  }
}

variable "shards" {
  description = "Collection of the shards below a counter's document."
  type        = string
  nullable    = false
  default     = "shards"

  validation {
    condition     = can(regex("^[A-Za-z0-9_-]+$", var.shards)) && length(regexall("^__|^counter_", var.shards)) == 0
    error_message = "shards must be the name of a collection, of letters, digits, _ and -: it is part of the trigger's path pattern."
  }
}

variable "count_field" {
  description = "Field of a shard that holds its count."
  type        = string
  nullable    = false
  default     = "count"

  validation {
    condition     = can(regex("^[A-Za-z_][A-Za-z0-9_]*$", var.count_field))
    error_message = "count_field must be a field name of letters, digits and _."
  }
}

variable "auto_create" {
  description = "Create a counter with its first increment, instead of answering 404."
  type        = bool
  nullable    = false
  default     = false

  validation {
    condition     = contains([true, false], var.auto_create)
    error_message = "auto_create must be true or false."
  }
}

variable "num_shards" {
  description = "Shards of a counter that is created automatically, 1 to 1000."
  type        = number
  nullable    = false
  default     = 10

  validation {
    condition     = var.num_shards >= 1 && var.num_shards <= 1000 && floor(var.num_shards) == var.num_shards
    error_message = "num_shards must be a whole number from 1 to 1000."
  }
}

variable "max_shards" {
  description = "Double a counter's shards under contention, up to this many; 0 never grows one. At most 1000."
  type        = number
  nullable    = false
  default     = 0

  validation {
    condition     = var.max_shards >= 0 && var.max_shards <= 1000 && floor(var.max_shards) == var.max_shards
    error_message = "max_shards must be a whole number from 0 to 1000."
  }
}

variable "cache_ttl" {
  description = "How long an instance trusts the number of shards that it read, 1s to 1h."
  type        = string
  nullable    = false
  default     = "60s"

  validation {
    condition     = try(can(regex("^[0-9]+(ms|s|m|h)$", var.cache_ttl)) && tonumber(regex("^[0-9]+", var.cache_ttl)) * { ms = 0.001, s = 1, m = 60, h = 3600 }[regex("[a-z]+$", var.cache_ttl)] >= 1 && tonumber(regex("^[0-9]+", var.cache_ttl)) * { ms = 0.001, s = 1, m = 60, h = 3600 }[regex("[a-z]+$", var.cache_ttl)] <= 3600, false)
    error_message = "cache_ttl must be a whole number of ms, s, m or h, from 1s to 1h."
  }
}

variable "max_increment" {
  description = "Largest increment of a counter, up or down, that a request may ask for."
  type        = number
  nullable    = false
  default     = 1000000000

  validation {
    condition     = var.max_increment >= 1 && var.max_increment <= 4611686018427387904 && floor(var.max_increment) == var.max_increment
    error_message = "max_increment must be a whole number from 1 to 4611686018427387904."
  }
}

variable "exact_writes" {
  description = "Write a marker with every commit, so that one whose answer was lost can be told from one that was not applied. Without it, such an increment is answered 504."
  type        = bool
  nullable    = false
  default     = true

  validation {
    condition     = contains([true, false], var.exact_writes)
    error_message = "exact_writes must be true or false."
  }
}

variable "request_ttl" {
  description = "How long an Idempotency-Key is remembered at least, 1m to 720h."
  type        = string
  nullable    = false
  default     = "24h"

  validation {
    condition     = try(can(regex("^[0-9]+(ms|s|m|h)$", var.request_ttl)) && tonumber(regex("^[0-9]+", var.request_ttl)) * { ms = 0.001, s = 1, m = 60, h = 3600 }[regex("[a-z]+$", var.request_ttl)] >= 60 && tonumber(regex("^[0-9]+", var.request_ttl)) * { ms = 0.001, s = 1, m = 60, h = 3600 }[regex("[a-z]+$", var.request_ttl)] <= 2592000, false)
    error_message = "request_ttl must be a whole number of ms, s, m or h, from 1m to 720h."
  }
}

variable "request_timeout" {
  description = "How long a request may take, commits and their retries included, 1s to 60s."
  type        = string
  nullable    = false
  default     = "20s"

  validation {
    condition     = try(can(regex("^[0-9]+(ms|s|m|h)$", var.request_timeout)) && tonumber(regex("^[0-9]+", var.request_timeout)) * { ms = 0.001, s = 1, m = 60, h = 3600 }[regex("[a-z]+$", var.request_timeout)] >= 1 && tonumber(regex("^[0-9]+", var.request_timeout)) * { ms = 0.001, s = 1, m = 60, h = 3600 }[regex("[a-z]+$", var.request_timeout)] <= 60, false)
    error_message = "request_timeout must be a whole number of ms, s, m or h, from 1s to 60s."
  }
}

variable "max_batch" {
  description = "Increments that share one commit at most, 1 to 500."
  type        = number
  nullable    = false
  default     = 500

  validation {
    condition     = var.max_batch >= 1 && var.max_batch <= 500 && floor(var.max_batch) == var.max_batch
    error_message = "max_batch must be a whole number from 1 to 500."
  }
}

variable "max_queue" {
  description = "Increments that may wait on one instance; beyond it they are answered 503."
  type        = number
  nullable    = false
  default     = 10000

  validation {
    condition     = var.max_queue >= 1 && var.max_queue <= 1000000 && floor(var.max_queue) == var.max_queue
    error_message = "max_queue must be a whole number from 1 to 1000000."
  }
}

variable "auth" {
  description = "Who may call Increment: none (leave it to Cloud Run's IAM), firebase (ID token in Authorization), appcheck (App Check token in X-Firebase-AppCheck)."
  type        = string
  nullable    = false
  default     = "none"

  validation {
    condition     = contains(["none", "firebase", "appcheck"], var.auth)
    error_message = "auth must be none, firebase or appcheck."
  }
}

variable "public_reads" {
  description = "Answer GET without a token, whatever AUTH says."
  type        = bool
  nullable    = false
  default     = true

  validation {
    condition     = contains([true, false], var.public_reads)
    error_message = "public_reads must be true or false."
  }
}

variable "allowed_origins" {
  description = "Web origins whose pages may call Increment, comma-separated; * allows any. Others are answered 403."
  type        = list(string)
  nullable    = false
  default     = []

  validation {
    condition     = alltrue([for o in var.allowed_origins : o == "*" || can(regex("^[a-z]+://[^/,|]+$", o))])
    error_message = "allowed_origins must be origins such as https://example.com, without a path, or *."
  }
}

variable "rate_limit" {
  description = "Increments and reads a second that one caller may send to one instance; 0 sets no limit. A caller is a user with AUTH=firebase, else an address."
  type        = number
  nullable    = false
  default     = 0

  validation {
    condition     = var.rate_limit >= 0 && var.rate_limit <= 1000000
    error_message = "rate_limit must be 0 to 1000000."
  }
}

variable "rollup_interval" {
  description = "Least time between two roll-ups of one counter by one instance, 10ms to 5s."
  type        = string
  nullable    = false
  default     = "1s"

  validation {
    condition     = try(can(regex("^[0-9]+(ms|s|m|h)$", var.rollup_interval)) && tonumber(regex("^[0-9]+", var.rollup_interval)) * { ms = 0.001, s = 1, m = 60, h = 3600 }[regex("[a-z]+$", var.rollup_interval)] >= 0.01 && tonumber(regex("^[0-9]+", var.rollup_interval)) * { ms = 0.001, s = 1, m = 60, h = 3600 }[regex("[a-z]+$", var.rollup_interval)] <= 5, false)
    error_message = "rollup_interval must be a whole number of ms, s, m or h, from 10ms to 5s."
  }
}

variable "rollup_ledgers" {
  description = "Ledgers that an instance of Rollup keeps in memory, 1 to 100000."
  type        = number
  nullable    = false
  default     = 1000

  validation {
    condition     = var.rollup_ledgers >= 1 && var.rollup_ledgers <= 100000 && floor(var.rollup_ledgers) == var.rollup_ledgers
    error_message = "rollup_ledgers must be a whole number from 1 to 100000."
  }
}

variable "rollup_pending" {
  description = "Events that may wait on one instance of Rollup; beyond it they are answered 503 and come again."
  type        = number
  nullable    = false
  default     = 5000

  validation {
    condition     = var.rollup_pending >= 1 && var.rollup_pending <= 100000 && floor(var.rollup_pending) == var.rollup_pending
    error_message = "rollup_pending must be a whole number from 1 to 100000."
  }
}

variable "rollup_flushes" {
  description = "Counters that one instance rolls up side by side, 1 to 1000."
  type        = number
  nullable    = false
  default     = 64

  validation {
    condition     = var.rollup_flushes >= 1 && var.rollup_flushes <= 1000 && floor(var.rollup_flushes) == var.rollup_flushes
    error_message = "rollup_flushes must be a whole number from 1 to 1000."
  }
}

variable "reconcile_deadline" {
  description = "How long one call of Reconcile walks before it remembers where it stopped, 1s to 1700s."
  type        = string
  nullable    = false
  default     = "240s"

  validation {
    condition     = try(can(regex("^[0-9]+(ms|s|m|h)$", var.reconcile_deadline)) && tonumber(regex("^[0-9]+", var.reconcile_deadline)) * { ms = 0.001, s = 1, m = 60, h = 3600 }[regex("[a-z]+$", var.reconcile_deadline)] >= 1 && tonumber(regex("^[0-9]+", var.reconcile_deadline)) * { ms = 0.001, s = 1, m = 60, h = 3600 }[regex("[a-z]+$", var.reconcile_deadline)] <= 1700, false)
    error_message = "reconcile_deadline must be a whole number of ms, s, m or h, from 1s to 1700s."
  }
}

variable "reconcile_parallel" {
  description = "Counters that Reconcile checks side by side, 1 to 100."
  type        = number
  nullable    = false
  default     = 8

  validation {
    condition     = var.reconcile_parallel >= 1 && var.reconcile_parallel <= 100 && floor(var.reconcile_parallel) == var.reconcile_parallel
    error_message = "reconcile_parallel must be a whole number from 1 to 100."
  }
}

variable "log_level" {
  description = "Least severity that is logged: DEBUG, INFO, WARN or ERROR."
  type        = string
  nullable    = false
  default     = "INFO"

  validation {
    condition     = contains(["DEBUG", "INFO", "WARN", "ERROR"], var.log_level)
    error_message = "log_level must be DEBUG, INFO, WARN or ERROR."
  }
}
