package main

import (
	"github.com/spf13/cobra"

	"github.com/firestore-counters/counters/shards"
)

func newDeleteCommand(t *target) *cobra.Command {
	return &cobra.Command{
		Use:     "delete ID",
		Short:   "Delete a counter",
		Long:    `Delete a counter with its shards and its ledger. When it is cut short, deleting again finishes it.`,
		Example: `  counters delete post-123`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.withCounter(cmd.Context(), args[0], func(c shards.Counter) error {
				if err := c.Delete(cmd.Context()); err != nil {
					return err
				}
				return t.print(cmd, map[string]any{"counter": c.ID(), "deleted": true}, "deleted %s", c.ID())
			})
		},
	}
}
