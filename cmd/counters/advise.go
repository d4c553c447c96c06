package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/firestore-counters/counters/shards"
)

func newAdviseCommand(t *target) *cobra.Command {
	var load shards.Load
	cmd := &cobra.Command{
		Use:   "advise --peak R",
		Short: "Say how many shards a peak rate asks for, and why",
		Long: `Say how many shards a counter should have for a peak rate of increments, when all of them go through
the increment function, and when clients write to the shards themselves. Nothing is read or written.`,
		Example: `  counters advise --peak 5000
  counters advise --peak 5000 --instances 4 --latency 50ms`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			batched, err := load.AdviseBatched()
			if err != nil {
				return err
			}
			unbatched, err := load.AdviseUnbatched()
			if err != nil {
				return err
			}
			if t.json {
				return t.print(cmd, map[string]shards.Advice{"batched": batched, "unbatched": unbatched}, "")
			}
			return explain(cmd.OutOrStdout(), load, batched, unbatched)
		},
	}
	cmd.Flags().Float64Var(&load.Peak, "peak", 0, "increments a second at the peak")
	cmd.Flags().IntVar(&load.Instances, "instances", 1, "instances of the increment function at the peak")
	cmd.Flags().DurationVar(&load.Latency, "latency", 30*time.Millisecond, "how long a commit takes")
	cmd.Flags().Float64Var(&load.PerShard, "per-shard", 1, "writes a second that one document takes, sustained")
	cmd.Flags().BoolVar(&t.json, "json", false, "print JSON")
	_ = cmd.MarkFlagRequired("peak")
	return cmd
}

func explain(w io.Writer, load shards.Load, batched, unbatched shards.Advice) error {
	_, err := fmt.Fprintf(w, `Through the increment function: %s
  Increments that come together share a commit, and an instance has one commit of a counter in
  flight, or up to four once 64 increments wait: %.4g commits a second, with %d instance(s) at %v a commit.
When clients write to the shards themselves: %s
  Every increment is a write of its own: %.4g a second.

A shard is reckoned with a sustained %.4g writes a second, and the shards with twice what they get:
they are picked at random, and at full load some are always behind. Bursts of seconds do no harm.
`,
		inWords(batched), batched.Commits, load.Instances, load.Latency,
		inWords(unbatched), unbatched.Commits, load.PerShard)
	return err
}

func inWords(a shards.Advice) string {
	switch {
	case a.Shards == 1:
		return "1 shard"
	case a.Shards > shards.MaxShards:
		return fmt.Sprintf("%d shards, and a counter has %d at most", a.Shards, shards.MaxShards)
	}
	return fmt.Sprintf("%d shards", a.Shards)
}
