package shards_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/shards"
)

// Who asks for a sum while another one is under way shares the next one with all others who do. It
// has what was acknowledged before anybody of them asked; the one under way may not.
func TestSumsAreShared(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		other := w.counter(t, w.open(t, shards.Config{}), "a", 1)
		var queries atomic.Int64
		began, release := make(chan struct{}), make(chan struct{})
		client := w.asking(t, shards.Config{}, "RunAggregationQuery", func() {
			if queries.Add(1) == 1 {
				close(began)
				<-release
			}
		})
		c := handle(t, client, "a")
		first := make(chan error, 1)
		go func() {
			s, err := c.Sum(t.Context())
			if err == nil && s.Total != 0 {
				err = fmt.Errorf("%d, want 0: nothing was counted yet", s.Total)
			}
			first <- err
		}()
		<-began
		if err := other.Add(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		const asked = 100
		var asking, answered sync.WaitGroup
		asking.Add(asked)
		for i := range asked {
			answered.Go(func() {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if i%10 == 0 { // leaves, and takes none of the others along
					time.AfterFunc(10*time.Millisecond, cancel)
				}
				asking.Done()
				if s, err := c.Sum(ctx); err == nil && s.Total != 1 || err != nil && (i%10 > 0 || !errors.Is(err, context.Canceled)) {
					t.Errorf("%d, %v; want the increment that was acknowledged before", s.Total, err)
				}
			})
		}
		asking.Wait()
		time.Sleep(50 * time.Millisecond) // for them to ask; one that comes later takes a query of its own
		close(release)
		if err := <-first; err != nil {
			t.Error(err)
		}
		answered.Wait()
		if n := queries.Load(); n > 10 {
			t.Errorf("%d queries for %d who asked, want 2", n, asked+1)
		}
	})
}

// A sum says what it was billed as.
func TestSumSaysItsReads(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{Place: shards.Place{Fields: "likes,views,comments=count(comments)"}})
		c := w.counter(t, client, "a", 3)
		for i := range 1001 {
			w.Put(fmt.Sprintf("counters/a/comments/%d", i), map[string]any{})
		}
		for _, likes := range []any{1, 1.0} { // a double, for which the shards are read
			w.Put("counters/a/shards/0", map[string]any{"likes": likes, "views": 2})
			w.Server.ResetStats()
			s, err := c.Sum(t.Context())
			if reads := w.Server.Stats().Reads; err != nil || s.Reads != reads || reads < 6 {
				t.Errorf("likes of %v: it says %d reads and there were %d, %v", likes, s.Reads, reads, err)
			}
		}
		if s, err := handle(t, client, "none").Sum(t.Context()); !errors.Is(err, shards.ErrNotFound) || s.Reads != 2 {
			t.Errorf("no counter: %d reads, %v; want 2", s.Reads, err)
		}
	})
}
