// Package emulatortest is what emulator.Start was called before.
package emulatortest

import (
	"testing"

	"github.com/firestore-counters/counters/emulator"
)

// Instance is emulator.Instance.
type Instance = emulator.Instance

// Start is emulator.StartWith.
func Start(t testing.TB, opts emulator.Options) *Instance {
	t.Helper()
	return emulator.StartWith(t, opts)
}
