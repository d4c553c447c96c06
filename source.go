package counters

import "embed"

// Source is what deploys the functions without a checkout: their source, as .gcloudignore has it uploaded, and the
// files of metrics and alerts. The program counters carries it. This file is not uploaded itself.
//
// No pattern can leave tests (_test.go) out. So one takes the names that don't end in t, and one those that don't
// end in st. TestSource misses a file that neither takes.
//
//go:embed .gcloudignore go.mod go.sum function.go
//go:embed functions/*[^t].go functions/*[^s]t.go rollup/*[^t].go rollup/*[^s]t.go shards/*[^t].go shards/*[^s]t.go
//go:embed internal/book/*[^t].go internal/book/*[^s]t.go internal/ceiling/*[^t].go internal/escrow/*[^t].go internal/groupcommit/*[^s]t.go
//go:embed internal/extension/*[^t].go internal/extension/*[^s]t.go
//go:embed internal/hold/*[^t].go internal/layout/*[^t].go
//go:embed internal/seats/*[^t].go
//go:embed internal/settings/*[^t].go internal/settings/*[^s]t.go
//go:embed internal/store/*[^t].go
//go:embed terraform/monitoring
var Source embed.FS
