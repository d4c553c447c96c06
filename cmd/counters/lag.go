package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/spf13/cobra"

	"github.com/firestore-counters/counters/cmd/counters/internal/doctor"
	"github.com/firestore-counters/counters/cmd/internal/terminal"
	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/store"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

func newLagCommand(t *target) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "lag ID... | --all",
		Short: "Say how far totals are behind their shards",
		Long: `Say how far the totals of counters are behind their shards: by how much, and for how long the oldest written shard has
waited for its roll-up. A second or two is healthy while a counter is incremented, and nothing when it is quiet. If a
counter is behind for minutes, an event was lost: "counters reconcile ID" counts what it would have brought.

It reads each counter's document and shards, as of one moment. With --all it prints only counters that are behind.`,
		Example: `  counters lag post-123
  counters lag --all --json`,
		Args: func(_ *cobra.Command, args []string) error {
			return someOrAll(all, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := t.check(args...); err != nil {
				return err
			}
			db, err := t.connect(cmd.Context())
			if err != nil {
				return err
			}
			defer db.Close()
			ids := db.IDs(cmd.Context(), 100)
			if !all {
				ids = func(yield func(string, error) bool) {
					for _, id := range args {
						if !yield(id, nil) {
							return
						}
					}
				}
			}
			return t.lags(cmd, db, ids, all)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "look at all counters; this reads all their shards")
	return cmd
}

// lag is how far a counter's totals are behind its shards.
type lag struct {
	Counter string           `json:"counter"`
	Shards  int              `json:"shards"`         // that there are
	Waiting int              `json:"waiting"`        // of these, written after what a total that is behind shows
	Behind  map[string]int64 `json:"behind"`         // :: field → what is in the shards and not in its total
	Oldest  float64          `json:"oldest_seconds"` // since the first of those was written; without one, since the total was
}

func (l lag) String() string {
	oldest := (time.Duration(l.Oldest * float64(time.Second))).Round(10 * time.Millisecond)
	switch {
	case len(l.Behind) == 0:
		return terminal.Quote(l.Counter) + "  up to date"
	case l.Waiting == 0: // a shard was deleted, or something else wrote the document or its base
		return fmt.Sprintf("%s  %s behind, for %v at most", terminal.Quote(l.Counter), list(l.Behind), oldest)
	}
	return fmt.Sprintf("%s  %s behind, the oldest of %s for %v", terminal.Quote(l.Counter), list(l.Behind), terminal.Count(l.Waiting, "shard"), oldest)
}

// lagOf compares what a counter's document shows with its base and its shards, as of one moment.
func (t *target) lagOf(ctx context.Context, db *store.DB, id string) (lag, error) {
	books, _, err := book.In(db).Get(ctx, db, []string{id})
	if err == nil {
		err = books[0].Unusable
	}
	if err != nil {
		return lag{}, fmt.Errorf("read counter %q: %w", id, err)
	}
	k := books[0]
	there, err := book.In(db).Shards(ctx, db, id, k.At)
	if err != nil {
		return lag{}, fmt.Errorf("read counter %q: %w", id, err)
	}
	if k.Doc == nil && !k.HasBase() && len(there) == 0 {
		return lag{}, fmt.Errorf("read counter %q: %w", id, shards.ErrNotFound)
	}
	l := lag{Counter: id, Shards: len(there), Behind: map[string]int64{}}
	waiting := map[string]bool{}
	for _, field := range db.Layout.Sharded {
		total, ok := k.Base.Total(field, there.SumOf(field))
		shown, _ := store.Integer(k.Doc.GetFields()[field.Name])
		if !ok || total == shown || !k.MayShow(field) { // doctor names what can't be shown
			continue
		}
		l.Behind[field.Name] = store.Sub(total, shown)
		names, longest := doctor.Waiting(k, field, there)
		for _, name := range names {
			waiting[name] = true
		}
		l.Oldest = max(l.Oldest, longest.Seconds())
	}
	l.Waiting = len(waiting)
	return l, nil
}

// lags prints how far counters are behind; of all those alone that are, and how many there are.
func (t *target) lags(cmd *cobra.Command, db *store.DB, ids iter.Seq2[string, error], all bool) error {
	progress := newProgress(cmd.ErrOrStderr(), "looking", "")
	defer progress.Finish()
	seen, late := 0, 0
	var oldest float64
	var failed []error // which say nothing of the others
	for id, err := range ids {
		var l lag
		if err == nil {
			l, err = t.lagOf(cmd.Context(), db, id)
		}
		progress.Add()
		switch {
		case all && errors.Is(err, shards.ErrNotFound): // it has been deleted
			continue
		case errors.Is(err, shards.ErrNotFound), errors.Is(err, rollup.ErrDamagedBase):
			failed = append(failed, t.unlessFound(fmt.Sprintf("project %s, database %s", db.Project(), t.Database), id, err))
			continue
		case err != nil:
			return errors.Join(append(failed, err)...)
		}
		seen++
		oldest = max(oldest, l.Oldest)
		if len(l.Behind) > 0 {
			late++
		} else if all {
			continue
		}
		progress.Clear()
		if err := t.print(cmd, l, "%s", l); err != nil {
			return err
		}
	}
	progress.Finish()
	if !all {
		return errors.Join(failed...)
	}
	longest := ""
	if late > 0 {
		longest = fmt.Sprintf(", the oldest for %v", time.Duration(oldest*float64(time.Second)).Round(10*time.Millisecond))
	}
	if !t.json { // which has a line for each that is behind
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s, %d behind%s\n", terminal.Count(seen, "counter"), late, longest); err != nil {
			return err
		}
	}
	if n := len(failed); n > 0 {
		return errors.Join(append(failed, fmt.Errorf("of %s it is not known, for the reasons above: run counters doctor", terminal.Count(n, "more counter")))...)
	}
	return nil
}
