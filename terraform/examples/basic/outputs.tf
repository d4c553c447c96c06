output "increment_url" {
  description = "Where to count."
  value       = module.counters.increment_url
}

output "reconcile_command" {
  description = "Reconciles all counters now."
  value       = module.counters.reconcile_command
}

output "ack_deadline_commands" {
  description = "What an apply that makes a trigger ends with."
  value       = module.counters.ack_deadline_commands
}

output "rollup_trigger" {
  description = "Full name of the Eventarc trigger."
  value       = module.counters.rollup_trigger
}

output "dashboard_url" {
  description = "The dashboard, in the console."
  value       = module.counters.dashboard_url
}
