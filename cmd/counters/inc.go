package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/firestore-counters/counters/cmd/internal/terminal"
	"github.com/firestore-counters/counters/shards"
)

func newIncCommand(t *target) *cobra.Command {
	cmd := newAddCommand(t, 1)
	cmd.Use, cmd.Short = "inc ID", "Add to a counter"
	cmd.Example = `  counters inc post-123
  counters inc post-123 --by 5 --key order-17
  counters inc post-123 --by likes=1,views=3`
	return cmd
}

// newAddCommand adds sign times what is asked for.
func newAddCommand(t *target, sign int64) *cobra.Command {
	amount := "1"
	var key string
	cmd := &cobra.Command{
		Args: argumentsOr(1, "by"),
		RunE: func(cmd *cobra.Command, args []string) error {
			by, fields, err := t.amounts("--by", amount, func(text string) (int64, error) {
				n, err := strconv.ParseInt(text, 10, 64)
				if err != nil || n == 0 || n == math.MinInt64 {
					return 0, badUsage("--by %s: want an integer other than 0, at most %d, or fields such as likes=1,views=3", cmp.Or(amount, "''"), math.MaxInt64)
				}
				return sign * n, nil
			})
			if err != nil {
				return err
			}
			k := shards.Key{Value: key}
			if err := k.Validate(); err != nil {
				return err
			}
			if key == "" && cmd.Flags().Changed("key") {
				return badUsage("--key is empty: give one, or leave the flag out; then a repeated command counts again")
			}
			return t.withCounter(cmd.Context(), args[0], func(ctx context.Context, c shards.Counter) error {
				if err := t.counts(ctx, c, slices.Sorted(maps.Keys(fields))...); err != nil {
					return err
				}
				var replayed bool
				var err error
				var asked any = by
				said := fmt.Sprintf("%+d", by)
				if fields == nil {
					replayed, err = c.AddOnce(ctx, by, k)
				} else {
					replayed, err = c.AddFields(ctx, fields, k)
					asked, said = fields, list(fields)
				}
				switch {
				case errors.Is(err, shards.ErrKeyReused):
					return fmt.Errorf("%w (use another key, or repeat the command that used this one)", err)
				case errors.Is(err, shards.ErrUnknown) && key != "":
					return fmt.Errorf("%w (repeat the command with the same key: it counts once)", err)
				case errors.Is(err, shards.ErrUnknown):
					return fmt.Errorf("%w (if you repeat the command, it may count twice; with --key it counts once)", err)
				case err != nil:
					return adding{err}
				}
				note := ""
				if replayed {
					note = " (counted before, under the same key)"
				}
				return t.print(cmd, map[string]any{"counter": c.ID(), "by": asked, "replayed": replayed}, "%s %s%s", terminal.Quote(c.ID()), said, note)
			})
		},
	}
	cmd.Flags().StringVar(&amount, "by", "1", "how much; or of which fields, such as likes=1,views=3")
	cmd.Flags().StringVar(&key, "key", "", "idempotency key: the same command with the same key counts once")
	return cmd
}

// amounts reads a flag's likes=1,views=3, or 5, which names no fields: they are nil.
func (t *target) amounts(flag, text string, number func(string) (int64, error)) (alone int64, fields map[string]int64, err error) {
	if !strings.Contains(text, "=") {
		alone, err = number(text)
		return alone, nil, err
	}
	fields = map[string]int64{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		if _, again := fields[name]; again {
			return 0, nil, badUsage("%s %s: it names %s twice", flag, text, name)
		}
		n, err := number(value)
		if err == nil {
			err = t.checkField(name)
		}
		if err != nil {
			return 0, nil, err
		}
		fields[name] = n
	}
	return 0, fields, nil
}

// list is what was added to fields, in the order of their names.
func list(fields map[string]int64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		parts = append(parts, fmt.Sprintf("%s %+d", name, fields[name]))
	}
	return strings.Join(parts, ", ")
}

func newDecCommand(t *target) *cobra.Command {
	cmd := newAddCommand(t, -1)
	cmd.Use, cmd.Short = "dec ID", "Take off a counter"
	cmd.Example = `  counters dec post-123
  counters dec post-123 --by 2`
	return cmd
}
