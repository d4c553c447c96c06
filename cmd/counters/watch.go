package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/firestore-counters/counters/shards"
)

func newWatchCommand(t *target) *cobra.Command {
	return &cobra.Command{
		Use:   "watch ID",
		Short: "Print a counter's total with every change",
		Long:  `Print a counter's total, and again whenever it changes, until it is interrupted.`,
		Example: `  counters watch post-123
  counters watch post-123 --json`,
		Args: arguments(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.withCounterFor(cmd.Context(), args[0], func(ctx context.Context, c shards.Counter) error {
				for s, err := range c.Watch(ctx) {
					if err != nil {
						return err
					}
					if err := t.print(cmd, s, "%s  %s", s.UpdatedAt.Local().Format(time.TimeOnly), t.totals(s)); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}
