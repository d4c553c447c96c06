package simulation

import (
	"strings"
	"testing"

	"github.com/firestore-counters/counters/internal/settings"
)

// Notes are told by their names, which the system gives them.
func TestNotesOf(t *testing.T) {
	t.Parallel()
	for _, path := range []string{flatCounters, nestedCounters} {
		s, err := settings.Parse([]string{"GOOGLE_CLOUD_PROJECT=" + project, "COUNTERS=" + path})
		if err != nil {
			t.Fatal(err)
		}
		l, err := placeOf(s).Layout()
		if err != nil {
			t.Fatal(err)
		}
		if got, want := notesOf(s.Counters.String()), strings.TrimPrefix(l.Notes(), l.Database+"/documents/")+"/"; got != want {
			t.Errorf("notes of %s are in %s, want %s", path, got, want)
		}
	}
}
