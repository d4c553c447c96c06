package rollup

import (
	"context"
	"fmt"
	"sync"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/internal/store"
)

// Walk says how all counters are reconciled.
type Walk struct {
	// Parallel is how many counters are checked side by side, default 8.
	Parallel int
	// DryRun only says what would be done.
	DryRun bool
	// Resume goes on where the last walk that ran out of time stopped, and remembers where this one does.
	Resume bool
	// Report is called for every counter, one call at a time, with the error where it could not be reconciled.
	Report func(Report, error)
}

// Summary is what a walk found.
type Summary struct {
	Seen     int   `json:"seen"`     // counters that were checked
	Repaired int   `json:"repaired"` // of these, those that were not right
	Drifted  int   `json:"drifted"`  // of these, those whose total somebody else had written
	Drift    int64 `json:"drift"`    // of these totals, summed up without their signs
	Failed   int   `json:"failed"`   // counters that could not be checked or repaired
	Done     bool  `json:"done"`     // whether the walk reached the last counter
}

// add counts one report.
func (s *Summary) add(r Report, err error) {
	if r.Gone {
		return // a document that is only there for what is below it
	}
	s.Seen++
	if err != nil {
		s.Failed++
		return
	}
	if r.Repaired() {
		s.Repaired++
	}
	if r.Drift != 0 {
		s.Drifted++
		s.Drift += max(r.Drift, -r.Drift)
	}
}

// pageSize is how many counters one page lists. A walk that runs out of time repeats its last page: at 8 side by side and
// some 20 ms each that is less than a second, and even at a second each it gets through a page within a minute.
const pageSize = 100

// cursor fields of the document that says where the last walk stopped.
const (
	cursorToken = "page_token" // :: path of counters → where its walk goes on
	cursorAt    = "updated_at"
)

// ReconcileAll reconciles all counters, in pages, until the context ends. A counter's failure is reported and passed
// over. Running out of time is no error: the summary says that the walk is not done. Errors are those of listing.
func (c *Client) ReconcileAll(ctx context.Context, w Walk) (Summary, error) {
	if w.Parallel <= 0 {
		w.Parallel = 8
	}
	var sum Summary
	token := ""
	if w.Resume {
		var err error
		if token, err = c.cursor(ctx); err != nil {
			return sum, fmt.Errorf("reconcile: read where the last walk stopped: %w", err)
		}
	}
	for {
		ids, next, err := c.db.List(ctx, c.db.Counters(), pageSize, token)
		if status.Code(err) == codes.InvalidArgument && token != "" {
			token = "" // no longer known to Firestore: from the beginning
			continue
		}
		if err == nil {
			c.reconcilePage(ctx, ids, w, &sum)
		} else if ctx.Err() == nil {
			return sum, fmt.Errorf("reconcile: list counters: %w", err)
		}
		stopped := ctx.Err() != nil
		if !stopped {
			token = next
			sum.Done = token == ""
		}
		if w.Resume && !w.DryRun {
			if err := c.setCursor(ctx, token); err != nil {
				return sum, fmt.Errorf("reconcile: remember where the walk stopped: %w", err)
			}
		}
		if stopped || sum.Done {
			return sum, nil
		}
	}
}

// ReconcileSome reconciles the counters named. The summary is done unless the context ended first.
func (c *Client) ReconcileSome(ctx context.Context, counters []string, w Walk) Summary {
	if w.Parallel <= 0 {
		w.Parallel = 8
	}
	var sum Summary
	c.reconcilePage(ctx, counters, w, &sum)
	sum.Done = ctx.Err() == nil
	return sum
}

func (c *Client) reconcilePage(ctx context.Context, ids []string, w Walk, sum *Summary) {
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(w.Parallel)
	for _, id := range ids {
		group.Go(func() error {
			if ctx.Err() != nil {
				return nil
			}
			r, err := c.Reconcile(ctx, id, w.DryRun)
			if err != nil && ctx.Err() != nil {
				return nil // out of time, and seen again by the next walk
			}
			mu.Lock()
			defer mu.Unlock()
			sum.add(r, err)
			if w.Report != nil && !r.Gone {
				w.Report(r, err)
			}
			return nil
		})
	}
	_ = group.Wait()
}

func (c *Client) cursor(ctx context.Context) (string, error) {
	docs, _, err := c.db.Get(ctx, c.db.Cursor())
	if err != nil {
		return "", err
	}
	return docs[0].GetFields()[cursorToken].GetMapValue().GetFields()[c.db.Path.String()].GetStringValue(), nil
}

func (c *Client) setCursor(ctx context.Context, token string) error {
	// The walk's own time may have run out, and where it stopped is worth a few seconds more.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, err := c.db.Commit(ctx, []*firestorepb.Write{store.Update(c.db.Cursor(), nil,
		map[string]*firestorepb.Value{cursorToken: store.Map(map[string]*firestorepb.Value{c.db.Path.String(): store.String(token)})},
		[]string{store.FieldPath(cursorToken, c.db.Path.String())}, store.ServerTime(cursorAt))})
	return err
}
