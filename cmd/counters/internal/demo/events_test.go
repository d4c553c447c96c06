package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/layout"
)

// openEvents watches a counter as a page without the SDK does, and returns a function that waits
// for a view.
func openEvents(t *testing.T, page http.Handler, counter string) (until func(want view)) {
	t.Helper()
	server := httptest.NewServer(page)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(func() {
		cancel()
		server.Close()
	})
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/-/events?counter="+counter, nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	answer, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	if got := answer.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Fatalf("%s, %s", answer.Status, got)
	}
	lines := bufio.NewScanner(answer.Body)
	return func(want view) {
		t.Helper()
		var last string
		for lines.Scan() {
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok {
				continue
			}
			var got view
			if err := json.Unmarshal([]byte(data), &got); err != nil {
				t.Fatal(err)
			}
			if last = data; reflect.DeepEqual(got, want) {
				return
			}
		}
		t.Fatalf("the last event is %s, want %+v: %v", last, want, lines.Err())
	}
}

// TestEventsTellWhatThereIs holds that each state of a counter is told as it is, without a browser.
func TestEventsTellWhatThereIs(t *testing.T) {
	t.Parallel()
	server := emulator.Start(t)
	client := server.Client(t, "p")
	page := newPage(t, Config{Place: layout.Place{Project: "p"}, Firestore: server.Addr, CDN: nowhere})
	until := openEvents(t, page, "a%20b")
	none := func(v view) view {
		if v.Shards == nil {
			v.Shards = map[string]int64{}
		}
		if v.Ledger == nil {
			v.Ledger = map[string]state{}
		}
		return v
	}
	until(none(view{Total: 0.0}))

	at := time.UnixMilli(1_800_000_000_123)
	counter := client.Doc("counters/a b")
	err := client.RunTransaction(t.Context(), func(_ context.Context, tx *firestore.Transaction) error {
		return errors.Join(
			tx.Set(counter, map[string]any{"total": 3, "updated_at": at}),
			tx.Set(counter.Collection("shards").Doc("0"), map[string]any{"count": 5}),
			// A double, as one increment(1.0) makes it.
			tx.Set(counter.Collection("shards").Doc("1"), map[string]any{"count": -1.0}),
			tx.Set(counter.Collection("counter_rollup").Doc("ledger"), map[string]any{
				"states": map[string]any{"0": map[string]any{"counts": map[string]any{"count": 3}, "as_of": at}},
			}),
			tx.Set(client.Doc("counters/other/shards/0"), map[string]any{"count": 100}),
		)
	})
	if err != nil {
		t.Fatal(err)
	}
	want := none(view{Exists: true, Total: 3.0, UpdatedAt: at.UnixMilli(), Shards: map[string]int64{"0": 5, "1": -1}, Ledger: map[string]state{"0": {3, at.UnixMilli()}}})
	until(want)

	if _, err := counter.Collection("shards").Doc("1").Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	delete(want.Shards, "1")
	until(want)
	if _, err := counter.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	want.Exists, want.Total, want.UpdatedAt = false, 0.0, 0
	until(want)
}

// TestEventsOfNoCounter holds that what can't be a counter is refused, and watches nothing.
func TestEventsOfNoCounter(t *testing.T) {
	t.Parallel()
	page := newPage(t, Config{Place: layout.Place{Project: "p"}, CDN: nowhere})
	for _, id := range []string{"", "..", "a%2Fb", "__x__", "%ff"} {
		if w := request(t, page, "/-/events?counter="+id); w.Code != http.StatusBadRequest {
			t.Errorf("%q: %d, want 400", id, w.Code)
		}
	}
}

func TestCountersAreListed(t *testing.T) {
	t.Parallel()
	server := emulator.Start(t)
	client := server.Client(t, "p")
	page := newPage(t, Config{Place: layout.Place{Project: "p"}, Firestore: server.Addr, CDN: nowhere})
	type list struct {
		Counters []struct {
			ID    string
			Total int64
		}
		More bool
	}
	read := func() (l list) {
		t.Helper()
		if err := json.Unmarshal(request(t, page, "/-/counters").Body.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		return l
	}
	if got := read(); len(got.Counters) != 0 || got.More || got.Counters == nil {
		t.Errorf("of none it lists %+v", got)
	}
	for n := range listed + 1 {
		if n == listed {
			if got := read(); len(got.Counters) != listed || got.More || got.Counters[7].ID != "c07" || got.Counters[7].Total != 7 {
				t.Errorf("of %d it lists %+v", listed, got)
			}
		}
		if _, err := client.Doc(fmt.Sprintf("counters/c%02d", n)).Set(t.Context(), map[string]any{"total": n}); err != nil {
			t.Fatal(err)
		}
	}
	if got := read(); len(got.Counters) != listed || !got.More {
		t.Errorf("of %d it lists %d, more: %v", listed+1, len(got.Counters), got.More)
	}
}

// patience is how long a test waits for what must come, on a machine that is busy with other
// things.
const patience = 2 * time.Minute
