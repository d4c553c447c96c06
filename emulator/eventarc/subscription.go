package eventarc

import "time"

// subscription is what a trigger's events wait in. Each trigger has one of its own, so a window
// that is full of the posts of one holds no event of another up; all documents of one trigger share
// it.
type subscription struct {
	pattern     Pattern
	window      *Window // nil for no bound
	ready       fifo
	outstanding int       // posts that are neither answered nor overdue
	next        time.Time // no post before
}

// open reports whether an event may be posted now.
func (s *subscription) open(now time.Time) bool {
	return s.ready.len() > 0 && (s.window == nil || s.outstanding < s.window.Limit() && !now.Before(s.next))
}

// waits is how long it pauses although there is something to post, or 0.
func (s *subscription) waits(now time.Time) time.Duration {
	if s.window == nil || s.ready.len() == 0 || s.outstanding >= s.window.Limit() {
		return 0
	}
	return max(0, s.next.Sub(now))
}

// posted notes that a post begins.
func (s *subscription) posted(now time.Time) {
	s.outstanding++
	if s.window != nil {
		s.next = now.Add(s.window.Pause())
	}
}

// settled notes what became of a post.
func (s *subscription) settled(acknowledged bool, took time.Duration) {
	s.outstanding--
	switch {
	case s.window == nil:
	case acknowledged:
		s.window.Acknowledged(took)
	default:
		s.window.Failed(took)
	}
}
