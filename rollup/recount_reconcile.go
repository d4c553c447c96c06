package rollup

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

const (
	// defaultRecountAge and defaultRecountReads bound what ReconcileAll spends on counting again what no event has brought.
	defaultRecountAge   = 24 * time.Hour
	defaultRecountReads = 10_000
)

// readBudget is how many reads may still be taken. The last one who takes some may take more than there are.
type readBudget struct{ left atomic.Int64 }

func newReadBudget(reads int64) *readBudget {
	b := &readBudget{}
	b.left.Store(cmp.Or(reads, defaultRecountReads))
	return b
}

// reconcileCounted counts the documents again that fields of a counter count: at once where the counter was named, and
// otherwise where something may have been missed for long, within the budget. It adds to what a reconcile found.
func (c *Client) reconcileCounted(ctx context.Context, r Report, opts ReconcileOptions) (Report, error) {
	docs, now, err := c.db.Get(ctx, c.db.LedgerOf(r.Counter), c.db.Counter(r.Counter))
	if err != nil {
		return r, err
	}
	if docs[1] == nil {
		return r, nil
	}
	l := &ledger.Ledger{} // of a dry run, before the adoption
	if ledger.Of(c.db.Layout, docs[0], docs[1]) {
		if l, err = ledger.Decode(docs[0]); err != nil {
			return r, err
		}
	} else if !opts.DryRun {
		return r, nil // it was made anew meanwhile
	}
	l.Forget(now)
	var due layout.Fields
	for _, field := range c.db.Counted {
		before, _ := store.Integer(docs[1].GetFields()[field.Name])
		report := FieldReport{Before: before, After: before}
		known, counted := l.Counted[field.Key()]
		if counted {
			report.Drift = ledger.Sub(before, known.Value)
		}
		old := !counted || report.Drift != 0 || !isInteger(docs[1].GetFields()[field.Name]) ||
			!known.AsOf.After(docs[1].GetCreateTime().AsTime()) || // the app has made its document anew
			now.Sub(known.AsOf) >= cmp.Or(opts.RecountAge, defaultRecountAge)
		if opts.budget == nil || old && opts.budget.left.Load() > 0 {
			due = append(due, field)
		} else {
			report.Drift = 0 // not now
		}
		r.set(field.Name, false, report)
	}
	if len(due) == 0 {
		return r, nil
	}
	var done recounted
	if opts.DryRun {
		var values map[string]ledger.Counted
		if done, values, err = c.aggregate(ctx, r.Counter, due); err == nil {
			done.values = valuesOf(due, values)
		}
	} else if done, err = c.setCounted(ctx, r.Counter, due, false); err == nil && c.db.ByLedgers() && !done.gone {
		_, err = c.db.Commit(ctx, []*firestorepb.Write{store.Delete(c.db.Note(r.Counter))})
	}
	r.Reads = done.reads
	if opts.budget != nil {
		opts.budget.left.Add(-done.reads)
	}
	if err != nil {
		return r, err
	}
	for _, field := range due {
		report := r.Fields[field.Name]
		value, ok := done.values[field.Name]
		if !ok { // a problem, or one is there that is newer still
			report.Drift = 0
			r.set(field.Name, false, report)
			continue
		}
		report.After = value
		report.Late = ledger.Sub(value, ledger.Sub(report.Before, report.Drift))
		r.set(field.Name, false, report)
	}
	if len(done.problems) > 0 {
		problems := done.problems
		if r.Problem != "" {
			problems = append([]string{r.Problem}, problems...)
		}
		r.Problem = strings.Join(problems, "; ")
	}
	return r, nil
}

// counted is what a reconcile found, after what fields count that are not sums of shards.
func (c *Client) counted(ctx context.Context, r Report, opts ReconcileOptions) (Report, error) {
	switch {
	case len(c.db.Counted) == 0 || r.Deleted:
		return r, nil
	case r.Gone && c.db.ByLedgers() && !opts.DryRun:
		return r, c.cleanNote(ctx, r.Counter, cmp.Or(opts.CleanupAfter, defaultCleanupAfter))
	case r.Gone:
		return r, nil
	}
	r, err := c.reconcileCounted(ctx, r, opts)
	if err != nil {
		return r, fmt.Errorf("count documents: %w", err)
	}
	return r, nil
}

// cleanNote deletes the note of a counter whose document has not come for as long as given, unless it comes meanwhile.
func (c *Client) cleanNote(ctx context.Context, counter string, after time.Duration) error {
	docs, now, err := c.db.Get(ctx, c.db.Note(counter))
	if err != nil || docs[0] == nil || now.Sub(docs[0].GetUpdateTime().AsTime()) < after {
		return err
	}
	err = c.db.Transact(ctx, func(tx *store.Tx) error {
		docs, _, err := tx.Get(ctx, c.db.Counter(counter), c.db.Note(counter))
		if err == nil && docs[0] == nil && docs[1] != nil && now.Sub(docs[1].GetUpdateTime().AsTime()) >= after { // no later event has come
			tx.Write(store.Delete(c.db.Note(counter)))
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("delete the note of a counter that is not there: %w", err)
	}
	return nil
}
