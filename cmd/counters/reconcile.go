package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/firestore-counters/counters/cmd/internal/terminal"
	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

func newReconcileCommand(t *target) *cobra.Command {
	var all bool
	opts := rollup.ReconcileOptions{}
	cmd := &cobra.Command{
		Use:   "reconcile ID... | --all",
		Short: "Compare totals with their shards, and correct them",
		Long: `Compare the total of each counter with the sum of its shards, and correct it if they differ. That counts what lost
events would have brought. If something else has written a total, that is reported as drift. A counter that
was never rolled up, such as one of Google's snippets, is from now on. Fields that count documents, such as comments=count(comments), are
counted again; on counters that you name, at once.

A counter that you name takes a read per shard. Most others take about 3 reads, because one sum of the shards shows
that they are correct.

You may run it at any moment, beside increments, events and another reconcile.`,
		Example: `  counters reconcile post-123
  counters reconcile --all --dry-run --json`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case opts.CleanupAfter < time.Second:
				return fmt.Errorf("--cleanup-after %s: want 1s or more", opts.CleanupAfter)
			case opts.RecountAge < time.Second:
				return fmt.Errorf("--recount-age %s: want 1s or more", opts.RecountAge)
			case opts.RecountReads < -1:
				return fmt.Errorf("--recount-reads %d: want how many, or -1 for none", opts.RecountReads)
			case opts.Parallel < 1:
				return fmt.Errorf("--parallel %d: want 1 or more", opts.Parallel)
			}
			return someOrAll(all, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := t.check(args...); err != nil {
				return err
			}
			counters, err := t.open(cmd.Context())
			if err != nil {
				return err
			}
			defer counters.Close()
			client, err := rollup.Open(cmd.Context(), rollup.Config{Place: t.place()})
			if err != nil {
				return err
			}
			defer client.Close()
			opts.Remove = counters.Remove
			var ids []string // one that is named twice is one counter
			for _, id := range args {
				if !slices.Contains(ids, id) {
					ids = append(ids, id)
				}
			}
			return t.reconcile(cmd, client, counters, ids, opts)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "reconcile all counters")
	cmd.Flags().BoolVar(&opts.DryRun, "dry-run", false, "only say what would be done")
	cmd.Flags().DurationVar(&opts.CleanupAfter, "cleanup-after", 24*time.Hour, "with --hosted: how long a document must be gone before what was counted below it is removed")
	cmd.Flags().DurationVar(&opts.RecountAge, "recount-age", 24*time.Hour, "with --all: repeat queries such as comments=count(comments) that had no answer for this long")
	cmd.Flags().Int64Var(&opts.RecountReads, "recount-reads", 10_000, "with --all: reads that these queries may take, one per 1,000 documents; -1 for none")
	cmd.Flags().IntVar(&opts.Parallel, "parallel", 8, "counters to check at the same time")
	return cmd
}

// reconciled is what the command prints as JSON.
type reconciled struct {
	rollup.Summary
	Counters []rollup.Report `json:"counters"` // those that were named or had to be corrected
}

