package main

import (
	"context"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/firestore-counters/counters/cmd/internal/terminal"
	"github.com/firestore-counters/counters/shards"
)

func newRebaseCommand(t *target) *cobra.Command {
	var amount string
	var yes bool
	cmd := &cobra.Command{
		Use:   "rebase ID --total N",
		Short: "Set a counter's total",
		Long: `Set a counter's total. Its shards stay as they are: the base changes, which is what the total holds beyond them. The
shards are read at the same moment, so only increments that are committed later come on top, and what open holds of
amounts have, until it comes back.`,
		Example: `  counters rebase post-123 --total 1500
  counters rebase post-123 --total likes=1500,views=20000`,
		Args: argumentsOr(1, "total"),
		RunE: func(cmd *cobra.Command, args []string) error {
			alone, totals, err := t.amounts("--total", amount, func(text string) (int64, error) {
				n, err := strconv.ParseInt(text, 10, 64)
				if err != nil {
					return 0, badUsage("--total %s: want an integer, or fields such as likes=1500,views=20000", amount)
				}
				return n, nil
			})
			if err == nil {
				err = t.sums()
			}
			if err != nil {
				return err
			}
			if totals == nil { // of the first field without a limit
				names, _ := t.place().Layout() // sums has looked at it
				totals = map[string]int64{slices.Concat(names.Plain(), names.Sharded)[0].Name: alone}
			}
			return t.withConfirmed(cmd, yes, "set the total of %s to "+amount, args[0], func(ctx context.Context, c shards.Counter, where string) error {
				if err := c.RebaseFields(ctx, totals); err != nil {
					return err
				}
				result := map[string]any{"counter": c.ID()}
				if total, only := totals[t.fieldNames()[0]]; only && len(totals) == 1 {
					result["total"] = total
				} else {
					result["totals"] = totals
				}
				return t.print(cmd, result, "%s is %s in %s", terminal.Quote(c.ID()), amount, where)
			})
		},
	}
	cmd.Flags().StringVar(&amount, "total", "", "the new total, or totals of several fields, such as likes=1500,views=20000")
	addYes(cmd, &yes)
	_ = cmd.MarkFlagRequired("total")
	return cmd
}
