package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/cmd/internal/terminal"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
	"github.com/firestore-counters/counters/shards"
)

func newForgetCommand(t *target) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "forget MEMBER",
		Short: "Take a member off every counter",
		Long: `Take a member off all fields of all counters, for a user whose account is deleted. It says first how many there are. Each is
one commit, the same as when the member leaves. If this is interrupted, run it again to finish. Delete the account first: a user
who can still sign in may join again.

It asks for the member in an index of each field, which "counters deploy" and terraform make unless MEMBERS is off.`,
		Example: `  counters forget alice
  counters forget alice --fields likes,bookmarks --yes`,
		Args: arguments(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := layout.ValidateID(args[0]); err != nil {
				return fmt.Errorf("%w: %w", shards.ErrInvalidMember, err)
			}
			if err := t.sums(); err != nil {
				return err
			}
			db, err := t.connect(cmd.Context())
			if err != nil {
				return err
			}
			defer db.Close()
			return t.with(cmd.Context(), func(client *shards.Client) error {
				return t.forget(cmd, db, client, args[0], yes)
			})
		},
	}
	addYes(cmd, &yes)
	return cmd
}

// seat is a membership of the member that is to be forgotten.
type seat struct {
	Counter string `json:"counter"`
	Field   string `json:"field"`
	Error   string `json:"error,omitempty"`
}

// forgotten is what became of a member.
type forgotten struct {
	Member string `json:"member"`
	Left   []seat `json:"left"`
	Failed []seat `json:"failed"`
}

// rounds bounds how often a member is looked for again: one who joins all the time still signs in.
const rounds = 10

// forget takes a member off wherever it is, until a look finds it nowhere.
func (t *target) forget(cmd *cobra.Command, db *store.DB, client *shards.Client, member string, yes bool) error {
	ctx, where := cmd.Context(), t.where(client)
	found, err := seatsOf(ctx, db, member)
	if err != nil {
		return err
	}
	if len(found) > 0 {
		if err := confirm(cmd, yes, fmt.Sprintf("take %s off %s in %s", terminal.Quote(member), countSeats(found), where)); err != nil {
			return err
		}
	}
	done := forgotten{Member: member, Left: []seat{}, Failed: []seat{}}
	for round := 0; len(found) > 0 && len(done.Failed) == 0 && err == nil; round++ {
		if round == rounds {
			err = errors.New("the member joins again all the time: delete the account first")
			break
		}
		done.leave(ctx, client, found)
		if err = context.Cause(ctx); err == nil {
			found, err = seatsOf(ctx, db, member)
		}
	}
	slices.SortFunc(done.Left, func(a, b seat) int { return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Counter, b.Counter)) })
	if printed := t.print(cmd, done, "%s left %s in %s", terminal.Quote(member), countSeats(done.Left), where); printed != nil {
		return printed
	}
	for _, s := range done.Failed {
		fmt.Fprintf(cmd.ErrOrStderr(), "counters: %s of %s: %s\n", s.Field, terminal.Quote(s.Counter), terminal.Line(s.Error))
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w (run it again: it goes on from here)", err)
	case len(done.Failed) > 0:
		return fmt.Errorf("%s could not be left, for the reasons above; run it again", terminal.Count(len(done.Failed), "counter"))
	}
	return nil
}

// leave has the member leave, side by side.
func (f *forgotten) leave(ctx context.Context, client *shards.Client, found []seat) {
	var all errgroup.Group
	all.SetLimit(32)
	for i, s := range found {
		all.Go(func() error {
			counter, err := client.Counter(s.Counter)
			if err == nil {
				_, err = counter.Leave(ctx, s.Field, f.Member)
			}
			if errors.Is(err, shards.ErrNotFound) {
				err = fmt.Errorf("%w: what is left below it goes with \"counters delete\", or with HOSTED=true by itself", err)
			}
			if err != nil {
				found[i].Error = err.Error()
			}
			return nil
		})
	}
	_ = all.Wait() // each has its error
	for _, s := range found {
		switch {
		case s.Error == "":
			f.Left = append(f.Left, s)
		case ctx.Err() == nil:
			f.Failed = append(f.Failed, s)
		}
	}
}

// seatsOf finds a member's memberships in all counters of the deployment, by a query for each field.
func seatsOf(ctx context.Context, db *store.DB, member string) (found []seat, err error) {
	for _, field := range db.Layout.Sharded.SettingNames() {
		docs, err := db.Documents(ctx, store.Query{Collection: db.Layout.MembersGroup(field), Group: true, Member: member, Names: true})
		if status.Code(err) == codes.FailedPrecondition {
			return nil, fmt.Errorf("%w (\"counters deploy\" and terraform make this index unless MEMBERS is off; it takes some minutes)", err)
		}
		if err != nil {
			return nil, err
		}
		for _, doc := range docs {
			if counter, ours := db.Layout.ParseMembership(doc.GetName(), field); ours { // and not another deployment's
				found = append(found, seat{Counter: counter, Field: field})
			}
		}
	}
	return found, nil
}

// countSeats says how many there are, such as "3 counters: likes of 2, views of 1".
func countSeats(seats []seat) string {
	counters, fields := map[string]bool{}, map[string]int{}
	for _, s := range seats {
		counters[s.Counter] = true
		fields[s.Field]++
	}
	said := terminal.Count(len(counters), "counter")
	if len(fields) < 2 {
		return said
	}
	var parts []string
	for field, n := range fields {
		parts = append(parts, fmt.Sprintf("%s of %d", field, n))
	}
	slices.Sort(parts)
	return said + " (" + strings.Join(parts, ", ") + ")"
}
