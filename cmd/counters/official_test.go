package main

import (
	"errors"
	"testing"

	"github.com/firestore-counters/counters/internal/official"
)

// needOfficialEmulator skips the test where Google's emulator isn't installed.
func needOfficialEmulator(t *testing.T) {
	t.Helper()
	e, err := official.Start(t.Context())
	if errors.Is(err, official.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	e.Stop()
}
