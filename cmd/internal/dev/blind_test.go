package dev

import (
	"net/http"
	"testing"

	"github.com/firestore-counters/counters/emulator/eventarc"
)

// A trigger that is written by hand gets the same events with the same faults. Without faults its number is right; with
// events that come twice it drifts, and what Rollup shows doesn't. It starts from what there is.
func TestByHandDrifts(t *testing.T) {
	t.Parallel()
	s := startSystem(t, Config{Environ: []string{"ROLLUP_INTERVAL=100ms"}})
	client := s.client(t)
	count := func(n int) {
		t.Helper()
		for range n {
			answer, err := http.Post(s.Gateway+"/increment/post", "application/json", nil)
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				t.Fatal(answer.Status)
			}
		}
	}
	byHand := func() ByHand {
		t.Helper()
		var now *ByHand
		eventually(t, "all events are taken", func() bool {
			var err error
			now, err = s.ByHand(t.Context(), "post")
			return err == nil && now != nil && now.Waiting == 0
		})
		return *now
	}
	total := func(want int64) {
		t.Helper()
		settle(t, s)
		if doc, err := client.Doc("counters/post").Get(t.Context()); err != nil || doc.Data()["total"] != want {
			t.Errorf("the total is %v, %v; want %d", doc.Data()["total"], err, want)
		}
	}
	count(5)
	total(5)
	if now, err := s.ByHand(t.Context(), "post"); now != nil || err != nil {
		t.Errorf("it is off, and says %+v, %v", now, err)
	}
	for range 2 { // again after it was off
		if err := s.SetByHand(true); err != nil {
			t.Fatal(err)
		}
		count(20)
		settle(t, s)
		if now := byHand(); now.Total != now.Exact {
			t.Errorf("without faults it says %+v", now)
		}
		if err := s.SetByHand(false); err != nil {
			t.Fatal(err)
		}
	}
	total(45)
	if err := s.SetByHand(true); err != nil {
		t.Fatal(err)
	}
	if err := s.SetFaults(Faults{Events: eventarc.Faults{Duplicate: 1}}); err != nil {
		t.Fatal(err)
	}
	count(20)
	total(65)
	eventually(t, "it has counted each event twice", func() bool { return byHand() == ByHand{Total: 85, Exact: 65} })
}
