package main

import (
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/firestore-counters/counters/cmd/internal/terminal"
	"github.com/firestore-counters/counters/shards"
)

// rowsAligned is how many counters are printed at a time, in columns of one width.
const rowsAligned = 100

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
				rows, n := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0), 0
				for s, err := range client.List(cmd.Context()) {
					if err != nil {
						return errors.Join(rows.Flush(), err)
					}
					if n++; n == 1 && !t.json {
						fmt.Fprintln(rows, "COUNTER\tTOTAL\tSHARDS")
					}
					if err := t.printTo(rows, s, "%s\t%s\t%d", terminal.Quote(s.Counter), t.totals(s), s.NumShards); err != nil {
						return err
					}
					if n%rowsAligned == 0 {
						if err := rows.Flush(); err != nil {
							return err
						}
					}
				}
				if n == 0 { // which a script sees by itself
					fmt.Fprintf(cmd.ErrOrStderr(), "counters: no counters at %s in %s\n", t.Counters, t.where(client))
				}
				return rows.Flush()
			})
		},
	}
}
