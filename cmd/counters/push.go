package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/firestore-counters/counters/emulator/eventarc"
)

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
