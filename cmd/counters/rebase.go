package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/firestore-counters/counters/shards"
)

func newRebaseCommand(t *target) *cobra.Command {
	var total int64
	var yes bool
	cmd := &cobra.Command{
		Use:   "rebase ID --total N",
		Short: "Set a counter's total",
		Long: `Set a counter's total, and leave its shards as they are: what it holds beyond them is
changed. The counter is reconciled first, so that only increments that are committed beside it
come on top.`,
		Example: `  counters rebase post-123 --total 1500`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.withConfirmed(cmd, yes, fmt.Sprintf("set to %d", total), args[0], func(ctx context.Context, c shards.Counter, where string) error {
				if err := t.reconcileOne(ctx, c.ID()); err != nil {
					return err
				}
				if err := c.Rebase(ctx, total); err != nil {
					return err
				}
				return t.print(cmd, map[string]any{"counter": c.ID(), "total": total}, "%s is %d in %s", printable(c.ID()), total, where)
			})
		},
	}
	cmd.Flags().Int64Var(&total, "total", 0, "what the total is to be")
	addYes(cmd, &yes)
	_ = cmd.MarkFlagRequired("total")
	return cmd
}
