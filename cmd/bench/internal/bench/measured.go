package bench

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"time"

	"github.com/firestore-counters/counters/cmd/internal/cost"
	"github.com/firestore-counters/counters/emulator/eventarc"
)

// Measured is what a trial in a real project ("counters verify") has measured of what scenarios assume.
// A figure that it hasn't is 0, and is assumed.
type Measured struct {
	Commit   float64 `json:"commit_seconds,omitempty"`
	Delivery float64 `json:"delivery_seconds,omitempty"` // from a commit until its event is in the total
	Window   int     `json:"push_window,omitempty"`      // of Pub/Sub, at first
}

// ErrMeasured says that a file holds nothing that was measured.
var ErrMeasured = errors.New("no figures of counters verify")

// figures match what a report holds for this program, in its Markdown and in its JSON.
var figures = regexp.MustCompile(`\{[^{}]*"commit_seconds"[^{}]*\}`)

// LoadMeasured reads a report of "counters verify", as it is written or as it was pasted into an issue.
// Errors: [ErrMeasured], and those of reading the file.
func LoadMeasured(file string) (m Measured, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(figures.Find(text), &m); err != nil {
		return m, fmt.Errorf("%w in %s: want its report, of a trial that came to the lag of a lone increment", ErrMeasured, file)
	}
	if m.Commit < 0 || m.Commit > 10 || m.Delivery < 0 || m.Delivery > 60 || m.Window < 0 || m.Window > 100_000 {
		return m, fmt.Errorf("%w in %s that can be: %+v", ErrMeasured, file, m)
	}
	return m, nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// commit is how long a commit takes.
func (m Measured) commit() time.Duration { return cmp.Or(seconds(m.Commit), cost.CommitTime) }

// push is how Pub/Sub delivers.
func (m Measured) push() eventarc.Push {
	p := eventarc.PubSub()
	p.Window, p.Transit = cmp.Or(m.Window, p.Window), cmp.Or(seconds(m.Delivery), p.Transit)
	return p
}
