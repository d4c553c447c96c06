package main

import (
	"os"
	"testing"

	"github.com/firestore-counters/counters/cmd/internal/dev"
)

// programVariable makes the test's binary the program itself, for tests of its life as a process.
const programVariable = "COUNTERS_TEST_PROGRAM"

func TestMain(m *testing.M) {
	dev.ServeIfChild()
	if os.Getenv(programVariable) != "" {
		_ = os.Unsetenv(programVariable) // Its own processes are functions.
		main()
	}
	os.Exit(m.Run())
}
