package doctor

import (
	"os"
	"runtime/debug"
	"testing"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // a cloud for each case: looking for its garbage was a quarter of the time
	os.Exit(m.Run())
}
