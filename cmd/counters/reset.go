package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/firestore-counters/counters/cmd/internal/terminal"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

func newResetCommand(t *target) *cobra.Command {
	var yes bool
	var members string
	cmd := &cobra.Command{
		Use:   "reset ID",
		Short: "Set a counter to zero",
		Long: `Set a counter to zero, at once: its base changes, and its shards keep what they hold. An increment at the same time
counts either before the reset or after it. Fields with a limit stay as they are, and what open holds of amounts have
counts until it comes back.

A counter with members is refused, because they would still be members, but no longer counted. With
--members=remove they are removed first.`,
		Example: `  counters reset post-123
  counters reset post-123 --members=remove`,
		Args: arguments(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if members != "refuse" && members != "remove" {
				return badUsage("--members=%s: want refuse or remove", members)
			}
			opts := shards.ResetOptions{RemoveMembers: members == "remove"}
			return t.withConfirmed(cmd, yes, "reset %s", args[0], func(ctx context.Context, c shards.Counter, where string) error {
				const off = " members off"
				progress := newProgress(cmd.ErrOrStderr(), "setting "+terminal.Quote(c.ID())+" to 0", off)
				opts.Progress = func(n int) { progress.Set(n, 0) }
				err := c.Reset(ctx, opts)
				if n := progress.Finish(); opts.RemoveMembers {
					err = cutShort(err, n, off, "reset")
				}
				if errors.Is(err, shards.ErrHasMembers) {
					return fmt.Errorf("%w; --members=remove takes them off first", err)
				}
				if err != nil {
					return err
				}
				s, err := c.Get(ctx) // what is held, or has a limit, stays
				if err != nil {
					return fmt.Errorf("%s was reset, but not read again: %w", c.ID(), err)
				}
				totals := t.totals(s)
				if s.Total == 0 && !slices.ContainsFunc(slices.Collect(maps.Values(s.Totals)), func(n int64) bool { return n != 0 }) {
					totals = "0"
				}
				return t.print(cmd, s, "%s is %s in %s", terminal.Quote(c.ID()), totals, where)
			})
		},
	}
	cmd.Flags().StringVar(&members, "members", "refuse", "if the counter has members: refuse to reset it, or remove them")
	addYes(cmd, &yes)
	return cmd
}

// reconcileOne brings a counter's total in line with its shards.
func (t *target) reconcileOne(ctx context.Context, id string) error {
	client, err := rollup.Open(ctx, rollup.Config{Place: t.place()})
	if err != nil {
		return whereTo(err)
	}
	defer client.Close()
	_, err = client.Reconcile(ctx, id, rollup.ReconcileOptions{})
	return err
}
