package counters

import "embed"

// Source is what a deployment by hand takes: the source of the functions, as they are uploaded by the rules of
// .gcloudignore, the scripts that deploy them, and what those make metrics and alerts of. Programs that deploy without a
// checkout carry it. It is not uploaded itself. Tests are in it, for go:embed takes a folder whole; .gcloudignore leaves them
// out.
//
//go:embed .gcloudignore go.mod go.sum function.go functions rollup shards
//go:embed internal/command internal/groupcommit internal/layout internal/ledger internal/settings internal/store
//go:embed scripts/deploy.sh scripts/destroy.sh scripts/smoke.sh terraform/monitoring
var Source embed.FS
