package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/firestore-counters/counters/cmd/internal/terminal"
	"github.com/firestore-counters/counters/shards"
)

func newLimitCommand(t *target) *cobra.Command {
	var field func() (string, error)
	cmd := &cobra.Command{
		Use:   "limit ID N",
		Short: "Set a counter's limit",
		Long: `Set the limit of a field of a counter, which FIELDS declares to have one, such as FIELDS=seats=limit(500): it never
exceeds N, and never goes below 0. An increment is refused only if at some moment between request and answer there was no
room for it. A counter that nobody gave a limit has the one that is declared.

A limit can't be less than what is taken.`,
		Example: `  counters limit concert 200
  counters limit concert 200 --field seats`,
		Args: arguments(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			limit, err := strconv.ParseInt(args[1], 10, 64)
			if err != nil || limit < 0 {
				return badUsage("a limit of %q: want an integer of 0 or more", args[1])
			}
			return t.withCounter(cmd.Context(), args[0], func(ctx context.Context, c shards.Counter) error {
				field, err := field()
				if err != nil {
					return err
				}
				err = c.SetLimit(ctx, field, limit)
				if of, ok := errors.AsType[*shards.LimitError](err); ok {
					return fmt.Errorf("%w; %d is the least that it can be now", err, of.Taken)
				}
				if err != nil {
					return err
				}
				return t.print(cmd, map[string]any{"counter": c.ID(), "field": field, "limit": limit}, "%s has at most %d %s", terminal.Quote(c.ID()), limit, field)
			})
		},
	}
	field = t.heldField(cmd)
	return cmd
}
