package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/firestore-counters/counters/shards"
)

func newListCommand(t *target) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "Print all counters",
		Long:  `Print all counters with their totals, a line each. It reads one document per counter.`,
		Example: `  counters list
  counters list --json | jq -r 'select(.total > 1000) | .counter'`,
		Args: arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return t.with(cmd.Context(), func(client *shards.Client) error {
				none := true
				for s, err := range client.List(cmd.Context()) {
					if err != nil {
						return err
					}
					none = false
					if err := t.print(cmd, s, "%s\t%s\t%s", printable(s.Counter), t.totals(s), quantity(s.NumShards, "shard")); err != nil {
						return err
					}
				}
				if none { // which a script sees by itself
					fmt.Fprintf(cmd.ErrOrStderr(), "counters: no counters at %s in %s\n", t.Counters, t.where(client))
				}
				return nil
			})
		},
	}
}
