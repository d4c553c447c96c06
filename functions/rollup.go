package functions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/firestore-counters/counters/internal/settings"
	"github.com/firestore-counters/counters/rollup"
)

func buildRollup(ctx context.Context, s settings.Settings, log *slog.Logger) (http.Handler, drain, error) {
	client, err := rollup.Open(ctx, rollupConfig(s, log))
	if err != nil {
		return nil, nil, err
	}
	roller := rollup.NewRoller(client, RollerOptions(s))
	return RollupHandler(client, roller, s, log), roller.Close, nil
}

// rollupConfig is the configuration of the clients of Rollup and Reconcile, by the settings.
func rollupConfig(s settings.Settings, log *slog.Logger) rollup.Config {
	return rollup.Config{
		Place:   s.Place(),
		Ledgers: s.RollupLedgers, Logger: log,
	}
}

// RollerOptions are the options of rollers, by the settings.
func RollerOptions(s settings.Settings) rollup.RollerOptions {
	return rollup.RollerOptions{Interval: s.RollupInterval, Burst: s.RollupBurst, MaxPending: s.RollupPending, MaxFlushes: s.RollupFlushes, RecountMax: s.RecountMax}
}

const (
	// recountTime is how long an event may wait beyond RECOUNT_MAX, for a recount in flight and then its
	// own.
	recountTime = 15 * time.Second
	// longestEvent is how long any event may take: Cloud Run ends Rollup's requests after 60 s.
	longestEvent = 55 * time.Second
)

// RollupHandler is the function Rollup over a roller of the client. It answers document events: 204 once
// an event is counted or can never be, 503 if it must be delivered again.
//
// It is no CloudEvent function of the framework, and decodes the CloudEvent itself. The framework's
// receiver strands requests when more than one is in flight (cloudevents/sdk-go#1224).
func RollupHandler(client *rollup.Client, roller *rollup.Roller, s settings.Settings, log *slog.Logger) http.Handler {
	return allowMethods(log, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var changes []rollup.Change
		event, err := readEvent(w, r)
		if err == nil {
			if len(event.data) > 0 {
				changes, err = client.Decode(event.contentType, event.data)
			} else {
				changes, err = client.Named(event.path)
			}
		}
		var change rollup.Change // the first, for the log
		if len(changes) > 0 {
			change = changes[0]
		}
		if err == nil && len(changes) > 0 { // a document that names no counter concerns none
			timeout := s.RequestTimeout
			if change.Collection != "" { // the event may wait until counting is worth its price
				timeout = max(timeout, min(s.RecountMax+recountTime, longestEvent))
			}
			ctx, cancel := context.WithTimeout(r.Context(), timeout)
			defer cancel()
			err = roller.Add(ctx, changes...)
		}
		switch {
		case errors.Is(err, rollup.ErrPoison):
			// Another delivery would fail, too. A reconcile covers what the event carried.
			log.ErrorContext(r.Context(), LogPoison, "event_id", event.id, "subject", event.subject, "counter", change.Counter, "shard", change.Shard, "collection", change.Collection, "error", err)
		case err != nil:
			fail(w, r, log, fmt.Errorf("%w: %w", errNotCounted, err), "event_id", event.id, "counter", change.Counter, "shard", change.Shard, "collection", change.Collection)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}), http.MethodPost)
}
