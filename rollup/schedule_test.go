package rollup

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// alarm is something that is due at a time.
type alarm struct {
	at time.Time
	slot
}

func (a *alarm) due() time.Time { return a.at }

// Whatever comes, goes, or becomes due sooner or later, the first of all, too: the earliest is on
// top. What is in no schedule may be fixed.
func TestSchedule(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var s schedule[*alarm]
		var in []*alarm
		moment := rapid.Custom(func(t *rapid.T) time.Time {
			return after(time.Duration(rapid.IntRange(0, 9).Draw(t, "second")) * time.Second)
		})
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				a := &alarm{at: moment.Draw(t, "at")}
				s.push(a)
				in = append(in, a)
			},
			"pop": func(t *rapid.T) {
				if len(in) == 0 {
					t.Skip("it is empty")
				}
				a := s.pop()
				in = slices.DeleteFunc(in, func(other *alarm) bool { return other == a })
				a.at = moment.Draw(t, "at")
				s.fix(a)
			},
			"fix": func(t *rapid.T) {
				if len(in) == 0 {
					t.Skip("it is empty")
				}
				a := rapid.SampledFrom(in).Draw(t, "one of them")
				a.at = moment.Draw(t, "at")
				s.fix(a)
			},
			"": func(t *rapid.T) {
				if len(s) != len(in) {
					t.Fatalf("it has %d, want %d", len(s), len(in))
				}
				for _, a := range in {
					if a.at.Before(s[0].at) {
						t.Fatalf("one is due at %v, and the first at %v", a.at, s[0].at)
					}
				}
			},
		})
	})
}
