package functions

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"

	"github.com/firestore-counters/counters/internal/ceiling"
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
		Place:  s.Place(),
		Budget: ceiling.New(ceiling.Rates(s.Ceiling)),
		Logger: log,
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
	use := newSpender(client.Budget(), log)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer use.tell(r.Context())
		if r.Method != http.MethodPost {
			fail(w, r, log, wrongMethod(http.MethodPost))
			return
		}
		var changes []rollup.Change
		event, err := readEvent(w, r)
		if err == nil {
			changes, err = event.changes(client)
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
		case err == nil && event.unread != nil:
			log.WarnContext(r.Context(), "unreadable event", "event_id", event.id, "subject", event.subject, "error", event.unread)
		case errors.Is(err, rollup.ErrPoison):
			// Another delivery would fail, too. A reconcile covers what the event carried.
			log.ErrorContext(r.Context(), LogPoison, "event_id", event.id, "subject", event.subject, "counter", change.Counter, "shard", change.Shard, "collection", change.Collection, "error", err)
		case err != nil:
			fail(w, r, log, fmt.Errorf("%w: %w", errNotCounted, err), "event_id", event.id, "counter", change.Counter, "shard", change.Shard, "collection", change.Collection)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

// maxEvent bounds an event's body. Firestore events are at most 512 KB; as JSON they may take more.
const maxEvent = 4 << 20

// eventTypes begins the types of all document events: written, created, updated and deleted, each also
// with authentication context.
const eventTypes = "google.cloud.firestore.document.v1."

// documentEvent is a document's change, as a request has it.
type documentEvent struct {
	id, subject string // for logs
	path        string // of the document, relative to the database's root, for an event whose data can't be used
	contentType string
	data        []byte // empty if the document was too large for an event (firebase-functions#1370)
	unread      error  // why nothing but the path could be read; nil for an event that came without data
}

// readEvent reads a CloudEvent of a document, or at least its path. Its errors are [rollup.ErrPoison], for an event of
// something else, and those of a body that did not arrive, whose event must come again. With an error it also returns
// what it knows of the event, for the log.
func readEvent(w http.ResponseWriter, r *http.Request) (documentEvent, error) {
	e := documentEvent{id: r.Header.Get("Ce-Id"), subject: r.Header.Get("Ce-Subject")}
	body, err := readBody(w, r, maxEvent)
	switch {
	case err == nil:
	case hasStatus(err, http.StatusRequestEntityTooLarge):
		body, e.unread = nil, err
	default:
		return e, err // only a part arrived
	}
	header := r.Header.Clone()
	if header.Get("Ce-Type") == "" {
		if attributes, data, ok := unwrap(body); ok {
			header, body = attributes, data
		} else if structured(body) {
			header.Set("Content-Type", cloudevents.ApplicationCloudEventsJSON) // whatever it said
		}
	}
	// In binary mode the content type is HTTP's own header. The official emulator also sends it as an
	// attribute, which the CloudEvents library refuses.
	header.Del("Ce-Datacontenttype")
	header.Del("Ce-") // the library panics on it
	kind := header.Get("Ce-Type")
	e.path = pathOf(header.Get("Ce-Document"), e.subject)
	ce, err := cloudevents.NewEventFromHTTPRequest(&http.Request{Method: r.Method, Header: header, Body: io.NopCloser(bytes.NewReader(body))})
	switch {
	case err != nil && e.unread == nil:
		e.unread = fmt.Errorf("not a CloudEvent: %w", err)
	case err == nil:
		document, _ := ce.Extensions()["document"].(string)
		kind, e.id, e.subject, e.path = ce.Type(), ce.ID(), ce.Subject(), pathOf(document, ce.Subject())
		e.contentType, e.data = ce.DataContentType(), ce.Data()
	}
	if kind != "" && !strings.HasPrefix(kind, eventTypes) {
		return e, fmt.Errorf("%w: its type is %q", rollup.ErrPoison, kind)
	}
	return e, nil
}

// changes are what the event brings. Where its data is missing or can't be read, its path is enough: what that names is
// asked for. Errors are those of [rollup.Client.Decode].
func (e *documentEvent) changes(client *rollup.Client) ([]rollup.Change, error) {
	if len(e.data) > 0 {
		changes, err := client.Decode(e.contentType, e.data)
		if !errors.Is(err, rollup.ErrUnreadable) {
			return changes, err
		}
		e.unread = err
	}
	changes, err := client.Named(e.path)
	if err != nil && e.unread != nil {
		return nil, fmt.Errorf("%w: %w", err, e.unread)
	}
	return changes, err
}

// structured reports whether a body is a whole CloudEvent as JSON.
func structured(body []byte) bool {
	var event struct{ SpecVersion string }
	return json.Unmarshal(body, &event) == nil && event.SpecVersion != ""
}

// unwrap takes an event out of a Pub/Sub message. Usually Pub/Sub does that, and turns the attributes
// into headers. It doesn't if one of them can't be a header, such as the path of a document whose id
// ends in a space (firebase-functions#1922).
func unwrap(body []byte) (http.Header, []byte, bool) {
	var pushed struct {
		Message struct {
			Attributes map[string]string
			Data       []byte
		}
	}
	if json.Unmarshal(body, &pushed) != nil {
		return nil, nil, false
	}
	header := http.Header{}
	for name, value := range pushed.Message.Attributes {
		header.Set(name, value)
	}
	return header, pushed.Message.Data, header.Get("Ce-Type") != ""
}

// pathOf is the path of an event's document, by its attributes.
func pathOf(document, subject string) string {
	path, _ := strings.CutPrefix(subject, "documents/")
	return cmp.Or(document, path)
}