func (t *target) reconcile(cmd *cobra.Command, client *rollup.Client, counters *shards.Client, ids []string, opts rollup.ReconcileOptions) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	progress := newProgress(cmd.ErrOrStderr(), "reconciling", "")
	result, damaged := reconciled{Counters: []rollup.Report{}}, false
	var others *book.SettingError
	opts.Report = func(r rollup.Report, err error) {
		progress.Add()
		if err != nil {
			damaged = damaged || !errors.As(err, &others) && errors.Is(err, rollup.ErrDamagedBase)
			progress.Clear()
			fmt.Fprintln(cmd.ErrOrStderr(), "counters:", terminal.Error(err))
			return
		}
		if len(ids) == 0 && r.Right() {
			return
		}
		if t.json {
			result.Counters = append(result.Counters, r)
			return
		}
		progress.Clear()
		fmt.Fprintln(out, finding(r, append(t.fieldNames(), t.countedNames()...), opts.DryRun))
	}
	var err error
	if len(ids) > 0 {
		result.Summary = client.ReconcileSome(ctx, ids, opts)
	} else {
		result.Summary, err = client.ReconcileAll(ctx, opts)
	}
	progress.Finish()
	if err != nil {
		return err
	}
	s := result.Summary
	if s.Noted > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "counters: %s can't be rolled up, the first since %s: run counters doctor\n", terminal.Count(s.Noted, "counter"), s.NotedSince.Local().Format(time.DateTime))
	}
	err = t.print(cmd, result, "%s", outcome(s, opts.DryRun))
	switch {
	case err != nil:
		return err
	case !s.Done: // there is no deadline: somebody interrupted it
		return fmt.Errorf("stopped before the last counter: %w", ctx.Err())
	case others != nil && s.Failed == s.Seen: // nothing was done
		return fmt.Errorf("%s could not be reconciled: %w", terminal.Count(s.Failed, "counter"), others)
	case damaged:
		return fmt.Errorf("%s could not be reconciled: counters doctor says what to do", terminal.Count(s.Failed, "counter"))
	case s.Failed > 0:
		return fmt.Errorf("%s could not be reconciled", terminal.Count(s.Failed, "counter"))
	case s.Problems > 0:
		return fmt.Errorf("%s with a problem that only you can solve: see above", terminal.Count(s.Problems, "counter"))
	case len(ids) > 0 && s.Seen < len(ids):
		id := "" // which of them it is
		if len(ids) == 1 {
			id = ids[0]
		}
		return t.unlessFound(t.where(counters), id, fmt.Errorf("%d of the counters named: %w", len(ids)-s.Seen, shards.ErrNotFound))
	}
	return nil
}

// outcome says in a line what a run did.
func outcome(s rollup.Summary, dryRun bool) string {
	line := terminal.Count(s.Seen, "counter") + " checked"
	if s.Seen > 0 && s.Repaired+s.Failed+s.Problems == 0 {
		return line + ", all correct"
	}
	repaired := "repaired"
	if dryRun {
		repaired = "to repair"
	}
	if s.Repaired > 0 {
		line += fmt.Sprintf(", %d %s", s.Repaired, repaired)
	}
	if s.Drifted > 0 {
		line += fmt.Sprintf(" (%d had drifted, by %d together)", s.Drifted, s.Drift)
	}
	if s.Failed > 0 {
		line += fmt.Sprintf(", %d failed", s.Failed)
	}
	if s.Problems > 0 {
		line += fmt.Sprintf(", %d with a problem", s.Problems)
	}
	return line
}

// why says what a field was off by: what no event has brought, and what something else has written.
func why(field rollup.FieldReport) string {
	var reasons []string
	if field.Late != 0 {
		reasons = append(reasons, fmt.Sprintf("events were missing for %+d", field.Late))
	}
	if field.Drift != 0 {
		reasons = append(reasons, fmt.Sprintf("drift %+d", field.Drift))
	}
	return strings.Join(reasons, ", ")
}

// finding says in a line what was found of a counter. fields are the names of what is counted.
func finding(r rollup.Report, fields []string, dryRun bool) string {
	line := terminal.Quote(r.Counter) + "  "
	if r.Gone {
		return line + "no such counter"
	}
	for i, name := range fields {
		field := r.FieldReport
		if i > 0 {
			field, line = r.Fields[name], line+", "
		}
		if len(fields) > 1 {
			line += name + " "
		}
		if double, is := r.Doubles[name]; is {
			if before, after := terminal.Number(double.Before), terminal.Number(double.After); before != after {
				line += before + " → "
			}
			line += terminal.Number(double.After)
			continue
		}
		switch {
		case r.Adopted && field.Before != field.After:
			line += fmt.Sprintf("%d → %d", field.Before, field.After)
		case !r.Adopted && (field.Late != 0 || field.Drift != 0):
			line += fmt.Sprintf("%d → %d (%s)", field.Before, field.After, why(field))
		default:
			line += strconv.FormatInt(field.After, 10)
		}
	}
	switch {
	case r.Right():
		return line + "  correct"
	case r.Deleted:
		line = fmt.Sprintf("%s  the rest of it is deleted: its document is gone", terminal.Quote(r.Counter))
	case r.Adopted:
		line += "  adopted: it was never rolled up before"
	}
	if r.Problem != "" {
		line += "  problem: " + terminal.Line(r.Problem)
	}
	if dryRun {
		line += "  (dry run)"
	}
	return line
}
