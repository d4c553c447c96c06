package main

import (
	"context"
	"math"

	"github.com/spf13/cobra"

	"github.com/firestore-counters/counters/shards"
)

func newIncCommand(t *target) *cobra.Command {
	cmd := newAddCommand(t, 1)
	cmd.Use, cmd.Short = "inc ID", "Add to a counter"
	cmd.Example = `  counters inc post-123
  counters inc post-123 --by 5 --key order-17`
	return cmd
}

// newAddCommand adds sign times what is asked for.
func newAddCommand(t *target, sign int64) *cobra.Command {
	var by int64
	var key string
	cmd := &cobra.Command{
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if by == 0 || by == math.MinInt64 {
				return badUsage("--by %d: want an integer other than 0, at most %d", by, math.MaxInt64)
			}
			return t.withCounter(cmd.Context(), args[0], func(ctx context.Context, c shards.Counter) error {
				replayed, err := c.AddOnce(ctx, sign*by, shards.Key{Value: key})
				if err != nil {
					return err
				}
				note := ""
				if replayed {
					note = " (counted before, under the same key)"
				}
				return t.print(cmd, map[string]any{"counter": c.ID(), "by": sign * by, "replayed": replayed},
					"%s %+d%s", printable(c.ID()), sign*by, note)
			})
		},
	}
	cmd.Flags().Int64Var(&by, "by", 1, "how much")
	cmd.Flags().StringVar(&key, "key", "", "idempotency key: the same command with the same key counts once")
	return cmd
}
