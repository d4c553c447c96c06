package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/firestore-counters/counters/shards"
)

func newResetCommand(t *target) *cobra.Command {
	return &cobra.Command{
		Use:   "reset ID",
		Short: "Set a counter to zero",
		Long: `Set a counter to zero: all its shards in one commit, and what it started from. The total
follows within a second or so. Increments that are committed beside it count before it or after it.`,
		Example: `  counters reset post-123`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.withCounter(cmd.Context(), args[0], func(c shards.Counter) error {
				err := t.adopted(cmd.Context(), c.ID(), func() error { return c.Reset(cmd.Context()) })
				if err != nil {
					return err
				}
				return t.print(cmd, map[string]any{"counter": c.ID(), "total": 0}, "%s is 0", c.ID())
			})
		},
	}
}

// adopted runs a command that needs a ledger, and adopts a counter that has none first: it was made by a public snippet,
// and no event of it has come yet.
func (t *target) adopted(ctx context.Context, id string, command func() error) error {
	if err := command(); !errors.Is(err, shards.ErrNoLedger) {
		return err
	}
	if err := t.reconcileOne(ctx, id); err != nil {
		return err
	}
	return command()
}

// reconcileOne brings a counter's total in line with its shards.
func (t *target) reconcileOne(ctx context.Context, id string) error {
	client, err := t.openRollup(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = client.Reconcile(ctx, id, false)
	return err
}
