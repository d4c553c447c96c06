package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/firestore-counters/counters/cmd/internal/terminal"
	"github.com/firestore-counters/counters/shards"
)

func newCreateCommand(t *target) *cobra.Command {
	var opts shards.CreateOptions
	cmd := &cobra.Command{
		Use:   "create ID",
		Short: "Make a counter",
		Long: `Make a counter, with all its shards, in one commit. It is an error if the counter exists.
A counter that only counts documents (--fields 'users=count(/users)') has no shards.

"counters cost --rate R" says how many shards you need.`,
		Example: `  counters create post-123
  counters create post-123 --shards 20 --total 1500`,
		Args: argumentsOr(1, "shards"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkShards(opts.Shards); err != nil {
				return err
			}
			documents := len(t.fieldNames()) == 0 // are all that is counted
			if documents && !cmd.Flags().Changed("shards") {
				opts.Shards = 0
			}
			return t.withCounter(cmd.Context(), args[0], func(ctx context.Context, c shards.Counter) error {
				if err := c.Create(ctx, opts); errors.Is(err, shards.ErrExists) {
					return t.exists(ctx, c, err)
				} else if err != nil {
					return err
				}
				if documents { // which may be there already: no event tells of those
					if err := t.reconcileOne(ctx, c.ID()); err != nil {
						return fmt.Errorf("%s was made, but its documents were not counted: %w", c.ID(), err)
					}
				}
				s, err := c.Get(ctx) // its path may have counts
				if err != nil {
					return err
				}
				if documents {
					return t.print(cmd, s, "created %s: %s", terminal.Quote(c.ID()), t.totals(s))
				}
				totals := t.totals(s)
				if s.Totals == nil {
					totals = "total " + totals
				}
				return t.print(cmd, s, "created %s: %s, %s", terminal.Quote(c.ID()), terminal.Count(s.NumShards, "shard"), totals)
			})
		},
	}
	cmd.Flags().IntVar(&opts.Shards, "shards", shards.DefaultNumShards, "number of shards, 1 to 1000")
	cmd.Flags().Int64Var(&opts.Total, "total", 0, "number to start from")
	return cmd
}

// exists adds to an error that a counter is there already what may be done with it, unless it is
// being deleted, which the error says.
func (t *target) exists(ctx context.Context, c shards.Counter, err error) error {
	if _, gone := c.Get(ctx); errors.Is(gone, shards.ErrNotFound) {
		return err
	}
	id := typed(c.ID())
	if len(t.fieldNames()) == 0 {
		return fmt.Errorf("%w; \"counters get %s\" shows it", err, id)
	}
	return fmt.Errorf("%w; \"counters get %[2]s\" shows it, \"counters resize %[2]s --shards N\" changes how many shards it has, and \"counters reset %[2]s\" sets it back to 0", err, id)
}

// checkShards refuses a number of shards before anything is asked for over the network. 0, which
// stands for the default in the library, is never typed on purpose.
func checkShards(n int) error {
	if n < 1 || n > shards.MaxShards {
		return badUsage("--shards %d: want 1 to %d", n, shards.MaxShards)
	}
	return nil
}
