package bench

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/firestore-counters/counters/cmd/counters/internal/dev"
)

func TestMain(m *testing.M) {
	dev.ServeIfChild(Register)
	goleak.VerifyTestMain(m)
}
