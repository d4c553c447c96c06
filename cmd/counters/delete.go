package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/firestore-counters/counters/cmd/internal/terminal"
	"github.com/firestore-counters/counters/shards"
)

func newDeleteCommand(t *target) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "delete ID",
		Short: "Delete a counter",
		Long: `Delete a counter with its members, its shards and its base, even if its document was deleted by hand. Until then
its counts are kept, and a document that is made again shows them. If this is interrupted, run it again to finish.`,
		Example: `  counters delete post-123
  counters delete post-123 --yes`,
		Args: arguments(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.withConfirmed(cmd, yes, "delete %s", args[0], func(ctx context.Context, c shards.Counter, where string) error {
				const gone = " documents gone"
				progress := newProgress(cmd.ErrOrStderr(), "deleting "+terminal.Quote(c.ID()), gone)
				err := c.Delete(ctx, shards.DeleteOptions{Progress: func(n int) { progress.Set(n, 0) }})
				if err = cutShort(err, progress.Finish(), gone, "delete"); err != nil {
					return err
				}
				return t.print(cmd, map[string]any{"counter": c.ID(), "deleted": true}, "deleted %s in %s", terminal.Quote(c.ID()), where)
			})
		},
	}
	addYes(cmd, &yes)
	return cmd
}
