package eventarc

import (
	"math"
	"time"
)

// Window is how many posts of one subscription may be under way, and how long to wait between two
// of them. It is arithmetic alone. Google's documentation of push subscriptions (delivery rate,
// push backoff) has these rules:
//
//   - it starts at a small single digit, and grows with each acknowledgement, exponentially: by one
//     each, so that it doubles whenever as many posts as it holds are acknowledged
//   - it shrinks with each failure: by one, as is assumed here, and never below where it started
//   - from 3,000 on it grows linearly: by a tenth of that for each window's worth of
//     acknowledgements, as is assumed here
//   - with more than 99 % acknowledged within less than a second on average it keeps up with any
//     rate; else it is held at 3,000
//   - failures make pauses between posts: of about 500 ms where one in five fails, of 30 to 60 s
//     where all do
//
// Shares and averages are of the latest posts, each of which counts for a fiftieth (also assumed).
// It is not safe for concurrent use.
type Window struct {
	start, size float64
	failing     float64 // share of posts that fail
	taking      float64 // seconds that a post takes on average
}

const (
	linearFrom   = 3000.0
	linearGrowth = 300.0
	latestPost   = 1.0 / 50
	tolerated    = 0.01 // of posts that fail
	slow         = 1.0  // seconds

	// pauseScale × (e^(pauseGrowth × share) − 1) goes through 0.5 s at 0.2 and 30 s at 1, and so
	// through 0 at 0.
	pauseScale, pauseGrowth = 0.34537, 4.47578
)

// NewWindow returns a window that starts with so many posts.
func NewWindow(start int) *Window { return &Window{start: float64(start), size: float64(start)} }

// Limit is how many posts may be under way.
func (w *Window) Limit() int { return int(w.size) }

// Acknowledged notes a post that was acknowledged, and how long that took.
func (w *Window) Acknowledged(took time.Duration) {
	w.note(0, took)
	if w.size < linearFrom {
		w.size++
	} else {
		w.size += linearGrowth / w.size
	}
	w.hold()
}

// Failed notes a post that was refused, or not answered in time.
func (w *Window) Failed(took time.Duration) {
	w.note(1, took)
	w.size = max(w.start, w.size-1)
	w.hold()
}

func (w *Window) note(failure float64, took time.Duration) {
	w.failing += (failure - w.failing) * latestPost
	w.taking += (took.Seconds() - w.taking) * latestPost
}

// hold keeps the window at 3,000 where too many posts fail, or they take too long.
func (w *Window) hold() {
	if w.failing >= tolerated || w.taking >= slow {
		w.size = min(w.size, max(w.start, linearFrom))
	}
}

// Pause is how long after a post there is none.
func (w *Window) Pause() time.Duration {
	if w.failing < tolerated {
		return 0
	}
	return time.Duration(pauseScale * math.Expm1(pauseGrowth*w.failing) * float64(time.Second))
}
