package eventarc

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Push is how the events of a trigger are pushed. The zero value is for laptops: at once, and again
// soon. [PubSub] is for whoever wants to know how a function fares in production.
type Push struct {
	// Window is how many posts of one trigger may be under way when the first event comes. It grows
	// with each that is acknowledged and shrinks with each that isn't, and many failures make
	// pauses between posts besides. 0 is no such bound.
	Window int

	Transit time.Duration // From a commit to the first post of its event; each takes half to one and a half times as long.

	// AckDeadline is how long a post may go unanswered. Then it has failed, and the event is posted
	// again while the first post goes on, whose answer counts nothing any more. 0 waits for each
	// answer.
	AckDeadline time.Duration

	Shortest, Longest time.Duration // Pause before an event is posted again, doubled each time; 100 ms and 10 s when 0.
	Retention         time.Duration // How long an event is tried before it is dropped without a word; 0 for ever.
}

// PubSub is how Google's documentation says that Pub/Sub pushes for Eventarc: a window that starts
// at a small single digit, pauses of 10 to 600 s, 24 hours, and an acknowledgement deadline of 10 s
// unless the subscription has another. What the documentation leaves open is assumed: a window of
// five, 50 ms of transit, and what [Push.Window] grows by.
func PubSub() Push {
	return Push{
		Window: 5, Transit: 50 * time.Millisecond, AckDeadline: 10 * time.Second,
		Shortest: 10 * time.Second, Longest: 600 * time.Second, Retention: 24 * time.Hour,
	}
}

// Check names every field that is out of range.
func (p Push) Check() error {
	var errs []error
	if p.Window < 0 {
		errs = append(errs, fmt.Errorf("window %d: want 1 and more, or 0 for no bound", p.Window))
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"transit", p.Transit}, {"ack deadline", p.AckDeadline}, {"shortest pause", p.Shortest}, {"longest pause", p.Longest}, {"retention", p.Retention}} {
		if d.value < 0 {
			errs = append(errs, fmt.Errorf("%s %v: want 0s and more", d.name, d.value))
		}
	}
	if p.Longest > 0 && p.Longest < p.Shortest {
		errs = append(errs, fmt.Errorf("longest pause %v: want no less than the shortest, %v", p.Longest, p.Shortest))
	}
	return errors.Join(errs...)
}

// transit is how long an event is on its way before it is posted. That it varies brings events out
// of order.
func (p Push) transit() time.Duration {
	if p.Transit == 0 {
		return 0
	}
	return p.Transit/2 + rand.N(p.Transit)
}

// backoff is how long to wait after the nth attempt. An event knows no more of its attempts than
// their number, and is never sent again at once, as it might be after a pause of gax.Backoff.
func (p Push) backoff(attempts int) time.Duration {
	pause := p.Longest
	// Beyond 2^32 times the shortest pause any longest one is reached.
	if n := min(attempts, 33) - 1; p.Shortest < p.Longest>>n {
		pause = p.Shortest << n
	}
	return max(p.Shortest, pause/2+rand.N(pause/2+1))
}
