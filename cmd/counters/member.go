package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/firestore-counters/counters/cmd/internal/terminal"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/shards"
)

func newJoinCommand(t *target) *cobra.Command {
	var hold time.Duration
	cmd := newToggleCommand(t, &cobra.Command{
		Use:   "join ID FIELD MEMBER",
		Short: "Count a member once",
		Long: `Count a member in a field of a counter, once until it leaves. A member is any text, such as a user's id.
Joining again changes nothing. With --hold it leaves by itself after that time, unless it joins without --hold before.`,
		Example: `  counters join post-123 total alice
  counters join post-123 likes alice --fields likes,views
  counters join concert total alice --hold 10m`,
	}, func(ctx context.Context, c shards.Counter, field, member string) (bool, time.Time, error) {
		if hold != 0 {
			return c.Hold(ctx, field, member, hold)
		}
		counted, err := c.Join(ctx, field, member)
		return counted, time.Time{}, err
	}, "joined", "was there already")
	cmd.Flags().DurationVar(&hold, "hold", 0, "for how long, 1s to 720h; 0 is for good")
	return cmd
}

func newLeaveCommand(t *target) *cobra.Command {
	return newToggleCommand(t, &cobra.Command{
		Use:     "leave ID FIELD MEMBER",
		Short:   "Count a member no longer",
		Long:    `Take a member out of a field of a counter, with its 1. Leaving again changes nothing.`,
		Example: `  counters leave post-123 total alice`,
	}, func(ctx context.Context, c shards.Counter, field, member string) (bool, time.Time, error) {
		counted, err := c.Leave(ctx, field, member)
		return counted, time.Time{}, err
	}, "left", "was not there")
}

func newToggleCommand(t *target, cmd *cobra.Command, toggle func(ctx context.Context, c shards.Counter, field, member string) (counted bool, until time.Time, err error), done, before string) *cobra.Command {
	cmd.Args = arguments(3)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := t.checkField(args[1]); err != nil {
			return err
		}
		if err := layout.ValidateID(args[2]); err != nil {
			return fmt.Errorf("%w: %w", shards.ErrInvalidMember, err)
		}
		return t.withCounter(cmd.Context(), args[0], func(ctx context.Context, c shards.Counter) error {
			if err := t.counts(ctx, c, args[1]); err != nil {
				return err
			}
			counted, until, err := toggle(ctx, c, args[1], args[2])
			if err != nil {
				return adding{err}
			}
			said := done
			if !counted {
				said = before
			}
			printed := map[string]any{"counter": c.ID(), "field": args[1], "member": args[2], "counted": counted}
			if !until.IsZero() {
				printed["until"] = until
			}
			return t.print(cmd, printed, "%s %s, %s of %s%s", terminal.Quote(args[2]), said, args[1], terminal.Quote(c.ID()), held(until))
		})
	}
	return cmd
}

// held says until when a seat is held; "" for one that is taken for good.
func held(until time.Time) string {
	if until.IsZero() {
		return ""
	}
	return ", held until " + until.Format(time.RFC3339)
}

func newMembersCommand(t *target) *cobra.Command {
	var count bool
	cmd := &cobra.Command{
		Use:   "members ID FIELD",
		Short: "Print the members of a field",
		Long: `Print the members of a field of a counter in the order of their ids, a line each, with the time at which they
joined, and until when a seat is held. It reads one document per member. With --count the server counts them, for a read
per 1,000.`,
		Example: `  counters members post-123 total
  counters members post-123 total --count`,
		Args: arguments(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := t.checkField(args[1]); err != nil {
				return err
			}
			return t.withCounterFor(cmd.Context(), args[0], func(ctx context.Context, c shards.Counter) error {
				if count {
					return t.countMembers(ctx, cmd, c, args[1])
				}
				none := true
				for m, err := range c.Members(ctx, args[1]) {
					if err != nil {
						return err
					}
					none = false
					if err := t.print(cmd, m, "%s\t%s%s", terminal.Quote(m.Member), m.At.Format(time.RFC3339), held(m.Until)); err != nil {
						return err
					}
				}
				if none { // or is there no such counter?
					_, err := c.Get(ctx)
					return err
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&count, "count", false, "print how many there are")
	return cmd
}

func (t *target) countMembers(ctx context.Context, cmd *cobra.Command, c shards.Counter, field string) error {
	audits, err := c.Audit(ctx)
	if err != nil {
		return err
	}
	// which has been checked
	of := slices.IndexFunc(audits, func(a shards.Audit) bool { return a.Field == field })
	members := audits[of].Members
	return t.print(cmd, map[string]any{"counter": c.ID(), "field": field, "members": members}, "%d", members)
}

// errAudit says that an audit found something else than was expected.
var errAudit = errors.New("sum and members don't agree")

func newAuditCommand(t *target) *cobra.Command {
	var otherwise int64
	cmd := &cobra.Command{
		Use:   "audit ID",
		Short: "Compare a counter's sums with its members",
		Long: `Compare what a counter counts, the sum of its shards and its base, with its members, for each field and all at
one time. What the members don't explain are other increments, such as those by "inc", and what it was set to. The server adds up and counts, for a read
per 1,000 shards or members.

If a field should hold members only, say --otherwise 0: then anything else in it is an error.`,
		Example: `  counters audit post-123
  counters audit post-123 --otherwise 0`,
		Args: arguments(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := t.sums(); err != nil {
				return err
			}
			return t.withCounterFor(cmd.Context(), args[0], func(ctx context.Context, c shards.Counter) error {
				audits, err := c.Audit(ctx)
				if err != nil {
					return err
				}
				for _, a := range audits {
					if cmd.Flags().Changed("otherwise") && a.Otherwise != otherwise {
						err = errors.Join(err, fmt.Errorf("%w: %s holds %s and %d of other increments, want %d", errAudit, a.Field, terminal.Count(a.Members, "member"), a.Otherwise, otherwise))
					}
				}
				if t.json {
					return errors.Join(t.print(cmd, map[string]any{"counter": c.ID(), "fields": audits}, ""), err)
				}
				for _, a := range audits {
					fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", a.Field, agreement(a))
				}
				return err
			})
		},
	}
	cmd.Flags().Int64Var(&otherwise, "otherwise", 0, "fail if the other increments of a field are not this many")
	return cmd
}

// agreement says in a line what a field is made of, and whether its total shows that.
func agreement(a shards.Audit) string {
	line := fmt.Sprintf("%d = %s + %d of other increments", a.Exact, terminal.Count(a.Members, "member"), a.Otherwise)
	if a.Base != 0 {
		line += fmt.Sprintf("; the shards hold %d, and the base is %d", a.Shards, a.Base)
	}
	if a.Total == a.Exact {
		return line + "; the total shown matches"
	}
	return line + fmt.Sprintf("; the total shown is %d", a.Total)
}
