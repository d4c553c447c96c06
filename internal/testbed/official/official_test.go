//go:build all && unix

package official

import (
	"errors"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"
)

// An emulator that dies is noticed, also while what would have killed it waits, which has its output open.
func TestEnded(t *testing.T) {
	t.Parallel()
	e, err := Start(t.Context())
	if errors.Is(err, ErrMissing) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Stop)
	if err := syscall.Kill(e.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-e.Ended():
	case <-time.After(time.Minute):
		t.Error("it is not said that the emulator has ended")
	}
}

// Whatever pieces its output comes in, projects are found in its lines.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	text := "INFO: x\n\nMultiple projectIds are not recommended. Requested project ID a, but the emulator is configured for p. To opt-out\n" +
		"Requested project ID b-1, but the emulator is configured for p.\nend"
	for size := range len(text) {
		var found []string
		o := &output{file: file, opts: Options{Elsewhere: func(project string) { found = append(found, project) }}}
		for piece := range slices.Chunk([]byte(text), size+1) {
			if n, err := o.Write(piece); n != len(piece) || err != nil {
				t.Fatal(n, err)
			}
		}
		if !slices.Equal(found, []string{"a", "b-1"}) {
			t.Errorf("in pieces of %d bytes: %q", size+1, found)
		}
	}
}
