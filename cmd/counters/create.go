package main

import (
	"github.com/spf13/cobra"

	"github.com/firestore-counters/counters/shards"
)

func newCreateCommand(t *target) *cobra.Command {
	var opts shards.CreateOptions
	cmd := &cobra.Command{
		Use:   "create ID",
		Short: "Make a counter",
		Long: `Make a counter, with all its shards, in one commit. It is an error when there is one of that id.

How many shards? "counters cost --rate R" tells.`,
		Example: `  counters create post-123
  counters create post-123 --shards 20 --total 1500`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.withCounter(cmd.Context(), args[0], func(c shards.Counter) error {
				if err := c.Create(cmd.Context(), opts); err != nil {
					return err
				}
				return t.print(cmd, map[string]any{"counter": c.ID(), "num_shards": opts.Shards, "total": opts.Total},
					"created %s: %d shards, total %d", c.ID(), opts.Shards, opts.Total)
			})
		},
	}
	cmd.Flags().IntVar(&opts.Shards, "shards", 10, "number of shards, 1 to 1000")
	cmd.Flags().Int64Var(&opts.Total, "total", 0, "what to start from")
	return cmd
}
