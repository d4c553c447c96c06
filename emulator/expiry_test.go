package emulator_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore"

	"github.com/firestore-counters/counters/emulator"
)

// Markers of requests expire, as by a TTL policy: those of the collection group whose time is over,
// and nothing else.
func TestExpiredMarkersAreDeleted(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	in := emulator.StartWith(t, emulator.Options{
		TTL: map[string]string{"counter_requests": "expire_at"}, SweepEvery: time.Hour, // the test sweeps
		Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
	})
	c := in.Client(t, "expiry")
	ctx := t.Context()
	soon := time.Now().Add(time.Minute)
	bulk := c.BulkWriter(ctx)
	for path, doc := range map[string]fields{
		"counter_requests/soon":       {"expire_at": soon},
		"a/1/counter_requests/nested": {"expire_at": soon},
		"counter_requests/later":      {"expire_at": soon.Add(24 * time.Hour)},
		"counter_requests/never":      {"n": 1},
		"counter_requests/text":       {"expire_at": "2020-01-01T00:00:00Z"},
		"counter_requests/list":       {"expire_at": []any{time.Unix(0, 0)}},
		"elsewhere/soon":              {"expire_at": soon},
	} {
		if _, err := bulk.Create(c.Doc(path), doc); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 700 { // more than one commit deletes
		if _, err := bulk.Create(c.Collection("counter_requests").Doc("many-"+string(rune('a'+i%26))+time.Duration(i).String()), fields{"expire_at": soon}); err != nil {
			t.Fatal(err)
		}
	}
	bulk.End()
	deleted := make(chan int, 10)
	defer in.OnCommit(func(changes []emulator.Change) { deleted <- len(changes) })()
	if n := in.Sweep(); n != 0 {
		t.Errorf("%d documents expired before their time", n)
	}
	ahead.Store(int64(2 * time.Minute))

	held := make(chan struct{})
	done := make(chan error)
	release := make(chan struct{})
	go func() { // what a transaction has read stays for now
		done <- c.RunTransaction(ctx, func(_ context.Context, tx *firestore.Transaction) error {
			_, err := tx.Get(c.Doc("counter_requests/soon"))
			close(held)
			<-release
			return err
		}, firestore.MaxAttempts(1))
	}()
	<-held
	if n := in.Sweep(); n != 701 {
		t.Errorf("%d documents expired, want 701", n)
	}
	close(release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := in.Sweep(); n != 1 {
		t.Errorf("%d documents expired then, want 1", n)
	}
	for gone := 0; gone < 702; {
		gone += <-deleted
	}
	left, err := c.CollectionGroup("counter_requests").Documents(ctx).GetAll()
	if err != nil || len(left) != 4 {
		t.Errorf("%d markers are left, want 4: %v", len(left), err)
	}
	if _, err := c.Doc("elsewhere/soon").Get(ctx); err != nil {
		t.Errorf("a document of another collection: %v", err)
	}
	if s := in.Stats(); s.Expired != 702 || s.Deletes != 702 {
		t.Errorf("%+v", s)
	}
}
