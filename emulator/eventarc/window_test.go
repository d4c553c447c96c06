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
		w := newWindow(start)
		for range rapid.IntRange(1, 40).Draw(t, "phases") {
			good := rapid.Bool().Draw(t, "acknowledged")
			took := time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond
			for range rapid.SampledFrom([]int{1, 2, 5, 100, 2000}).Draw(t, "times") {
				before := w
				if good {
					w.acknowledged(took)
				} else {
					w.failed(took)
				}
				held := w.failing >= tolerated || w.taking >= slow
				switch {
				case w.limit() < start:
					t.Fatalf("%d, below the %d that it starts with", w.limit(), start)
				case held && w.size > linearFrom:
					t.Fatalf("%v, with %v failing and %v s on average", w.size, w.failing, w.taking)
				case !good && w.size > before.size:
					t.Fatalf("a failure lets it grow from %v to %v", before.size, w.size)
				case good && before.size < linearFrom-1 && w.size != before.size+1:
					t.Fatalf("an acknowledgement takes it from %v to %v", before.size, w.size)
				case good && !held && w.size <= before.size:
					t.Fatalf("an acknowledgement doesn't let it grow from %v", before.size)
				case good && w.pause() > before.pause(), !good && w.pause() < before.pause():
					t.Fatalf("the pause goes from %v to %v, acknowledged: %v", before.pause(), w.pause(), good)
				}
			}
		}
	})
}

// It doubles whenever as many posts as it holds are acknowledged, and from 3,000 on grows by a tenth of that.
func TestWindowGrows(t *testing.T) {
	t.Parallel()
	w := newWindow(5)
	round := func() int {
		for range w.limit() {
			w.acknowledged(100 * time.Millisecond)
		}
		return w.limit()
	}
	for n, want := range []int{10, 20, 40, 80, 160, 320, 640, 1280, 2560} {
		if got := round(); got != want {
			t.Fatalf("after %d rounds it is %d, want %d", n+1, got, want)
		}
	}
	round()
	for range 20 {
		if before, after := w.limit(), round(); after-before < 200 || after-before > 300 {
			t.Fatalf("a round takes it from %d to %d", before, after)
		}
	}
	if w.limit() < 7000 {
		t.Errorf("it keeps up with no more than %d", w.limit())
	}
}

// Above 3,000 it stays only while posts are quick and succeed.
func TestWindowFallsToItsLowerLimit(t *testing.T) {
	t.Parallel()
	grown := newWindow(5)
	for range 100_000 {
		grown.acknowledged(100 * time.Millisecond)
	}
	for name, post := range map[string]func(*window, int){
		"2 % fail": func(w *window, n int) {
			if n%50 == 0 {
				w.failed(100 * time.Millisecond)
			} else {
				w.acknowledged(100 * time.Millisecond)
			}
		},
		"1.1 s": func(w *window, _ int) { w.acknowledged(1100 * time.Millisecond) },
	} {
		w := grown
		for n := range 1000 {
			post(&w, n)
		}
		if got := w.limit(); got < 2900 || got > 3000 {
			t.Errorf("%s: %d, want 3,000", name, got)
		}
	}
}

// The pauses that are documented: 500 ms where one in five fails, half a minute where all do.
func TestWindowPauses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ failing, want float64 }{{0, 0}, {0.005, 0}, {0.2, 0.5}, {1, 30}} {
		w := window{failing: test.failing}
		if got := w.pause().Seconds(); math.Abs(got-test.want) > 0.02*test.want {
			t.Errorf("with %v failing it pauses %v s, want %v", test.failing, got, test.want)
		}
	}
}

// It recovers from a time when everything failed.
func TestWindowRecovers(t *testing.T) {
	t.Parallel()
	w := newWindow(5)
	for range 1000 {
		w.failed(time.Second)
	}
	if w.limit() != 5 || w.pause() < 25*time.Second {
		t.Fatalf("after failures it is %d with pauses of %v", w.limit(), w.pause())
	}
	var paused time.Duration
	for range 300 {
		paused += w.pause()
		w.acknowledged(50 * time.Millisecond)
	}
	if w.limit() != 305 || w.pause() != 0 {
		t.Errorf("after 300 acknowledgements it is %d with pauses of %v", w.limit(), w.pause())
	}
	t.Logf("in %v", paused)
}
