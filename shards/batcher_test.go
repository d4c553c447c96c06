package shards

import (
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"
)

// One commit of a counter is in flight while few increments wait, and a few more once many do.
func TestBatcherFlights(t *testing.T) {
	t.Parallel()
	flown := make(chan *batch)
	land := make(chan struct{})
	b := newBatcher(limits{additions: 500, waiting: 10_000}, func(b *batch) {
		flown <- b
		<-land
		for _, a := range b.additions {
			a.done <- outcome{}
		}
	})
	var group sync.WaitGroup
	waiting := 0
	add := func(n int) {
		for range n {
			a, err := newAddition(flatPath, []Increment{{Counter: "a", By: 1}}, Key{}, "a")
			if err != nil {
				t.Fatal(err)
			}
			group.Go(func() {
				if out := b.add(t.Context(), "a", a); out.err != nil {
					t.Error(out.err)
				}
			})
		}
		waiting += n
	}
	settle := func() { // until all that were added wait, less those that are to be in flight
		for {
			b.mu.Lock()
			n := b.waiting
			b.mu.Unlock()
			if n == waiting {
				return
			}
			runtime.Gosched()
		}
	}
	fly := func(want int) {
		t.Helper()
		next := <-flown
		if len(next.additions) != want {
			t.Errorf("a batch of %d, want %d", len(next.additions), want)
		}
		waiting -= want
	}
	add(1)
	fly(1) // at once
	add(manyWaiting - 1)
	settle()
	select {
	case next := <-flown:
		t.Errorf("a second batch, of %d, while few wait", len(next.additions))
	case <-time.After(20 * time.Millisecond):
	}
	add(1)
	fly(manyWaiting)
	add(manyWaiting)
	fly(manyWaiting)
	add(manyWaiting)
	fly(manyWaiting)
	add(200)
	settle() // four are in flight, and that is enough
	land <- struct{}{}
	fly(200)
	add(10)
	settle()
	land <- struct{}{} // three are left, for which the ten can wait
	land <- struct{}{}
	land <- struct{}{}
	land <- struct{}{}
	fly(10)
	land <- struct{}{}
	group.Wait()
	b.close()
	if len(b.lanes) > 0 || b.waiting > 0 {
		t.Errorf("%d lanes and %d waiting additions are left", len(b.lanes), b.waiting)
	}
	if out := b.add(t.Context(), "a", &addition{done: make(chan outcome, 1)}); !errors.Is(out.err, ErrClosed) {
		t.Errorf("after close: %v, want ErrClosed", out.err)
	}
}
