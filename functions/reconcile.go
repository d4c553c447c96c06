package functions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/settings"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

func buildReconcile(ctx context.Context, s settings.Settings, log *slog.Logger) (http.Handler, drain, error) {
	client, err := rollup.Open(ctx, rollupConfig(s, log))
	if err != nil {
		return nil, nil, err
	}
	cfg := ShardsConfig(s, log)
	cfg.Budget = client.Budget()
	counters, err := shards.Open(ctx, cfg)
	if err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	return ReconcileHandler(client, counters, s, log), nil, nil
}

// ReconcileHandler is the function Reconcile over a client. It uses counters to remove what is left of
// deleted counters.
func ReconcileHandler(client *rollup.Client, counters *shards.Client, s settings.Settings, log *slog.Logger) http.Handler {
	opts := reconcileOptions(s)
	opts.Remove = counters.Remove
	if s.Cleanup == "zero" || s.Cleanup == "idle" {
		opts.RemoveIdle = func(ctx context.Context, counter string, since time.Time) (bool, error) {
			return counters.RemoveIdle(ctx, counter, since, s.Cleanup == "zero")
		}
		opts.IdleAtZero = s.Cleanup == "zero"
	}
	return newReconcileHandler(client, s.Counters, s.ReconcileDeadline, opts, log)
}

// reconcileOptions are the options of a reconcile, by the settings.
func reconcileOptions(s settings.Settings) rollup.ReconcileOptions {
	if s.RecountReads == 0 {
		s.RecountReads = -1 // none; 0 would be the package's default
	}
	return rollup.ReconcileOptions{
		Parallel: s.ReconcileParallel, Resume: true, CleanupAfter: s.CleanupAfter, RecountAge: s.RecountAge, RecountReads: s.RecountReads,
	}
}

// reconcileRequest is the body of a call, which may be empty.
type reconcileRequest struct {
	Counters []string // empty for all counters
	DryRun   bool
}

// reconcileAnswer is what a call answers.
type reconcileAnswer struct {
	*problem
	rollup.Summary
	Counters []rollup.Report `json:"counters,omitempty"` // of the counters that the request names
}

// newReconcileHandler reconciles the counters that a call names, or all of them. A walk over all goes on
// where the last call ran out of time. It answers 200 with a summary, 500 if a counter could not be
// reconciled, so that the scheduler sees it, and 404 if a named counter doesn't exist.
func newReconcileHandler(client *rollup.Client, path layout.Path, deadline time.Duration, opts rollup.ReconcileOptions, log *slog.Logger) http.Handler {
	use := newSpender(client.Budget(), log)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer use.tell(r.Context())
		req, err := decodeReconcile(w, r, path)
		if err != nil {
			fail(w, r, log, err)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), deadline)
		defer cancel()

		var answer reconcileAnswer
		opts := opts
		opts.DryRun, opts.Report = req.DryRun, func(report rollup.Report, err error) {
			if err != nil {
				log.ErrorContext(ctx, "reconcile failed", "counter", report.Counter, "error", err)
			}
			if len(req.Counters) > 0 {
				answer.Counters = append(answer.Counters, report)
			}
		}
		if len(req.Counters) > 0 {
			answer.Summary = client.ReconcileSome(ctx, req.Counters, opts)
		} else {
			answer.Summary, err = client.ReconcileAll(ctx, opts)
		}
		s := answer.Summary
		attrs := []any{"seen", s.Seen, "repaired", s.Repaired, "drift", s.Drift, "failed", s.Failed, "problems", s.Problems, "idle", s.Idle, "noted", s.Noted, "reads", s.Reads, "done", s.Done}
		switch {
		case err != nil:
			log.ErrorContext(ctx, "reconcile", append(attrs, "error", err)...)
		case s.Failed > 0:
			log.WarnContext(ctx, "reconcile", attrs...)
		default:
			log.InfoContext(ctx, "reconcile", attrs...)
		}
		contentType, status := "application/json", http.StatusOK
		if answer.problem = reconcileProblem(answer, err); answer.problem != nil {
			contentType, status = "application/problem+json", answer.Status
		}
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(answer)
	})
}

// decodeReconcile reads the body of a call.
func decodeReconcile(w http.ResponseWriter, r *http.Request, path layout.Path) (reconcileRequest, error) {
	const want = `want {"counters": ["id", …], "dry_run": false}, or nothing`
	var req reconcileRequest
	if r.Method != http.MethodPost {
		return req, wrongMethod(http.MethodPost)
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return req, bad("the query can't be read: %v", err)
	}
	if err := checkQuery(query); err != nil { // dry_run=true, left out, would write
		return req, err
	}
	body, err := readBody(w, r, maxBody)
	if err != nil || len(body) == 0 {
		return req, err
	}
	err = decodeObject(body, want, func(d decoder, name string) (err error) {
		switch name {
		case "counters":
			err = d.array(want, func() error {
				id, err := d.text()
				if err != nil {
					return err
				}
				if err := path.Validate(id); err != nil {
					return bad("invalid counter id: %v", err)
				}
				req.Counters = append(req.Counters, id)
				return nil
			})
			if err == nil && len(req.Counters) == 0 { // a script that found nothing to do doesn't want a walk over all
				err = bad("counters names none: leave it out for all of them")
			}
			return err
		case "dry_run":
			req.DryRun, err = d.truth(want)
			return err
		}
		return bad("unknown field %q; %s", name, want)
	})
	return req, err
}

// reconcileProblem is the error in an answer of Reconcile, beside its summary. The summary is always
// there, because the walk's work is done. The error tells the caller that something failed, or that
// there is no such counter. It is nil if nothing is wrong.
func reconcileProblem(a reconcileAnswer, err error) *problem {
	gone := slices.IndexFunc(a.Counters, func(r rollup.Report) bool { return r.Gone })
	switch {
	case err != nil || a.Failed > 0:
		return &problem{Status: http.StatusInternalServerError, Title: http.StatusText(http.StatusInternalServerError),
			Detail: "not every counter could be reconciled; the log says why"}
	case gone >= 0:
		return &problem{Status: http.StatusNotFound, Title: http.StatusText(http.StatusNotFound),
			Detail: fmt.Sprintf("there is no counter %q", a.Counters[gone].Counter)}
	}
	return nil
}
