package functions

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/settings"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// maxReconcileBody bounds the body of a call to Reconcile.
const maxReconcileBody = 64 << 10

func buildReconcile(ctx context.Context, s settings.Settings, log *slog.Logger) (http.Handler, drain, error) {
	client, err := rollup.Open(ctx, RollupConfig(s, log))
	if err != nil {
		return nil, nil, err
	}
	counters, err := shards.Open(ctx, ShardsConfig(s, log))
	if err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	return ReconcileHandler(client, counters, s, log), nil, nil
}

// reconcileOptions are what the settings say of it.
func reconcileOptions(s settings.Settings) rollup.ReconcileOptions {
	if s.RecountReads == 0 {
		s.RecountReads = -1 // none, where 0 would be the package's default
	}
	return rollup.ReconcileOptions{
		Parallel: s.ReconcileParallel, Resume: true, CleanupAfter: s.CleanupAfter, RecountAge: s.RecountAge, RecountReads: s.RecountReads,
	}
}

// reconcileRequest is the body of a call, which may be empty.
type reconcileRequest struct {
	Counters []string `json:"counters"` // these; all counters when there are none
	DryRun   bool     `json:"dry_run"`
}

// reconcileAnswer is what a call answers.
type reconcileAnswer struct {
	rollup.Summary
	Counters []rollup.Report `json:"counters,omitempty"` // of the counters that were asked for by name
}

// newReconcileHandler answers calls that reconcile counters: those named, or all of them, going on
// where the last call ran out of time. It answers 200 with a summary, and 500 when a counter could
// not be reconciled, so that whoever calls on a schedule sees it.
func newReconcileHandler(client *rollup.Client, path layout.Path, deadline time.Duration, opts rollup.ReconcileOptions, log *slog.Logger) http.Handler {
	return allowMethods(log, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
		attrs := []any{"seen", s.Seen, "repaired", s.Repaired, "drift", s.Drift, "failed", s.Failed, "problems", s.Problems, "reads", s.Reads, "done", s.Done}
		switch {
		case err != nil:
			log.ErrorContext(ctx, "reconcile", append(attrs, "error", err)...)
		case s.Failed > 0:
			log.WarnContext(ctx, "reconcile", attrs...)
		default:
			log.InfoContext(ctx, "reconcile", attrs...)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(reconcileStatus(s, err))
		_ = json.NewEncoder(w).Encode(answer)
	}), http.MethodPost)
}

// decodeReconcile reads the body of a call.
func decodeReconcile(w http.ResponseWriter, r *http.Request, path layout.Path) (reconcileRequest, error) {
	const want = `want {"counters": ["id", …], "dry_run": false}, or nothing`
	var req reconcileRequest
	body, err := readBody(w, r, maxReconcileBody)
	if err != nil || len(body) == 0 {
		return req, err
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&req); err != nil {
		return req, bad("%s: %v", want, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return req, bad("%s: the body goes on after its end", want)
	}
	for _, id := range req.Counters {
		if err := path.Validate(id); err != nil {
			return req, bad("invalid counter id: %v", err)
		}
	}
	return req, nil
}
