// Package bench measures this project beside what people build today, on one machine and in one
// run.
//
// # Contestants
//
// Each contestant gets an embedded Firestore of its own with the same settings, and functions in
// processes of their own, served by the functions framework as in production:
//
//   - ours, as deployed; and ours without markers (EXACT_WRITES=false)
//   - blind: a commit per request, and total += after - before per event, as public tutorials have it
//   - no-op: functions of the same shape that do nothing, which is what the framework can do on
//     this machine; and one that waits for as long as a commit, which is what it can do for
//     functions that wait
//   - sum: a commit per request, no trigger, and an aggregation over the shards per read
//
// The last three are functions of this package, that only the processes of contestants register.
// Nothing that is deployed imports it.
//
// # Method
//
// The load generator, the embedded Firestore and the delivery of events run in this process, and
// share the machine with the functions. So every figure holds for this machine at this moment, and
// every comparison is a ratio from the same run: contestants take turns, in rounds, each round
// gives one ratio, and what is reported is the median of the rounds with the lowest and the
// highest.
//
// Throughput is measured in a closed loop, in which each client sends its next request after the
// answer to the one before; latency in an open loop, in which requests are due at fixed or random
// times and are timed from then, so that waiting for a slow answer is not left out. Requests that
// fail are counted and shown, and never timed.
//
// Every race also counts the CPU time of each side, which what else runs on the machine hardly
// changes: on a busy machine the ratios of CPU time say more than those of throughput.
//
// # Figures of docs
//
// README and docs have their figures between lines that name them (Report.WriteDocs), all from one
// full run on a machine that did nothing else (WaitUntilIdle, Report.FitForDocs). Its results are
// kept, and a test holds the pages against them.
//
// # Comparing builds
//
// The same scenarios run the functions of two builds of this program against each other, in
// alternating rounds (Options.Against). The other build only has to serve its functions as this one
// does, as the command counters does too; Firestore, events and load are this build's for both.
//
// # Profiling
//
// CPU profiles of our functions under the load of a scenario (Options.Profiles):
//
//	go run -C cmd/bench . --quick --scenario zipf --profiles p && go tool pprof -top -cum p/zipf-ours-Increment.pprof
//
// The hot paths have Go benchmarks, with allocations: decoding, merging and coalescing in rollup,
// the batcher in shards, commits in emulator/internal/engine. A profile of one of them:
//
//	go test ./rollup -run - -bench Decode -cpuprofile cpu.out && go tool pprof -top -cum cpu.out
package bench
