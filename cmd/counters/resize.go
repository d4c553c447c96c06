package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/firestore-counters/counters/cmd/internal/terminal"
	"github.com/firestore-counters/counters/shards"
)

func newResizeCommand(t *target) *cobra.Command {
	var n int
	var opts shards.ResizeOptions
	cmd := &cobra.Command{
		Use:   "resize ID --shards N",
		Short: "Change a counter's number of shards",
		Long: `Change a counter's number of shards, up or down, while increments go on. None is lost. What surplus shards hold moves
to the others, a few in each commit. If this is interrupted, run it again to finish.

If web and mobile clients write shards by themselves, say --keep-shards: then surplus shards stay, empty. A write that
still waits on a phone may name one of them, and would be lost with it.

"counters cost --rate R" says how many shards you need.`,
		Example: `  counters resize post-123 --shards 50`,
		Args:    argumentsOr(1, "shards"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkShards(n); err != nil {
				return err
			}
			return t.withCounterFor(cmd.Context(), args[0], func(ctx context.Context, c shards.Counter) error {
				progress := newProgress(cmd.ErrOrStderr(), "moving shards", "")
				opts.Progress = progress.Set
				err := c.Resize(ctx, n, opts)
				moved := progress.Finish()
				if err = cutShort(err, moved, " shards moved", "resize"); err != nil {
					return err
				}
				return t.print(cmd, map[string]any{"counter": c.ID(), "num_shards": n, "moved": moved},
					"%s has %s, %d moved", terminal.Quote(c.ID()), terminal.Count(n, "shard"), moved)
			})
		},
	}
	cmd.Flags().IntVar(&n, "shards", 0, "number of shards, 1 to 1000")
	cmd.Flags().BoolVar(&opts.KeepShards, "keep-shards", false, "keep surplus shards, empty")
	_ = cmd.MarkFlagRequired("shards")
	return cmd
}
