package bench

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/firestore-counters/counters/cmd/internal/cost"
	"github.com/firestore-counters/counters/emulator/eventarc"
)

// A report is read as it is written, as JSON, and as it was pasted, among other text.
func TestLoadMeasured(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what, text string
		commit     time.Duration
		transit    time.Duration
		window     int
		fails      bool
	}{
		{"Markdown", "# counters verify: passed\n\n| a | {b} |\n\n```json\n{\"commit_seconds\":0.0215,\"delivery_seconds\":0.08,\"push_window\":3}\n```\nthanks!\n", 21500 * time.Microsecond, 80 * time.Millisecond, 3, false},
		{"JSON", `{"steps":[{"ok":true}],"figures":{
  "commit_seconds": 0.02,
  "delivery_seconds": 0,
  "push_window": 0
}}`, 20 * time.Millisecond, eventarc.PubSub().Transit, eventarc.PubSub().Window, false},
		{"nothing of a commit", `{"commit_seconds":0,"delivery_seconds":0.2,"push_window":9}`, cost.CommitTime, 200 * time.Millisecond, 9, false},
		{"another text", "| a commit | 10 ms | 12 ms |", 0, 0, 0, true},
		{"what can't be", `{"commit_seconds":-1}`, 0, 0, 0, true},
	} {
		file := filepath.Join(t.TempDir(), "report")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := LoadMeasured(file)
		if c.fails {
			if !errors.Is(err, ErrMeasured) || !strings.Contains(err.Error(), file) {
				t.Errorf("%s: %+v, %v", c.what, m, err)
			}
			continue
		}
		if push := m.push(); err != nil || m.commit() != c.commit || push.Transit != c.transit || push.Window != c.window || push.AckDeadline != eventarc.PubSub().AckDeadline {
			t.Errorf("%s: commits take %v, %+v, %v", c.what, m.commit(), push, err)
		}
	}
	s := &session{Options: Options{Measured: Measured{Commit: 0.5, Window: 2}}}
	if s.commits().CommitLatency != 500*time.Millisecond || s.hotDocuments().CommitLatency != 500*time.Millisecond || !strings.Contains(s.slowly(), "500ms") {
		t.Errorf("a scenario's commits take %v", s.commits().CommitLatency)
	}
}
