terraform {
  # 1.6 is the first release with everything that the module uses; its tests need 1.7 (OpenTofu
  # 1.8), for mock_provider.
  required_version = ">= 1.6"

  required_providers {
    google = {
      source = "hashicorp/google"
      # 6.30 is the first with database_edition. The next major version may remove what is used here:
      # raise the bound once the module was tried with it.
      version = ">= 6.30, < 9"
    }
    # For one resource only, google_project_service_identity, which the google provider does not
    # have.
    google-beta = {
      source  = "hashicorp/google-beta"
      version = ">= 6.30, < 9"
    }
    archive = {
      source  = "hashicorp/archive"
      version = ">= 2.4"
    }
    # To wait for what Google says is there and isn't yet.
    time = {
      source  = "hashicorp/time"
      version = ">= 0.9"
    }
  }
}
