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
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
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
	until(view{Total: 0.0, Shards: map[string]shard{}})

	at := time.UnixMilli(1_800_000_000_123)
	counter := client.Doc("counters/a b")
	err := client.RunTransaction(t.Context(), func(_ context.Context, tx *firestore.Transaction) error {
		return errors.Join(
			tx.Set(counter, map[string]any{"total": 3, "updated_at": at}),
			tx.Set(counter.Collection("shards").Doc("0"), map[string]any{"count": 5}),
			// A double, as one increment(1.0) makes it.
			tx.Set(counter.Collection("shards").Doc("1"), map[string]any{"count": -1.0}),
			tx.Set(client.Doc("counters/other/shards/0"), map[string]any{"count": 100}),
		)
	})
	if err != nil {
		t.Fatal(err)
	}
	want := view{Exists: true, Total: 3.0, UpdatedAt: at.UnixMilli(), Shards: map[string]shard{"0": {Count: 5}, "1": {Count: -1}}, Waiting: 1}
	until(want)

	if _, err := counter.Collection("shards").Doc("1").Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	delete(want.Shards, "1")
	want.Waiting = 2
	until(want)
	if _, err := counter.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	want.Exists, want.Total, want.UpdatedAt, want.Waiting = false, 0.0, 0, 5
	until(want)
}

// TestEventsTellWhatTheTotalHolds holds that of each shard the page is told what it held as of when the total is, and
// of the roll-up how long what it brought had waited.
func TestEventsTellWhatTheTotalHolds(t *testing.T) {
	t.Parallel()
	names, err := layout.Place{Project: "p"}.Layout()
	if err != nil {
		t.Fatal(err)
	}
	names.Database = "projects/p/databases/(default)"
	at := func(ms int) time.Time { return time.UnixMilli(1_800_000_000_000 + int64(ms)) }
	w := watched{layout: names, id: "a", shards: names.ShardsOf("a") + "/", documents: map[string]*firestorepb.Document{}, states: map[string][]state{}}
	put := func(name string, ms, created int, fields map[string]*firestorepb.Value) {
		t.Helper()
		if _, err := w.take(&firestorepb.ListenResponse{ResponseType: &firestorepb.ListenResponse_DocumentChange{DocumentChange: &firestorepb.DocumentChange{
			TargetIds: []int32{1}, Document: &firestorepb.Document{Name: name, Fields: fields, CreateTime: timestamppb.New(at(created)), UpdateTime: timestamppb.New(at(ms))},
		}}}); err != nil {
			t.Fatal(err)
		}
	}
	shows := func(ms, total, asOf int) {
		t.Helper()
		key := names.Sharded[0].Key()
		put(names.Counter("a"), ms, 0, map[string]*firestorepb.Value{"total": store.Int(int64(total)), layout.Rollup: store.Map(map[string]*firestorepb.Value{
			layout.CounterPath: store.String("counters/a"), layout.AsOf: store.Map(map[string]*firestorepb.Value{"total": store.Time(at(asOf))}),
			layout.LastShown: store.Map(map[string]*firestorepb.Value{"total": store.Map(map[string]*firestorepb.Value{"of": store.String(key), "is": store.Int(int64(total))})}),
		})})
	}
	holds := func(id string, ms, created, count int) {
		put(names.Shard("a", id), ms, created, map[string]*firestorepb.Value{"count": store.Int(int64(count))})
	}
	for i, step := range []struct {
		does    func()
		shards  map[string]shard
		waiting int64
		lag     int64
	}{
		{func() { holds("0", 100, 100, 5); holds("1", 110, 50, 2) }, map[string]shard{"0": {5, 0}, "1": {2, 0}}, 7, 0},
		{func() { shows(150, 5, 105) }, map[string]shard{"0": {5, 5}, "1": {2, 2}}, 2, 50}, // 1 may have held 2 before
		{func() { shows(200, 7, 180) }, map[string]shard{"0": {5, 5}, "1": {2, 2}}, 0, 50},
		{func() { holds("0", 210, 100, 6); holds("0", 220, 100, 9); holds("2", 230, 230, 1) }, map[string]shard{"0": {9, 5}, "1": {2, 2}, "2": {1, 0}}, 5, 50},
		{func() { shows(240, 8, 215) }, map[string]shard{"0": {9, 6}, "1": {2, 2}, "2": {1, 0}}, 4, 30},
		{func() { shows(300, 12, 290) }, map[string]shard{"0": {9, 9}, "1": {2, 2}, "2": {1, 1}}, 0, 80},
		{func() { w.remove(names.Shard("a", "1")) }, map[string]shard{"0": {9, 9}, "2": {1, 1}}, -2, 80},
	} {
		step.does()
		v, err := w.view(t.Context())
		if err != nil || !reflect.DeepEqual(v.Shards, step.shards) || v.Waiting != step.waiting || v.Lag != step.lag {
			t.Errorf("step %d: %+v, %v, want %+v", i, v, err, step)
		}
	}
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
