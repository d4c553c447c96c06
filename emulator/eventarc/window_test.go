package eventarc

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// However posts fare, the window keeps to what is documented of it.
func TestWindowProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		start := rapid.IntRange(1, 9).Draw(t, "start")
		w := NewWindow(start)
		for range rapid.IntRange(1, 40).Draw(t, "phases") {
			good := rapid.Bool().Draw(t, "acknowledged")
			took := time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond
			for range rapid.SampledFrom([]int{1, 2, 5, 100, 2000}).Draw(t, "times") {
				before := *w
				if good {
					w.Acknowledged(took)
				} else {
					w.Failed(took)
				}
				held := w.failing >= tolerated || w.taking >= slow
				switch {
				case w.Limit() < start:
					t.Fatalf("%d, below the %d that it starts with", w.Limit(), start)
				case held && w.size > linearFrom:
					t.Fatalf("%v, with %v failing and %v s on average", w.size, w.failing, w.taking)
				case !good && w.size > before.size:
					t.Fatalf("a failure lets it grow from %v to %v", before.size, w.size)
				case good && before.size < linearFrom-1 && w.size != before.size+1:
					t.Fatalf("an acknowledgement takes it from %v to %v", before.size, w.size)
				case good && !held && w.size <= before.size:
					t.Fatalf("an acknowledgement doesn't let it grow from %v", before.size)
				case good && w.Pause() > before.Pause(), !good && w.Pause() < before.Pause():
					t.Fatalf("the pause goes from %v to %v, acknowledged: %v", before.Pause(), w.Pause(), good)
				}
			}
		}
	})
}

// It doubles whenever as many posts as it holds are acknowledged, and from 3,000 on grows by a
// tenth of that.
func TestWindowGrows(t *testing.T) {
	t.Parallel()
	w := NewWindow(5)
	round := func() int {
		for range w.Limit() {
			w.Acknowledged(100 * time.Millisecond)
		}
		return w.Limit()
	}
	for n, want := range []int{10, 20, 40, 80, 160, 320, 640, 1280, 2560} {
		if got := round(); got != want {
			t.Fatalf("after %d rounds it is %d, want %d", n+1, got, want)
		}
	}
	round()
	for range 20 {
		if before, after := w.Limit(), round(); after-before < 200 || after-before > 300 {
			t.Fatalf("a round takes it from %d to %d", before, after)
		}
	}
	if w.Limit() < 7000 {
		t.Errorf("it keeps up with no more than %d", w.Limit())
	}
}

// Above 3,000 it stays only while posts are quick and succeed.
func TestWindowFallsToItsLowerLimit(t *testing.T) {
	t.Parallel()
	grown := NewWindow(5)
	for range 100_000 {
		grown.Acknowledged(100 * time.Millisecond)
	}
	for name, post := range map[string]func(*Window, int){
		"2 % fail": func(w *Window, n int) {
			if n%50 == 0 {
				w.Failed(100 * time.Millisecond)
			} else {
				w.Acknowledged(100 * time.Millisecond)
			}
		},
		"1.1 s": func(w *Window, _ int) { w.Acknowledged(1100 * time.Millisecond) },
	} {
		w := *grown
		for n := range 1000 {
			post(&w, n)
		}
		if got := w.Limit(); got < 2900 || got > 3000 {
			t.Errorf("%s: %d, want 3,000", name, got)
		}
	}
}

// The pauses that are documented: 500 ms where one in five fails, half a minute where all do.
func TestWindowPauses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ failing, want float64 }{{0, 0}, {0.005, 0}, {0.2, 0.5}, {1, 30}} {
		w := Window{failing: test.failing}
		if got := w.Pause().Seconds(); math.Abs(got-test.want) > 0.02*test.want {
			t.Errorf("with %v failing it pauses %v s, want %v", test.failing, got, test.want)
		}
	}
}

// It recovers from a time when everything failed.
func TestWindowRecovers(t *testing.T) {
	t.Parallel()
	w := NewWindow(5)
	for range 1000 {
		w.Failed(time.Second)
	}
	if w.Limit() != 5 || w.Pause() < 25*time.Second {
		t.Fatalf("after failures it is %d with pauses of %v", w.Limit(), w.Pause())
	}
	var paused time.Duration
	for range 300 {
		paused += w.Pause()
		w.Acknowledged(50 * time.Millisecond)
	}
	if w.Limit() != 305 || w.Pause() != 0 {
		t.Errorf("after 300 acknowledgements it is %d with pauses of %v", w.Limit(), w.Pause())
	}
	t.Logf("in %v", paused)
}
