package rollup

import (
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"

	"github.com/firestore-counters/counters/internal/testbed/slots"
)

func TestMain(m *testing.M) {
	slots.Widen()
	debug.SetGCPercent(400) // a database for each test: looking for its garbage was a quarter of the time
	goleak.VerifyTestMain(m)
}
