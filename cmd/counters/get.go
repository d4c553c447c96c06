package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/firestore-counters/counters/shards"
)

func newGetCommand(t *target) *cobra.Command {
	var exact bool
	cmd := &cobra.Command{
		Use:   "get ID",
		Short: "Print a counter's total",
		Long: `Print a counter's total, with all its fields. That is one document read, and the total is about a second old.

With --exact, the server adds up the shards: every acknowledged increment is in the result.`,
		Example: `  counters get post-123
  counters get post-123 --exact --json`,
		Args: arguments(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.withCounter(cmd.Context(), args[0], func(ctx context.Context, c shards.Counter) error {
				read := c.Get
				if exact {
					read = c.Sum
				}
				s, err := read(ctx)
				if err != nil {
					return err
				}
				return t.print(cmd, s, "%s", t.totals(s))
			})
		},
	}
	cmd.Flags().BoolVar(&exact, "exact", false, "add up the shards")
	return cmd
}
