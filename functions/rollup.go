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
	return newRollupHandler(client, roller, s, log), roller.Close, nil
}

// rollupConfig is the configuration of the clients of Rollup and Reconcile, by the settings.
func rollupConfig(s settings.Settings, log *slog.Logger) rollup.Config {
	return rollup.Config{
		Project: s.Project, Database: s.Database, Counters: s.Counters.String(), Fields: s.Fields.String(), Shards: s.Shards, Hosted: s.Hosted,
		Ledgers: s.RollupLedgers, Logger: log,
	}
}

// RollerOptions are the options of rollers, by the settings.
func RollerOptions(s settings.Settings) rollup.RollerOptions {
	return rollup.RollerOptions{Interval: s.RollupInterval, Burst: s.RollupBurst, MaxPending: s.RollupPending, MaxFlushes: s.RollupFlushes, RecountMax: s.RecountMax}
}

const (
	// recountTime is how long an event may wait beyond RECOUNT_MAX: for one recount in flight, and its
	// own.
	recountTime = 15 * time.Second
	// longestEvent is how long any event may take: Rollup's requests are ended after 60 s.
	longestEvent = 55 * time.Second
)

// newRollupHandler answers document events: 204 once an event is counted or can never be, 503 when
// it is to be delivered again.
//
// It decodes the CloudEvent itself, instead of being registered as a CloudEvent function: the
// receiver that the framework would put in front strands requests when more than one is in flight
// (cloudevents/sdk-go#1224).
func newRollupHandler(client *rollup.Client, roller *rollup.Roller, s settings.Settings, log *slog.Logger) http.Handler {
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
		var change rollup.Change // whatever is logged is of the first
		if len(changes) > 0 {
			change = changes[0]
		}
		if err == nil && len(changes) > 0 { // a document that names no counter concerns nobody
			timeout := s.RequestTimeout
			if change.Collection != "" { // it may wait until counting is worth its price
				timeout = max(timeout, min(s.RecountMax+recountTime, longestEvent))
			}
			ctx, cancel := context.WithTimeout(r.Context(), timeout)
			defer cancel()
			err = roller.Add(ctx, changes...)
		}
		switch {
		case errors.Is(err, rollup.ErrPoison):
			// Delivering it again for a day would not help; reconcile covers what it carried.
			log.ErrorContext(r.Context(), LogPoison, "event_id", event.id, "subject", event.subject, "counter", change.Counter, "shard", change.Shard, "collection", change.Collection, "error", err)
		case err != nil:
			fail(w, r, log, fmt.Errorf("%w: %w", errNotCounted, err), "event_id", event.id, "counter", change.Counter, "shard", change.Shard, "collection", change.Collection)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}), http.MethodPost)
}
