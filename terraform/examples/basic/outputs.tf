output "increment_url" {
  description = "Where to count."
  value       = module.counters.increment_url
}

output "rollup_trigger" {
  description = "Full name of the Eventarc trigger."
  value       = module.counters.rollup_trigger
}

output "dashboard_url" {
  description = "The dashboard, in the console."
  value       = module.counters.dashboard_url
}
