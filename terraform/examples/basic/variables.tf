variable "project_id" {
  description = "Project to deploy to."
  type        = string
  nullable    = false

  validation {
    condition     = length(var.project_id) > 0
    error_message = "project_id must not be empty."
  }
}

variable "location" {
  description = "Location of the Firestore database, such as us-central1 or nam5."
  type        = string
  nullable    = false

  validation {
    condition     = length(var.location) > 0
    error_message = "location must not be empty."
  }
}

variable "create_database" {
  description = "Create the Firestore database. Set it to false where there is one."
  type        = bool
  nullable    = false
  default     = true
}

variable "invokers" {
  description = "Members that may call Increment, such as user:you@example.com."
  type        = set(string)
  nullable    = false
  default     = []

  validation {
    condition     = !contains(var.invokers, "allUsers")
    error_message = "invokers must name its members. To let everybody call Increment, set public in the module."
  }
}
