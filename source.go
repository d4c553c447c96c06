package counters

import "embed"

// Source is what a deployment by hand takes: the source of the functions, as they are uploaded by the rules of
// .gcloudignore, the scripts that deploy them, and what those make metrics and alerts of. Programs that deploy without a
// checkout carry it. It is not uploaded itself.
//
// Tests end in _test.go, and no pattern leaves anything out: so there is one for names that don't end in t, and one for
// those that don't end in st. TestSource misses a file that neither takes.
//
//go:embed .gcloudignore go.mod go.sum function.go
//go:embed functions/*[^t].go functions/*[^s]t.go rollup/*[^t].go rollup/*[^s]t.go shards/*[^t].go shards/*[^s]t.go
//go:embed internal/book/*[^t].go internal/book/*[^s]t.go internal/escrow/*[^t].go internal/groupcommit/*[^s]t.go
//go:embed internal/hold/*[^t].go internal/layout/*[^t].go internal/layout/*[^s]t.go
//go:embed internal/ledger/*[^t].go internal/ledger/*[^s]t.go internal/settings/*[^t].go internal/settings/*[^s]t.go
//go:embed internal/store/*[^t].go internal/store/*[^s]t.go
//go:embed scripts/deploy.sh scripts/destroy.sh scripts/smoke.sh terraform/monitoring firestore/firestore.rules
var Source embed.FS
