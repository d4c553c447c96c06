package functions

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/firestore-counters/counters/internal/settings"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// These are the handlers for a caller that makes and closes the clients itself, and serves several
// instances in one process.

// GuardedIncrementHandler is the function Increment over a client. It lets in the callers whom AUTH
// allows. It fetches the keys that sign tokens by [http.DefaultTransport].
func GuardedIncrementHandler(ctx context.Context, client *shards.Client, s settings.Settings, log *slog.Logger) http.Handler {
	return newIncrementHandler(client, s, tokensFor(ctx, s, client.Project()), log)
}

// RollupHandler is the function Rollup over a roller of the client.
func RollupHandler(client *rollup.Client, roller *rollup.Roller, s settings.Settings, log *slog.Logger) http.Handler {
	return newRollupHandler(client, roller, s, log)
}

// ReconcileHandler is the function Reconcile over a client. It uses counters to remove what is left of
// deleted counters; with nil it removes nothing.
func ReconcileHandler(client *rollup.Client, counters *shards.Client, s settings.Settings, log *slog.Logger) http.Handler {
	opts := reconcileOptions(s)
	if counters != nil {
		opts.Remove = counters.Remove
	}
	return newReconcileHandler(client, s.Counters, s.ReconcileDeadline, opts, log)
}
