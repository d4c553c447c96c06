# A counting deployment from nothing: terraform init && terraform apply -var project_id=… -var
# location=…

terraform {
  required_version = ">= 1.6"
}

provider "google" {
  project = var.project_id
}

provider "google-beta" {
  project = var.project_id
}

module "counters" {
  source = "../.."

  project_id      = var.project_id
  location        = var.location
  create_database = var.create_database
  invokers        = var.invokers
  auto_create     = true
}
