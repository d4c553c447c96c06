package main

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/emulator/eventarc"
)

// addEventFaults adds the flags of what may go wrong with events.
func addEventFaults(flags *pflag.FlagSet, f *eventarc.Faults) {
	flags.Float64Var(&f.Duplicate, "duplicate", 0, "probability that an event is delivered twice")
	flags.Float64Var(&f.Drop, "drop", 0, "probability that an event is never delivered")
	flags.Float64Var(&f.Reorder, "reorder", 0, "probability that an event is overtaken by later ones")
}

// addCommitFaults adds the flags of what may go wrong with commits, and of how long requests take.
func addCommitFaults(flags *pflag.FlagSet, f *emulator.Faults) {
	flags.Float64Var(&f.Abort, "abort", 0, "probability that a commit fails with ABORTED")
	flags.Float64Var(&f.Unavailable, "unavailable", 0, "probability that a commit fails with UNAVAILABLE before it is applied")
	flags.Float64Var(&f.LoseAnswers, "lose-answers", 0, "probability that a commit is applied and its answer lost as UNAVAILABLE")
	flags.Float64Var(&f.DocWriteRate, "doc-write-rate", 0, "commits a second that one document takes before they queue and fail; 0 takes any number")
	flags.DurationVar(&f.CommitLatency, "commit-latency", 0, "how long a commit takes at least, such as 30ms, and its documents take no other")
	flags.DurationVar(&f.QueryLatency, "query-latency", 0, "how long a query takes at least, such as 20ms")
	flags.DurationVar(&f.IndexTombstones, "index-tombstones", 0, "how long a query takes for each 10,000 index entries that were replaced within an hour, such as 20ms")
}

// faultsSet lists the faults that are asked for, with the seed that makes the same happen again; it
// is empty when none is.
func faultsSet(faults *pflag.FlagSet, seed uint64) string {
	var set []string
	faults.VisitAll(func(f *pflag.Flag) {
		if f.Value.String() != f.DefValue {
			set = append(set, f.Name+" "+f.Value.String())
		}
	})
	if len(set) == 0 {
		return ""
	}
	return strings.Join(set, ", ") + fmt.Sprintf(", seed %d", seed)
}

// pushFlag is how events are pushed, by name.
type pushFlag struct{ push *eventarc.Push }

// addPush adds the flags of how events are pushed.
func addPush(flags *pflag.FlagSet, p *eventarc.Push) {
	flags.Var(pushFlag{p}, "push", "how events are delivered: quick, or pubsub as production does, from a small window that grows, and with pauses of 10s to 10m")
	flags.DurationVar(&p.AckDeadline, "ack-deadline", 0, "deliver an event again that isn't answered by then, such as 70s as deployed, or 10s as Pub/Sub does by itself; 0s waits")
}

func (f pushFlag) Type() string { return "quick|pubsub" }

func (f pushFlag) String() string {
	if f.push == nil || f.push.Window == 0 {
		return "quick"
	}
	return "pubsub"
}

func (f pushFlag) Set(name string) error {
	deadline := f.push.AckDeadline
	switch name {
	case "quick":
		*f.push = eventarc.Push{}
	case "pubsub":
		*f.push = eventarc.PubSub()
	default:
		return fmt.Errorf("want quick or pubsub")
	}
	f.push.AckDeadline = deadline
	return nil
}
