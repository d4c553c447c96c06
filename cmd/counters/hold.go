package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/firestore-counters/counters/cmd/internal/terminal"
	"github.com/firestore-counters/counters/shards"
)

func newHoldCommand(t *target) *cobra.Command {
	var by int64
	var lasts time.Duration
	var id string
	cmd := &cobra.Command{
		Use:   "hold ID",
		Short: "Hold an amount for a time",
		Long: `Hold an amount of a field for a time, such as credits that a job may need. It is counted until "counters settle" says
how much of it was used, "counters release" gives it back, or its time is over. The id names the hold: the same command
with the same id holds once. Without --id it gets one, which is printed.`,
		Example: `  counters hold alice --by 4000 --for 2m
  counters hold alice --field credits --by 4000 --for 2m --id job-17`,
		Args: arguments(1),
	}
	field := t.heldField(cmd)
	cmd.Flags().Int64Var(&by, "by", 0, "how much, 1 or more")
	cmd.Flags().DurationVar(&lasts, "for", 0, "for how long, 1s to 720h")
	cmd.Flags().StringVar(&id, "id", "", "the hold's id, such as a job's or an order's")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case by <= 0:
			return badUsage("--by %d: want 1 or more", by)
		case !cmd.Flags().Changed("for"):
			return badUsage("--for is missing: for how long, such as --for 2m? All of it comes back then")
		case id == "" && cmd.Flags().Changed("id"):
			return badUsage("--id is empty: give one, or leave the flag out; then a repeated command holds again")
		}
		key := shards.Key{Value: cmp.Or(id, rand.Text())}
		return t.withCounter(cmd.Context(), args[0], func(ctx context.Context, c shards.Counter) error {
			name, err := field()
			if err == nil {
				err = t.counts(ctx, c, name)
			}
			if err != nil {
				return err
			}
			h, replayed, err := c.Reserve(ctx, name, by, lasts, key)
			switch {
			case errors.Is(err, shards.ErrKeyReused):
				return fmt.Errorf("%w (this id holds another amount: use another id, or repeat the command that used it)", err)
			case errors.Is(err, shards.ErrUnknown):
				return fmt.Errorf("%w (repeat the command with --id %s: it holds once)", err, key.Value)
			case errors.Is(err, shards.ErrHoldEnded):
				return fmt.Errorf("%w (a hold of this id was settled or released before: use another id)", err)
			case err != nil:
				return adding{err}
			case h.State != "held":
				return fmt.Errorf("nothing is held: %s %s (use another id)", h.ID, became(h))
			}
			return t.printHold(cmd, c, name, h, replayed)
		})
	}
	return cmd
}

func newSettleCommand(t *target) *cobra.Command {
	var by int64
	cmd := &cobra.Command{
		Use:   "settle ID HOLD --by N",
		Short: "Say how much of a hold was used",
		Long: `Say how much of a hold was used: that stays counted, and the rest comes back. 0 gives all of it back. More than it holds
is taken if there is room, or else nothing changes. Repeat it as often as you like: it settles once. It works after the
hold's time, too, as long as nobody has ended the hold.`,
		Example: `  counters settle alice job-17 --by 3127`,
		Args:    arguments(2),
	}
	cmd.Flags().Int64Var(&by, "by", 0, "how much was used, 0 or more")
	_ = cmd.MarkFlagRequired("by")
	t.onHold(cmd, func(c shards.Counter, ctx context.Context, field string, key shards.Key) (shards.Hold, error) {
		h, err := c.Settle(ctx, field, by, key)
		if errors.Is(err, shards.ErrHoldEnded) && by > 0 {
			err = fmt.Errorf("%w (all of it came back; to count what was used: counters inc %s --by %s=%d --key %s)", err, typed(c.ID()), field, by, typed(key.Value))
		}
		return h, err
	})
	return cmd
}

func newReleaseCommand(t *target) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "release ID HOLD",
		Short: "Give a hold back",
		Long: `Give all of a hold back. Repeat it as often as you like: it comes back once. An id that nobody knows can't be held any more
afterwards.`,
		Example: `  counters release alice job-17`,
		Args:    arguments(2),
	}
	t.onHold(cmd, shards.Counter.GiveBack)
	return cmd
}

func newHeldCommand(t *target) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "held ID HOLD",
		Short:   "Print what a hold is",
		Long:    `Print whether a hold is held, settled or ended, for one read. It is forgotten a day (REQUEST_TTL) after its end.`,
		Example: `  counters held alice job-17`,
		Args:    arguments(2),
	}
	t.onHold(cmd, shards.Counter.Held)
	return cmd
}

// onHold makes cmd do something about a hold of its arguments.
func (t *target) onHold(cmd *cobra.Command, do func(shards.Counter, context.Context, string, shards.Key) (shards.Hold, error)) {
	field := t.heldField(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		key := shards.Key{Value: args[1]}
		if err := key.Validate(); err != nil {
			return err
		}
		return t.withCounter(cmd.Context(), args[0], func(ctx context.Context, c shards.Counter) error {
			name, err := field()
			if err != nil {
				return err
			}
			h, err := do(c, ctx, name, key)
			switch {
			case errors.Is(err, shards.ErrSettled):
				return fmt.Errorf("%w for %d, and that stands", err, h.Settled)
			case errors.Is(err, shards.ErrNoHold):
				return fmt.Errorf("%w, or none any more; --field says of which field", err)
			case errors.Is(err, shards.ErrUnknown):
				return fmt.Errorf("%w (repeat the command: it does this once)", err)
			case err != nil:
				return err
			}
			return t.printHold(cmd, c, name, h, false)
		})
	}
}

// heldField adds the flag for the field of a hold or a limit to a command, and returns what reads it.
func (t *target) heldField(cmd *cobra.Command) func() (string, error) {
	field := cmd.Flags().String("field", "", "the field (default: the first that has a limit, or else the first)")
	return func() (string, error) {
		if *field != "" {
			return *field, t.checkField(*field)
		}
		names, err := t.place().Layout()
		if err != nil {
			return "", usageError{err}
		}
		if limited := names.Limited(); len(limited) > 0 {
			return limited[0].Name, nil
		}
		if err := t.sums(); err != nil {
			return "", err
		}
		return t.fieldNames()[0], nil
	}
}

// printHold prints what a hold is.
func (t *target) printHold(cmd *cobra.Command, c shards.Counter, field string, h shards.Hold, replayed bool) error {
	printed := map[string]any{"counter": c.ID(), "field": field, "hold": h.ID, "state": h.State, "held": h.By}
	if !h.Until.IsZero() {
		printed["until"] = h.Until
	}
	if h.State == "settled" {
		printed["by"] = h.Settled
	}
	if h.State != "held" {
		printed["returned"] = h.Returned()
	}
	note := ""
	if replayed {
		printed["replayed"], note = true, " (held before, under the same id)"
	}
	return t.print(cmd, printed, "%s %s, %s of %s%s", terminal.Quote(h.ID), became(h), field, terminal.Quote(c.ID()), note)
}

// became says what a hold is.
func became(h shards.Hold) string {
	switch h.State {
	case "held":
		return fmt.Sprintf("holds %d until %s", h.By, h.Until.Format(time.RFC3339))
	case "settled":
		return fmt.Sprintf("is settled for %d, %d came back", h.Settled, h.Returned())
	}
	return fmt.Sprintf("has ended, %d came back", h.Returned())
}
