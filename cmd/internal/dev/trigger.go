package dev

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/firestore-counters/counters/emulator/eventarc"
)

const (
	rollupTrigger = "counters-rollup"
	probeTrigger  = "counters-probe"
	// probeCollection holds a document for a moment, whose event shows that events arrive here.
	probeCollection = "counter_dev_probe"
	triggerPatience = 5 * time.Second
	// largestEvent is two documents of 1 MiB as base64, and then some.
	largestEvent = 4 << 20
)

// triggers gets the events of the official emulator: it registers triggers with it, as
// firebase-tools does for the functions that it runs, and takes what the emulator posts to the
// address that was given to it at its start as --functions_emulator.
//
// The emulator posts one event after the other, each once, whatever the answer. So every event is
// answered at once, and what becomes of it is up to the [eventarc.Deliverer]. Unlike production, it
// also fires for writes that change nothing; those are passed on, because the roll-up has to bear
// them anyway.
type triggers struct {
	emulator          string // host:port.
	project, database string
	deliver           func(eventarc.Change)
	patience          time.Duration // How long an event may take to get here.
	logger            *slog.Logger

	mu     sync.Mutex
	probes map[string]chan<- struct{} // :: document path → notified when its event is here.
}

// requestTimeout bounds all requests to the emulator, which answers within milliseconds unless the
// machine is busy.
const requestTimeout = 10 * time.Second

// register registers a trigger for each pattern of documents. It returns an error that says why,
// when events don't come this way.
func (t *triggers) register(ctx context.Context, patterns []string) error {
	ctx, cancel := context.WithTimeout(ctx, t.patience+requestTimeout)
	defer cancel()
	if err := t.add(ctx, probeTrigger, probeCollection+"/{probe}"); err != nil {
		return err
	}
	if err := t.probe(ctx); err != nil {
		return err
	}
	for i, pattern := range patterns {
		id := rollupTrigger
		if i > 0 {
			id += fmt.Sprintf("-%d", i)
		}
		if err := t.add(ctx, id, pattern); err != nil {
			return err
		}
	}
	return nil
}

func (t *triggers) add(ctx context.Context, id, pattern string) error {
	body, err := json.Marshal(map[string]any{
		"eventType": eventarc.Type,
		"database":  t.database,
		"namespace": "(default)",
		"document":  map[string]string{"value": pattern, "matchType": "PATH_PATTERN"},
	})
	if err != nil {
		return err
	}
	path := "/emulator/v1/projects/" + url.PathEscape(t.project) + "/eventarcTrigger?eventarcTriggerId=" + id
	if err := t.call(ctx, http.MethodPost, path, body); err != nil {
		return fmt.Errorf("it takes no triggers: %w", err)
	}
	return nil
}

// probe writes a document, waits for its event, and deletes the document. The emulator takes
// triggers also when it was not told where to post events to, or told another address, and then
// nothing ever comes.
func (t *triggers) probe(ctx context.Context) error {
	document := fmt.Sprintf("%s/%016x", probeCollection, rand.Uint64())
	arrived := make(chan struct{}, 1)
	t.setProbe(document, arrived)
	defer t.setProbe(document, nil)

	path := fmt.Sprintf("/v1/projects/%s/databases/%s/documents/%s", url.PathEscape(t.project), url.PathEscape(t.database), document)
	if err := t.call(ctx, http.MethodPatch, path, []byte(`{"fields": {}}`)); err != nil {
		return fmt.Errorf("it takes no documents over REST: %w", err)
	}
	defer func() {
		if err := t.call(ctx, http.MethodDelete, path, nil); err != nil {
			t.logger.Warn("the document "+document+" was left behind", "error", err)
		}
	}()
	select {
	case <-arrived:
		return nil
	case <-time.After(t.patience):
		return errors.New("it takes triggers but posts no events here; was it started with another --functions_emulator, or none?")
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *triggers) setProbe(document string, arrived chan<- struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.probes == nil {
		t.probes = make(map[string]chan<- struct{})
	}
	t.probes[document] = arrived
}

// call sends a request to the emulator's REST interface, and discards the answer unless it is an
// error.
func (t *triggers) call(ctx context.Context, method, path string, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+t.emulator+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer owner") // The emulator's administrator.
	transport := &http.Transport{DisableKeepAlives: true}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 4096))
		var said struct{ Error struct{ Message string } }
		if json.Unmarshal(text, &said) == nil && said.Error.Message != "" {
			return fmt.Errorf("%s: %s", answer.Status, said.Error.Message)
		}
		return fmt.Errorf("%s %s: %s: %.200s", method, path, answer.Status, bytes.TrimSpace(text))
	}
	return nil
}

// ServeHTTP takes an event from the emulator.
func (t *triggers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rest, ok := strings.CutPrefix(r.URL.Path, "/functions/projects/"+t.project+"/triggers/")
	if !ok || r.Method != http.MethodPost {
		http.NotFound(w, r)
		return
	}
	change, err := decodeTrigger(http.MaxBytesReader(w, r.Body, largestEvent), r.Header)
	if err != nil {
		t.logger.Error("an event of the emulator is lost", "subject", r.Header.Get("Ce-Subject"), "error", err)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	number, further := strings.CutPrefix(rest, rollupTrigger+"-")
	if _, err := strconv.Atoi(number); further && err == nil {
		rest = rollupTrigger
	}
	switch rest {
	case rollupTrigger:
		t.deliver(change)
	case probeTrigger:
		_, document, _ := strings.Cut(change.Name, "/documents/")
		t.mu.Lock()
		if arrived := t.probes[document]; arrived != nil {
			select {
			case arrived <- struct{}{}:
			default: // The deletion comes as an event, too.
			}
		}
		t.mu.Unlock()
	default:
		http.NotFound(w, r) // Another program's trigger.
	}
}

// decodeTrigger reads an event as the emulator posts it. It says application/protobuf but means
// base64 text of that; and it says twice what the content is (as Content-Type and
// ce-datacontenttype), which libraries refuse. So nothing of it is passed on as it is.
func decodeTrigger(body io.Reader, header http.Header) (eventarc.Change, error) {
	data, err := io.ReadAll(base64.NewDecoder(base64.StdEncoding, body))
	if err != nil {
		return eventarc.Change{}, fmt.Errorf("read an event: %w", err)
	}
	change, err := eventarc.Decode(data)
	if err != nil {
		return eventarc.Change{}, err
	}
	if change.New == nil {
		if change.CommitTime, err = time.Parse(time.RFC3339Nano, header.Get("Ce-Time")); err != nil {
			return eventarc.Change{}, fmt.Errorf("read an event: ce-time: %w", err)
		}
	}
	return change, nil
}
