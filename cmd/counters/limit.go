package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/firestore-counters/counters/shards"
)

func newLimitCommand(t *target) *cobra.Command {
	var field string
	var none bool
	cmd := &cobra.Command{
		Use:   "limit ID [N]",
		Short: "Give a counter a limit",
		Long: `Give a field of a counter a limit: from then on it never exceeds N, and never goes below 0. An increment is refused only
if at some moment between request and answer there was no room for it. With --none the limit is removed.

A limit can't be less than what is taken. All functions and programs that count must be of a version that knows limits,
and clients can't write the shards by themselves while there is one.`,
		Example: `  counters limit tickets 500
  counters limit concert 200 --field seats
  counters limit tickets --none`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if none == (len(args) == 2) {
				return badUsage("want a limit, such as counters limit %s 500, or --none", args[0])
			}
			if err := t.sums(); err != nil {
				return err
			}
			field := cmp.Or(field, t.fieldNames()[0])
			var limit int64
			if !none {
				var err error
				if limit, err = strconv.ParseInt(args[1], 10, 64); err != nil || limit < 0 {
					return badUsage("a limit of %q: want an integer of 0 or more", args[1])
				}
			}
			return t.withCounter(cmd.Context(), args[0], func(ctx context.Context, c shards.Counter) error {
				if none {
					if err := c.RemoveLimit(ctx, field); err != nil {
						return err
					}
					return t.print(cmd, map[string]any{"counter": c.ID(), "field": field, "limit": nil}, "%s has no limit of %s", printable(c.ID()), field)
				}
				err := c.SetLimit(ctx, field, limit)
				if of, ok := errors.AsType[*shards.LimitError](err); ok {
					return fmt.Errorf("%w; %d is the least that it can be now", err, of.Taken)
				}
				if err != nil {
					return err
				}
				return t.print(cmd, map[string]any{"counter": c.ID(), "field": field, "limit": limit}, "%s has at most %d %s", printable(c.ID()), limit, field)
			})
		},
	}
	cmd.Flags().StringVar(&field, "field", "", "the field (default: the first)")
	cmd.Flags().BoolVar(&none, "none", false, "remove the limit")
	return cmd
}
