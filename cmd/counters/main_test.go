package main

import (
	"os"
	"testing"

	"github.com/firestore-counters/counters/cmd/internal/dev"
	"github.com/firestore-counters/counters/internal/testbed/slots"
)

// programVariable makes the test's binary the program itself, for tests of its life as a process.
const programVariable = "COUNTERS_TEST_PROGRAM"

func TestMain(m *testing.M) {
	dev.ServeIfChild()
	if os.Getenv(programVariable) != "" {
		_ = os.Unsetenv(programVariable) // Its own processes are functions.
		main()
	}
	slots.Widen()
	os.Exit(m.Run())
}
