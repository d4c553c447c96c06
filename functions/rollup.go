package functions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"

	"github.com/firestore-counters/counters/internal/settings"
	"github.com/firestore-counters/counters/internal/store"
	"github.com/firestore-counters/counters/rollup"
)

// maxEvent bounds an event's body. Firestore events are at most 512 KB; as JSON they may take more.
const maxEvent = 4 << 20

// eventTypes is how the types of all document events begin: written, created, updated and deleted, each also with
// authentication context.
const eventTypes = "google.cloud.firestore.document.v1."

func buildRollup(_ context.Context, s settings.Settings, db *store.DB, log *slog.Logger) (http.Handler, drain, error) {
	client, err := rollup.New(db, rollup.Config{Ledgers: s.RollupLedgers, Logger: log})
	if err != nil {
		return nil, nil, err
	}
	roller := rollup.NewRoller(client, RollerOptions(s))
	return newRollupHandler(client, roller, s, log), roller.Close, nil
}

// RollerOptions are what the settings say of rollers.
func RollerOptions(s settings.Settings) rollup.RollerOptions {
	return rollup.RollerOptions{Interval: s.RollupInterval, MaxPending: s.RollupPending, MaxFlushes: s.RollupFlushes, RecountMax: s.RecountMax}
}

const (
	// recountTime is how long an event may wait beyond RECOUNT_MAX: for one recount in flight, and its own.
	recountTime = 15 * time.Second
	// longestEvent is how long any event may take: Rollup's requests are ended after 60 s.
	longestEvent = 55 * time.Second
)

// newRollupHandler answers document events: 204 once an event is counted or can never be, 503 when it is to be delivered
// again.
//
// It decodes the CloudEvent itself, instead of being registered as a CloudEvent function: the receiver that the
// framework would put in front strands requests when more than one is in flight (cloudevents/sdk-go#1224).
func newRollupHandler(client *rollup.Client, roller *rollup.Roller, s settings.Settings, log *slog.Logger) http.Handler {
	return allowMethods(log, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		event, change, err := decodeEvent(client, w, r)
		if err == nil {
			timeout := s.RequestTimeout
			if change.Collection != "" { // it may wait until counting is worth its price
				timeout = max(timeout, min(s.RecountMax+recountTime, longestEvent))
			}
			ctx, cancel := context.WithTimeout(r.Context(), timeout)
			defer cancel()
			err = roller.Add(ctx, change)
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

// eventName is what tells one event from others in a log.
type eventName struct{ id, subject string }

// decodeEvent reads a shard's change from a request. Its errors are [rollup.ErrPoison], and those of a body that did not
// arrive, whose event is to come again.
func decodeEvent(client *rollup.Client, w http.ResponseWriter, r *http.Request) (eventName, rollup.Change, error) {
	// From the headers, so that there is something to look for even when the rest can't be read.
	name := eventName{id: r.Header.Get("Ce-Id"), subject: r.Header.Get("Ce-Subject")}
	body, err := readBody(w, r, maxEvent)
	var large *tooLarge
	switch {
	case errors.As(err, &large):
		return name, rollup.Change{}, fmt.Errorf("%w: %w", rollup.ErrPoison, err)
	case err != nil:
		return name, rollup.Change{}, err // cut off half-way
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	// In binary mode the content type is HTTP's own header. The official emulator sends it as an attribute besides,
	// which the CloudEvents library refuses.
	r.Header.Del("Ce-Datacontenttype")
	event, err := cloudevents.NewEventFromHTTPRequest(r)
	if err != nil {
		return name, rollup.Change{}, fmt.Errorf("%w: not a CloudEvent: %w", rollup.ErrPoison, err)
	}
	name = eventName{id: event.ID(), subject: event.Subject()}
	if !strings.HasPrefix(event.Type(), eventTypes) {
		return name, rollup.Change{}, fmt.Errorf("%w: its type is %q", rollup.ErrPoison, event.Type())
	}
	change, err := client.Decode(event.DataContentType(), event.Data())
	return name, change, err
}
