package main

import (
	"github.com/spf13/cobra"

	"github.com/firestore-counters/counters/shards"
)

func newRebaseCommand(t *target) *cobra.Command {
	var total int64
	cmd := &cobra.Command{
		Use:   "rebase ID --total N",
		Short: "Set a counter's total",
		Long: `Set a counter's total, and leave its shards as they are: what it holds beyond them is
changed. The counter is reconciled first, so that only increments that are committed beside it
come on top.`,
		Example: `  counters rebase post-123 --total 1500`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.withCounter(cmd.Context(), args[0], func(c shards.Counter) error {
				if err := t.reconcileOne(cmd.Context(), c.ID()); err != nil {
					return err
				}
				if err := c.Rebase(cmd.Context(), total); err != nil {
					return err
				}
				return t.print(cmd, map[string]any{"counter": c.ID(), "total": total}, "%s is %d", c.ID(), total)
			})
		},
	}
	cmd.Flags().Int64Var(&total, "total", 0, "what the total is to be")
	_ = cmd.MarkFlagRequired("total")
	return cmd
}
