package bench

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/firestore-counters/counters/cmd/internal/dev"
)

func TestMain(m *testing.M) {
	dev.ServeIfChild(Register)
	// fasthttp looks for idle connections once a minute, and ends that when there are none.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*HostClient).connsCleaner"))
}
