package simulation

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/settings"
	"github.com/firestore-counters/counters/internal/store"
)

// A process whose clock is ahead is told times that are early for it by that much, and hands
// Firestore's times back as they are. By these its markers expire, and not by its own clock.
func TestClocks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := emulator.New(emulator.Options{})
		defer server.Close()
		w := &world{plan: Plan{Seed: 1}, server: server, dial: server.Connect, ctx: t.Context(), rec: recorder{faults: Faults{}}}
		s, err := settings.Parse([]string{"GOOGLE_CLOUD_PROJECT=" + project, "AUTO_CREATE=true", "REQUEST_TTL=1h"})
		if err != nil {
			t.Fatal(err)
		}
		conn, err := server.Connect()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		truth := firestorepb.NewFirestoreClient(conn)
		for _, ahead := range []time.Duration{5 * time.Minute, -3 * time.Minute} {
			l := newLink(1, "increment")
			l.ahead = ahead
			i, err := newIncrement(server.Connect, l, s)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			var answer struct{ Total int64 }
			code, err := w.request(i, http.MethodPost, "/c", "key of "+ahead.String(), map[string]any{"by": 1}, time.Minute, &answer)
			if err != nil || code != http.StatusOK {
				t.Fatal(code, err)
			}
			i.end()
			markers, err := truth.ListDocuments(t.Context(), &firestorepb.ListDocumentsRequest{Parent: database + "/documents", CollectionId: "counter_requests"})
			if err != nil {
				t.Fatal(err)
			}
			newest := markers.GetDocuments()[0]
			for _, doc := range markers.GetDocuments() {
				if doc.GetUpdateTime().AsTime().After(newest.GetUpdateTime().AsTime()) {
					newest = doc
				}
			}
			is, want := newest.GetFields()["expire_at"].GetTimestampValue().AsTime(), began.Add(time.Hour+max(ahead, 0)) // by the later of both clocks
			if off := is.Sub(want); off < -time.Minute || off > time.Minute {
				t.Errorf("ahead by %s, a marker expires at %s, want %s", ahead, is, want)
			}
			if off := newest.GetUpdateTime().AsTime().Sub(began); off < 0 || off > time.Minute {
				t.Errorf("ahead by %s, the server's own time is off by %s", ahead, off)
			}

			conn, err := l.connect(server.Connect)
			if err != nil {
				t.Fatal(err)
			}
			theirs, err := firestorepb.NewFirestoreClient(conn).GetDocument(t.Context(), &firestorepb.GetDocumentRequest{Name: newest.GetName()})
			if err != nil {
				t.Fatal(err)
			}
			if off := newest.GetUpdateTime().AsTime().Sub(theirs.GetUpdateTime().AsTime()); off != ahead {
				t.Errorf("ahead by %s, it is told times that are early by %s", ahead, off)
			}
			if err := w.commit(l, store.Update(newest.GetName(), store.IfVersion(theirs.GetUpdateTime().AsTime()), nil, nil, store.Increment("n", 1))); err != nil {
				t.Errorf("ahead by %s, a time that it was told is no time of the document's: %v", ahead, err)
			}
			conn.Close()
			event := seen(emulator.Change{Name: newest.GetName(), New: newest, CommitTime: newest.GetUpdateTime().AsTime()}, ahead)
			if !event.New.GetUpdateTime().AsTime().Equal(theirs.GetUpdateTime().AsTime()) || event.Old != nil {
				t.Errorf("ahead by %s, an event tells of %s", ahead, event.New.GetUpdateTime().AsTime())
			}
		}
	})
	apart := false
	for seed := range uint64(100) {
		p := PlanOf(seed)
		if off := p.aheadOf("increment-1") - p.aheadOf("rollup-1"); off > p.Clocks || off < -p.Clocks {
			t.Errorf("seed %d: clocks are %s apart, with %s at most", seed, off, p.Clocks)
		} else if off > 2*time.Minute || off < -2*time.Minute {
			apart = true
		}
	}
	if !apart {
		t.Error("no clocks of 100 seeds are minutes apart")
	}
}
