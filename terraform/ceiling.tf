# What a day may cost, and what that leaves to each function: instances, the way to pay, and units a
# second. It is worked out as counters deploy does (cmd/internal/cost/ceiling.go), by the same price
# list: ../terraform/agreement_test.go holds the two together.

locals {
  most_per_day = var.most_per_day == "" ? (var.public || !var.invoker_check ? "10USD" : "none") : var.most_per_day == "none" ? "none" : "${trimsuffix(var.most_per_day, "USD")}USD"
  bounded      = local.most_per_day != "none"
  dollars      = local.bounded ? tonumber(trimsuffix(local.most_per_day, "USD")) : 0

  price_list = jsondecode(file("${path.module}/prices.json"))
  documents  = try(local.price_list.locations[var.location], local.price_list.dearest)[var.database_edition]
  run        = local.price_list.run[contains(local.price_list.tier1, local.region) ? "1" : "2"]

  # Of an instance that is there all day.
  instance_day = { for way in ["request", "instance"] : way => 86400 * (local.run[way].vcpu + local.run[way].gib * local.memory_mib / 1024) }

  # Reconcile's walks: so many a day, each a minute longer than its deadline at most, and an instance
  # may stay for a quarter of an hour.
  walk_minutes = split(" ", var.reconcile_schedule)[0]
  walks        = can(regex("^[0-9]+(,[0-9]+)*$", local.walk_minutes)) ? 24 * length(split(",", local.walk_minutes)) : 1440
  walked       = min(86400, local.walks * (local.reconcile_seconds + 60)) * local.instance_day["request"] / 86400
  walking      = min(86400, local.walks * (local.reconcile_seconds + 60 + 900)) + 600

  # By the request, where the ceiling can be kept so, or else by the instance, which takes gcloud.
  ways = {
    for way in var.run_gcloud && local.memory_mib >= 512 ? ["request", "instance"] : ["request"] : way => {
      increment = var.increment_billing == "" ? way : var.increment_billing
      rollup    = var.rollup_billing == "" ? way : var.rollup_billing
    }
  }

  # What units cost at most. A write is of a shard, whose event is published, and delivered twice; or
  # of a marker, which TTL deletes. A read may be a scan in Enterprise edition.
  shown_price  = local.documents.writes / 100000
  read_price   = local.documents.reads / 100000 * (local.enterprise ? 4 : 1)
  write_price  = { for way, by in local.ways : way => local.shown_price + max(local.documents.deletes / 100000, 3 * 2048 * local.price_list.pubsub_tib / 1099511627776 + (by.rollup == "request" ? 2 * local.run.requests / 1000000 : 0)) }
  answer_price = { for way, by in local.ways : way => 370 * local.price_list.answer_gib / 1073741824 + (by.increment == "request" ? local.run.requests / 1000000 : 0) }
  log_price    = local.price_list.log_gib / 1073741824
  even_price   = { for way, by in local.ways : way => 2 * local.write_price[way] + local.shown_price + 4 * local.read_price + 400 * local.log_price }

  least_increments = max(1, var.increment_max_instances, var.increment_min_instances)
  least_rollups    = max(1, var.rollup_max_instances, var.rollup_min_instances)
  fixed            = { for way, by in local.ways : way => local.walked + local.least_increments * local.instance_day[by.increment] + local.least_rollups * local.instance_day[by.rollup] }
  needs            = { for way, by in local.ways : way => local.least_increments * local.even_price[way] * 87000 / 0.44 }
  kept             = { for way, by in local.ways : way => local.dollars * 0.97 - local.fixed[way] >= local.needs[way] }
  least_per_day    = min([for way, by in local.ways : ceil(100 * (local.needs[way] + local.fixed[way]) / 0.97) / 100]...)
  keeps            = anytrue(values(local.kept))

  # Without a ceiling, by the request.
  way     = !local.bounded || local.kept["request"] || !try(local.kept["instance"], false) ? "request" : "instance"
  pays    = local.ways[local.way]
  billing = { (local.increment) = local.pays.increment, (local.rollup) = local.pays.rollup }

  # As many instances as what is left for answers and for roll-ups keeps busy.
  left       = local.dollars * 0.97 - local.fixed[local.way]
  per_rollup = min(4000, var.rollup_flushes / 0.08)
  increments = (
    var.increment_max_instances > 0 ? var.increment_max_instances
    : !local.bounded ? max(10, var.increment_min_instances)
    : max(local.least_increments, ceil(0.51 * local.left / 87000 / local.answer_price[local.way] / 8000))
  )
  rollups = (
    var.rollup_max_instances > 0 ? var.rollup_max_instances
    : !local.bounded ? max(2, var.rollup_min_instances)
    : max(local.least_rollups, ceil(0.44 * local.left / 87000 / local.even_price[local.way] / local.per_rollup))
  )
  rest = local.dollars * 0.97 - local.walked - local.increments * local.instance_day[local.pays.increment] - local.rollups * local.instance_day[local.pays.rollup]
  hot  = 0.51 * local.rest / 87000 / local.answer_price[local.way]
  even = 0.44 * local.rest / 87000 / local.even_price[local.way]
  walk = 0.03 * local.rest / local.walking / (local.read_price + 0.1 * local.write_price[local.way] + 40 * local.log_price)

  # The setting CEILING of each: units a second and instance, rounded down. What is 0 is left out.
  units = {
    increment = [
      ["writes", floor(100 * 2 * local.even / local.increments) / 100], ["reads", floor(100 * local.even / local.increments) / 100],
      ["creates", floor(1000 * 2 * local.even / local.increments / 30) / 1000], ["bytes", floor(local.hot * 370 / local.increments)],
      ["logs", floor(0.02 * local.rest / 87000 / local.log_price / local.increments)],
      ["requests", local.pays.increment == "request" ? floor(100 * local.hot / local.increments) / 100 : 0],
    ]
    rollup    = [["writes", floor(100 * local.even / local.rollups) / 100], ["reads", floor(100 * 3 * local.even / local.rollups) / 100], ["logs", floor(400 * local.even / local.rollups)]]
    reconcile = [["writes", floor(100 * 0.1 * local.walk) / 100], ["reads", floor(100 * local.walk) / 100], ["logs", floor(40 * local.walk)]]
  }
  ceilings = { for name, units in local.units : name => local.bounded ? join(",", [for u in units : "${u[0]}=${u[1]}" if u[1] > 0]) : var.ceiling }

  labels = merge(var.labels, {
    counters-source       = substr(local.archive_sha256, 0, 16) # see upgrade-unfinished of counters doctor
    counters-most-per-day = replace(lower(local.most_per_day), ".", "_")
  })
}
