package rollup

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/firestore-counters/counters/internal/testbed/slots"
)

func TestMain(m *testing.M) {
	slots.Widen()
	goleak.VerifyTestMain(m)
}
